#include "runtime/segment_program.h"

#include <numeric>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "ir/fusion_builder.h"
#include "ir/status.h"
#include "ir/text/printer.h"
#include "segmenter/extract.h"
#include "segmenter/islands.h"
#include "segmenter/load_segmentation.h"
#include "segmenter/segment.h"

namespace seam {
namespace {

class ProgramBuilder {
 public:
  ProgramBuilder(const Fusion& fusion, const SchedulabilityGuard& guard)
      : fusion_(fusion), guard_(guard), value_of_(fusion.num_vals(), -1) {
    for (const SymNode* symbol : fusion.env().symbols()) {
      symbols_.emplace(symbol->name, static_cast<int>(symbols_.size()));
    }
    for (size_t i = 0; i < fusion.inputs().size(); ++i) {
      const ValId v = fusion.inputs()[i];
      value_of_[v.index()] = static_cast<int>(program_.values.size());
      program_.values.push_back({v, static_cast<int>(i)});
    }
    for (size_t j = 0; j < fusion.outputs().size(); ++j) {
      const ValId v = fusion.outputs()[j];
      if (!fusion.is_input(v)) program_.values[ValueOf(v)].output = static_cast<int>(j);
    }
  }

  // The groups of a segmentation of the whole Fusion.
  absl::Status AddGroups(const SegmentedFusion& segmented) {
    for (const GroupId g : segmented.groups()) {
      SEAM_RETURN_IF_ERROR(AddGroup(segmented, g, g.index(), [&](ValId v) { return ValueOf(v); }));
    }
    return absl::OkStatus();
  }

  // Groups for the outputs that are inputs.
  absl::Status AddCopies(uint32_t first_id) {
    for (size_t j = 0; j < fusion_.outputs().size(); ++j) {
      const ValId v = fusion_.outputs()[j];
      if (!fusion_.is_input(v)) continue;
      FusionBuilder b(absl::StrCat("copy_of_", std::string(fusion_.name(v))), fusion_.shared_env());
      SymVector sizes;
      for (const IterDomain& axis : fusion_.domain(v)) sizes.push_back(axis.extent);
      std::optional<SymVector> strides;
      if (fusion_.has_explicit_strides(v)) strides = fusion_.strides(v);
      AxisVector order(sizes.size());
      std::iota(order.begin(), order.end(), 0);
      b.Output(b.Permute(b.Input("from", fusion_.dtype(v), sizes, strides), order), strides);
      GroupProgram& added = program_.groups.emplace_back();
      added.id = first_id++;
      added.scheduler = SchedulerKind::kAlias;
      SEAM_ASSIGN_OR_RETURN(Fusion group, b.Finish());
      added.group = std::make_shared<const Fusion>(std::move(group));
      added.inputs = {ValueOf(v)};
      ++program_.values[added.inputs[0]].num_readers;
      added.outputs = {static_cast<int>(program_.values.size())};
      program_.values.push_back({v, -1, static_cast<int>(j)});
      SEAM_RETURN_IF_ERROR(BindSymbols(added));
    }
    return absl::OkStatus();
  }

  Program Finish() { return std::move(program_); }

 private:
  // Group `g` of a segmentation, under the number `id`. `value_of` gives the index of a value that
  // crosses its border.
  absl::Status AddGroup(const SegmentedFusion& segmented, GroupId g, uint32_t id,
                        absl::FunctionRef<int(ValId)> value_of) {
    const auto add = [&](ExtractedGroup group) {
      GroupProgram& added = program_.groups.emplace_back();
      added.id = id;
      added.scheduler = segmented.scheduler(g);
      added.group = std::make_shared<const Fusion>(std::move(group.fusion));
      for (ValId v : group.inputs) {
        added.inputs.push_back(value_of(v));
        ++program_.values[added.inputs.back()].num_readers;
      }
      for (ValId v : group.outputs) added.outputs.push_back(value_of(v));
      return BindSymbols(added);
    };
    if (segmented.scheduler(g) == SchedulerKind::kAlias) {
      // Views cost nothing twice; one that has to be copied is copied by itself, since each may run
      // over axes of its own.
      for (ValId output : segmented.outputs(g)) {
        SEAM_ASSIGN_OR_RETURN(ExtractedGroup group, ExtractOutput(segmented, g, output));
        SEAM_RETURN_IF_ERROR(add(std::move(group)));
      }
      return absl::OkStatus();
    }
    SEAM_ASSIGN_OR_RETURN(ExtractedGroup group, ExtractGroup(segmented, g));
    if (!IsAcceptedAlone(group.fusion, segmented.scheduler(g)))
      return AddParts(segmented, g, id, group, /*merge=*/true, value_of);
    if (group.fusion.num_exprs() == 1 || CheckLowers(group.fusion, segmented.scheduler(g)).ok())
      return add(std::move(group));
    ++program_.num_broken_promises;
    return AddParts(segmented, g, id, group, /*merge=*/false, value_of);
  }

  // Which axes are the same is found over the whole Fusion. Where expressions outside of a group
  // had a say in that, the group by itself may not be one plan.
  bool IsAcceptedAlone(const Fusion& group, SchedulerKind as) const {
    const AxisMap axes = AxisMap::Build(group);
    std::vector<ExprId> exprs;
    for (uint32_t e = 0; e < group.num_exprs(); ++e) exprs.push_back(ExprId(e));
    return CanScheduleAs(as, guard_, group, axes, FactsOf(group), exprs).ok;
  }

  // Such a group cut again, by itself; without `merge` as finely as the first groups are.
  absl::Status AddParts(const SegmentedFusion& segmented, GroupId g, uint32_t id,
                        const ExtractedGroup& group, bool merge,
                        absl::FunctionRef<int(ValId)> value_of) {
    SegmentOptions options;
    for (const SegmentPass& pass : SegmentPasses()) {
      const absl::string_view name = pass.name;
      // The first would join them again, and the casts of the second could be what is refused.
      const bool joins = name == "horizontal" || name == "narrow";
      if (joins || (!merge && name != "dead" && name != "privatize"))
        options.disabled_passes.emplace_back(name);
    }
    SEAM_ASSIGN_OR_RETURN(const SegmentedFusion parts, Segment(group.fusion, guard_, options));
    // Islands that turn out to be one are whole again, but for another scheduler.
    if (parts.num_groups() == 1 && parts.scheduler(parts.groups()[0]) == segmented.scheduler(g)) {
      return absl::InternalError(absl::StrCat(
          "group ", id, " of ", std::string(segmented.fusion().name()),
          " is refused by the schedulers and cannot be cut:\n", PrintFusion(group.fusion)));
    }
    absl::flat_hash_map<ValId, int> values;  // Of the group's Fusion.
    for (size_t i = 0; i < group.inputs.size(); ++i)
      values[group.fusion.inputs()[i]] = value_of(group.inputs[i]);
    for (size_t i = 0; i < group.outputs.size(); ++i)
      values[group.fusion.outputs()[i]] = value_of(group.outputs[i]);
    const auto value_of_part = [&](ValId v) {
      const auto [it, is_new] = values.try_emplace(v, static_cast<int>(program_.values.size()));
      if (is_new) program_.values.push_back({v});
      return it->second;
    };
    for (const GroupId part : parts.groups())
      SEAM_RETURN_IF_ERROR(AddGroup(parts, part, id, value_of_part));
    return absl::OkStatus();
  }

  int ValueOf(ValId v) {
    int& value = value_of_[v.index()];
    if (value < 0) {
      value = static_cast<int>(program_.values.size());
      program_.values.push_back({v});
    }
    return value;
  }

  // A group's symbols have the names that they have in the whole.
  absl::Status BindSymbols(GroupProgram& group) const {
    for (const SymNode* symbol : group.group->env().symbols()) {
      const auto it = symbols_.find(symbol->name);
      if (it == symbols_.end()) {
        return absl::InternalError(absl::StrCat("group ", group.id, " has the symbol ",
                                                std::string(symbol->name), ", which ",
                                                std::string(fusion_.name()), " has not"));
      }
      group.symbols.push_back(it->second);
    }
    return absl::OkStatus();
  }

  const Fusion& fusion_;
  const SchedulabilityGuard& guard_;
  absl::flat_hash_map<std::string, int> symbols_;
  std::vector<int> value_of_;  // Per value of the Fusion; -1: it crosses no border so far.
  Program program_;
};

absl::StatusOr<SegmentedFusion> SegmentOrLoad(const Fusion& fusion, const CompileOptions& options,
                                              const SchedulabilityGuard& guard) {
  if (options.segmentation.empty()) {
    SegmentOptions segment;
    for (const SymbolValue& hint : options.size_hints) segment.sizes.emplace(hint.name, hint.value);
    segment.narrow_edges = options.narrow_edges;
    return Segment(fusion, guard, segment);
  }
  SEAM_ASSIGN_OR_RETURN(LoadedSegmentation loaded, LoadSegmentation(fusion, options.segmentation));
  SEAM_RETURN_IF_ERROR(CheckSchedulable(loaded.segmented, guard));
  return std::move(loaded.segmented);
}

}  // namespace

absl::StatusOr<Program> SegmentProgram(const Fusion& fusion, const CompileOptions& options,
                                       const SchedulabilityGuard& guard) {
  SEAM_ASSIGN_OR_RETURN(const SegmentedFusion segmented, SegmentOrLoad(fusion, options, guard));
  ProgramBuilder builder(fusion, guard);
  SEAM_RETURN_IF_ERROR(builder.AddGroups(segmented));
  SEAM_RETURN_IF_ERROR(builder.AddCopies(segmented.group_limit()));
  Program program = builder.Finish();
  if (RoundsEdges(segmented)) {
    SEAM_ASSIGN_OR_RETURN(Fusion rounded, RoundedFusion(segmented));
    program.rounded = std::make_shared<const Fusion>(std::move(rounded));
  }
  return program;
}

Program WholeProgram(std::shared_ptr<const Fusion> fusion) {
  Program program;
  GroupProgram& whole = program.groups.emplace_back();
  whole.group = fusion;
  whole.scheduler = SchedulerKind::kLibrary;
  for (size_t i = 0; i < fusion->inputs().size(); ++i) {
    whole.inputs.push_back(static_cast<int>(program.values.size()));
    program.values.push_back({fusion->inputs()[i], static_cast<int>(i), -1, 1});
  }
  for (size_t j = 0; j < fusion->outputs().size(); ++j) {
    whole.outputs.push_back(static_cast<int>(program.values.size()));
    program.values.push_back({fusion->outputs()[j], -1, static_cast<int>(j)});
  }
  whole.symbols.resize(fusion->env().symbols().size());
  std::iota(whole.symbols.begin(), whole.symbols.end(), 0);
  return program;
}

}  // namespace seam
