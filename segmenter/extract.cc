// A group as a Fusion of its own, and all groups as one.
#include "segmenter/extract.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "ir/fusion_builder.h"
#include "ir/scalar.h"
#include "ir/status.h"

namespace seam {
namespace {

// Tells a builder what one group does. A value that crosses in a narrower type has two forms: as it
// is stored, and widened, which is made where something computes with it. Views of what is stored
// stay stored, so that they remain ways of reading memory.
class GroupWriter {
 public:
  // `importer` takes extents to the builder's environment; null where that is the original's.
  GroupWriter(const Fusion& f, const SegmentedFusion* s, FusionBuilder& builder,
              SymImporter* importer)
      : s_(s), f_(f), builder_(builder), importer_(importer) {}

  DType StoredType(ValId v) const {
    return s_ == nullptr ? f_.dtype(v) : s_->buffer(s_->buffer_of(v)).dtype;
  }
  SymInt Import(SymInt n) const { return importer_ == nullptr ? n : importer_->Import(n); }

  // Of an input of the group: the form in which it was stored.
  void Read(ValId v, ValId stored) { (StoredType(v) == f_.dtype(v) ? wide_ : narrow_)[v] = stored; }

  void Add(ExprId e) {
    const bool narrow = IsViewOfNarrow(e);
    std::vector<ValId> operands;
    for (ValId v : f_.operands(e)) {
      operands.push_back(narrow && operands.empty() ? narrow_.at(v) : Wide(v));
    }
    Attributes attributes = f_.attributes(e);
    for (SymVector* list :
         {&attributes.sizes, &attributes.start, &attributes.stop, &attributes.step}) {
      for (SymInt& n : *list) n = Import(n);
    }
    builder_.SetLocation(f_.location(e));
    const ValId first = builder_.Op(f_.op(e), operands, std::move(attributes));
    exprs_.push_back(e);
    for (int r = 0; r < f_.num_results(e); ++r) {
      const ValId v = f_.result(e, r), made = FusionBuilder::ResultOf(first, r);
      (narrow ? narrow_ : wide_)[v] = made;
      SetName(made, v);
    }
  }

  // The form in which a value leaves.
  ValId Stored(ValId v) {
    const DType type = StoredType(v);
    if (type == f_.dtype(v)) return Wide(v);
    const auto it = narrow_.find(v);
    if (it != narrow_.end() && builder_.dtype(it->second) == type) return it->second;
    return Cast(Wide(v), v, type);
  }

  // Values keep their names, and what is stored narrower has its type behind it: a name that is
  // none of `taken`.
  void KeepNames(absl::flat_hash_set<std::string> taken) { taken_ = std::move(taken); }
  std::string NameAs(ValId v, DType type) const {
    std::string name(f_.name(v));
    if (type == f_.dtype(v)) return name;
    absl::StrAppend(&name, ".", DTypeName(type));
    while (taken_->contains(name)) name += "_";
    return name;
  }

  // Of the builder's expressions so far, in order; invalid ids for casts.
  std::vector<ExprId> TakeExprs() { return std::move(exprs_); }

 private:
  bool IsViewOfNarrow(ExprId e) const {
    if (!HandsOn(f_, e) && f_.info(e).op_class != OpClass::Indexing) return false;
    const auto it = narrow_.find(f_.operands(e)[0]);
    if (it == narrow_.end()) return false;
    const double padding = f_.op(e) == OpKind::Pad ? f_.attributes(e).value : 0;
    return RoundToDType(builder_.dtype(it->second), padding) == padding;
  }

  ValId Wide(ValId v) {
    const auto it = wide_.find(v);
    return it != wide_.end() ? it->second : wide_[v] = Cast(narrow_.at(v), v, f_.dtype(v));
  }

  ValId Cast(ValId from, ValId v, DType type) {
    const ValId made = builder_.Cast(from, type);
    exprs_.emplace_back();
    SetName(made, v);
    return made;
  }

  void SetName(ValId made, ValId v) {
    if (taken_.has_value()) builder_.SetName(made, NameAs(v, builder_.dtype(made)));
  }

  const SegmentedFusion* s_;
  const Fusion& f_;
  FusionBuilder& builder_;
  SymImporter* importer_;
  absl::flat_hash_map<ValId, ValId> wide_, narrow_;
  std::optional<absl::flat_hash_set<std::string>> taken_;
  std::vector<ExprId> exprs_;
};

class Extractor {
 public:
  // Without a segmentation, values have the layouts and types that `f` gives them.
  Extractor(const Fusion& f, const SegmentedFusion* s, const std::string& name)
      : f_(f),
        s_(s),
        builder_(name),
        importer_(&builder_.env()),
        writer_(f, s, builder_, &importer_) {}

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
    KeepNames(inputs, exprs);
    for (ValId v : inputs) {
      SymVector sizes;
      for (const IterDomain& d : f_.domain(v)) sizes.push_back(importer_.Import(d.extent));
      const DType type = writer_.StoredType(v);
      writer_.Read(v, builder_.Input(writer_.NameAs(v, type), type, sizes, Strides(v)));
    }
    for (ExprId e : exprs) writer_.Add(e);
    for (ValId v : outputs) builder_.Output(writer_.Stored(v), Strides(v));
    SEAM_ASSIGN_OR_RETURN(Fusion fusion, builder_.Finish());
    return ExtractedGroup{std::move(fusion), inputs, outputs, writer_.TakeExprs()};
  }

  void KeepNames(const std::vector<ValId>& inputs, const std::vector<ExprId>& exprs) {
    absl::flat_hash_set<std::string> taken;
    if (s_ != nullptr && s_->narrowing() != Narrowing::kOff) {
      for (ValId v : inputs) taken.emplace(f_.name(v));
      for (ExprId e : exprs) {
        for (int r = 0; r < f_.num_results(e); ++r) taken.emplace(f_.name(f_.result(e, r)));
      }
    }
    writer_.KeepNames(std::move(taken));
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

  const Fusion& f_;
  const SegmentedFusion* s_;
  FusionBuilder builder_;
  SymImporter importer_;
  GroupWriter writer_;
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
  const bool exists = absl::c_linear_search(segmented.groups(), group);
  if (!exists || output.index() >= segmented.fusion().num_vals()) {
    return absl::InvalidArgumentError(
        absl::StrCat("ExtractOutput: no group ", group.index(), " has a value ", output.index()));
  }
  return Extractor(segmented.fusion(), &segmented, NameOf(group)).RunFor(group, output);
}

absl::StatusOr<ExtractedGroup> ExtractPart(const Fusion& fusion, const std::string& name,
                                           const std::vector<ExprId>& exprs,
                                           const std::vector<ValId>& outputs) {
  for (size_t i = 0; i < exprs.size(); ++i) {
    if (exprs[i].index() >= fusion.num_exprs() ||
        (i > 0 && exprs[i].index() <= exprs[i - 1].index()))
      return absl::InvalidArgumentError(absl::StrCat("ExtractPart: expression ", exprs[i].index(),
                                                     " does not exist or comes twice ",
                                                     "or out of order"));
  }
  const auto is_there = [&](ValId v) {
    return v.index() < fusion.num_vals() &&
           (!fusion.definition(v).valid() || absl::c_binary_search(exprs, fusion.definition(v)));
  };
  for (ExprId e : exprs) {
    if (!absl::c_all_of(fusion.operands(e), is_there)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "ExtractPart: ", std::string(fusion.info(e).name), " ",
          std::string(fusion.name(fusion.result(e))), " reads results of other expressions"));
    }
  }
  if (!absl::c_all_of(outputs, is_there))
    return absl::InvalidArgumentError("ExtractPart: an output is no value of the expressions");
  absl::flat_hash_set<ValId> read;
  for (ExprId e : exprs) read.insert(fusion.operands(e).begin(), fusion.operands(e).end());
  std::vector<ValId> inputs;
  for (ValId v : fusion.inputs()) {
    if (read.contains(v)) inputs.push_back(v);
  }
  return Extractor(fusion, nullptr, name).Extract(inputs, outputs, exprs);
}

bool RoundsEdges(const SegmentedFusion& segmented) {
  for (GroupId g : segmented.groups()) {
    for (BufferId b : segmented.buffers(g)) {
      if (segmented.buffer(b).rounds) return true;
    }
  }
  return false;
}

absl::StatusOr<Fusion> RoundedFusion(const SegmentedFusion& segmented) {
  const Fusion& f = segmented.fusion();
  FusionBuilder builder(f.name(), f.shared_env());
  const auto strides = [&](ValId v) {
    return f.has_explicit_strides(v) ? std::optional<SymVector>(f.strides(v)) : std::nullopt;
  };
  absl::flat_hash_map<ValId, ValId> stored;
  for (ValId v : f.inputs()) {
    SymVector sizes;
    for (const IterDomain& d : f.domain(v)) sizes.push_back(d.extent);
    stored[v] = builder.Input(f.name(v), f.dtype(v), sizes, strides(v));
  }
  for (GroupId g : segmented.groups()) {
    GroupWriter writer(f, &segmented, builder, nullptr);
    for (ValId v : segmented.inputs(g)) writer.Read(v, stored.at(v));
    for (ExprId e : segmented.all_exprs(g)) writer.Add(e);
    for (ValId v : segmented.outputs(g)) stored[v] = writer.Stored(v);
  }
  for (ValId v : f.outputs()) {
    builder.Output(stored.at(v), f.is_input(v) ? std::nullopt : strides(v));
    if (!f.is_input(v)) builder.SetName(stored.at(v), f.name(v));
  }
  return builder.Finish();
}

}  // namespace seam
