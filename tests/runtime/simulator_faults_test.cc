// The simulator: every kind of fault that it promises to find.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "tests/support/sample_kernels.h"
#include "tests/support/simulated.h"

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

TEST(SimulatorFaultTest, OutOfBounds) {
  Probe p(DType::F32);
  const int x = p.d.Buffer("x", DType::F32, 31, false);
  Emit(&p.d.k.body, Load{p.f, 0, 1, Space::Global, x, p.d.thread});
  p.inputs = {SimTensor(DType::F32, std::vector<double>(31))};
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
  SimTensor y(DType::F32, std::vector<double>(32));
  EXPECT_THAT(Message(Simulate(p.d.k, {y.buffer()}, {})),
              AllOf(HasSubstr("CTA 1"), HasSubstr("nothing has written")));
}

TEST(SimulatorFaultTest, Misaligned) {
  Probe p(DType::F32);
  const int x = p.d.Buffer("x", DType::F32, 256, false);
  const int v = p.d.Fragment("v", DType::F32, 4);
  Emit(&p.d.k.body, Load{v, 0, 4, Space::Global, x, p.d.thread * 2});
  p.inputs = {SimTensor(DType::F32, std::vector<double>(256))};
  std::vector<double> result;
  EXPECT_THAT(Message(p.Run(&result)),
              HasSubstr("element 2 of buffer x is no multiple of the vector's 4 elements"));
  SimTensor shifted(DType::F32, std::vector<double>(260)), y(DType::F32, std::vector<double>(32));
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
    p.inputs = {SimTensor(DType::F32, std::vector<double>(elements))};
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
  SimTensor x(DType::F32, std::vector<double>(130)), y(DType::F32, std::vector<double>(130));
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
      SimTensor work(DType::F32, std::vector<double>(64)), out(DType::F32, std::vector<double>(64));
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
    SimTensor w(DType::I32, std::vector<double>(384)), y(DType::I32, std::vector<double>(384));
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
    SimTensor out(DType::I32, std::vector<double>(192));
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
    SimTensor y(DType::I32, std::vector<double>(20 * 128));
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
TEST(SimulatorFaultTest, AsyncLoads) {
  constexpr int64_t kCount = 1024;  // Two turns.
  SimTensor x(DType::F32, Ramp(kCount));
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
    SimTensor from(x), y(DType::F32, std::vector<double>(kCount));
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

// That all CTAs of a cluster have begun says nothing about memory.
TEST(SimulatorFaultTest, BarriersOfClustersOrderNoMemory) {
  for (const bool of_cluster : {false, true}) {
    KernelDraft d("begun", 64);
    d.SetGrid(2);
    d.k.cluster = 2;
    const int y = d.Buffer("y", DType::I32, 128, true);
    const int s = d.Shared("s", DType::I32, 64);
    const int mine = d.Fragment("mine", DType::I32), theirs = d.Fragment("theirs", DType::I32);
    Emit(&d.k.body, kernel::IndexValue{mine, 0, d.thread});
    Emit(&d.k.body, kernel::Store{mine, 0, 1, kernel::Space::Shared, s, d.thread});
    if (of_cluster) {
      Emit(&d.k.body, kernel::ClusterSync{});
    } else {
      Emit(&d.k.body, CtaSync{});
    }
    Emit(&d.k.body, kernel::Load{theirs, 0, 1, kernel::Space::Shared, s, 63 - d.thread});
    Emit(&d.k.body, kernel::Store{theirs, 0, 1, kernel::Space::Global, y, d.block * 64 + d.thread});
    SimTensor out(DType::I32, std::vector<double>(128));
    const std::string message = Message(Simulate(d.k, {out.buffer()}, {}, {}));
    EXPECT_THAT(message, of_cluster ? HasSubstr("race on element") : HasSubstr(""));
    EXPECT_EQ(message.empty(), !of_cluster) << message;
  }
}

// CTAs of a cluster tell each other numbers; whatever is left out is missed.
TEST(SimulatorFaultTest, Clusters) {
  const auto simulate = [](const Kernel& k) {
    SimTensor y(DType::I32, std::vector<double>(3 * 4 * 64));
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
  const auto with_one_barrier = [&](Body& loop) {
    store(loop).barrier = await(loop).barrier = 0;
    await(loop).round = turn;
  };
  EXPECT_THAT(without([&](Body&, Body& loop) { with_one_barrier(loop); }),
              HasSubstr("may still wait for the last ones"));
  for (const bool orders : {false, true}) {
    const std::string said = without([&](Body&, Body& loop) {
      with_one_barrier(loop);
      loop.push_back({kernel::ClusterSync{orders}});
    });
    EXPECT_EQ(said.empty(), orders) << said;
  }
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
  SimTensor work(DType::F32, std::vector<double>(32));
  EXPECT_THAT(Message(Simulate(d.k, {work.buffer()}, {})),
              HasSubstr("written here, read by thread 0 of several CTAs"));
}

// The same memory under two names is one memory; a partial overlap is refused but where there are
// gaps.
TEST(SimulatorFaultTest, AliasedBuffers) {
  const Kernel k = VectorCopyKernel(DType::F32, 1);
  SimTensor x(DType::F32, Ramp(200));
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
  SimBuffer x_with_gaps = x.buffer();
  x_with_gaps.gaps = true;
  EXPECT_TRUE(Simulate(k, {overlapping, x_with_gaps}, {100}).ok());
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
      p.inputs = {SimTensor(DType::I64, flags)};
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
  SimTensor x(DType::F32, Ramp(130)), y(DType::F32, Ramp(130));
  EXPECT_TRUE(Simulate(shorter, {x.buffer(), y.buffer()}, {130}).ok());
  EXPECT_THAT(
      Message(Simulate(shorter, {x.buffer(), y.buffer()}, {130}, {.require_all_written = true})),
      HasSubstr("no thread writes element 128 of buffer y of 130"));
}

TEST(SimulatorFaultTest, WrongArguments) {
  const Kernel k = VectorCopyKernel(DType::F32, 4);
  SimTensor x(DType::F32, Ramp(10)), y(DType::F32, Ramp(10)), half(DType::F16, Ramp(10));
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

}  // namespace
}  // namespace seam::testing
