// A guard without schedulers: the rule of legality alone (segmenter/summary.h), library calls and
// barriers apart. It can refuse at random, always the same way for the same summary and seed.
#pragma once

#include <cstdint>

#include "segmenter/guard.h"

namespace seam {

class RuleGuard : public SchedulabilityGuard {
 public:
  Decision CanSchedule(const Fusion&, const AxisMap&, const GroupSummary& s) const override {
    const SchedulerKind kind = s.library || s.barrier ? SchedulerKind::kLibrary
                               : s.num_reductions > 0 ? SchedulerKind::kReduction
                               : s.views_only         ? SchedulerKind::kAlias
                                                      : SchedulerKind::kPointwise;
    if (s.num_exprs == 1) return Decision::Accept(kind);
    if (s.library)
      return Decision::Refuse(kind, ReasonCode::kLibrary, {},
                              "a library call is a kernel of its own");
    if (s.barrier)
      return Decision::Refuse(kind, ReasonCode::kBarrier, {}, "a segment_set parts kernels");
    if (!s.connected)
      return Decision::Refuse(kind, ReasonCode::kUnconnected, {}, "nothing is shared");
    if (!s.IsScalar() && s.GridAxes().empty()) {
      const bool grid = !s.held.empty();
      return Decision::Refuse(
          kind, grid ? ReasonCode::kGridBarrier : ReasonCode::kNoCommonAxis, s.reductions,
          grid ? "its result is needed in every tile" : "the spaces share no axis");
    }
    return Decision::Accept(kind);
  }
};

// To compute anything twice costs more than to write and read it.
class CostlyArithmeticGuard : public RuleGuard {
 public:
  double BytesOfArithmetic(const Fusion&, ExprId) const override { return 1000; }
};

// And what is connected by nothing may be islands.
class IslandGuard : public RuleGuard {
 public:
  Decision CanScheduleIslands(const Fusion& f, const AxisMap& axes,
                              absl::Span<const GroupSummary> islands) const override {
    for (const GroupSummary& island : islands) {
      const Decision d = CanSchedule(f, axes, island);
      if (!d.ok) return d;
    }
    return Decision::Accept(SchedulerKind::kHorizontal);
  }
};

// As above, and groups of at least `from_exprs` expressions are refused in one case of four, by
// their sizes. Not a monotone guard: merges must stay right whatever a guard says.
class MoodyGuard : public RuleGuard {
 public:
  explicit MoodyGuard(uint32_t seed, int from_exprs = 2) : seed_(seed), from_exprs_(from_exprs) {}
  Decision CanSchedule(const Fusion& f, const AxisMap& axes, const GroupSummary& s) const override {
    if (s.num_exprs >= from_exprs_ && Mood(s) == 0) {
      return Decision::Refuse(SchedulerKind::kPointwise, ReasonCode::kUnsupported, {}, "of a mood");
    }
    return RuleGuard::CanSchedule(f, axes, s);
  }

 private:
  // Splitmix64's finalizer, so that a seed means the same in every process.
  uint64_t Mood(const GroupSummary& s) const {
    uint64_t z =
        (uint64_t{seed_} << 40 ^ uint64_t(s.num_exprs) << 20 ^ uint64_t(s.num_reductions)) +
        0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (z ^ (z >> 31)) % 4;
  }

  uint32_t seed_;
  int from_exprs_;
};

}  // namespace seam
