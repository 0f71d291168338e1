// The simulator: results of sample kernels, and every kind of fault that it promises to find.
#include "runtime/simulator/simulator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <numeric>
#include <vector>

#include "scheduler/kernel/join.h"
#include "tests/support/kernel_mutator.h"
#include "tests/support/sample_kernels.h"

namespace seam::testing {
namespace {

using kernel::AsyncLoad;
using kernel::AwaitLoads;
using kernel::CtaSync;
using kernel::For;
using kernel::GridSync;
using kernel::If;
using kernel::IndexValue;
using kernel::Kernel;
using kernel::LetSymbol;
using kernel::Load;
using kernel::Map;
using kernel::Operand;
using kernel::Random;
using kernel::ShuffleXor;
using kernel::Space;
using kernel::Store;
using simulator::SimBuffer;
using simulator::SimOptions;
using simulator::Simulate;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;

// Memory of `values` as elements of `dtype`, aligned to 64 bytes.
struct Tensor {
  Tensor(DType d, std::vector<double> values)
      : dtype(d), count(static_cast<int64_t>(values.size())) {
    lines.resize(values.size() * DTypeBytes(d) / 64 + 1);
    for (size_t i = 0; i < values.size(); ++i) {
      const Scalar s = IsFloat(d) ? FloatScalar(RoundToDType(d, values[i]))
                                  : IntScalar(static_cast<int64_t>(values[i]));
      StoreScalar(d, s, data() + i * DTypeBytes(d));
    }
  }
  char* data() { return lines[0].bytes; }
  double at(int64_t i) {
    const Scalar s = LoadScalar(dtype, data() + i * DTypeBytes(dtype));
    return IsFloat(dtype) ? s.f : static_cast<double>(s.i);
  }
  std::vector<double> values() {
    std::vector<double> v;
    for (int64_t i = 0; i < count; ++i) v.push_back(at(i));
    return v;
  }
  SimBuffer buffer(uint8_t* initialized = nullptr) {
    return {data(), count, dtype, false, initialized};
  }
  DType dtype;
  int64_t count;
  struct alignas(64) Line {
    char bytes[64] = {};
  };
  std::vector<Line> lines;
};

std::vector<double> Ramp(int64_t n) {
  std::vector<double> v(n);
  for (int64_t i = 0; i < n; ++i) v[i] = static_cast<double>((i * 7 + 3) % 17) - 8;
  return v;
}

std::string Message(const absl::Status& status) { return std::string(status.message()); }

TEST(SimulatorTest, RowSum) {
  for (const int64_t n : {1, 31, 128, 513, 1000}) {
    for (const int64_t m : {1, 2, 5}) {
      const Kernel k = RowSumKernel(DType::BF16, 1);
      Tensor x(DType::BF16, Ramp(m * n)), y(DType::F32, std::vector<double>(m));
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
  Tensor x(DType::F16, Ramp(m * n)), y(DType::F32, std::vector<double>(m));
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
        Tensor x(dtype, values), y(dtype, std::vector<double>(n));
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
      Tensor x(DType::F32, Ramp(m * n)), y(DType::F32, std::vector<double>(n));
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

// One thread of interest: `body` computes fragment `f` of `dtype`, which thread t stores to out[t].
struct Probe {
  explicit Probe(DType dtype, int64_t threads = 32) : d("probe", static_cast<int>(threads)) {
    out = d.Buffer("out", dtype, threads, true);
    f = d.Fragment("f", dtype);
  }
  absl::Status Run(std::vector<double>* result, SimOptions options = {}) {
    Emit(&d.k.body, Store{f, 0, 1, Space::Global, out, d.thread});
    Tensor y(d.k.buffers[out].dtype, std::vector<double>(d.k.threads));
    std::vector<SimBuffer> buffers = {y.buffer()};
    for (Tensor& t : inputs) buffers.push_back(t.buffer());
    const absl::Status status = Simulate(d.k, buffers, parameters, options);
    *result = y.values();
    return status;
  }
  KernelDraft d;
  int out, f;
  std::vector<Tensor> inputs;
  std::vector<int64_t> parameters;
};

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
    Tensor out(DType::I64, std::vector<double>(r.num_elements));
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
  p.inputs = {Tensor(DType::F32, table_values), Tensor(DType::I32, at_values)};
  std::vector<double> result;
  const absl::Status status = p.Run(&result);
  ASSERT_TRUE(status.ok()) << status;
  for (int t = 0; t < 32; ++t) EXPECT_EQ(result[t], 109 - t * 3 % 10);
  p.d.k.body.pop_back();
  p.inputs[1] = Tensor(DType::I32, std::vector<double>(32, 10));
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

// --- Faults ---

TEST(SimulatorFaultTest, OutOfBounds) {
  Probe p(DType::F32);
  const int x = p.d.Buffer("x", DType::F32, 31, false);
  Emit(&p.d.k.body, Load{p.f, 0, 1, Space::Global, x, p.d.thread});
  p.inputs = {Tensor(DType::F32, std::vector<double>(31))};
  std::vector<double> result;
  EXPECT_THAT(Message(p.Run(&result)),
              AllOf(HasSubstr("statement 0 (f[0] = load x[thread])"), HasSubstr("CTA 0, thread 31"),
                    HasSubstr("element 31 is outside buffer x of 31")));
  p.d.k.body.clear();
  Emit(&p.d.k.body, Load{p.f, 0, 1, Space::Global, x, p.d.thread - 1});
  EXPECT_THAT(Message(p.Run(&result)), HasSubstr("element -1 is outside"));
}

TEST(SimulatorFaultTest, SharedOutOfBoundsAndUninitialised) {
  Probe p(DType::F32);
  const int s = p.d.Shared("s", DType::F32, 16);
  Emit(&p.d.k.body, Load{p.f, 0, 1, Space::Shared, s, p.d.thread, SymLt(p.d.thread, 4)});
  std::vector<double> result;
  EXPECT_THAT(Message(p.Run(&result)),
              HasSubstr("reads element 0 of shared array s, which nothing has written"));
  p.d.k.body.clear();
  Emit(&p.d.k.body, Load{p.f, 0, 1, Space::Shared, s, p.d.thread});
  EXPECT_THAT(Message(p.Run(&result)), HasSubstr("element 16 is outside shared array s of 16"));
}

// Shared memory does not survive from one CTA to the next.
TEST(SimulatorFaultTest, SharedOfAnotherCta) {
  Probe p(DType::F32);
  p.d.SetGrid(2);
  const int s = p.d.Shared("s", DType::F32, 32);
  Emit(&p.d.k.body, Map{OpKind::Copy, p.f, 0, {Operand::Const(DType::F32, FloatScalar(1))}});
  If first{SymEq(p.d.block, 0), {}, {}};
  Emit(&first.body, Store{p.f, 0, 1, Space::Shared, s, p.d.thread});
  Emit(&p.d.k.body, std::move(first));
  Emit(&p.d.k.body, CtaSync{});
  Emit(&p.d.k.body, Load{p.f, 0, 1, Space::Shared, s, p.d.thread});
  Tensor y(DType::F32, std::vector<double>(32));
  EXPECT_THAT(Message(Simulate(p.d.k, {y.buffer()}, {})),
              AllOf(HasSubstr("CTA 1"), HasSubstr("nothing has written")));
}

TEST(SimulatorFaultTest, Misaligned) {
  Probe p(DType::F32);
  const int x = p.d.Buffer("x", DType::F32, 256, false);
  const int v = p.d.Fragment("v", DType::F32, 4);
  Emit(&p.d.k.body, Load{v, 0, 4, Space::Global, x, p.d.thread * 2});
  p.inputs = {Tensor(DType::F32, std::vector<double>(256))};
  std::vector<double> result;
  EXPECT_THAT(Message(p.Run(&result)),
              HasSubstr("element 2 of buffer x is no multiple of the vector's 4 elements"));
  Tensor shifted(DType::F32, std::vector<double>(260)), y(DType::F32, std::vector<double>(32));
  SimBuffer buffer = shifted.buffer();
  buffer.data = shifted.data() + 4;
  EXPECT_THAT(Message(Simulate(p.d.k, {y.buffer(), buffer}, {})),
              HasSubstr("buffer x: is not aligned to 16 bytes"));
}

// The last of 32 vectors starts at element 125: what holds it and the next one ends at 132.
TEST(SimulatorFaultTest, NotInside) {
  for (const int64_t elements : {129, 131, 132}) {
    Probe p(DType::F32);
    const int x = p.d.Buffer("x", DType::F32, elements, false);
    const int v = p.d.Fragment("v", DType::F32, 4);
    Load load{v, 0, 4, Space::Global, x, p.d.thread * 4 + 1};
    load.start = kernel::Start::Inside;
    Emit(&p.d.k.body, load);
    p.inputs = {Tensor(DType::F32, std::vector<double>(elements))};
    std::vector<double> result;
    const auto fault =
        HasSubstr("the aligned 32 bytes from element 124 on are not inside buffer x");
    if (elements < 132) {
      EXPECT_THAT(Message(p.Run(&result)), fault);
    } else {
      EXPECT_THAT(Message(p.Run(&result)), Not(fault));
    }
  }
}

TEST(SimulatorFaultTest, UninitialisedFragment) {
  Probe p(DType::F32);
  If some{SymLt(p.d.thread, 5), {}, {}};
  Emit(&some.body, Map{OpKind::Copy, p.f, 0, {Operand::Const(DType::F32, FloatScalar(1))}});
  Emit(&p.d.k.body, std::move(some));
  std::vector<double> result;
  EXPECT_THAT(Message(p.Run(&result)),
              AllOf(HasSubstr("statement 2"), HasSubstr("thread 5"),
                    HasSubstr("reads f[0], which this thread has not written")));
}

TEST(SimulatorFaultTest, SlotOutOfRange) {
  Probe p(DType::F32);
  const int v = p.d.Fragment("v", DType::F32, 4);
  const SymInt i = p.d.Symbol("i", 5);
  For loop{i, 5, true, {}};
  Emit(&loop.body, IndexValue{v, i, i});
  Emit(&p.d.k.body, std::move(loop));
  std::vector<double> result;
  EXPECT_THAT(Message(p.Run(&result)),
              AllOf(HasSubstr("statement 1"), HasSubstr("i = 4"),
                    HasSubstr("slot 4 (1 wide) is outside fragment v of 4")));
}

TEST(SimulatorFaultTest, UninitialisedBuffer) {
  const Kernel k = VectorCopyKernel(DType::F32, 4);
  Tensor x(DType::F32, std::vector<double>(130)), y(DType::F32, std::vector<double>(130));
  std::vector<uint8_t> x_set(130, 1), y_set(130, 0);
  ASSERT_TRUE(Simulate(k, {x.buffer(x_set.data()), y.buffer(y_set.data())}, {130}).ok());
  EXPECT_EQ(y_set, std::vector<uint8_t>(130, 1));
  x_set[77] = 0;
  EXPECT_THAT(Message(Simulate(k, {x.buffer(x_set.data()), y.buffer()}, {130})),
              AllOf(HasSubstr("thread 19"),
                    HasSubstr("reads element 77 of buffer x, which nothing has written")));
}

TEST(SimulatorFaultTest, SharedRace) {
  Probe p(DType::F32);
  const int s = p.d.Shared("s", DType::F32, 32);
  Emit(&p.d.k.body, Map{OpKind::Copy, p.f, 0, {Operand::Const(DType::F32, FloatScalar(1))}});
  Emit(&p.d.k.body, Store{p.f, 0, 1, Space::Shared, s, p.d.thread});
  Emit(&p.d.k.body, CtaSync{});
  Emit(&p.d.k.body, Load{p.f, 0, 1, Space::Shared, s, 31 - p.d.thread});
  kernel::Block body = p.d.k.body;
  std::vector<double> result;
  ASSERT_TRUE(p.Run(&result).ok());
  // Write after read.
  p.d.k.body = body;
  Emit(&p.d.k.body, Store{p.f, 0, 1, Space::Shared, s, p.d.thread});
  EXPECT_THAT(Message(p.Run(&result)), AllOf(HasSubstr("race on element 0 of shared array s"),
                                             HasSubstr("written here, read by thread 31")));
  // Read after write.
  p.d.k.body = body;
  p.d.k.body.erase(p.d.k.body.begin() + 2);
  EXPECT_THAT(Message(p.Run(&result)),
              HasSubstr("race on element 31 of shared array s: read here, written by thread 31"));
  // Write after write, the same value.
  p.d.k.body = body;
  std::get<Store>(p.d.k.body[1].node).index = 0;
  EXPECT_THAT(Message(p.Run(&result)),
              HasSubstr("race on element 0 of shared array s: written here, written by thread 0"));
  // Reads by many, then a write by one of them.
  p.d.k.body = body;
  std::get<Load>(p.d.k.body[3].node).index = 3;
  Emit(&p.d.k.body, Store{p.f, 0, 1, Space::Shared, s, 3, SymEq(p.d.thread, 3)});
  EXPECT_THAT(Message(p.Run(&result)), HasSubstr("written here, read by several threads"));
}

TEST(SimulatorFaultTest, GlobalRace) {
  // Two CTAs write one element, in either order.
  for (const uint64_t seed : {0, 5}) {
    Probe p(DType::F32);
    p.d.SetGrid(2);
    Emit(&p.d.k.body, Map{OpKind::Copy, p.f, 0, {Operand::Const(DType::F32, FloatScalar(1))}});
    std::vector<double> result;
    EXPECT_THAT(
        Message(p.Run(&result, {.seed = seed})),
        HasSubstr("race on element 0 of buffer out: written here, written by thread 0 of CTA"));
  }
  // Exchange through global memory inside a CTA needs a barrier, and between CTAs has none.
  for (const bool barrier : {false, true}) {
    for (const int64_t ctas : {1, 2}) {
      KernelDraft d("exchange", 32);
      d.SetGrid(ctas);
      const int w = d.Buffer("w", DType::F32, 64, true), y = d.Buffer("y", DType::F32, 64, true);
      const int f = d.Fragment("f", DType::F32);
      const SymInt me = d.block * 32 + d.thread;
      Emit(&d.k.body, IndexValue{f, 0, me});
      Emit(&d.k.body, Store{f, 0, 1, Space::Global, w, me});
      if (barrier) Emit(&d.k.body, CtaSync{});
      Emit(&d.k.body, Load{f, 0, 1, Space::Global, w, 31 - d.thread});
      Emit(&d.k.body, Store{f, 0, 1, Space::Global, y, me});
      Tensor work(DType::F32, std::vector<double>(64)), out(DType::F32, std::vector<double>(64));
      const absl::Status status = Simulate(d.k, {work.buffer(), out.buffer()}, {});
      if (barrier && ctas == 1) {
        EXPECT_TRUE(status.ok()) << status;
        EXPECT_EQ(out.at(0), 31);
      } else {
        EXPECT_THAT(Message(status), HasSubstr("race on element"));
      }
    }
  }
}

// Between CTAs a barrier of the grid orders what they store.
TEST(SimulatorFaultTest, BarriersOfTheGrid) {
  for (const uint64_t seed : {0, 7}) {
    Tensor w(DType::I32, std::vector<double>(384)), y(DType::I32, std::vector<double>(384));
    const std::vector<SimBuffer> buffers = {w.buffer(), y.buffer()};
    const absl::Status status = Simulate(ExchangeKernel(3), buffers, {}, {.seed = seed});
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_EQ(y.at(0), 383);
    EXPECT_EQ(w.at(0), 2 * 383);
    EXPECT_THAT(Message(Simulate(ExchangeKernel(3, false), buffers, {}, {.seed = seed})),
                HasSubstr("race on element"));
  }
}

// Each CTA finds in a lasting array what it has stored itself, if no launch ends in between.
TEST(SimulatorFaultTest, LastingArrays) {
  const auto found = [](const Kernel& k, SimOptions options, std::vector<double>* y) {
    Tensor out(DType::I32, std::vector<double>(192));
    const absl::Status status = Simulate(k, {out.buffer()}, {}, options);
    *y = out.values();
    return status;
  };
  std::vector<double> y;
  for (const uint64_t seed : {0, 7}) {
    for (const bool asks : {false, true}) {
      const absl::Status status = found(LastingKernel(3, asks), {.seed = seed}, &y);
      ASSERT_TRUE(status.ok()) << status;
      for (int i = 0; i < 192; ++i) EXPECT_EQ(y[i], i / 64 * 64 + 63 - i % 64);
    }
    const SimOptions one_by_one = {.seed = seed, .phase_by_phase = true};
    const absl::Status status = found(LastingKernel(3), one_by_one, &y);
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_THAT(y, Each(-1));
    EXPECT_THAT(Message(found(LastingKernel(3, false), one_by_one, &y)),
                HasSubstr("element 63 of shared array s, which nothing has written"));
  }
  // Those of its neighbours are not there.
  Kernel beyond = LastingKernel(3);
  std::get<Load>(beyond.body[3].node).index = beyond.thread_x + 1;
  EXPECT_THAT(Message(found(beyond, {}, &y)), HasSubstr("element 64 is outside shared array s"));
}

// Each item to one CTA, and all tickets taken, so that the next launch counts from 0 again.
TEST(SimulatorFaultTest, Tickets) {
  const auto simulate = [](const Kernel& k) {
    Tensor y(DType::I32, std::vector<double>(20 * 128));
    const absl::Status status =
        Simulate(k, {y.buffer()}, {}, {.seed = 3, .require_all_written = true});
    if (status.ok()) {
      for (const int item : {0, 7, 19}) EXPECT_EQ(y.at(item * 128 + 1), item);
    }
    return Message(status);
  };
  const auto with = [&](auto edit) {
    Kernel k = TicketKernel(3, 20);
    edit(std::get<For>(k.body[0].node).body);
    return simulate(k);
  };
  const auto take = [](kernel::Block & loop) -> auto& {
    return std::get<kernel::TakeTicket>(std::get<kernel::If>(loop[0].node).body[0].node);
  };
  EXPECT_EQ(simulate(TicketKernel(3, 20)), "");
  EXPECT_EQ(simulate(TicketKernel(30, 20)), "");
  EXPECT_THAT(with([&](auto& loop) { take(loop).total = 22; }), HasSubstr("the last one of 22"));
  EXPECT_THAT(with([&](auto& loop) { take(loop).total = 24; }),
              HasSubstr("23 tickets taken of 24, and the next launch counts on from there"));
  EXPECT_THAT(with([&](auto& loop) { std::get<kernel::If>(loop[0].node).condition = 1; }),
              HasSubstr("a ticket that several threads take"));
  Kernel k = TicketKernel(3, 20);
  kernel::Block& loop = std::get<For>(k.body[0].node).body;
  std::get<kernel::Load>(loop[2].node).predicate = SymLt(k.thread_x, 5);
  EXPECT_THAT(simulate(k), HasSubstr("a way out of the loop that only"));
}

// Each thread loads ahead to a place of its own, for which it needs no barrier.
TEST(SimulatorTest, AsyncLoads) {
  for (const auto& [dtype, width] : std::vector<std::pair<DType, int>>{
           {DType::F32, 4}, {DType::F64, 1}, {DType::BF16, 4}, {DType::I8, 4}}) {
    for (const int64_t n : {1, 64, 1001}) {
      Tensor x(dtype, Ramp(n * width)), y(dtype, std::vector<double>(n * width));
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
  Tensor x(DType::F32, Ramp(n)), y(DType::F32, std::vector<double>(n)), z = y;
  const auto check = [&](const absl::StatusOr<Kernel>& joined, std::vector<int64_t> parameters) {
    ASSERT_TRUE(joined.ok()) << joined.status();
    y = z = Tensor(DType::F32, std::vector<double>(n));
    std::vector<SimBuffer> buffers = {x.buffer(), y.buffer(), z.buffer()};
    if (joined->buffers.size() == 4) buffers.insert(buffers.begin() + 2, x.buffer());
    const absl::Status status =
        Simulate(*joined, buffers, parameters, {.require_all_written = true});
    ASSERT_TRUE(status.ok()) << status << PrintKernel(*joined);
    EXPECT_EQ(x.values(), y.values());
    EXPECT_EQ(x.values(), z.values());
  };
  check(kernel::SideBySide("j", {k, less}), {n, 3, n, 5});
  const std::vector<std::vector<int>> buffers = {{0, 1}, {0, 2}};
  check(kernel::InPhases("j", {k, less}, buffers), {n});
  check(kernel::InPhases("j", {less, k}, buffers), {n});
}

TEST(SimulatorFaultTest, AsyncLoads) {
  constexpr int64_t kCount = 1024;  // Two turns.
  Tensor x(DType::F32, Ramp(kCount));
  struct Parts {
    kernel::Block& body;
    kernel::Block& loop;
    AsyncLoad &first, &next;
    Load& load;
    Store& store;
    SymInt thread, turn;
  };
  bool in_place = false;
  std::vector<uint8_t> initialized(kCount, 1);
  std::vector<double> result;
  const auto with = [&](const std::function<void(Parts)>& edit) {
    Kernel k = LoadsAheadKernel(DType::F32, 4, 2);
    For& loop = std::get<For>(k.body[1].node);
    edit({k.body, loop.body, std::get<AsyncLoad>(k.body[0].node),
          std::get<AsyncLoad>(loop.body[2].node), std::get<Load>(loop.body[1].node),
          std::get<Store>(loop.body[3].node), k.thread_x, loop.symbol});
    Tensor from(x), y(DType::F32, std::vector<double>(kCount));
    const absl::Status status = Simulate(
        k, {from.buffer(initialized.data()), in_place ? from.buffer() : y.buffer()}, {kCount});
    result = in_place ? from.values() : y.values();
    return Message(status);
  };
  const auto statement = [](auto node) { return kernel::Stmt{std::move(node)}; };
  const auto away = [](Parts p) { return 252 - 4 * p.thread; };
  EXPECT_EQ(with([](Parts) {}), "");

  // Nobody reads before the wait.
  EXPECT_THAT(with([&](Parts p) { std::swap(p.loop[0], p.loop[1]); }),
              AllOf(HasSubstr("statement 2 (f[0 :+4] = load shared.s[4*thread :+4]"),
                    HasSubstr("element 0 of shared array s is brought by a load for which thread 0 "
                              "has not waited")));
  EXPECT_THAT(with([&](Parts p) {
                p.load.index = away(p);
                p.loop[0] = statement(CtaSync{});
                p.loop.push_back(statement(AwaitLoads{}));
              }),
              HasSubstr("is brought by a load for which thread 63 has not waited"));
  // Others read behind a barrier after the wait, and are waited for before the next load.
  EXPECT_THAT(with([&](Parts p) { p.load.index = away(p); }),
              HasSubstr("race on element 252 of shared array s: read here, written by thread 63"));
  EXPECT_THAT(with([&](Parts p) {
                p.load.index = away(p);
                p.loop.insert(p.loop.begin(), statement(CtaSync{}));  // Too early.
              }),
              HasSubstr("race on element 252 of shared array s: read here, written by thread 63"));
  EXPECT_THAT(with([&](Parts p) {
                p.load.index = away(p);
                p.loop.insert(p.loop.begin() + 1, statement(CtaSync{}));
              }),
              HasSubstr("race on element 0 of shared array s: copied here, read by thread 63"));
  EXPECT_EQ(with([&](Parts p) {
              p.load.index = away(p);
              p.loop.insert(p.loop.begin() + 2, statement(CtaSync{}));
              p.loop.insert(p.loop.begin() + 1, statement(CtaSync{}));
            }),
            "");
  EXPECT_EQ(result[0], x.at(252));
  // Nobody writes there meanwhile, the loading thread and its next loads neither.
  const std::string not_waited = "is brought by a load for which thread 0 has not waited";
  EXPECT_THAT(with([&](Parts p) {
                Store store = p.store;
                store.space = Space::Shared;
                store.array = 0;
                store.index = 4 * p.thread;
                p.loop.insert(p.loop.begin() + 3, statement(store));
              }),
              AllOf(HasSubstr("statement 5 (store shared.s"), HasSubstr(not_waited)));
  EXPECT_THAT(with([&](Parts p) { p.loop.insert(p.loop.begin() + 2, p.loop[2]); }),
              AllOf(HasSubstr("statement 5 (begin load"), HasSubstr(not_waited)));
  EXPECT_THAT(with([](Parts p) { p.next.to = 0; }),
              AllOf(HasSubstr("CTA 0, thread 1"), HasSubstr(not_waited)));

  // Addresses.
  EXPECT_THAT(with([](Parts p) { p.first.from += 1; }),
              HasSubstr("element 1 of buffer x is no multiple of the vector's 4 elements"));
  EXPECT_THAT(with([](Parts p) { p.first.to += 2; }),
              HasSubstr("element 2 of shared array s is no multiple of the vector's 4 elements"));
  EXPECT_THAT(with([](Parts p) { p.next.predicate = 1; }),
              AllOf(HasSubstr("statement 4"), HasSubstr("turn = 1"),
                    HasSubstr("element 1024 (4 wide) is outside buffer x of 1024")));
  EXPECT_THAT(with([](Parts p) { p.first.to += 4; }),
              AllOf(HasSubstr("CTA 0, thread 63"),
                    HasSubstr("element 256 (4 wide) is outside shared array s of 256")));

  // Every thread waits, in the phase.
  const auto again = [](Parts p) {
    p.next.predicate = 1;
    p.next.from = p.first.from;
  };
  const auto ends = HasSubstr(
      "CTA 0, thread 0: it ends before it has waited for a load that statement 4 has begun");
  EXPECT_THAT(with(again), ends);
  EXPECT_THAT(with([&](Parts p) {
                again(p);
                p.body.push_back(statement(GridSync{}));
                p.body.push_back(statement(AwaitLoads{}));
              }),
              ends);
  EXPECT_THAT(with([&](Parts p) {
                again(p);
                p.body.push_back(statement(If{SymLt(p.thread, 5), {statement(AwaitLoads{})}, {}}));
              }),
              HasSubstr("CTA 0, thread 5: it ends before"));

  // What is loaded has been written, and stays as it is.
  initialized[517] = 0;
  EXPECT_THAT(with([](Parts) {}),
              AllOf(HasSubstr("statement 4"), HasSubstr("thread 1, turn = 0"),
                    HasSubstr("copies element 517 of buffer x, which nothing has written")));
  initialized[517] = 1;
  in_place = true;
  EXPECT_EQ(with([](Parts) {}), "");
  EXPECT_THAT(with([](Parts p) {
                p.store.index = p.next.from;
                p.store.predicate = p.next.predicate;
              }),
              AllOf(HasSubstr("statement 2 (await loads)"),
                    HasSubstr("element 512 of buffer x has changed since statement 4 began to "
                              "load it")));
}

// CTAs of a cluster tell each other numbers; whatever is left out is missed.
TEST(SimulatorFaultTest, Clusters) {
  const auto simulate = [](const Kernel& k) {
    Tensor y(DType::I32, std::vector<double>(3 * 4 * 64));
    const absl::Status status = Simulate(k, {y.buffer()}, {}, {.require_all_written = true});
    if (status.ok()) {
      EXPECT_EQ(y.at(0), 0);
      EXPECT_EQ(y.at(3), 3);  // The other CTA's second warp.
      EXPECT_EQ(y.at((2 * 4 + 2) * 64 + 1), 2 + 2 * 2 + 1);
    }
    return Message(status);
  };
  using Body = kernel::Block;
  SymInt turn;
  const auto without = [&](auto edit) {
    Kernel k = ClusterKernel(DType::I32, 2, 2, 3);
    For& loop = std::get<For>(k.body[1].node);
    turn = loop.symbol;
    edit(k.body, loop.body);
    return simulate(k);
  };
  const auto store = [](Body & loop) -> auto& {
    return std::get<kernel::RemoteStore>(loop[1].node);
  };
  const auto await = [](Body & loop) -> auto& {
    return std::get<kernel::AwaitStores>(loop[2].node);
  };
  EXPECT_EQ(without([](Body&, Body&) {}), "");
  EXPECT_THAT(without([](Body& body, Body&) { body[0].node = CtaSync{}; }),
              HasSubstr("may not have begun"));
  EXPECT_THAT(without([](Body&, Body& loop) { loop[2].node = kernel::ClusterSync{}; }),
              HasSubstr("race on element"));
  EXPECT_THAT(without([](Body&, Body& loop) { loop.erase(loop.begin() + 2, loop.end()); }),
              HasSubstr("may end before what CTAs store to each other has come"));
  EXPECT_THAT(without([&](Body&, Body& loop) { await(loop).bytes = 8; }),
              HasSubstr("waits for 8 bytes in round 0; in round 0 come 16"));
  EXPECT_THAT(without([&](Body&, Body& loop) { await(loop).round += 1; }),
              HasSubstr("in round 1; in round 0"));
  EXPECT_THAT(without([&](Body&, Body& loop) { store(loop).cta = 0; }),
              HasSubstr("race on element"));
  EXPECT_THAT(without([&](Body&, Body& loop) {
                store(loop).barrier = await(loop).barrier = 0;
                await(loop).round = turn;
              }),
              HasSubstr("may still wait for the last ones"));
}

// A CTA reads, a later one reads too and then overwrites what both read.
TEST(SimulatorFaultTest, ReadersOfSeveralCtas) {
  KernelDraft d("readers", 32);
  d.SetGrid(2);
  const int w = d.Buffer("w", DType::F32, 32, true);
  const int f = d.Fragment("f", DType::F32);
  Emit(&d.k.body, Load{f, 0, 1, Space::Global, w, d.thread});
  If last{SymEq(d.block, 1), {}, {}};
  Emit(&last.body, Store{f, 0, 1, Space::Global, w, d.thread});
  Emit(&d.k.body, std::move(last));
  Tensor work(DType::F32, std::vector<double>(32));
  EXPECT_THAT(Message(Simulate(d.k, {work.buffer()}, {})),
              HasSubstr("written here, read by thread 0 of several CTAs"));
}

// The same memory under two names is one memory; a partial overlap is refused.
TEST(SimulatorFaultTest, AliasedBuffers) {
  const Kernel k = VectorCopyKernel(DType::F32, 1);
  Tensor x(DType::F32, Ramp(200));
  EXPECT_TRUE(Simulate(k, {x.buffer(), x.buffer()}, {200}).ok());
  Kernel reversed = k;
  auto& branch = std::get<If>(reversed.body[0].node);
  auto& load = std::get<Load>(branch.body[0].node);
  load.index = reversed.parameters[0] - 1 - load.index;
  EXPECT_THAT(Message(Simulate(reversed, {x.buffer(), x.buffer()}, {200})),
              HasSubstr("race on element"));
  SimBuffer overlapping = x.buffer();
  overlapping.data = x.data() + 16;
  overlapping.num_elements = 100;
  EXPECT_THAT(Message(Simulate(k, {overlapping, x.buffer()}, {100})),
              HasSubstr("overlaps buffer x in part"));
}

TEST(SimulatorFaultTest, DivergentBarrierAndShuffle) {
  // A condition that only memory knows: the verifier cannot refuse it.
  for (const bool barrier : {true, false}) {
    for (const int64_t border : {0, 5, 32, 64}) {
      Probe p(DType::F32, 64);
      const int at = p.d.Buffer("at", DType::I64, 64, false);
      const int index = p.d.Fragment("index", DType::I64);
      const SymInt flag = p.d.Symbol("flag", 2);
      Emit(&p.d.k.body, Map{OpKind::Copy, p.f, 0, {Operand::Const(DType::F32, FloatScalar(1))}});
      Emit(&p.d.k.body, Load{index, 0, 1, Space::Global, at, p.d.thread});
      Emit(&p.d.k.body, LetSymbol{flag, Operand::Reg(index)});
      If some{SymEq(flag, 1), {}, {}};
      if (barrier) {
        Emit(&some.body, CtaSync{});
      } else {
        Emit(&some.body, ShuffleXor{p.f, 0, Operand::Reg(p.f), 1});
      }
      Emit(&p.d.k.body, std::move(some));
      std::vector<double> flags(64);
      for (int t = 0; t < 64; ++t) flags[t] = t < border;
      p.inputs = {Tensor(DType::I64, flags)};
      std::vector<double> result;
      const absl::Status status = p.Run(&result);
      const bool fine = border == 0 || border == 64 || (!barrier && border == 32);
      EXPECT_EQ(status.ok(), fine) << status;
      if (!fine) {
        EXPECT_THAT(Message(status),
                    AllOf(HasSubstr("statement 4"),
                          HasSubstr(barrier ? "a barrier that only" : "a shuffle that not all")));
      }
    }
  }
}

TEST(SimulatorFaultTest, ArithmeticLeaves32Bits) {
  for (const bool index32 : {false, true}) {
    Probe p(DType::I64);
    p.d.k.index32 = index32;
    const SymInt n = p.d.Parameter("n", 0, int64_t{1} << 40);
    Emit(&p.d.k.body, IndexValue{p.f, 0, FloorDiv(p.d.thread * n, 1000)});
    p.parameters = {(int64_t{1} << 31) / 31 - 1};
    std::vector<double> result;
    const kernel::Block body = p.d.k.body;
    EXPECT_TRUE(p.Run(&result).ok());
    p.d.k.body = body;
    p.parameters = {(int64_t{1} << 31) / 31 + 1};
    const absl::Status status = p.Run(&result);
    EXPECT_EQ(status.ok(), !index32);
    if (index32) {
      EXPECT_THAT(Message(status), AllOf(HasSubstr("thread 31"), HasSubstr("beyond the 32 bits")));
    } else {
      EXPECT_EQ(result[31], 31 * p.parameters[0] / 1000);
    }
  }
}

TEST(SimulatorFaultTest, DivisionByZeroAndOverflow) {
  Probe p(DType::I64);
  const SymInt n = p.d.Parameter("n", 0, INT64_MAX);
  Emit(&p.d.k.body, IndexValue{p.f, 0, FloorDiv(p.d.thread, n)});
  p.parameters = {0};
  std::vector<double> result;
  EXPECT_THAT(Message(p.Run(&result)), HasSubstr("divides by zero"));
  p.d.k.body.clear();
  Emit(&p.d.k.body, IndexValue{p.f, 0, n * p.d.thread});
  p.parameters = {int64_t{1} << 60};
  EXPECT_THAT(Message(p.Run(&result)),
              AllOf(HasSubstr("thread 8"), HasSubstr("overflows 64 bits")));
}

TEST(SimulatorFaultTest, StepBudget) {
  Probe p(DType::I64);
  const SymInt i = p.d.Symbol("i", int64_t{1} << 60);
  For loop{i, int64_t{1} << 60, false, {}};
  Emit(&p.d.k.body, IndexValue{p.f, 0, 0});
  Emit(&p.d.k.body, std::move(loop));
  std::vector<double> result;
  const absl::Status status = p.Run(&result, {.max_steps = 100000});
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
}

TEST(SimulatorFaultTest, LoopLeavesItsSymbolsRange) {
  Probe p(DType::I64);
  const SymInt n = p.d.Parameter("n", 0, 100), i = p.d.Symbol("i", n);
  For loop{i, n + 1, false, {}};
  Emit(&loop.body, IndexValue{p.f, 0, i});
  Emit(&p.d.k.body, std::move(loop));
  p.parameters = {3};
  std::vector<double> result;
  EXPECT_THAT(Message(p.Run(&result)), HasSubstr("i = 3 is outside its declared range 0..2"));
}

TEST(SimulatorFaultTest, NotAllWritten) {
  const Kernel k = VectorCopyKernel(DType::F32, 4);
  Kernel shorter = k;
  std::get<If>(shorter.body[0].node).otherwise.clear();
  Tensor x(DType::F32, Ramp(130)), y(DType::F32, Ramp(130));
  EXPECT_TRUE(Simulate(shorter, {x.buffer(), y.buffer()}, {130}).ok());
  EXPECT_THAT(
      Message(Simulate(shorter, {x.buffer(), y.buffer()}, {130}, {.require_all_written = true})),
      HasSubstr("no thread writes element 128 of buffer y of 130"));
}

TEST(SimulatorFaultTest, WrongArguments) {
  const Kernel k = VectorCopyKernel(DType::F32, 4);
  Tensor x(DType::F32, Ramp(10)), y(DType::F32, Ramp(10)), half(DType::F16, Ramp(10));
  const auto code = [](const absl::Status& s) { return s.code(); };
  const auto invalid = absl::StatusCode::kInvalidArgument;
  EXPECT_EQ(code(Simulate(k, {x.buffer()}, {10})), invalid);
  EXPECT_EQ(code(Simulate(k, {x.buffer(), y.buffer()}, {})), invalid);
  EXPECT_EQ(code(Simulate(k, {x.buffer(), y.buffer()}, {11})), invalid);
  EXPECT_EQ(code(Simulate(k, {x.buffer(), y.buffer()}, {-1})), invalid);
  EXPECT_EQ(code(Simulate(k, {half.buffer(), y.buffer()}, {10})), invalid);
  SimBuffer read_only = y.buffer();
  read_only.read_only = true;
  EXPECT_EQ(code(Simulate(k, {x.buffer(), read_only}, {10})), invalid);
  EXPECT_TRUE(Simulate(k, {read_only, x.buffer()}, {10}).ok());
  SimBuffer null = x.buffer();
  null.data = nullptr;
  EXPECT_EQ(code(Simulate(k, {null, y.buffer()}, {10})), invalid);
  EXPECT_TRUE(Simulate(k, {null, y.buffer()}, {0}).ok());
}

// --- Planted bugs ---

// A bug counts as found if the simulator reports it or the results differ.
struct Hunt {
  int planted = 0, reported = 0, wrong = 0;
  std::vector<std::string> missed;
};

Hunt HuntBugs(const Kernel& k, std::vector<std::vector<int64_t>> sizes,
              const std::function<std::vector<Tensor>(const std::vector<int64_t>&)>& make) {
  Hunt hunt;
  for (const Mutation mutation : {Mutation::RemoveBarrier, Mutation::ShiftIndex,
                                  Mutation::DropPredicate, Mutation::ChangeShuffleMask}) {
    for (int i = 0;; ++i) {
      const std::optional<Kernel> mutant = Mutate(k, mutation, i);
      if (!mutant) break;
      ++hunt.planted;
      bool reported = false, wrong = false;
      for (const std::vector<int64_t>& size : sizes) {
        std::vector<Tensor> good = make(size), bad = make(size);
        std::vector<SimBuffer> good_buffers, bad_buffers;
        for (Tensor& t : good) good_buffers.push_back(t.buffer());
        for (Tensor& t : bad) bad_buffers.push_back(t.buffer());
        const absl::Status reference =
            Simulate(k, good_buffers, size, {.require_all_written = true});
        EXPECT_TRUE(reference.ok()) << reference;
        reported |= !Simulate(*mutant, bad_buffers, size, {.require_all_written = true}).ok();
        for (size_t t = 0; t < good.size(); ++t) wrong |= good[t].values() != bad[t].values();
      }
      hunt.reported += reported;
      hunt.wrong += !reported && wrong;
      if (!reported && !wrong) hunt.missed.push_back(PrintKernel(*mutant));
    }
  }
  return hunt;
}

TEST(PlantedBugTest, RowSum) {
  const Hunt hunt = HuntBugs(
      RowSumKernel(DType::F32, 4), {{3, 1000}, {2, 4}}, [](const std::vector<int64_t>& size) {
        return std::vector<Tensor>{Tensor(DType::F32, Ramp(size[0] * size[1])),
                                   Tensor(DType::F32, std::vector<double>(size[0]))};
      });
  EXPECT_GE(hunt.planted, 15);
  EXPECT_TRUE(hunt.missed.empty())
      << hunt.missed.size() << " missed of " << hunt.planted << ", the first:\n"
      << hunt.missed[0];
}

TEST(PlantedBugTest, VectorCopy) {
  const Hunt hunt = HuntBugs(
      VectorCopyKernel(DType::BF16, 8), {{1003}, {2048}}, [](const std::vector<int64_t>& size) {
        return std::vector<Tensor>{Tensor(DType::BF16, Ramp(size[0])),
                                   Tensor(DType::BF16, std::vector<double>(size[0]))};
      });
  EXPECT_EQ(hunt.planted, 7);
  EXPECT_EQ(hunt.reported, 7);
}

TEST(PlantedBugTest, LoadsAhead) {
  const Hunt hunt = HuntBugs(
      LoadsAheadKernel(DType::F32, 4, 2), {{1028}, {4}}, [](const std::vector<int64_t>& size) {
        return std::vector<Tensor>{Tensor(DType::F32, Ramp(size[0])),
                                   Tensor(DType::F32, std::vector<double>(size[0]))};
      });
  EXPECT_EQ(hunt.planted, 9);  // A wait; four indices and predicates.
  EXPECT_TRUE(hunt.missed.empty()) << hunt.missed[0];
}

TEST(PlantedBugTest, ColumnSum) {
  const Hunt hunt = HuntBugs(ColumnSumKernel(), {{9, 45}}, [](const std::vector<int64_t>& size) {
    return std::vector<Tensor>{Tensor(DType::F32, Ramp(size[0] * size[1])),
                               Tensor(DType::F32, std::vector<double>(size[1]))};
  });
  EXPECT_EQ(hunt.planted, 7);
  EXPECT_TRUE(hunt.missed.empty()) << hunt.missed[0];
}

}  // namespace
}  // namespace seam::testing
