// The simulator: results of sample kernels.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <optional>
#include <vector>

#include "scheduler/kernel/join.h"
#include "tests/support/sample_kernels.h"
#include "tests/support/simulated.h"

namespace seam::testing {
namespace {

using kernel::For;
using kernel::If;
using kernel::IndexValue;
using kernel::Kernel;
using kernel::LetSymbol;
using kernel::Load;
using kernel::Map;
using kernel::Operand;
using kernel::Random;
using kernel::Space;
using simulator::SimBuffer;
using simulator::Simulate;
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(SimulatorTest, RowSum) {
  for (const int64_t n : {1, 31, 128, 513, 1000}) {
    for (const int64_t m : {1, 2, 5}) {
      const Kernel k = RowSumKernel(DType::BF16, 1);
      SimTensor x(DType::BF16, Ramp(m * n)), y(DType::F32, std::vector<double>(m));
      const absl::Status status =
          Simulate(k, {x.buffer(), y.buffer()}, {m, n}, {.require_all_written = true});
      ASSERT_TRUE(status.ok()) << status << "\n" << PrintKernel(k);
      for (int64_t r = 0; r < m; ++r) {
        double sum = 0;
        for (int64_t c = 0; c < n; ++c) sum += x.at(r * n + c);
        EXPECT_EQ(y.at(r), sum) << m << " x " << n << ", row " << r;
      }
    }
  }
}

TEST(SimulatorTest, RowSumOfVectors) {
  const Kernel k = RowSumKernel(DType::F16, 8, 3, 256);
  const int64_t m = 7, n = 1000;
  SimTensor x(DType::F16, Ramp(m * n)), y(DType::F32, std::vector<double>(m));
  for (const uint64_t seed : {0, 1, 2}) {
    ASSERT_TRUE(Simulate(k, {x.buffer(), y.buffer()}, {m, n}, {.seed = seed}).ok());
    for (int64_t r = 0; r < m; ++r) {
      const auto v = x.values();
      EXPECT_EQ(y.at(r), std::accumulate(v.begin() + r * n, v.begin() + (r + 1) * n, 0.0));
    }
  }
}

TEST(SimulatorTest, CopyOfEveryDType) {
  for (int d = 0; d < kNumDTypes; ++d) {
    const DType dtype = static_cast<DType>(d);
    for (const int vector : {1, 2, 4, 8, 16}) {
      for (const int64_t n : {0, 1, 15, 128 * 16 * 2 + 5}) {
        std::vector<double> values = Ramp(n);
        if (dtype == DType::Bool || dtype == DType::U8) {
          for (double& v : values) v = dtype == DType::Bool ? v > 0 : v + 8;
        }
        SimTensor x(dtype, values), y(dtype, std::vector<double>(n));
        const Kernel k = VectorCopyKernel(dtype, vector);
        const absl::Status status =
            Simulate(k, {x.buffer(), y.buffer()}, {n}, {.require_all_written = true});
        ASSERT_TRUE(status.ok()) << status;
        EXPECT_EQ(x.values(), y.values());
      }
    }
  }
}

TEST(SimulatorTest, ColumnSum) {
  const Kernel k = ColumnSumKernel();
  for (const int64_t m : {1, 4, 9}) {
    for (const int64_t n : {1, 32, 45}) {
      SimTensor x(DType::F32, Ramp(m * n)), y(DType::F32, std::vector<double>(n));
      const absl::Status status =
          Simulate(k, {x.buffer(), y.buffer()}, {m, n}, {.require_all_written = true});
      ASSERT_TRUE(status.ok()) << status;
      for (int64_t c = 0; c < n; ++c) {
        double sum = 0;
        for (int64_t r = 0; r < m; ++r) sum += x.at(r * n + c);
        EXPECT_EQ(y.at(c), sum);
      }
    }
  }
}

TEST(SimulatorTest, DivergentLoopsAndBranches) {
  Probe p(DType::I64);
  const SymInt i = p.d.Symbol("i", 100);
  const Operand one = Operand::Const(DType::I64, IntScalar(1));
  Emit(&p.d.k.body, Map{OpKind::Copy, p.f, 0, {Operand::Const(DType::I64, IntScalar(0))}});
  For loop{i, p.d.thread * 2, false, {}};
  If odd{SymEq(Mod(i + p.d.thread, 2), 1), {}, {}};
  Emit(&odd.body, Map{OpKind::Add, p.f, 0, {Operand::Reg(p.f), one}});
  const int t = p.d.Fragment("t", DType::I64);
  Emit(&odd.otherwise, IndexValue{t, 0, i * 100});
  Emit(&odd.otherwise, Map{OpKind::Add, p.f, 0, {Operand::Reg(p.f), Operand::Reg(t)}});
  Emit(&loop.body, std::move(odd));
  Emit(&p.d.k.body, std::move(loop));
  std::vector<double> result;
  ASSERT_TRUE(p.Run(&result).ok());
  for (int t = 0; t < 32; ++t) {
    int64_t expected = 0;
    for (int i = 0; i < 2 * t; ++i) expected += (i + t) % 2 == 1 ? 1 : 100 * i;
    EXPECT_EQ(result[t], expected);
  }
}

TEST(SimulatorTest, IndexArithmeticFloors) {
  Probe p(DType::I64);
  const SymInt n = p.d.Parameter("n", -100, 100), t = p.d.thread;
  p.parameters = {-7};
  const SymInt e = FloorDiv(t - 9, 4) * 1000 + Mod(t - 9, 4) * 100 + FloorDiv(t, n) +
                   Mod(t - 3, n) + Min(t, 5) * 3 + Max(n, t - 20) +
                   SymSelect(SymLt(t, 4), t * n, 17);
  Emit(&p.d.k.body, IndexValue{p.f, 0, e});
  std::vector<double> result;
  ASSERT_TRUE(p.Run(&result).ok());
  for (int64_t t = 0; t < 32; ++t) {
    const auto floor_div = [](int64_t a, int64_t b) {
      return static_cast<int64_t>(std::floor(static_cast<double>(a) / static_cast<double>(b)));
    };
    const auto mod = [&](int64_t a, int64_t b) { return a - floor_div(a, b) * b; };
    EXPECT_EQ(result[t], floor_div(t - 9, 4) * 1000 + mod(t - 9, 4) * 100 + floor_div(t, -7) +
                             mod(t - 3, -7) + std::min<int64_t>(t, 5) * 3 +
                             std::max<int64_t>(-7, t - 20) + (t < 4 ? t * -7 : 17));
  }
}

// Vectorised evaluation over threads and loops against the value of each expression by itself.
TEST(SimulatorTest, RandomIndexExpressions) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const RandomIndexKernel r = MakeRandomIndexKernel(seed, seed % 2 == 1);
    SimTensor out(DType::I64, std::vector<double>(r.num_elements));
    const absl::Status status =
        Simulate(r.kernel, {out.buffer()}, r.parameters, {.require_all_written = true});
    ASSERT_TRUE(status.ok()) << status;
    const int64_t count = static_cast<int64_t>(r.expressions.size());
    for (int64_t at = 0; at < r.num_elements; ++at) {
      const int64_t thread = at % 32, place = at / 32 / count;
      const auto lookup = [&](const SymNode* s) -> std::optional<int64_t> {
        if (s == r.kernel.thread_x.node()) return thread;
        if (s == r.kernel.block_x.node()) return place / 9;
        if (s == r.i.node()) return place / 3 % 3;
        if (s == r.j.node()) return place % 3;
        return r.parameters[s == r.kernel.parameters[0].node() ? 0 : 1];
      };
      const SymInt e = r.expressions[at / 32 % count];
      const auto expected = Evaluate(e, lookup);
      ASSERT_TRUE(expected.ok()) << expected.status();
      ASSERT_EQ(LoadScalar(DType::I64, out.data() + 8 * at).i, *expected) << e.ToString();
    }
  }
}

TEST(SimulatorTest, LetSymbolGathers) {
  Probe p(DType::F32);
  const int table = p.d.Buffer("table", DType::F32, 10, false),
            at = p.d.Buffer("at", DType::I32, 32, false);
  const int index = p.d.Fragment("index", DType::I32);
  const SymInt chosen = p.d.Symbol("chosen", 10);
  Emit(&p.d.k.body, Load{index, 0, 1, Space::Global, at, p.d.thread});
  Emit(&p.d.k.body, LetSymbol{chosen, Operand::Reg(index)});
  Emit(&p.d.k.body, Load{p.f, 0, 1, Space::Global, table, 9 - chosen});
  std::vector<double> at_values(32), table_values(10);
  for (int t = 0; t < 32; ++t) at_values[t] = t * 3 % 10;
  std::iota(table_values.begin(), table_values.end(), 100);
  p.inputs = {SimTensor(DType::F32, table_values), SimTensor(DType::I32, at_values)};
  std::vector<double> result;
  const absl::Status status = p.Run(&result);
  ASSERT_TRUE(status.ok()) << status;
  for (int t = 0; t < 32; ++t) EXPECT_EQ(result[t], 109 - t * 3 % 10);
  p.d.k.body.pop_back();
  p.inputs[1] = SimTensor(DType::I32, std::vector<double>(32, 10));
  EXPECT_THAT(Message(p.Run(&result)),
              AllOf(HasSubstr("statement 1 (let chosen = index[0])"),
                    HasSubstr("chosen = 10 is outside its declared range 0..9")));
}

TEST(SimulatorTest, RandomNumbersAreThoseOfTheReference) {
  for (const DType dtype : {DType::F64, DType::F32, DType::F16, DType::BF16, DType::F8E4M3}) {
    for (const OpKind op : {OpKind::RandomUniform, OpKind::RandomNormal}) {
      Probe p(dtype);
      Emit(&p.d.k.body, Random{op, p.f, 0, Operand::Const(DType::I64, IntScalar(7)),
                               Operand::Const(DType::I64, IntScalar(3)), p.d.thread + 5});
      std::vector<double> result;
      ASSERT_TRUE(p.Run(&result).ok());
      double sum = 0;
      for (const double r : result) {
        EXPECT_EQ(r, RoundToDType(dtype, r));
        sum += r;
      }
      EXPECT_NE(sum, 0);
      EXPECT_NE(result[0], result[1]);
    }
  }
}

TEST(SimulatorTest, ResultsAreRoundedAfterEveryOperation) {
  Probe p(DType::BF16);
  const auto number = [](double v) { return Operand::Const(DType::BF16, FloatScalar(v)); };
  Emit(&p.d.k.body, Map{OpKind::Add, p.f, 0, {number(256), number(1)}});  // 257 needs nine digits.
  Emit(&p.d.k.body, Map{OpKind::Add, p.f, 0, {Operand::Reg(p.f), number(1)}});
  std::vector<double> result;
  ASSERT_TRUE(p.Run(&result).ok());
  EXPECT_EQ(result[0], 256);
}

TEST(SimulatorTest, AsyncLoads) {
  for (const auto& [dtype, width] : std::vector<std::pair<DType, int>>{
           {DType::F32, 4}, {DType::F64, 1}, {DType::BF16, 4}, {DType::I8, 4}}) {
    for (const int64_t n : {1, 64, 1001}) {
      SimTensor x(dtype, Ramp(n * width)), y(dtype, std::vector<double>(n * width));
      Kernel k = LoadsAheadKernel(dtype, width, 4);
      k.cluster = n == 1 ? 1 : 2;
      const absl::Status status =
          Simulate(k, {x.buffer(), y.buffer()}, {n * width}, {.require_all_written = true});
      ASSERT_TRUE(status.ok()) << status << PrintKernel(k);
      EXPECT_EQ(x.values(), y.values());
    }
  }
}

TEST(SimulatorTest, AsyncLoadsOfJoinedKernels) {
  const Kernel k = LoadsAheadKernel(DType::F32, 4, 3), less = LoadsAheadKernel(DType::F32, 4, 2);
  const int64_t n = 4000;
  SimTensor x(DType::F32, Ramp(n)), y(DType::F32, std::vector<double>(n)), z = y;
  const auto check = [&](const absl::StatusOr<Kernel>& joined, std::vector<int64_t> parameters) {
    ASSERT_TRUE(joined.ok()) << joined.status();
    y = z = SimTensor(DType::F32, std::vector<double>(n));
    std::vector<SimBuffer> buffers = {x.buffer(), y.buffer(), z.buffer()};
    if (joined->buffers.size() == 4) buffers.insert(buffers.begin() + 2, x.buffer());
    const absl::Status status =
        Simulate(*joined, buffers, parameters, {.require_all_written = true});
    ASSERT_TRUE(status.ok()) << status << PrintKernel(*joined);
    EXPECT_EQ(x.values(), y.values());
    EXPECT_EQ(x.values(), z.values());
  };
  check(kernel::SideBySide("j", {k, less}, kernel::Parameters::kOwn), {n, 3, n, 5});
  check(kernel::SideBySide("j", {k, less}, kernel::Parameters::kCommon), {n, 3, 5});
  const std::vector<std::vector<int>> buffers = {{0, 1}, {0, 2}};
  check(kernel::InPhases("j", {k, less}, buffers), {n});
  check(kernel::InPhases("j", {less, k}, buffers), {n});
}

}  // namespace
}  // namespace seam::testing
