// Every group of a program is one that kernels can be made of, whatever a guard accepts.
#include "runtime/segment_program.h"

#include <gtest/gtest.h>

#include "ir/text/parser.h"

namespace seam {
namespace {

// Takes reductions for one kernel's that are none.
class CredulousGuard : public RealGuard {
 public:
  Decision CanSchedule(const Fusion& fusion, const AxisMap& axes,
                       const GroupSummary& summary) const override {
    Decision decision = RealGuard::CanSchedule(fusion, axes, summary);
    if (!decision.ok && summary.num_reductions > 1 && summary.connected)
      return Decision::Accept(SchedulerKind::kReduction);
    return decision;
  }
};

TEST(SegmentProgram, WhatNoKernelHoldsIsCutAgain) {
  const absl::StatusOr<Fusion> fusion = ParseFusion(R"(fusion moved {
  symbol N
  input x: f32[N, 4096, 64]
  a = sum(x, axes=[0])
  b = flip(a, axes=[1]) * 2.0
  c = sum(b, axes=[0])
  d = amax(exp(a))
  output c
  output d
})");
  ASSERT_TRUE(fusion.ok()) << fusion.status();
  const absl::StatusOr<Program> usual = SegmentProgram(*fusion, {});
  ASSERT_TRUE(usual.ok()) << usual.status();
  EXPECT_EQ(usual->num_broken_promises, 0);
  const absl::StatusOr<Program> program = SegmentProgram(*fusion, {}, CredulousGuard());
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_GT(program->num_broken_promises, 0);
  EXPECT_GT(program->groups.size(), 1);
  for (const GroupProgram& group : program->groups)
    EXPECT_TRUE(CheckLowers(*group.group, group.scheduler).ok());
}

}  // namespace
}  // namespace seam
