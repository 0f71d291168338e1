#include "runtime/executable.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "ir/footprint.h"
#include "ir/status.h"
#include "ir/text/printer.h"
#include "runtime/executable_impl.h"

namespace seam {
namespace {

// Of more calls of different sizes, or of a group with more variants, an eighth of the calls that
// were made the longest ago is dropped. What a kernel of one length takes is some 100 KB.
constexpr size_t kMaxPreparedCalls = 4096, kMaxVariants = 1024;

int AlignmentOf(const void* data) {
  const uintptr_t address = reinterpret_cast<uintptr_t>(data) | 16;
  return static_cast<int>(address & -address);
}

// Per symbol of the Fusion: whether a type, an attribute or a constraint mentions it.
std::vector<bool> NeededSymbols(const Fusion& fusion, absl::Span<const SymNode* const> symbols) {
  absl::flat_hash_set<SymInt> seen;
  absl::flat_hash_set<const SymNode*> found;
  const auto visit = [&](SymInt e) {
    if (e.is_constant() || !seen.insert(e).second) return;
    for (const SymNode* symbol : FreeSymbols(e)) found.insert(symbol);
  };
  for (uint32_t v = 0; v < fusion.num_vals(); ++v) {
    for (const IterDomain& axis : fusion.domain(ValId(v))) visit(axis.extent);
    if (!fusion.has_explicit_strides(ValId(v))) continue;
    for (SymInt stride : fusion.strides(ValId(v))) visit(stride);
  }
  for (uint32_t e = 0; e < fusion.num_exprs(); ++e) {
    if (AttributesOf(fusion.op(ExprId(e))) == 0) continue;
    const Attributes& a = fusion.attributes(ExprId(e));
    for (const SymVector* list : {&a.sizes, &a.start, &a.stop, &a.step})
      std::for_each(list->begin(), list->end(), visit);
  }
  for (const Guard& constraint : fusion.constraints()) visit(constraint.condition);
  std::vector<bool> needed;
  for (const SymNode* symbol : symbols) needed.push_back(found.contains(symbol));
  return needed;
}

}  // namespace

absl::string_view BackendName(BackendKind kind) {
  static constexpr absl::string_view kNames[] = {"reference", "simulator", "cuda", "auto"};
  return kNames[static_cast<int>(kind)];
}

Executable::Impl::Impl(std::shared_ptr<const Fusion> fusion, BackendKind kind,
                       std::shared_ptr<Backend> backend, Program program,
                       std::shared_ptr<TunedSchedules> tuned, bool any_order)
    : fusion_(std::move(fusion)),
      kind_(kind),
      backend_(std::move(backend)),
      tuned_(std::move(tuned)),
      any_order_(any_order),
      symbols_(fusion_->env().symbols()),
      needed_(NeededSymbols(*fusion_, symbols_)),
      program_(std::move(program)) {}

Executable::Impl::Key Executable::Impl::MakeKey(absl::Span<const Tensor> inputs,
                                                absl::Span<const Tensor> outputs,
                                                absl::Span<const SymbolValue> symbols) const {
  Key key;
  const auto add = [&](const Tensor& tensor) {
    // A tensor without a stride for each axis is another call's, which is an error.
    const bool strided = tensor.strides.size() == tensor.sizes.size();
    key.push_back(int64_t{AlignmentOf(tensor.data)} << 32 | int64_t{strided} << 25 |
                  int64_t{tensor.data == nullptr} << 24 |
                  int64_t{static_cast<uint8_t>(tensor.dtype)} << 16 | tensor.rank());
    key.insert(key.end(), tensor.sizes.begin(), tensor.sizes.end());
    key.insert(key.end(), tensor.strides.begin(), tensor.strides.end());
  };
  for (const Tensor& input : inputs) add(input);
  for (const Tensor& output : outputs) {
    if (output.data == nullptr) {
      key.push_back(-1);
    } else {
      add(output);
    }
  }
  for (const SymbolValue& symbol : symbols) {
    size_t i = 0;
    while (i < symbols_.size() && symbols_[i]->name != symbol.name) ++i;
    key.push_back(static_cast<int64_t>(i));
    key.push_back(symbol.value);
  }
  return key;
}

std::shared_ptr<const PreparedCall> Executable::Impl::Find(const Key& key) const {
  std::shared_lock<std::shared_mutex> lock(calls_mutex_);
  const auto it = calls_.find(absl::MakeConstSpan(key));
  if (it == calls_.end()) return nullptr;
  it->second->made.store(clock_.fetch_add(1, std::memory_order_relaxed), std::memory_order_relaxed);
  return {it->second, &it->second->call};
}

std::vector<std::shared_ptr<Executable::Impl::Prepared>> Executable::Impl::DropOldCalls() {
  std::vector<std::shared_ptr<Prepared>> dropped;
  const bool many = absl::c_any_of(program_.groups, [](const GroupProgram& group) {
    return group.variants.size() >= kMaxVariants;
  });
  if (calls_.size() < kMaxPreparedCalls && !many) return dropped;
  std::vector<int64_t> made;
  for (const auto& [key, call] : calls_) made.push_back(call->made);
  if (!made.empty()) {
    const auto oldest = made.begin() + static_cast<int64_t>(made.size() / 8);
    std::nth_element(made.begin(), oldest, made.end());
    absl::erase_if(calls_, [&](const auto& entry) {
      if (entry.second->made > *oldest) return false;
      dropped.push_back(entry.second);
      return true;
    });
  }
  return dropped;
}

absl::Status Executable::Impl::CheckNeeded(const SizeBinding& binding) const {
  for (size_t i = 0; i < symbols_.size(); ++i) {
    if (needed_[i]) SEAM_RETURN_IF_ERROR(binding.Value(SymInt::FromNode(symbols_[i])).status());
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const PreparedCall>> Executable::Impl::Prepare(
    const Key& key, absl::Span<const Tensor> inputs, absl::Span<const Tensor> outputs,
    const RunOptions& options) {
  SEAM_ASSIGN_OR_RETURN(const SizeBinding binding, BindSizes(*fusion_, options.symbols, inputs));
  SEAM_RETURN_IF_ERROR(CheckNeeded(binding));
  SEAM_RETURN_IF_ERROR(CheckValues(*fusion_, binding));
  CallShape shape;
  const auto check_data = [](const Tensor& tensor, const std::string& what) {
    if (tensor.data == nullptr && tensor.numel() > 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(what, ": found a null pointer, expected ", tensor.ToString()));
    }
    if (tensor.numel() > 0 && AlignmentOf(tensor.data) < std::min(DTypeBytes(tensor.dtype), 16)) {
      return absl::InvalidArgumentError(absl::StrCat(
          what, ": found an address that is a multiple of ", AlignmentOf(tensor.data),
          " bytes, expected one of ", DTypeBytes(tensor.dtype), " for ", DTypeName(tensor.dtype)));
    }
    return absl::OkStatus();
  };
  for (size_t i = 0; i < inputs.size(); ++i) {
    SEAM_RETURN_IF_ERROR(check_data(
        inputs[i], absl::StrCat("input ", std::string(fusion_->name(fusion_->inputs()[i])))));
    shape.input_alignment.push_back(AlignmentOf(inputs[i].data));
  }
  SEAM_ASSIGN_OR_RETURN(shape.outputs, OutputTypes(*fusion_, binding));
  for (size_t j = 0; j < outputs.size(); ++j) {
    const ValId v = fusion_->outputs()[j];
    if (outputs[j].data != nullptr) {
      const std::string what = absl::StrCat("output ", std::string(fusion_->name(v)));
      SEAM_RETURN_IF_ERROR(CheckTensor(*fusion_, v, binding, outputs[j], what));
      SEAM_RETURN_IF_ERROR(check_data(outputs[j], what));
      if (ElementsOverlap(outputs[j].sizes, outputs[j].strides)) {
        return absl::InvalidArgumentError(
            absl::StrCat(what, ", ", outputs[j].ToString(),
                         ": elements overlap in memory; without memory it is a view of the input"));
      }
    }
    shape.outputs[j].data = outputs[j].data;
    shape.output_alignment.push_back(AlignmentOf(outputs[j].data));
  }

  std::lock_guard<std::mutex> lock(plan_mutex_);
  // Another thread may have been here with the same sizes.
  if (std::shared_ptr<const PreparedCall> call = Find(key)) return call;
  SEAM_ASSIGN_OR_RETURN(const bool capturing, backend_->IsCapturing(options.stream));
  if (capturing) {
    return absl::FailedPreconditionError(absl::StrCat(
        std::string(fusion_->name()), ": the stream is being captured and nothing is prepared for ",
        binding.ToString(),
        " with these strides, alignments and outputs: run once before the capture"));
  }
  CallPlanner planner(*fusion_, program_, *backend_, tuned_.get(), any_order_);
  SEAM_ASSIGN_OR_RETURN(PreparedCall planned, planner.Plan(binding, shape));
  auto prepared = std::make_shared<Prepared>(std::move(planned), clock_.fetch_add(1));
  std::vector<std::shared_ptr<Prepared>> dropped;  // Behind the lock, for which calls wait.
  {
    std::unique_lock<std::shared_mutex> calls_lock(calls_mutex_);
    dropped = DropOldCalls();
    calls_.emplace(std::vector<int64_t>(key.begin(), key.end()), prepared);
  }
  if (!dropped.empty()) {
    dropped.clear();
    for (GroupProgram& group : program_.groups) group.DropUnused();
  }
  return std::shared_ptr<const PreparedCall>(prepared, &prepared->call);
}

absl::Status Executable::Impl::CheckOverlap(const PreparedCall& call,
                                            absl::Span<void* const> bases) const {
  struct Range {
    const char* begin;
    const char* end;
    size_t base;
  };
  absl::InlinedVector<Range, 16> ranges;
  for (size_t i = 0; i < bases.size(); ++i) {
    const char* begin = static_cast<const char*>(bases[i]);
    const int64_t bytes = call.footprints[i].bytes();
    if (bytes > 0) ranges.push_back({begin, begin + bytes, i});
  }
  std::sort(ranges.begin(), ranges.end(),
            [](const Range& a, const Range& b) { return a.begin < b.begin; });
  const size_t num_inputs = fusion_->inputs().size();
  const auto name = [&](size_t base) {
    return base < num_inputs
               ? absl::StrCat("input ", std::string(fusion_->name(fusion_->inputs()[base])))
               : absl::StrCat("output ",
                              std::string(fusion_->name(fusion_->outputs()[base - num_inputs])));
  };
  absl::InlinedVector<const Range*, 16> open;  // Those that reach beyond where the next begins.
  for (const Range& range : ranges) {
    open.erase(std::remove_if(open.begin(), open.end(),
                              [&](const Range* other) { return other->end <= range.begin; }),
               open.end());
    for (const Range* other : open) {
      if (range.base < num_inputs && other->base < num_inputs) continue;
      if (call.footprints[other->base].Shares(call.footprints[range.base],
                                              range.begin - other->begin)) {
        return absl::InvalidArgumentError(
            absl::StrCat(name(range.base), " and ", name(other->base),
                         " share memory; an output must have its own"));
      }
    }
    open.push_back(&range);
  }
  return absl::OkStatus();
}

absl::Status Executable::Impl::AllocateOutputs(const PreparedCall& call, StreamHandle stream,
                                               absl::Span<void*> outputs) {
  bool checked = false;
  for (size_t j = 0; j < outputs.size(); ++j) {
    if (call.allocated_bytes[j] < 0) continue;
    if (!checked) {
      SEAM_ASSIGN_OR_RETURN(const bool capturing, backend_->IsCapturing(stream));
      if (capturing) {
        return absl::FailedPreconditionError(
            absl::StrCat(std::string(fusion_->name()), ": the stream is being captured, so output ",
                         std::string(fusion_->name(fusion_->outputs()[j])),
                         " cannot be allocated: bring its memory"));
      }
      checked = true;
    }
    SEAM_ASSIGN_OR_RETURN(outputs[j], backend_->allocator().Allocate(
                                          static_cast<size_t>(call.allocated_bytes[j]), stream));
  }
  return absl::OkStatus();
}

absl::Status Executable::Impl::Run(absl::Span<const Tensor> inputs, absl::Span<Tensor> outputs,
                                   const RunOptions& options) {
  if (inputs.size() != fusion_->inputs().size() || outputs.size() != fusion_->outputs().size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        std::string(fusion_->name()), ": found ", inputs.size(), " inputs and ", outputs.size(),
        " outputs, expected ", fusion_->inputs().size(), " and ", fusion_->outputs().size()));
  }
  const Key key = MakeKey(inputs, outputs, options.symbols);
  std::shared_ptr<const PreparedCall> call = Find(key);
  if (call == nullptr) {
    SEAM_ASSIGN_OR_RETURN(call, Prepare(key, inputs, outputs, options));
  }
  absl::InlinedVector<void*, 16> bases;
  for (const Tensor& input : inputs) bases.push_back(input.data);
  for (const Tensor& output : outputs) bases.push_back(output.data);
  const absl::Span<void*> output_bases = absl::MakeSpan(bases).subspan(inputs.size());
  absl::Status status = AllocateOutputs(*call, options.stream, output_bases);
  if (status.ok()) status = CheckOverlap(*call, bases);
  if (status.ok()) status = backend_->Execute(*call, bases, options.stream);
  // The caller's tensors change where all went well, and only there.
  for (size_t j = 0; j < outputs.size(); ++j) {
    if (call->allocated_bytes[j] < 0) continue;
    if (!status.ok()) {
      backend_->allocator().Free(output_bases[j], options.stream);
      continue;
    }
    outputs[j] = call->output_types[j];
    outputs[j].data = outputs[j].allocation = output_bases[j];
  }
  if (!status.ok()) return status;
  for (const PreparedCall::View& view : call->views) {
    Tensor& output = outputs[view.output];
    output = call->output_types[view.output];
    output.data = static_cast<char*>(bases[view.base]) + view.offset_bytes;
  }
  return absl::OkStatus();
}

absl::Status Executable::Impl::PlanFor(absl::Span<const SymbolValue> symbols,
                                       CallPlanner& planner) const {
  SEAM_ASSIGN_OR_RETURN(const SizeBinding binding, BindGiven(*fusion_, symbols));
  SEAM_RETURN_IF_ERROR(CheckNeeded(binding));
  SEAM_RETURN_IF_ERROR(CheckConstraints(*fusion_, binding));
  SEAM_RETURN_IF_ERROR(CheckValues(*fusion_, binding));
  CallShape shape;
  shape.input_alignment.assign(fusion_->inputs().size(), 16);
  shape.output_alignment.assign(fusion_->outputs().size(), 16);
  SEAM_ASSIGN_OR_RETURN(shape.outputs, OutputTypes(*fusion_, binding));
  return planner.Plan(binding, shape).status();
}

absl::StatusOr<std::vector<Executable::Impl::GroupCall>> Executable::Impl::GroupsFor(
    absl::Span<const SymbolValue> symbols) {
  std::lock_guard<std::mutex> lock(plan_mutex_);
  CallPlanner planner(*fusion_, program_, *backend_, tuned_.get(), any_order_);
  SEAM_RETURN_IF_ERROR(PlanFor(symbols, planner));
  std::vector<GroupCall> calls;
  for (size_t g = 0; g < program_.groups.size(); ++g) {
    const CallPlanner::Step& step = planner.step(g);
    if (step.variant == nullptr) continue;
    calls.push_back({program_.groups[g].id, program_.groups[g].group, step.as, step.context,
                     program_.groups[g].eased});
  }
  return calls;
}

absl::StatusOr<std::vector<GroupReport>> Executable::Impl::CompileFor(
    absl::Span<const SymbolValue> symbols) {
  std::lock_guard<std::mutex> lock(plan_mutex_);
  CallPlanner planner(*fusion_, program_, *backend_, tuned_.get(), any_order_);
  SEAM_RETURN_IF_ERROR(PlanFor(symbols, planner));
  std::vector<GroupReport> reports;
  for (size_t g = 0; g < program_.groups.size(); ++g) {
    const GroupProgram& group = program_.groups[g];
    GroupReport report;
    report.group = group.id;
    report.scheduler = group.scheduler;
    report.text = PrintFusion(*group.group);
    const Variant* variant = planner.step(g).variant.get();
    if (variant == nullptr) {
      report.schedule = "views of its inputs; nothing is launched";
    } else {
      const LaunchPlan& plan = variant->plan();
      report.schedule = plan.schedule.ToString();
      report.origin = planner.step(g).origin;
      const std::vector<int64_t>& elements = planner.step(g).sizes.workspace_elements;
      for (size_t i = 0; i < elements.size(); ++i)
        report.partial_bytes += elements[i] * DTypeBytes(plan.workspaces[i].dtype);
      for (const Guard& guard : plan.guards) {
        report.guards.push_back(absl::StrCat(guard.condition.ToString(), "  # ", guard.reason));
      }
      for (size_t i = 0; i < plan.launches.size(); ++i) {
        KernelReport kernel;
        kernel.name = plan.launches[i].kernel.name;
        kernel.kernel_text = kernel::PrintKernel(plan.launches[i].kernel);
        kernel.threads = plan.launches[i].kernel.threads;
        variant->kernels()[i]->Report(kernel);
        report.kernels.push_back(std::move(kernel));
      }
    }
    reports.push_back(std::move(report));
  }
  return reports;
}

Executable::Statistics Executable::Impl::statistics() const {
  Statistics statistics;
  statistics.kernels = backend_->num_kernels();
  statistics.broken_promises = program_.num_broken_promises;
  {
    std::lock_guard<std::mutex> lock(plan_mutex_);
    for (const GroupProgram& group : program_.groups)
      statistics.variants += static_cast<int64_t>(group.variants.size());
  }
  std::shared_lock<std::shared_mutex> lock(calls_mutex_);
  statistics.prepared = static_cast<int64_t>(calls_.size());
  return statistics;
}

std::vector<std::string> Executable::Impl::CacheWarnings() const {
  std::vector<std::string> warnings = {backend_->cache_warning(),
                                       tuned_ == nullptr ? "" : tuned_->warning()};
  if (warnings[1] == warnings[0]) warnings.pop_back();  // Of the environment of both.
  warnings.erase(std::remove(warnings.begin(), warnings.end(), ""), warnings.end());
  return warnings;
}

Executable::Executable(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Executable::Executable(Executable&&) noexcept = default;
Executable& Executable::operator=(Executable&&) noexcept = default;
Executable::~Executable() = default;

const Fusion& Executable::fusion() const { return impl_->fusion(); }
const Fusion& Executable::rounded_fusion() const { return impl_->rounded_fusion(); }
BackendKind Executable::backend() const { return impl_->kind(); }
const DeviceInfo& Executable::device() const { return impl_->backend().device(); }
const cuda::Device* Executable::cuda_device() const { return impl_->backend().cuda_device(); }
DeviceAllocator& Executable::allocator() const { return impl_->backend().allocator(); }

absl::Status Executable::Run(absl::Span<const Tensor> inputs, absl::Span<Tensor> outputs,
                             const RunOptions& options) const {
  return impl_->Run(inputs, outputs, options);
}

absl::StatusOr<std::vector<Tensor>> Executable::InferOutputs(absl::Span<const Tensor> inputs,
                                                             const RunOptions& options) const {
  SEAM_ASSIGN_OR_RETURN(const SizeBinding binding, BindSizes(fusion(), options.symbols, inputs));
  return OutputTypes(fusion(), binding);
}

absl::StatusOr<std::vector<GroupReport>> Executable::CompileFor(
    absl::Span<const SymbolValue> symbols) const {
  return impl_->CompileFor(symbols);
}

Executable::Statistics Executable::statistics() const { return impl_->statistics(); }
std::vector<std::string> Executable::CacheWarnings() const { return impl_->CacheWarnings(); }
void Executable::ReleaseMemory() const { impl_->backend().ReleaseMemory(); }

}  // namespace seam
