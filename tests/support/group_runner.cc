#include "tests/support/group_runner.h"

#include <gtest/gtest.h>

#include <list>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "ir/reference/envelope.h"
#include "ir/reference/interpreter.h"
#include "ir/status.h"
#include "ir/text/parser.h"
#include "ir/text/printer.h"
#include "runtime/random_inputs.h"
#include "runtime/simulator/simulator.h"
#include "segmenter/summary.h"

namespace seam::testing {
namespace {

absl::StatusOr<HostTensor> OutputFor(const Fusion& fusion, ValId v, const SizeBinding& sizes) {
  SEAM_ASSIGN_OR_RETURN(const Tensor type, TensorFor(fusion, v, sizes));
  return HostTensor::MakeStrided(type.dtype, type.sizes, type.strides);
}

// Integers of both signs; indices from before the start of what they index to beyond its end.
absl::StatusOr<std::vector<HostTensor>> InputsFor(const Fusion& fusion, const SizeBinding& sizes,
                                                  uint64_t seed) {
  SEAM_ASSIGN_OR_RETURN(std::vector<HostTensor> inputs, RandomInputs(fusion, sizes, seed));
  for (size_t i = 0; i < inputs.size(); ++i) {
    const ValId v = fusion.inputs()[i];
    if (IsFloat(fusion.dtype(v))) continue;
    FillRandom(inputs[i], seed + i);
    for (ExprId e : fusion.uses(v)) {
      if (fusion.info(e).op_class == OpClass::Indexing && fusion.operands(e)[1] == v)
        FillRandomIntegers(inputs[i], seed + i, -3, 12);
    }
  }
  return inputs;
}

// The ranges of what `group` makes of `inputs`. Those of the last few are kept, since tests try
// schedule after schedule, or bug after bug, on the same; CheckOutputs may have widened them.
absl::StatusOr<std::vector<Envelope>*> RangesOf(const Fusion& group, const SymbolBindings& bindings,
                                                const std::vector<HostTensor>& inputs) {
  constexpr size_t kKept = 4;
  struct Known {
    std::string text;
    SymbolBindings bindings;
    std::vector<HostTensor> inputs;
    std::vector<Envelope> envelopes;
  };
  thread_local std::list<Known> known;  // The last that was asked for in front.
  std::string text = PrintFusion(group);
  const auto same = [](const HostTensor& a, const HostTensor& b) {
    return a.dtype == b.dtype && a.shape == b.shape && a.strides == b.strides && a.data == b.data;
  };
  const auto found = absl::c_find_if(known, [&](const Known& k) {
    return k.text == text && k.bindings == bindings && absl::c_equal(k.inputs, inputs, same);
  });
  if (found != known.end()) {
    known.splice(known.begin(), known, found);
  } else {
    SEAM_ASSIGN_OR_RETURN(std::vector<Envelope> made, MakeEnvelopes(group, bindings, inputs));
    known.push_front({std::move(text), bindings, inputs, std::move(made)});
    if (known.size() > kKept) known.pop_back();
  }
  return &known.front().envelopes;
}

absl::Status Execute(const Fusion& group, const LaunchPlan& plan, const SizeBinding& sizes,
                     const simulator::SimOptions& options, std::vector<HostTensor>& inputs,
                     std::vector<HostTensor>& outputs) {
  for (const Guard& guard : plan.guards) {
    SEAM_ASSIGN_OR_RETURN(int64_t holds, sizes.Value(guard.condition));
    if (holds == 0)
      return absl::InternalError(
          absl::StrCat("the plan's own sizes fail its guard: ", guard.reason));
  }
  std::vector<std::vector<uint8_t>> output_flags, workspace_flags;
  std::vector<HostTensor> workspaces;
  for (HostTensor& t : outputs) output_flags.emplace_back(t.span_elements());
  for (const Workspace& w : plan.workspaces) {
    SEAM_ASSIGN_OR_RETURN(int64_t n, sizes.Value(w.num_elements));
    SEAM_ASSIGN_OR_RETURN(HostTensor t, HostTensor::Make(w.dtype, {n}));
    workspaces.push_back(std::move(t));
    workspace_flags.emplace_back(n);
  }
  for (const KernelLaunch& launch : plan.launches) {
    std::vector<simulator::SimBuffer> buffers;
    for (const BufferSource& source : launch.buffers) {
      HostTensor& t = source.kind == BufferSource::kInput    ? inputs[source.index]
                      : source.kind == BufferSource::kOutput ? outputs[source.index]
                                                             : workspaces[source.index];
      simulator::SimBuffer b{t.data.data(), t.span_elements(), t.dtype,
                             source.kind == BufferSource::kInput};
      if (source.kind == BufferSource::kOutput) b.initialized = output_flags[source.index].data();
      if (source.kind == BufferSource::kWorkspace)
        b.initialized = workspace_flags[source.index].data();
      buffers.push_back(b);
    }
    std::vector<int64_t> parameters;
    for (SymInt argument : launch.arguments) {
      SEAM_ASSIGN_OR_RETURN(int64_t value, sizes.Value(argument));
      parameters.push_back(value);
    }
    if (absl::Status s = simulator::Simulate(launch.kernel, buffers, parameters, options);
        !s.ok()) {
      return absl::Status(s.code(), absl::StrCat(launch.kernel.name, ": ", s.message()));
    }
  }
  // Every element that the tensor has was written; gaps between strides do not count.
  for (size_t i = 0; i < outputs.size(); ++i) {
    int64_t written = 0;
    for (uint8_t f : output_flags[i]) written += f;
    if (written != outputs[i].numel()) {
      return absl::InternalError(
          absl::StrCat("output ", std::string(group.name(group.outputs()[i])), ": ", written,
                       " of ", outputs[i].numel(), " elements were written"));
    }
  }
  return absl::OkStatus();
}

absl::Status RunChecked(const Fusion& group, const GroupRun& run, GroupResult& result) {
  ScheduleContext context;
  SizeBinding sizes;
  for (const SymNode* s : group.env().symbols()) {
    const auto it = run.sizes.find(std::string(s->name));
    if (it == run.sizes.end())
      return absl::InvalidArgumentError(absl::StrCat("no size for ", std::string(s->name)));
    context.sizes.push_back(it->second);
    sizes.symbols.push_back(s);
    sizes.values.push_back(it->second);
  }
  context.alignment_bytes = run.alignment_bytes;
  context.device = Devices()[0];
  bool reduces = false;
  for (uint32_t i = 0; i < group.num_exprs(); ++i) {
    reduces |= IsReduction(group.info(ExprId(i)).op_class);
  }
  std::vector<ExprId> exprs;
  for (uint32_t i = 0; i < group.num_exprs(); ++i) exprs.push_back(ExprId(i));
  const bool islands = !Summarize(group, AxisMap::Build(group), FactsOf(group), exprs).connected;
  const Scheduler& scheduler = *FindScheduler(islands   ? SchedulerKind::kHorizontal
                                              : reduces ? SchedulerKind::kReduction
                                                        : SchedulerKind::kPointwise);
  SEAM_ASSIGN_OR_RETURN(result.schedule, scheduler.choose(group, context));
  if (run.edit) run.edit(result.schedule);
  SEAM_ASSIGN_OR_RETURN(LaunchPlan plan, scheduler.lower(group, result.schedule));
  if (run.edit_plan) run.edit_plan(plan);
  for (const KernelLaunch& launch : plan.launches)
    absl::StrAppend(&result.kernel_text, kernel::PrintKernel(launch.kernel), "\n");

  SEAM_ASSIGN_OR_RETURN(std::vector<HostTensor> inputs, InputsFor(group, sizes, run.seed));
  if (run.inputs) run.inputs(inputs);
  SymbolBindings bindings(run.sizes.begin(), run.sizes.end());
  SEAM_ASSIGN_OR_RETURN(std::vector<Envelope>* const envelopes, RangesOf(group, bindings, inputs));
  // A device may launch phases one by one.
  const bool asks = absl::c_any_of(
      plan.launches, [](const KernelLaunch& l) { return l.kernel.together.is_symbolic(); });
  for (const bool phase_by_phase : {true, false}) {
    if (phase_by_phase && !asks) continue;
    std::vector<HostTensor> outputs;
    for (ValId v : group.outputs()) {
      SEAM_ASSIGN_OR_RETURN(HostTensor t, OutputFor(group, v, sizes));
      outputs.push_back(std::move(t));
    }
    simulator::SimOptions options;
    options.seed = run.order;
    options.phase_by_phase = phase_by_phase;
    SEAM_RETURN_IF_ERROR(Execute(group, plan, sizes, options, inputs, outputs));
    SEAM_ASSIGN_OR_RETURN(const std::vector<absl::Status> checked,
                          CheckOutputs(group, bindings, inputs, outputs, *envelopes));
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (const absl::Status& s = checked[i]; !s.ok()) {
        return absl::Status(
            s.code(), absl::StrCat("output ", std::string(group.name(group.outputs()[i])), ": ",
                                   s.message()));
      }
    }
    result.outputs = std::move(outputs);
  }
  return absl::OkStatus();
}

}  // namespace

GroupResult RunGroup(const Fusion& group, const GroupRun& run) {
  GroupResult result;
  result.status = RunChecked(group, run, result);
  return result;
}

GroupResult RunGroupText(const std::string& text, const GroupRun& run) {
  absl::StatusOr<Fusion> fusion = ParseFusion(text);
  if (!fusion.ok()) return {.status = fusion.status()};
  return RunGroup(*fusion, run);
}

Schedule Chosen(const std::string& text, std::vector<int64_t> sizes, const std::string& device,
                SchedulerKind kind) {
  const absl::StatusOr<Fusion> group = ParseFusion(text);
  EXPECT_TRUE(group.ok()) << group.status();
  const absl::StatusOr<Schedule> s = FindScheduler(kind)->choose(
      *group, {.sizes = std::move(sizes), .device = *FindDevice(device)});
  EXPECT_TRUE(s.ok()) << s.status();
  EXPECT_TRUE(CheckSchedule(*s).ok()) << s->ToString();
  return *s;
}

}  // namespace seam::testing
