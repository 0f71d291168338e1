#include "tests/support/shuffled_fusion.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "ir/fusion_builder.h"
#include "ir/status.h"

namespace seam::testing {
namespace {

template <typename T>
std::vector<T> InAnyOrder(absl::Span<const T> list, Dice& dice) {
  std::vector<T> result(list.begin(), list.end());
  for (size_t i = result.size(); i > 1; --i)
    std::swap(result[i - 1], result[static_cast<size_t>(dice.Below(static_cast<int>(i)))]);
  return result;
}

std::vector<ExprId> TopologicalOrder(const Fusion& f, Dice& dice) {
  std::vector<int> missing(f.num_exprs());
  std::vector<ExprId> ready, order;
  for (uint32_t e = 0; e < f.num_exprs(); ++e) {
    for (ValId v : f.operands(ExprId(e))) missing[e] += !f.is_input(v);
    if (missing[e] == 0) ready.emplace_back(e);
  }
  while (!ready.empty()) {
    std::swap(ready[static_cast<size_t>(dice.Below(static_cast<int>(ready.size())))], ready.back());
    const ExprId e = ready.back();
    ready.pop_back();
    order.push_back(e);
    for (int r = 0; r < f.num_results(e); ++r) {
      for (ExprId user : f.uses(f.result(e, r))) {
        const auto operands = f.operands(user);
        missing[user.index()] -=
            static_cast<int>(std::count(operands.begin(), operands.end(), f.result(e, r)));
        if (missing[user.index()] == 0) ready.push_back(user);
      }
    }
  }
  return order;
}

}  // namespace

absl::StatusOr<Fusion> Shuffled(const Fusion& f, Dice& dice, bool rename) {
  FusionBuilder b(f.name());
  SymImporter importer(&b.env());
  std::vector<const SymNode*> symbols = f.env().symbols();
  // A bound may name symbols that were declared before.
  if (std::none_of(symbols.begin(), symbols.end(),
                   [](const SymNode* s) { return s->upper.is_symbolic(); })) {
    symbols = InAnyOrder<const SymNode*>(symbols, dice);
  }
  for (const SymNode* s : symbols) {
    SEAM_ASSIGN_OR_RETURN(const SymInt copy,
                          s->upper.is_symbolic()
                              ? b.env().NewSymbol(s->name, s->range.lo, importer.Import(s->upper))
                              : b.env().NewSymbol(s->name, s->range.lo, s->range.hi));
    importer.Map(s, copy);
  }
  const auto strides = [&](ValId v) -> std::optional<SymVector> {
    if (!f.has_explicit_strides(v)) return std::nullopt;
    SymVector list = f.strides(v);
    for (SymInt& n : list) n = importer.Import(n);
    return list;
  };
  std::vector<ValId> new_val(f.num_vals());
  for (ValId v : InAnyOrder(f.inputs(), dice)) {
    SymVector sizes;
    for (const IterDomain& d : f.domain(v)) sizes.push_back(importer.Import(d.extent));
    new_val[v.index()] = b.Input(f.name(v), f.dtype(v), sizes, strides(v));
  }
  for (ExprId e : TopologicalOrder(f, dice)) {
    std::vector<ValId> operands;
    for (ValId v : f.operands(e)) operands.push_back(new_val[v.index()]);
    Attributes attributes = f.attributes(e);
    for (SymVector* list :
         {&attributes.sizes, &attributes.start, &attributes.stop, &attributes.step}) {
      for (SymInt& n : *list) n = importer.Import(n);
    }
    const ValId first = b.Op(f.op(e), operands, std::move(attributes));
    for (int r = 0; r < f.num_results(e); ++r) {
      const ValId v = f.result(e, r);
      new_val[v.index()] = FusionBuilder::ResultOf(first, r);
      if (!rename) b.SetName(new_val[v.index()], f.name(v));
    }
  }
  for (ValId v : InAnyOrder(f.outputs(), dice))
    b.Output(new_val[v.index()], f.is_input(v) ? std::nullopt : strides(v));
  return b.Finish();
}

}  // namespace seam::testing
