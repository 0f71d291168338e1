#include "segmenter/extract.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "ir/fusion_builder.h"
#include "ir/status.h"

namespace seam {
namespace {

class Extractor {
 public:
  // Without a segmentation, values have the layouts that `f` gives them.
  Extractor(const Fusion& f, const SegmentedFusion* s, const std::string& name)
      : f_(f), s_(s), builder_(name), importer_(&builder_.env()) {}

  absl::StatusOr<ExtractedGroup> Run(GroupId g) {
    return Extract(s_->inputs(g), s_->outputs(g), s_->all_exprs(g));
  }

  // What `output` alone takes.
  absl::StatusOr<ExtractedGroup> RunFor(GroupId g, ValId output) {
    absl::flat_hash_set<ValId> needed = {output};
    std::vector<ExprId> exprs;
    const std::vector<ExprId> all = s_->all_exprs(g);
    for (auto e = all.rbegin(); e != all.rend(); ++e) {
      bool needs = false;
      for (int r = 0; r < f_.num_results(*e); ++r) needs |= needed.contains(f_.result(*e, r));
      if (!needs) continue;
      exprs.push_back(*e);
      needed.insert(f_.operands(*e).begin(), f_.operands(*e).end());
    }
    std::reverse(exprs.begin(), exprs.end());
    std::vector<ValId> inputs = s_->inputs(g);
    inputs.erase(
        std::remove_if(inputs.begin(), inputs.end(), [&](ValId v) { return !needed.contains(v); }),
        inputs.end());
    return Extract(inputs, {output}, exprs);
  }

  absl::StatusOr<ExtractedGroup> Extract(const std::vector<ValId>& inputs,
                                         const std::vector<ValId>& outputs,
                                         const std::vector<ExprId>& exprs) {
    CollectSymbols(inputs, outputs, exprs);
    for (ValId v : inputs) {
      SymVector sizes;
      for (const IterDomain& d : f_.domain(v)) sizes.push_back(importer_.Import(d.extent));
      new_vals_[v] = builder_.Input(f_.name(v), f_.dtype(v), sizes, Strides(v));
    }
    for (ExprId e : exprs) AddExpr(e);
    for (ValId v : outputs) builder_.Output(new_vals_[v], Strides(v));
    SEAM_ASSIGN_OR_RETURN(Fusion fusion, builder_.Finish());
    return ExtractedGroup{std::move(fusion), inputs, outputs, exprs};
  }

 private:
  // Declares the symbols in the order of the original, so that equal groups print alike.
  void CollectSymbols(const std::vector<ValId>& inputs, const std::vector<ValId>& outputs,
                      const std::vector<ExprId>& exprs) {
    std::vector<SymInt> used;
    const auto use = [&](SymInt e) {
      if (e.is_symbolic()) used.push_back(e);
    };
    const auto use_val = [&](ValId v) {
      for (const IterDomain& d : f_.domain(v)) use(d.extent);
      if (!f_.has_explicit_strides(v)) return;
      for (SymInt stride : f_.strides(v)) use(stride);
    };
    for (ValId v : inputs) use_val(v);
    for (ValId v : outputs) use_val(v);
    for (ExprId e : exprs) {
      use_val(f_.result(e));
      const Attributes& a = f_.attributes(e);
      for (const SymVector* list : {&a.sizes, &a.start, &a.stop, &a.step}) {
        for (SymInt n : *list) use(n);
      }
    }
    // The bound of a symbol may name other symbols, which are older.
    absl::flat_hash_set<const SymNode*> needed;
    while (!used.empty()) {
      std::vector<SymInt> bounds;
      for (const SymNode* node : TopologicalNodes(used)) {
        if (node->kind != SymKind::Symbol || !needed.insert(node).second) continue;
        if (node->upper.is_symbolic()) bounds.push_back(node->upper);
      }
      used = std::move(bounds);
    }
    std::vector<const SymNode*> symbols(needed.begin(), needed.end());
    std::sort(symbols.begin(), symbols.end(),
              [](const SymNode* a, const SymNode* b) { return a->id < b->id; });
    for (const SymNode* symbol : symbols) {
      const absl::StatusOr<SymInt> copy =
          symbol->upper.is_symbolic()
              ? builder_.env().NewSymbol(symbol->name, symbol->range.lo,
                                         importer_.Import(symbol->upper))
              : builder_.env().NewSymbol(symbol->name, symbol->range.lo, symbol->range.hi);
      if (copy.ok()) {
        importer_.Map(symbol, *copy);
      } else {
        builder_.Fail(copy.status());
      }
    }
  }

  std::optional<SymVector> Strides(ValId v) {
    SymVector strides;
    if (f_.has_explicit_strides(v)) {
      for (SymInt stride : f_.strides(v)) strides.push_back(importer_.Import(stride));
      return strides;
    }
    if (s_ == nullptr) return std::nullopt;
    const AxisVector& order = s_->buffer(s_->buffer_of(v)).order;
    if (order.empty()) return std::nullopt;
    strides.resize(f_.rank(v));
    SymInt stride = 1;
    for (size_t i = order.size(); i-- > 0;) {
      strides[order[i]] = stride;
      stride *= importer_.Import(f_.domain(v)[order[i]].extent);
    }
    return strides;
  }

  void AddExpr(ExprId e) {
    std::vector<ValId> operands;
    for (ValId v : f_.operands(e)) operands.push_back(new_vals_[v]);
    Attributes attributes = f_.attributes(e);
    for (SymVector* list :
         {&attributes.sizes, &attributes.start, &attributes.stop, &attributes.step}) {
      for (SymInt& n : *list) n = importer_.Import(n);
    }
    builder_.SetLocation(f_.location(e));
    const ValId first = builder_.Op(f_.op(e), operands, std::move(attributes));
    for (int r = 0; r < f_.num_results(e); ++r) {
      const ValId v = f_.result(e, r);
      new_vals_[v] = FusionBuilder::ResultOf(first, r);
      builder_.SetName(new_vals_[v], f_.name(v));
    }
  }

  const Fusion& f_;
  const SegmentedFusion* s_;
  FusionBuilder builder_;
  SymImporter importer_;
  absl::flat_hash_map<ValId, ValId> new_vals_;
};

std::string NameOf(GroupId g) { return absl::StrCat("g", g.index()); }

}  // namespace

absl::StatusOr<ExtractedGroup> ExtractGroup(const SegmentedFusion& segmented, GroupId group) {
  if (group.index() >= segmented.group_limit() || !segmented.alive(group)) {
    return absl::InvalidArgumentError(absl::StrCat("there is no group ", group.index()));
  }
  return Extractor(segmented.fusion(), &segmented, NameOf(group)).Run(group);
}

absl::StatusOr<ExtractedGroup> ExtractOutput(const SegmentedFusion& segmented, GroupId group,
                                             ValId output) {
  return Extractor(segmented.fusion(), &segmented, NameOf(group)).RunFor(group, output);
}

absl::StatusOr<ExtractedGroup> ExtractPart(const Fusion& fusion, const std::string& name,
                                           const std::vector<ExprId>& exprs) {
  absl::flat_hash_set<ValId> computed, read;
  for (ExprId e : exprs) {
    for (int r = 0; r < fusion.num_results(e); ++r) computed.insert(fusion.result(e, r));
    read.insert(fusion.operands(e).begin(), fusion.operands(e).end());
  }
  std::vector<ValId> inputs, outputs;
  for (ValId v : fusion.inputs()) {
    if (read.contains(v)) inputs.push_back(v);
  }
  for (ValId v : fusion.outputs()) {
    if (computed.contains(v)) outputs.push_back(v);
  }
  return Extractor(fusion, nullptr, name).Extract(inputs, outputs, exprs);
}

}  // namespace seam
