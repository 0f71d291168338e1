// The printer and every rule of the verifier of the thread-level kernel IR; kernels in phases.
#include "scheduler/kernel/kernel_ir.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "scheduler/kernel/join.h"
#include "tests/support/sample_kernels.h"

namespace seam::testing {
namespace {

using kernel::Block;
using kernel::Comment;
using kernel::CtaSync;
using kernel::For;
using kernel::GridSync;
using kernel::If;
using kernel::IndexValue;
using kernel::InPhases;
using kernel::Kernel;
using kernel::LetSymbol;
using kernel::Load;
using kernel::Map;
using kernel::Operand;
using kernel::Random;
using kernel::ShuffleXor;
using kernel::Space;
using kernel::Stmt;
using kernel::Store;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

const Operand kOne = Operand::Const(DType::F32, FloatScalar(1));

TEST(PrintKernelTest, NumbersStatementsInPreOrder) {
  EXPECT_EQ(
      PrintKernel(VectorCopyKernel(DType::BF16, 8, kernel::CacheHint::Streaming)),
      "kernel vector_copy\n"
      "  grid (n + 1023)//1024 (block) threads 128 (thread)\n"
      "  parameter n\n"
      "  buffer x: bf16[n] align 16\n"
      "  buffer y: bf16[n] align 16 written\n"
      "  fragment f: bf16[8]\n"
      "   0: if 8*thread + 1024*block + 7 < n\n"
      "   1:   f[0 :+8] = load x[8*thread + 1024*block :+8] streaming\n"
      "   2:   store y[8*thread + 1024*block :+8] = f[0 :+8] streaming\n"
      "      else\n"
      "   3:   for v in 0..8 unrolled\n"
      "   4:     f[v] = load x[8*thread + 1024*block + v] if 8*thread + 1024*block + v < n else 0\n"
      "   5:     store y[8*thread + 1024*block + v] = f[v] if 8*thread + 1024*block + v < n\n");
}

TEST(PrintKernelTest, EveryStatement) {
  KernelDraft d("all");
  d.k.summary = "First line.\nSecond line.";
  const int f = d.Fragment("f", DType::F64), i = d.Fragment("i", DType::I64);
  d.Shared("s", DType::I8, 5);
  const SymInt let = d.Symbol("let", 10);
  Emit(&d.k.body, Comment{"two\nlines"});
  Emit(&d.k.body, Map{OpKind::Add,
                      f,
                      0,
                      {Operand::Reg(f), Operand::Const(DType::F64, FloatScalar(-INFINITY))}});
  Emit(&d.k.body, IndexValue{i, 0, d.thread});
  Emit(&d.k.body, LetSymbol{let, Operand::Reg(i)});
  Emit(&d.k.body, Random{OpKind::RandomNormal, f, 0, Operand::Reg(i),
                         Operand::Const(DType::I64, IntScalar(3)), let});
  Emit(&d.k.body, ShuffleXor{f, 0, Operand::Reg(f), 4});
  Emit(&d.k.body, CtaSync{});
  Emit(&d.k.body, GridSync{});
  EXPECT_THAT(
      PrintKernel(d.k),
      AllOf(HasSubstr("  # First line.\n  # Second line.\n"), HasSubstr("  shared s: i8[5]\n"),
            HasSubstr("   0: # two lines\n"
                      "   1: f[0] = add(f[0], f64 -inf)\n"
                      "   2: i[0] = index thread\n"
                      "   3: let let = i[0]\n"
                      "   4: f[0] = random_normal(seed i[0], offset i64 3, element let)\n"
                      "   5: f[0] = shuffle_xor(f[0], 4)\n"
                      "   6: barrier\n"
                      "   7: barrier of the grid\n")));
}

// Prints what the verifier would refuse, too.
TEST(PrintKernelTest, UnknownNames) {
  KernelDraft d("bad");
  Emit(&d.k.body, Load{3, 0, 1, Space::Shared, 7, SymInt::Invalid()});
  EXPECT_THAT(PrintKernel(d.k), HasSubstr("<fragment 3>[0] = load shared.<array 7>[<invalid>]"));
}

TEST(VerifyKernelTest, Samples) {
  for (const Kernel& k :
       {RowSumKernel(DType::BF16, 8), RowSumKernel(DType::F32, 1), ColumnSumKernel(),
        VectorCopyKernel(DType::I8, 16),
        VectorCopyKernel(DType::F16, 8, kernel::CacheHint::EvictLast, true), ExchangeKernel(3),
        TicketKernel(3, 20), LoadsAheadKernel(DType::BF16, 8, 3),
        MakeRandomIndexKernel(1, false).kernel}) {
    EXPECT_TRUE(VerifyKernel(k).ok()) << VerifyKernel(k);
  }
}

TEST(SharedMemoryTest, ArraysAreAlignedTo16Bytes) {
  KernelDraft d("shared");
  d.Shared("a", DType::I8, 5);
  d.Shared("b", DType::F32, 4);
  d.Shared("c", DType::F64, 3);
  EXPECT_EQ(d.k.SharedOffset(0), 0);
  EXPECT_EQ(d.k.SharedOffset(1), 16);
  EXPECT_EQ(d.k.SharedOffset(2), 32);
  EXPECT_EQ(d.k.SharedBytes(), 64);
}

// A small kernel with something of everything, to be broken.
struct Victim : KernelDraft {
  Victim() : KernelDraft("victim") {
    n = Parameter("n", 0, 1000);
    x = Buffer("x", DType::F32, n, false, 8);
    y = Buffer("y", DType::F32, n, true);
    shared = Shared("s", DType::F32, 64);
    f = Fragment("f", DType::F32, 4);
    i = Fragment("i", DType::I64);
    loop = Symbol("loop", 4);
    let = Symbol("let", 10);
  }
  std::string Error() {
    const absl::Status status = VerifyKernel(k);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << PrintKernel(k);
    return std::string(status.message());
  }
  template <typename Node>
  std::string ErrorOf(Node node) {
    k.body.clear();
    Emit(&k.body, Comment{"first"});
    Emit(&k.body, std::move(node));
    const std::string error = Error();
    EXPECT_THAT(error, HasSubstr("kernel victim, statement 1 ("));
    return error;
  }
  std::shared_ptr<ShapeEnv> symbols = k.env;  // Outlives what a test does to the kernel.
  SymInt n, loop, let;
  int x, y, shared, f, i;
};

TEST(VerifyKernelTest, Header) {
  const auto error = [](const std::function<void(Victim*)>& change) {
    Victim v;
    EXPECT_TRUE(VerifyKernel(v.k).ok()) << VerifyKernel(v.k);
    change(&v);
    return v.Error();
  };
  for (const char* name : {"", "a b", "1st", "a-b"}) {
    EXPECT_THAT(error([&](Victim* v) { v->k.name = name; }),
                HasSubstr("the name is no C identifier"));
  }
  EXPECT_THAT(error([](Victim* v) { v->k.env = nullptr; }), HasSubstr("no environment"));
  EXPECT_THAT(error([](Victim* v) { v->k.env = std::make_shared<ShapeEnv>(); }),
              HasSubstr("no symbol of the kernel's environment"));
  for (const int threads : {0, -32, 31, 48, 1056}) {
    EXPECT_THAT(error([&](Victim* v) { v->k.threads = threads; }),
                HasSubstr("expected a multiple of 32"));
  }
  EXPECT_THAT(error([](Victim* v) { v->k.threads = 256; }),
              HasSubstr("thread_x is declared as 0..127"));
  EXPECT_THAT(error([](Victim* v) { v->k.parameters.push_back(v->n); }),
              HasSubstr("symbol n is bound twice"));
  EXPECT_THAT(error([](Victim* v) { v->k.parameters.push_back(v->n + 1); }),
              HasSubstr("is no symbol"));
  EXPECT_THAT(error([](Victim* v) { v->k.parameters.clear(); }),
              HasSubstr("uses symbol n, which is not bound here"));
  EXPECT_THAT(error([](Victim* v) { v->k.grid_x = v->block; }),
              HasSubstr("only parameters are known"));
  EXPECT_THAT(error([](Victim* v) { v->k.grid_x = SymInt::Invalid(); }),
              HasSubstr("grid_x is an invalid expression"));
  EXPECT_THAT(error([](Victim* v) { v->k.min_ctas_per_sm = -1; }), HasSubstr("negative"));
  EXPECT_THAT(error([](Victim* v) { v->k.buffers[0].num_elements = v->thread; }),
              HasSubstr("num_elements of buffer x"));
  for (const int alignment : {0, 3, -4}) {
    EXPECT_THAT(error([&](Victim* v) { v->k.buffers[0].alignment_bytes = alignment; }),
                HasSubstr("expected a power of two"));
  }
  EXPECT_THAT(error([](Victim* v) { v->k.fragments[0].count = 0; }),
              HasSubstr("fragment f has 0 slots"));
  EXPECT_THAT(error([](Victim* v) { v->k.shared[0].count = 0; }),
              HasSubstr("shared array s has 0 elements"));
  EXPECT_THAT(error([](Victim* v) { v->k.shared[0].count = INT64_MAX; }),
              HasSubstr("shared array s has"));
}

TEST(VerifyKernelTest, AccessesAndSlots) {
  Victim v;
  EXPECT_THAT(v.ErrorOf(Load{9, 0, 1, Space::Global, v.x, 0}), HasSubstr("no fragment 9"));
  EXPECT_THAT(v.ErrorOf(Load{-1, 0, 1, Space::Global, v.x, 0}), HasSubstr("no fragment -1"));
  EXPECT_THAT(v.ErrorOf(kernel::AwaitLoaded{{v.f, 9}}), HasSubstr("no fragment 9"));
  EXPECT_THAT(v.ErrorOf(kernel::AwaitLoaded{{}}), HasSubstr("waits for no fragment"));
  EXPECT_THAT(v.ErrorOf(Load{v.f, 0, 1, Space::Global, 2, 0}), HasSubstr("no buffer 2"));
  EXPECT_THAT(v.ErrorOf(Load{v.f, 0, 1, Space::Shared, 1, 0}), HasSubstr("no shared array 1"));
  for (const int width : {0, -1, 3}) {
    EXPECT_THAT(v.ErrorOf(Load{v.f, 0, width, Space::Global, v.x, 0}),
                HasSubstr("no power of two"));
  }
  EXPECT_THAT(v.ErrorOf(Load{v.f, 4, 1, Space::Global, v.x, 0}),
              HasSubstr("slot 4 (1 wide) is outside fragment f of 4"));
  EXPECT_THAT(v.ErrorOf(Load{v.f, -1, 1, Space::Global, v.x, 0}),
              HasSubstr("slot -1 (1 wide) is outside"));
  EXPECT_THAT(v.ErrorOf(Load{v.f, 3, 2, Space::Global, v.x, 0}),
              HasSubstr("slot 3 (2 wide) is outside"));
  EXPECT_THAT(v.ErrorOf(Load{v.f, 0, 4, Space::Global, v.x, 0}),
              HasSubstr("a vector of 16 bytes in buffer x, which is aligned to 8"));
  Load inside{v.f, 0, 2, Space::Global, v.x, 0};
  inside.start = kernel::Start::Inside;
  EXPECT_THAT(v.ErrorOf(inside), HasSubstr("an access inside x of 8 bytes"));
  inside.width = 4;
  inside.array = v.y;
  EXPECT_THAT(v.ErrorOf(inside),
              HasSubstr("an access inside y of 16 bytes, which the kernel writes"));
  inside.space = Space::Shared;
  inside.array = 0;
  EXPECT_THAT(v.ErrorOf(inside), HasSubstr("an unaligned access of 4 elements of f32"));
  EXPECT_THAT(v.ErrorOf(Load{v.i, 0, 1, Space::Global, v.x, 0}),
              HasSubstr("fragment i is i64, the value is f32"));
  EXPECT_THAT(v.ErrorOf(Load{v.f, v.thread, 1, Space::Global, v.x, 0}),
              HasSubstr("which is not of an unrolled loop"));
  EXPECT_THAT(v.ErrorOf(Load{v.f, 0, 1, Space::Global, v.x, v.loop}),
              HasSubstr("uses symbol loop, which is not bound here"));
  EXPECT_THAT(v.ErrorOf(Load{v.f, 0, 1, Space::Global, v.x, SymInt::Invalid()}),
              HasSubstr("index is an invalid expression"));
  EXPECT_THAT(v.ErrorOf(Load{v.f, 0, 1, Space::Global, v.x, 0, SymLt(v.let, 3)}),
              HasSubstr("predicate let <= 2 uses symbol let"));
  EXPECT_THAT(v.ErrorOf(Store{v.f, 0, 1, Space::Global, v.x, 0}),
              HasSubstr("buffer x is not marked as written"));
  ShapeEnv other;
  EXPECT_THAT(v.ErrorOf(Store{v.f, 0, 1, Space::Global, v.y, other.FreshSymbol("q", 0, 1)}),
              HasSubstr("belongs to another environment"));
}

TEST(VerifyKernelTest, Types) {
  Victim v;
  EXPECT_THAT(v.ErrorOf(Map{OpKind::Add, v.f, 0, {kOne}}),
              HasSubstr("add: 1 operand given, 2 expected"));
  EXPECT_THAT(v.ErrorOf(Map{OpKind::Add, v.f, 0, {kOne, Operand::Reg(v.i)}}),
              HasSubstr("operand 2 is i64"));
  EXPECT_THAT(v.ErrorOf(Map{OpKind::Lt, v.f, 0, {kOne, kOne}}),
              HasSubstr("fragment f is f32, the value is bool"));
  EXPECT_THAT(v.ErrorOf(Map{OpKind::Sum, v.f, 0, {kOne}}), HasSubstr("no elementwise operation"));
  EXPECT_THAT(v.ErrorOf(Map{OpKind::Cast, v.f, 0, {kOne, kOne}}),
              HasSubstr("a cast takes one operand"));
  EXPECT_THAT(v.ErrorOf(LetSymbol{v.let, kOne}), HasSubstr("expected an integer"));
  EXPECT_THAT(v.ErrorOf(ShuffleXor{v.i, 0, kOne, 1}),
              HasSubstr("fragment i is i64, the value is f32"));
  for (const int mask : {0, 32, -1}) {
    EXPECT_THAT(v.ErrorOf(ShuffleXor{v.f, 0, kOne, mask}), HasSubstr("is not in 1..31"));
  }
  const Operand seed = Operand::Reg(v.i);
  EXPECT_THAT(v.ErrorOf(Random{OpKind::RandomUniform, v.f, 0, kOne, seed, 0}),
              HasSubstr("seed and offset are i64, not f32"));
  EXPECT_THAT(v.ErrorOf(Random{OpKind::RandomUniform, v.i, 0, seed, seed, 0}),
              HasSubstr("the result is a float"));
  EXPECT_THAT(v.ErrorOf(Random{OpKind::Add, v.f, 0, seed, seed, 0}),
              HasSubstr("gives no random numbers"));
}

TEST(VerifyKernelTest, SymbolsAndLoops) {
  Victim v;
  EXPECT_THAT(v.ErrorOf(For{v.loop, v.n, true, {}}),
              HasSubstr("an unrolled loop needs a constant extent"));
  EXPECT_THAT(v.ErrorOf(For{v.loop, v.loop, false, {}}),
              HasSubstr("uses symbol loop, which is not bound here"));
  EXPECT_THAT(v.ErrorOf(For{v.loop, 5, false, {}}), HasSubstr("leaves the declared range 0..3"));
  EXPECT_THAT(v.ErrorOf(For{v.thread, 3, false, {}}), HasSubstr("symbol thread is bound twice"));
  EXPECT_THAT(v.ErrorOf(For{v.loop + 1, 3, false, {}}), HasSubstr("is no symbol"));
  EXPECT_THAT(v.ErrorOf(For{7, 3, false, {}}), HasSubstr("7 is no symbol"));

  // A symbol may be bound again after its loop, not inside it; a LetSymbol holds to the end of its
  // block.
  v.k.body.clear();
  For loop{v.loop, 4, true, {}};
  Emit(&loop.body, IndexValue{v.f, v.loop, v.loop});
  Emit(&v.k.body, loop);
  Emit(&v.k.body, loop);
  EXPECT_TRUE(VerifyKernel(v.k).ok()) << VerifyKernel(v.k);
  Emit(&v.k.body, IndexValue{v.i, 0, v.loop});
  EXPECT_THAT(v.Error(), HasSubstr("statement 4"));
  v.k.body.clear();
  For twice{v.loop, 4, true, {}};
  Emit(&twice.body, loop);
  Emit(&v.k.body, twice);
  EXPECT_THAT(v.Error(), AllOf(HasSubstr("statement 1"), HasSubstr("bound twice")));

  v.k.body.clear();
  If branch{SymLt(v.thread, 3), {}, {}};
  Emit(&branch.body, IndexValue{v.i, 0, 3});
  Emit(&branch.body, LetSymbol{v.let, Operand::Reg(v.i)});
  Emit(&branch.body, IndexValue{v.i, 0, v.let});
  Emit(&v.k.body, branch);
  Emit(&v.k.body, branch);
  EXPECT_TRUE(VerifyKernel(v.k).ok()) << VerifyKernel(v.k);
  Emit(&v.k.body, IndexValue{v.i, 0, v.let});
  EXPECT_THAT(v.Error(), AllOf(HasSubstr("statement 8"), HasSubstr("uses symbol let")));

  // No slot may hang on a loop that stays a loop.
  For serial{v.loop, 4, false, {}};
  Emit(&serial.body, IndexValue{v.f, v.loop, 0});
  v.k.body.clear();
  Emit(&v.k.body, serial);
  EXPECT_THAT(v.Error(), HasSubstr("which is not of an unrolled loop"));
}

TEST(VerifyKernelTest, Convergence) {
  struct Case {
    std::function<SymInt(const Victim&)> condition;
    bool barrier, shuffle;
  };
  const Case cases[] = {
      {[](const Victim& v) { return SymLt(v.thread, 5); }, false, false},
      {[](const Victim& v) { return SymLt(v.thread, 32); }, false, true},
      {[](const Victim& v) { return SymEq(FloorDiv(v.thread, 64), 0); }, false, true},
      {[](const Victim& v) {
         return SymAnd(SymEq(FloorDiv(v.thread, 32), 1), SymLt(v.block, v.n));
       },
       false, true},
      {[](const Victim& v) { return SymLt(FloorDiv(v.thread, 32) * 7, v.n); }, false, true},
      {[](const Victim& v) { return SymLt(v.thread + v.block, v.n); }, false, false},
      {[](const Victim& v) { return SymLt(v.block, v.n); }, true, true},
  };
  for (const Case& c : cases) {
    for (const bool loop : {false, true}) {
      for (const bool barrier : {false, true}) {
        Victim v;
        Block body;
        if (barrier) {
          Emit(&body, CtaSync{});
        } else {
          Emit(&body, ShuffleXor{v.f, 0, kOne, 16});
        }
        if (loop) {
          Emit(&v.k.body, For{v.loop, c.condition(v), false, body});
        } else {
          Emit(&v.k.body, If{c.condition(v), {}, body});
        }
        const absl::Status status = VerifyKernel(v.k);
        EXPECT_EQ(status.ok(), barrier ? c.barrier : c.shuffle) << status << PrintKernel(v.k);
        if (!status.ok()) {
          EXPECT_THAT(std::string(status.message()),
                      HasSubstr(barrier ? "a barrier below" : "a shuffle below"));
        }
      }
    }
  }
}

TEST(VerifyKernelTest, PhasesShareNothingButMemory) {
  const auto error = [](auto before, auto behind) {
    Victim v;
    before(v);
    Emit(&v.k.body, GridSync{});
    behind(v);
    return std::string(VerifyKernel(v.k).message());
  };
  const auto load = [](Victim& v) { Emit(&v.k.body, Load{v.f, 0, 1, Space::Global, v.x, 0}); };
  const auto index = [](Victim& v) { Emit(&v.k.body, IndexValue{v.i, 0, v.thread}); };
  const auto let = [](Victim& v) {
    Emit(&v.k.body, LetSymbol{v.let, Operand::Const(DType::I64, IntScalar(1))});
  };
  EXPECT_EQ(error(load, index), "");
  EXPECT_EQ(error(let, let), "");
  EXPECT_THAT(error(load, load),
              HasSubstr("fragment f is used before a barrier of the grid and behind it"));
  EXPECT_THAT(error(let,
                    [](Victim& v) {
                      Emit(&v.k.body, IndexValue{v.i, 0, v.let});
                    }),
              HasSubstr("uses symbol let, which is not bound here"));
  EXPECT_THAT(error(load,
                    [](Victim& v) {
                      Block body;
                      Emit(&body, GridSync{});
                      Emit(&v.k.body, If{SymLt(v.block, 5), std::move(body), {}});
                    }),
              HasSubstr("a barrier of the grid inside a block"));
}

TEST(VerifyKernelTest, LastingArrays) {
  const auto error = [](const Kernel& k) { return std::string(VerifyKernel(k).message()); };
  const Kernel good = LastingKernel(3);
  EXPECT_EQ(error(good), "");
  EXPECT_THAT(PrintKernel(good), HasSubstr("threads 64 (thread) one launch (together)\n"));
  EXPECT_THAT(PrintKernel(good), HasSubstr("  shared s: i32[64] lasting\n"));
  Kernel k = good;
  k.shared[0].lasting = -1;
  EXPECT_THAT(error(k), HasSubstr("statement 3 (found[0] = load shared.s[-thread + 63] if together "
                                  "== 1 else -1): shared array s does not last through"));
  Emit(&k.body, k.body[1].node);  // A phase may load what it stores itself.
  std::get<kernel::Store>(k.body.back().node).fragment = 1;
  EXPECT_EQ(error(k), "");
  k = good;
  k.shared.push_back(k.shared[0]);
  EXPECT_THAT(error(k), HasSubstr("two lasting arrays of number 0"));
  k = good;
  k.cluster = 2;
  EXPECT_THAT(error(k), HasSubstr("a lasting array in a kernel of clusters"));
  k = good;
  k.together = k.env->FreshSymbol("narrow", 1, 1);
  EXPECT_THAT(error(k), HasSubstr("together is declared as 1..1, not 0..1"));
  k = good;
  k.together = 1;
  EXPECT_THAT(error(k), HasSubstr("uses symbol together, which is not bound here"));
  k = good;
  k.copy_barriers = 1;
  Emit(&k.body, kernel::BulkCopy{0, 0, 0, 0, 4, 0});
  EXPECT_THAT(error(k), HasSubstr("a copy to a lasting array"));
}

TEST(VerifyKernelTest, AsyncLoads) {
  Victim v;
  using kernel::AsyncLoad;
  const AsyncLoad good{v.shared, 0, v.x, 0, 2};
  const auto error = [&](const std::function<void(AsyncLoad*)>& change) {
    AsyncLoad load = good;
    change(&load);
    return v.ErrorOf(load);
  };
  EXPECT_THAT(error([](AsyncLoad* l) { l->array = 1; }), HasSubstr("no shared array 1"));
  EXPECT_THAT(error([](AsyncLoad* l) { l->buffer = 2; }), HasSubstr("no buffer 2"));
  EXPECT_THAT(error([](AsyncLoad* l) { l->width = 3; }), HasSubstr("load of 12 bytes"));
  EXPECT_THAT(error([](AsyncLoad* l) { l->width = 0; }), HasSubstr("load of 0 bytes"));
  EXPECT_THAT(error([](AsyncLoad* l) { l->width = 8; }), HasSubstr("load of 32 bytes"));
  EXPECT_THAT(error([](AsyncLoad* l) { l->width = 4; }), HasSubstr("x is aligned to 8 bytes"));
  EXPECT_THAT(error([&](AsyncLoad* l) { l->buffer = v.y; }), HasSubstr("y is written"));
  EXPECT_THAT(error([&](AsyncLoad* l) { l->to = v.let; }),
              HasSubstr("destination let uses symbol let, which is not bound here"));
  EXPECT_THAT(error([&](AsyncLoad* l) { l->from = v.let; }), HasSubstr("source let uses"));
  EXPECT_THAT(error([&](AsyncLoad* l) { l->predicate = SymLt(v.let, 1); }),
              HasSubstr("predicate let <= 0 uses"));
  const auto of_array = [&](const std::function<void(kernel::SharedArray*)>& change) {
    const kernel::SharedArray before = v.k.shared[0];
    change(&v.k.shared[0]);
    const std::string error = v.ErrorOf(good);
    v.k.shared[0] = before;
    return error;
  };
  EXPECT_THAT(of_array([](kernel::SharedArray* s) { s->dtype = DType::I32; }),
              HasSubstr("buffer x is f32, shared array s i32"));
  EXPECT_THAT(of_array([](kernel::SharedArray* s) { s->lasting = 0; }),
              HasSubstr("a copy to a lasting array"));
  // Elements of more than 4 bytes.
  v.k.buffers[v.x].dtype = v.k.shared[0].dtype = DType::F64;
  EXPECT_THAT(error([](AsyncLoad* l) { l->width = 0; }), HasSubstr("load of 0 bytes"));
  v.k.buffers[v.x].dtype = v.k.shared[0].dtype = DType::F32;
  // Copies to the same array, before or behind.
  v.k.copy_barriers = 1;
  v.k.body.clear();
  Emit(&v.k.body, good);
  Emit(&v.k.body, kernel::BulkCopy{v.shared, 0, v.x, 0, 4, 0});
  EXPECT_THAT(v.Error(), HasSubstr("s is brought by bulk copies or other CTAs, too"));
}

// Something waits for them in their phase, behind them or in the next turn of a loop.
TEST(VerifyKernelTest, AsyncLoadsAreAwaited) {
  Victim v;
  const kernel::AsyncLoad load{v.shared, 0, v.x, 0, 2, SymEq(v.thread, 0)};
  const std::string missing = "nothing waits for the loads that statement 0 begins";
  Emit(&v.k.body, load);
  EXPECT_THAT(v.Error(), HasSubstr(missing));
  Emit(&v.k.body, GridSync{});
  Emit(&v.k.body, kernel::AwaitLoads{});
  EXPECT_THAT(v.Error(), AllOf(HasSubstr("statement 1 (barrier of the grid)"), HasSubstr(missing)));
  std::swap(v.k.body[1], v.k.body[2]);
  EXPECT_TRUE(VerifyKernel(v.k).ok()) << VerifyKernel(v.k);
  EXPECT_THAT(PrintKernel(v.k), HasSubstr("   0: begin load shared.s[0 :+2] = x[0 :+2] if "
                                          "thread == 0\n"
                                          "   1: await loads\n"
                                          "   2: barrier of the grid\n"));
  For loop{v.loop, 4, false, {}};
  Emit(&loop.body, kernel::AwaitLoads{});
  Emit(&loop.body, load);
  Emit(&v.k.body, loop);
  EXPECT_TRUE(VerifyKernel(v.k).ok()) << VerifyKernel(v.k);
  loop.body.erase(loop.body.begin());
  v.k.body.back().node = loop;
  EXPECT_THAT(v.Error(), HasSubstr("nothing waits for the loads that statement 4 begins"));
}

// What is wrong with two of them side by side.
std::string BesideItself(const Kernel& k) {
  const auto joined = kernel::SideBySide("joined", {k, k}, kernel::Parameters::kOwn);
  return std::string(joined.status().message());
}

TEST(VerifyKernelTest, Clusters) {
  Victim v;
  v.k.store_barriers = 1;
  const kernel::RemoteStore store{v.f, 0, v.shared, 0, 1, Mod(v.thread, 4), 0};
  EXPECT_THAT(v.ErrorOf(kernel::ClusterSync{}), HasSubstr("there is no cluster"));
  EXPECT_THAT(v.ErrorOf(store), HasSubstr("CTA thread%4 of a cluster of 1"));
  v.k.cluster = 2;
  EXPECT_THAT(v.ErrorOf(store), HasSubstr("CTA thread%4 of a cluster of 2"));
  EXPECT_THAT(v.ErrorOf(GridSync{}), HasSubstr("has one phase"));
  EXPECT_THAT(v.ErrorOf(kernel::AwaitStores{1, 0, 4}), HasSubstr("barrier 1 of 1"));
  EXPECT_THAT(v.ErrorOf(kernel::AwaitStores{0, 0, 0}), HasSubstr("0 bytes"));
  v.k.cluster = 4;
  v.k.body.clear();
  Emit(&v.k.body, kernel::ClusterSync{});
  Emit(&v.k.body, Map{OpKind::Copy, v.f, 0, {kOne}});
  Emit(&v.k.body, store);
  Emit(&v.k.body, kernel::AwaitStores{0, 0, 4});
  EXPECT_TRUE(VerifyKernel(v.k).ok()) << VerifyKernel(v.k);
  EXPECT_THAT(PrintKernel(v.k), HasSubstr("threads 128 (thread) cluster 4\n"));
  EXPECT_THAT(PrintKernel(v.k),
              HasSubstr("   0: barrier of the cluster\n"
                        "   1: f[0] = copy(f32 1)\n"
                        "   2: store to CTA thread%4 shared.s[0] = f[0], arriving at 0\n"
                        "   3: await stores of 4 bytes at 0, round 0\n"));
  EXPECT_THAT(std::string(BesideItself(v.k)), HasSubstr("clusters of 4 CTAs cannot be joined"));
  Block body;
  Emit(&body, kernel::ClusterSync{});
  Emit(&v.k.body, If{SymLt(v.thread, 5), std::move(body), {}});
  EXPECT_THAT(v.Error(), HasSubstr("a barrier below"));
  v.k.body.clear();
  v.k.cluster = 3;
  EXPECT_THAT(v.Error(), HasSubstr("a cluster of 3 CTAs, expected a power of two"));
}

// Waits of the whole grid and its tickets are nothing for some of its CTAs.
TEST(SideBySideTest, WantsKernelsThatNeedNoGrid) {
  Kernel k = ColumnSumKernel();
  EXPECT_TRUE(kernel::CanStandBeside(k));
  EXPECT_EQ(BesideItself(k), "");
  k.grid_x = 0;
  EXPECT_FALSE(kernel::CanStandBeside(k));
  EXPECT_THAT(BesideItself(k), HasSubstr("has no CTAs"));
  EXPECT_THAT(BesideItself(TicketKernel(3, 20)), HasSubstr("needs the whole grid"));
  EXPECT_THAT(BesideItself(ExchangeKernel(3)), HasSubstr("needs the whole grid"));
  Kernel copies = ColumnSumKernel();
  copies.copy_barriers = 1;
  copies.copies_per_batch = 2;
  Kernel others = copies;
  others.copies_per_batch = 3;
  const auto message = [](const absl::StatusOr<Kernel>& joined) {
    return std::string(joined.status().message());
  };
  EXPECT_THAT(message(kernel::SideBySide("joined", {copies, others}, kernel::Parameters::kOwn)),
              HasSubstr("batches of 2 copies and one of 3"));
  others = ColumnSumKernel();
  others.parameters.push_back(others.env->FreshSymbol("more", 0, 5));
  EXPECT_THAT(message(kernel::SideBySide("joined", {copies, others}, kernel::Parameters::kCommon)),
              HasSubstr("parameters cannot be common"));
}

TEST(VerifyKernelTest, TicketsAndLeave) {
  Victim v;
  EXPECT_THAT(v.ErrorOf(kernel::Leave{1}), HasSubstr("no loop that can be left"));
  EXPECT_THAT(v.ErrorOf(kernel::TakeTicket{v.f, 0, 5}), HasSubstr("fragment f is f32"));
  EXPECT_THAT(v.ErrorOf(kernel::AwaitTickets{5}), HasSubstr("no ticket of this phase was taken"));
  Kernel k = TicketKernel(3, 20);
  EXPECT_TRUE(k.TakesTickets());
  EXPECT_FALSE(ColumnSumKernel().TakesTickets());
  EXPECT_THAT(PrintKernel(k), HasSubstr("next[0] = ticket of 23"));
  EXPECT_THAT(PrintKernel(k), HasSubstr("leave if 20 <= at"));
  const absl::StatusOr<Kernel> joined = InPhases("p", {k, ExchangeKernel(3)}, {{0}, {0, 1}});
  ASSERT_TRUE(joined.ok()) << joined.status();
  EXPECT_TRUE(VerifyKernel(*joined).ok()) << VerifyKernel(*joined);
  EXPECT_TRUE(joined->TakesTickets());
  const absl::StatusOr<Kernel> twice = InPhases("p", {k, k}, {{0}, {1}});
  ASSERT_TRUE(twice.ok()) << twice.status();
  EXPECT_THAT(std::string(VerifyKernel(*twice).message()),
              HasSubstr("tickets on both sides of a barrier of the grid"));
  kernel::For& loop = std::get<kernel::For>(k.body[0].node);
  std::get<kernel::Leave>(loop.body[5].node).condition = SymLt(k.thread_x, 5);
  EXPECT_THAT(std::string(VerifyKernel(k).message()), HasSubstr("differs between threads"));
  std::get<kernel::Leave>(loop.body[5].node).condition = 0;
  loop.unrolled = true;
  EXPECT_THAT(std::string(VerifyKernel(k).message()), HasSubstr("no loop that can be left"));
}

// Kernels have in common the arrays that last, by their numbers, and whether there is one launch.
TEST(InPhasesTest, LastingArrays) {
  Kernel k = LastingKernel(3);
  k.shared.push_back({"own", DType::I32, 32});
  Kernel other = k;
  other.shared.push_back({"held", DType::I32, 16, 1});
  const absl::StatusOr<Kernel> joined = InPhases("p", {k, other, k}, {{0}, {0}, {0}});
  ASSERT_TRUE(joined.ok()) << joined.status();
  EXPECT_TRUE(VerifyKernel(*joined).ok()) << VerifyKernel(*joined);
  std::vector<std::pair<std::string, int>> arrays;
  for (const kernel::SharedArray& array : joined->shared)
    arrays.emplace_back(array.name, array.lasting);
  EXPECT_THAT(arrays, ElementsAre(Pair("s", 0), Pair("own", -1), Pair("own", -1), Pair("held", 1),
                                  Pair("own", -1)));
  EXPECT_EQ(std::get<kernel::Load>(joined->body.end()[-2].node).array, 0);
}

TEST(InPhasesTest, OfOneShape) {
  const Kernel k = ColumnSumKernel();
  Kernel wide = k, more = k;
  wide.threads = 256;
  more.parameters.push_back(more.env->FreshSymbol("K", 0, 5));
  EXPECT_THAT(std::string(InPhases("p", {}, {}).status().message()), HasSubstr("no kernels"));
  const std::vector<std::vector<int>> buffers = {{0, 1}, {1, 2}};
  EXPECT_THAT(std::string(InPhases("p", {k, wide}, buffers).status().message()),
              HasSubstr("of 128 and one of 256 threads"));
  EXPECT_THAT(std::string(InPhases("p", {k, more}, buffers).status().message()),
              HasSubstr("of 2 and of 3 parameters"));
  const absl::StatusOr<Kernel> joined = InPhases("p", {k, k}, buffers);
  ASSERT_TRUE(joined.ok()) << joined.status();
  EXPECT_TRUE(VerifyKernel(*joined).ok()) << VerifyKernel(*joined);
  EXPECT_EQ(joined->NumPhases(), 2);
  ASSERT_EQ(joined->buffers.size(), 3);  // The first one's y is the second one's x.
  EXPECT_FALSE(joined->buffers[0].written);
  EXPECT_TRUE(joined->buffers[1].written);
}

TEST(VerifyKernelTest, DeepNestingIsRefusedNotFollowed) {
  Victim v;
  Block body;
  for (int depth = 0; depth < 2000; ++depth) {
    Block outer;
    Emit(&outer, If{SymLt(v.n, 5), std::move(body), {}});
    body = std::move(outer);
  }
  v.k.body = std::move(body);
  EXPECT_THAT(v.Error(), HasSubstr("blocks nest deeper than 256"));
}

}  // namespace
}  // namespace seam::testing
