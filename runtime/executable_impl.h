// The inside of an Executable. Internal to runtime/.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/hash/hash.h"
#include "runtime/backend.h"
#include "runtime/call_planner.h"
#include "runtime/executable.h"

namespace seam {

class Executable::Impl {
 public:
  // `tuned` is null where heuristics choose all schedules.
  Impl(std::shared_ptr<const Fusion> fusion, BackendKind kind, std::shared_ptr<Backend> backend,
       Program program, std::shared_ptr<TunedSchedules> tuned, bool any_order);

  absl::Status Run(absl::Span<const Tensor> inputs, absl::Span<Tensor> outputs,
                   const RunOptions& options);
  absl::StatusOr<std::vector<GroupReport>> CompileFor(absl::Span<const SymbolValue> symbols);

  // A group, and for what it is scheduled in a call.
  struct GroupCall {
    uint32_t id = 0;
    std::shared_ptr<const Fusion> group;
    SchedulerKind as = SchedulerKind::kNone;
    ScheduleContext context;
    std::vector<GroupProgram::Eased> eased;  // What is taken instead of a schedule that spills.
  };
  // Those that launch something in a call of CompileFor, in the order in which they run.
  absl::StatusOr<std::vector<GroupCall>> GroupsFor(absl::Span<const SymbolValue> symbols);

  const Fusion& fusion() const { return *fusion_; }
  const Fusion& rounded_fusion() const {
    return program_.rounded == nullptr ? *fusion_ : *program_.rounded;
  }
  BackendKind kind() const { return kind_; }
  Backend& backend() { return *backend_; }
  const std::shared_ptr<Backend>& shared_backend() { return backend_; }
  Statistics statistics() const;
  std::vector<std::string> CacheWarnings() const;

 private:
  // All that a PreparedCall depends on, as numbers.
  using Key = absl::InlinedVector<int64_t, 48>;
  struct KeyHash {
    using is_transparent = void;
    size_t operator()(absl::Span<const int64_t> key) const {
      return absl::Hash<absl::Span<const int64_t>>{}(key);
    }
  };
  struct KeyEqual {
    using is_transparent = void;
    bool operator()(absl::Span<const int64_t> a, absl::Span<const int64_t> b) const {
      return a == b;
    }
  };

  Key MakeKey(absl::Span<const Tensor> inputs, absl::Span<const Tensor> outputs,
              absl::Span<const SymbolValue> symbols) const;
  std::shared_ptr<const PreparedCall> Find(const Key& key) const;
  absl::StatusOr<std::shared_ptr<const PreparedCall>> Prepare(const Key& key,
                                                              absl::Span<const Tensor> inputs,
                                                              absl::Span<const Tensor> outputs,
                                                              const RunOptions& options);
  // A call of tensors of these sizes, aligned to 16 bytes.
  absl::Status PlanFor(absl::Span<const SymbolValue> symbols, CallPlanner& planner) const;
  absl::Status CheckNeeded(const SizeBinding& binding) const;
  absl::Status CheckOverlap(const PreparedCall& call, absl::Span<void* const> bases) const;
  absl::Status AllocateOutputs(const PreparedCall& call, StreamHandle stream,
                               absl::Span<void*> outputs);

  const std::shared_ptr<const Fusion> fusion_;
  const BackendKind kind_;
  const std::shared_ptr<Backend> backend_;
  const std::shared_ptr<TunedSchedules> tuned_;
  const bool any_order_;
  std::vector<const SymNode*> symbols_;
  std::vector<bool> needed_;  // Per symbol: something depends on it.

  mutable std::mutex
      plan_mutex_;  // Whoever works out a call's sizes: variants are made one call at a time.
  Program program_;
  // A call that is worked out, and when it was last made, by clock_.
  struct Prepared {
    Prepared(PreparedCall planned, int64_t now) : call(std::move(planned)), made(now) {}
    const PreparedCall call;
    std::atomic<int64_t> made;
  };
  // Those that are too many, with both mutexes held.
  std::vector<std::shared_ptr<Prepared>> DropOldCalls();
  mutable std::shared_mutex calls_mutex_;
  mutable std::atomic<int64_t> clock_ = 0;
  absl::flat_hash_map<std::vector<int64_t>, std::shared_ptr<Prepared>, KeyHash, KeyEqual> calls_;
};

}  // namespace seam
