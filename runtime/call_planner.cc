#include "runtime/call_planner.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ir/status.h"

namespace seam {
namespace {

// The largest power of two up to 16 that divides both.
int CommonAlignment(int alignment, int64_t offset_bytes) {
  while (alignment > 1 && offset_bytes % alignment != 0) alignment /= 2;
  return alignment;
}

// Whether elements are where `declared` has them: strides of axes with one element do not matter.
bool SameStrides(const Tensor& declared, absl::Span<const int64_t> strides) {
  if (declared.numel() == 0) return true;
  for (int d = 0; d < declared.rank(); ++d) {
    if (declared.sizes[d] > 1 && declared.strides[d] != strides[d]) return false;
  }
  return true;
}

Footprint FootprintOf(const Tensor& type) {
  return Footprint(DTypeBytes(type.dtype), type.sizes, type.strides);
}

}  // namespace

absl::StatusOr<PreparedCall> CallPlanner::Plan(const SizeBinding& binding, const CallShape& shape) {
  binding_ = &binding;
  shape_ = &shape;
  do {
    SEAM_RETURN_IF_ERROR(PlanOnce());
  } while (EaseSpills());
  memory_ = PlanMemory(blocks_);
  call_.block_bytes = memory_.bytes;
  AddSteps();
  return std::move(call_);
}

absl::Status CallPlanner::PlanOnce() {
  const CallShape& shape = *shape_;
  call_ = PreparedCall();
  storage_.assign(program_.values.size(), Storage());
  blocks_.clear();
  steps_.assign(program_.groups.size(), Step());
  call_.output_types = shape.outputs;
  for (Tensor& output : call_.output_types) output.data = nullptr;
  call_.allocated_bytes.assign(fusion_.outputs().size(), -1);
  call_.tracked_outputs.assign(fusion_.outputs().size(), -1);

  SEAM_RETURN_IF_ERROR(PlaceInputs());
  for (size_t g = 0; g < program_.groups.size(); ++g) {
    const absl::Status status = PlanGroup(static_cast<int>(g));
    if (!status.ok()) {
      // Numbers of a plan that leave 64 bits are the sizes' fault.
      return absl::Status(
          absl::IsOutOfRange(status) ? absl::StatusCode::kInvalidArgument : status.code(),
          absl::StrCat("group ", program_.groups[g].id, " of ", std::string(fusion_.name()), " (",
                       SchedulerName(program_.groups[g].scheduler), "): ", status.message()));
    }
  }
  return LoadKernels();
}

bool CallPlanner::EaseSpills() {
  bool again = false;
  for (size_t g = 0; g < steps_.size(); ++g) {
    const Step& step = steps_[g];
    if (step.variant == nullptr || !step.chosen.has_value()) continue;
    int spills = 0;
    for (const auto& kernel : step.variant->kernels()) spills += kernel->spill_bytes();
    if (spills > 0) again |= program_.groups[g].Ease(*step.chosen, spills, backend_.device());
  }
  return again;
}

absl::Status CallPlanner::PlaceInputs() {
  for (size_t i = 0; i < fusion_.inputs().size(); ++i) {
    Storage& s = storage_[i];
    s.base = static_cast<int>(i);
    SEAM_ASSIGN_OR_RETURN(s.type, TensorFor(fusion_, fusion_.inputs()[i], *binding_));
    SEAM_ASSIGN_OR_RETURN(const ElementSpan span, SpanOf(s.type.sizes, s.type.strides));
    s.num_elements = span.end;
    s.alignment = s.num_elements > 0 ? shape_->input_alignment[i] : 16;
    call_.footprints.push_back(FootprintOf(s.type));
    s.gaps = call_.footprints.back().has_gaps();
  }
  for (const Tensor& type : shape_->outputs) call_.footprints.push_back(FootprintOf(type));
  return absl::OkStatus();
}

int CallPlanner::NewBlock(int64_t bytes, int step) {
  blocks_.push_back({bytes, step, step});
  return static_cast<int>(blocks_.size()) - 1;
}

int CallPlanner::Track(int64_t num_elements) {
  call_.tracked_elements.push_back(num_elements);
  return static_cast<int>(call_.tracked_elements.size()) - 1;
}

absl::Status CallPlanner::PlanGroup(int step) {
  GroupProgram& group = program_.groups[step];
  SizeBinding sizes;
  sizes.symbols = group.group->env().symbols();
  ScheduleContext context;
  context.device = backend_.device();
  context.any_order = any_order_;
  for (size_t i = 0; i < group.symbols.size(); ++i) {
    // A symbol without a value is one that nothing depends on.
    context.sizes.push_back(
        binding_->values[group.symbols[i]].value_or(sizes.symbols[i]->range.lo));
    sizes.values.push_back(context.sizes.back());
  }
  std::vector<Tensor> results;
  for (ValId v : group.group->outputs()) {
    SEAM_ASSIGN_OR_RETURN(Tensor type, TensorFor(*group.group, v, sizes));
    results.push_back(std::move(type));
  }
  for (size_t i = 0; i < group.inputs.size(); ++i) {
    Storage& s = storage_[group.inputs[i]];
    SEAM_ASSIGN_OR_RETURN(const Tensor type,
                          TensorFor(*group.group, group.group->inputs()[i], sizes));
    if (type.dtype != s.type.dtype || !SameStrides(type, s.type.strides)) {
      return absl::InternalError(
          absl::StrCat("it reads ", std::string(group.group->name(group.group->inputs()[i])),
                       " as ", type.ToString(), ", but that is stored as ", s.type.ToString()));
    }
    if (s.block >= 0) blocks_[s.block].last = step;
  }

  SchedulerKind as = group.scheduler;
  if (as == SchedulerKind::kAlias) {
    const absl::StatusOr<GroupProgram::Choice> views = group.Choose(as, context, nullptr);
    if (views.ok()) {
      group.Keep(views->variant);
      SEAM_ASSIGN_OR_RETURN(const bool placed, PlaceViews(step, views->variant->plan(), sizes));
      if (placed) return absl::OkStatus();
    } else if (!absl::IsUnimplemented(views.status())) {
      return views.status();
    }
    as = SchedulerKind::kPointwise;
  }

  for (size_t i = 0; i < results.size(); ++i)
    SEAM_RETURN_IF_ERROR(PlaceResult(step, group.outputs[i], results[i]));
  for (const std::vector<int>* values : {&group.inputs, &group.outputs}) {
    for (int value : *values)
      context.alignment_bytes = std::min(context.alignment_bytes, storage_[value].alignment);
  }
  Step& planned = steps_[step];
  SEAM_ASSIGN_OR_RETURN(GroupProgram::Choice choice, group.Choose(as, context, tuned_));
  planned.variant = std::move(choice.variant);
  planned.origin = std::move(choice.origin);
  planned.chosen = std::move(choice.chosen);
  if (planned.variant->plan().library) SEAM_RETURN_IF_ERROR(backend_.SupportsLibrary());
  SEAM_ASSIGN_OR_RETURN(planned.sizes, planned.variant->Sizes(context.sizes));
  for (size_t i = 0; i < planned.sizes.workspace_elements.size(); ++i) {
    const int64_t elements = planned.sizes.workspace_elements[i];
    planned.workspaces.push_back(
        NewBlock(elements * DTypeBytes(planned.variant->plan().workspaces[i].dtype), step));
    planned.tracked_workspaces.push_back(Track(elements));
  }
  planned.as = as;
  planned.context = std::move(context);
  return absl::OkStatus();
}

absl::StatusOr<bool> CallPlanner::PlaceViews(int step, const LaunchPlan& plan,
                                             const SizeBinding& sizes) {
  const GroupProgram& group = program_.groups[step];
  std::vector<Storage> views;
  for (size_t i = 0; i < group.outputs.size(); ++i) {
    const CrossingValue& value = program_.values[group.outputs[i]];
    const AliasOutput& alias = plan.aliases[i];
    Storage view = storage_[group.inputs[alias.input]];
    SEAM_ASSIGN_OR_RETURN(const Tensor declared,
                          TensorFor(*group.group, group.group->outputs()[i], sizes));
    SEAM_ASSIGN_OR_RETURN(int64_t offset, sizes.Value(alias.offset));
    SEAM_ASSIGN_OR_RETURN(const Int64Vector strides, sizes.Values(alias.strides));
    if (declared.numel() == 0) offset = 0;
    // Others read it as declared, and the caller's own memory is to be filled. Intermediate memory
    // is not the caller's.
    const bool fixed =
        value.num_readers > 0 || group.group->has_explicit_strides(group.group->outputs()[i]);
    if (fixed && !SameStrides(declared, strides)) return false;
    if (value.output >= 0 && (view.base < 0 || shape_->outputs[value.output].data != nullptr))
      return false;
    view.type = declared;
    view.type.strides = strides;
    view.offset_bytes += offset * DTypeBytes(declared.dtype);
    view.num_elements -= offset;
    view.alignment = CommonAlignment(view.alignment, offset * DTypeBytes(declared.dtype));
    views.push_back(std::move(view));
  }
  for (size_t i = 0; i < group.outputs.size(); ++i) {
    const CrossingValue& value = program_.values[group.outputs[i]];
    if (value.output >= 0) {
      call_.views.push_back({value.output, views[i].base, views[i].offset_bytes});
      call_.output_types[value.output] = views[i].type;
      call_.footprints[output_base(value.output)] = {};  // It overlaps on purpose.
    }
    storage_[group.outputs[i]] = std::move(views[i]);
  }
  return true;
}

absl::Status CallPlanner::PlaceResult(int step, int value, const Tensor& type) {
  Storage& s = storage_[value];
  s.type = type;
  SEAM_ASSIGN_OR_RETURN(const ElementSpan span, SpanOf(type.sizes, type.strides));
  s.num_elements = span.end;
  s.tracked = Track(span.end);
  const int64_t bytes = span.end * DTypeBytes(type.dtype);
  const int output = program_.values[value].output;
  if (output < 0) {
    s.block = NewBlock(bytes, step);
    return absl::OkStatus();
  }
  s.base = output_base(output);
  s.gaps = call_.footprints[s.base].has_gaps();
  call_.tracked_outputs[output] = s.tracked;
  if (shape_->outputs[output].data == nullptr) {
    call_.allocated_bytes[output] = bytes;
  } else if (s.num_elements > 0) {
    s.alignment = shape_->output_alignment[output];
  }
  return absl::OkStatus();
}

absl::Status CallPlanner::LoadKernels() {
  std::vector<const kernel::Kernel*> kernels;
  std::vector<size_t> fresh;  // Groups whose variant has no kernels yet.
  for (size_t g = 0; g < steps_.size(); ++g) {
    Variant* variant = steps_[g].variant.get();
    if (variant == nullptr || !variant->kernels().empty()) continue;
    fresh.push_back(g);
    for (const KernelLaunch& launch : variant->plan().launches) kernels.push_back(&launch.kernel);
  }
  SEAM_ASSIGN_OR_RETURN(const std::vector<std::shared_ptr<const LoadedKernel>> loaded,
                        backend_.Load(kernels));
  auto next = loaded.begin();
  for (size_t g : fresh) {
    Variant& variant = *steps_[g].variant;
    const auto end = next + static_cast<ptrdiff_t>(variant.plan().launches.size());
    variant.set_kernels({next, end});
    next = end;
    program_.groups[g].Keep(steps_[g].variant);
  }
  return absl::OkStatus();
}

PreparedCall::Buffer CallPlanner::BufferOf(const Storage& s, bool read_only) const {
  PreparedCall::Buffer buffer{s.base,         s.offset_bytes,
                              s.num_elements, s.type.dtype,
                              s.tracked,      s.offset_bytes / DTypeBytes(s.type.dtype),
                              read_only,      s.gaps};
  if (s.base < 0) {
    buffer.base = arena_base();
    buffer.offset_bytes += memory_.offsets[s.block];
  }
  return buffer;
}

void CallPlanner::AddSteps() {
  for (size_t g = 0; g < steps_.size(); ++g) {
    const Step& step = steps_[g];
    const GroupProgram& group = program_.groups[g];
    if (step.variant == nullptr) continue;
    const LaunchPlan& plan = step.variant->plan();
    call_.owners.push_back(step.variant);
    call_.owners.push_back(group.group);
    if (plan.library) {
      PreparedCall::LibraryCall call;
      call.group = group.group.get();
      const std::vector<const SymNode*> symbols = group.group->env().symbols();
      for (size_t i = 0; i < symbols.size(); ++i) {
        if (const auto value = binding_->values[group.symbols[i]])
          call.symbols.push_back({std::string(symbols[i]->name), *value});
      }
      for (int value : group.inputs) {
        call.inputs.push_back(BufferOf(storage_[value], true));
        call.input_types.push_back(storage_[value].type);
      }
      for (int value : group.outputs) {
        call.outputs.push_back(BufferOf(storage_[value], false));
        call.output_types.push_back(storage_[value].type);
      }
      call_.steps.push_back(std::move(call));
      continue;
    }
    for (size_t i = 0; i < plan.launches.size(); ++i) {
      if (step.sizes.launches[i].grid == 0) continue;
      const KernelLaunch& planned = plan.launches[i];
      PreparedCall::Launch launch;
      launch.kernel = &planned.kernel;
      // Tickets are counted in memory before the block.
      if (planned.kernel.TakesTickets())
        call_.block_bytes = std::max<int64_t>(call_.block_bytes, 1);
      launch.loaded = step.variant->kernels()[i].get();
      launch.grid = step.sizes.launches[i].grid;
      launch.arguments = step.sizes.launches[i].arguments;
      for (size_t b = 0; b < planned.buffers.size(); ++b) {
        const BufferSource& source = planned.buffers[b];
        const bool read_only = !planned.kernel.buffers[b].written;
        if (source.kind == BufferSource::kWorkspace) {
          const int block = step.workspaces[source.index];
          launch.buffers.push_back({arena_base(), memory_.offsets[block],
                                    step.sizes.workspace_elements[source.index],
                                    plan.workspaces[source.index].dtype,
                                    step.tracked_workspaces[source.index], 0, read_only});
        } else {
          const int value =
              (source.kind == BufferSource::kInput ? group.inputs : group.outputs)[source.index];
          launch.buffers.push_back(BufferOf(storage_[value], read_only));
        }
      }
      call_.steps.push_back(std::move(launch));
    }
  }
}

}  // namespace seam
