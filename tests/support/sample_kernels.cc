#include "tests/support/sample_kernels.h"

#include <functional>
#include <random>

namespace seam::testing {

using kernel::AsyncLoad;
using kernel::AwaitLoads;
using kernel::AwaitStores;
using kernel::CacheHint;
using kernel::ClusterSync;
using kernel::CtaSync;
using kernel::For;
using kernel::GridSync;
using kernel::If;
using kernel::IndexValue;
using kernel::Leave;
using kernel::LetSymbol;
using kernel::Load;
using kernel::Map;
using kernel::Operand;
using kernel::RemoteStore;
using kernel::ShuffleXor;
using kernel::Space;
using kernel::Store;
using kernel::TakeTicket;

KernelDraft::KernelDraft(absl::string_view name, int threads) {
  k.name = std::string(name);
  k.env = std::make_shared<ShapeEnv>();
  k.threads = threads;
  thread = k.thread_x = k.env->FreshSymbol("thread", 0, threads - 1);
  block = k.block_x = k.env->FreshSymbol("block", 0, INT32_MAX - 1);
}
SymInt KernelDraft::Parameter(absl::string_view name, int64_t lo, int64_t hi) {
  k.parameters.push_back(k.env->FreshSymbol(name, lo, hi));
  return k.parameters.back();
}
int KernelDraft::Buffer(absl::string_view name, DType dtype, SymInt num_elements, bool written,
                        int alignment_bytes) {
  k.buffers.push_back({std::string(name), dtype, num_elements, written, alignment_bytes});
  return static_cast<int>(k.buffers.size()) - 1;
}
int KernelDraft::Fragment(absl::string_view name, DType dtype, int count, bool packed) {
  k.fragments.push_back({std::string(name), dtype, count, packed});
  return static_cast<int>(k.fragments.size()) - 1;
}
int KernelDraft::Shared(absl::string_view name, DType dtype, int64_t count) {
  k.shared.push_back({std::string(name), dtype, count});
  return static_cast<int>(k.shared.size()) - 1;
}
SymInt KernelDraft::Symbol(absl::string_view name, SymInt extent) {
  return k.env->FreshSymbol(name, 0, extent - 1);
}
void KernelDraft::SetGrid(SymInt grid) { k.grid_x = grid; }

kernel::Kernel RowSumKernel(DType dtype, int vector, int rows_per_cta, int threads) {
  KernelDraft d("row_sum", threads);
  d.k.summary = "Sum of every row, one CTA a row.";
  const SymInt M = d.Parameter("M", 1), N = d.Parameter("N", 1);
  const int x = d.Buffer("x", dtype, M * N, false), y = d.Buffer("y", DType::F32, M, true);
  const int warps = threads / 32;
  const int partial = d.Shared("partial", DType::F32, warps);
  const int raw = d.Fragment("raw", dtype, vector), value = d.Fragment("value", DType::F32);
  const int acc = d.Fragment("acc", DType::F32), other = d.Fragment("other", DType::F32);
  d.SetGrid(CeilDiv(M, rows_per_cta));
  const SymInt lane = Mod(d.thread, 32), warp = FloorDiv(d.thread, 32);

  const SymInt r = d.Symbol("r", rows_per_cta), row = d.block * rows_per_cta + r;
  For rows{r, rows_per_cta, false, {}};
  If inside{SymLt(row, M), {}, {}};
  kernel::Block& b = inside.body;
  Emit(&b, Map{OpKind::Copy, acc, 0, {Operand::Const(DType::F32, FloatScalar(0))}});
  const SymInt steps = CeilDiv(N, threads * vector), step = d.Symbol("step", steps);
  For columns{step, steps, false, {}};
  const SymInt column = (step * threads + d.thread) * vector;
  Emit(&columns.body,
       Load{raw, 0, vector, Space::Global, x, row * N + column, SymLt(column, N), FloatScalar(0)});
  const SymInt v = d.Symbol("v", vector);
  For elements{v, vector, true, {}};
  Emit(&elements.body, Map{OpKind::Cast, value, 0, {Operand::Reg(raw, v)}});
  Emit(&elements.body, Map{OpKind::Add, acc, 0, {Operand::Reg(acc), Operand::Reg(value)}});
  Emit(&columns.body, std::move(elements));
  Emit(&b, std::move(columns));
  for (int mask = 16; mask >= 1; mask /= 2) {
    Emit(&b, ShuffleXor{other, 0, Operand::Reg(acc), mask});
    Emit(&b, Map{OpKind::Add, acc, 0, {Operand::Reg(acc), Operand::Reg(other)}});
  }
  Emit(&b, Store{acc, 0, 1, Space::Shared, partial, warp, SymEq(lane, 0)});
  Emit(&b, CtaSync{});
  If first_warp{SymEq(warp, 0), {}, {}};
  kernel::Block& w = first_warp.body;
  Emit(&w, Load{acc, 0, 1, Space::Shared, partial, lane, SymLt(lane, warps), FloatScalar(0)});
  for (int mask = warps / 2; mask >= 1; mask /= 2) {
    Emit(&w, ShuffleXor{other, 0, Operand::Reg(acc), mask});
    Emit(&w, Map{OpKind::Add, acc, 0, {Operand::Reg(acc), Operand::Reg(other)}});
  }
  Emit(&w, Store{acc, 0, 1, Space::Global, y, row, SymEq(lane, 0)});
  Emit(&b, std::move(first_warp));
  Emit(&b, CtaSync{});  // The next row writes to `partial` again.
  Emit(&rows.body, std::move(inside));
  Emit(&d.k.body, std::move(rows));
  return std::move(d.k);
}

kernel::Kernel VectorCopyKernel(DType dtype, int vector, CacheHint hint, bool packed) {
  KernelDraft d("vector_copy");
  const SymInt n = d.Parameter("n");
  const int x = d.Buffer("x", dtype, n, false), y = d.Buffer("y", dtype, n, true);
  const int f = d.Fragment("f", dtype, vector, packed);
  d.SetGrid(CeilDiv(n, 128 * vector));
  const SymInt first = (d.block * 128 + d.thread) * vector;
  If whole{SymLe(first + vector, n), {}, {}};
  Emit(&whole.body, Load{f, 0, vector, Space::Global, x, first, 1, {}, hint});
  Emit(&whole.body, Store{f, 0, vector, Space::Global, y, first, 1, hint});
  const SymInt v = d.Symbol("v", vector);
  For tail{v, vector, true, {}};
  Emit(&tail.body, Load{f, v, 1, Space::Global, x, first + v, SymLt(first + v, n), IntScalar(0)});
  Emit(&tail.body, Store{f, v, 1, Space::Global, y, first + v, SymLt(first + v, n)});
  Emit(&whole.otherwise, std::move(tail));
  Emit(&d.k.body, std::move(whole));
  return std::move(d.k);
}

kernel::Kernel ExchangeKernel(int ctas, bool barriers) {
  KernelDraft d("exchange");
  const int64_t last = 128 * ctas - 1;
  d.SetGrid(ctas);
  const int w = d.Buffer("w", DType::I32, last + 1, true);
  const int y = d.Buffer("y", DType::I32, last + 1, true);
  const SymInt me = d.block * 128 + d.thread;
  const int mine = d.Fragment("mine", DType::I32), theirs = d.Fragment("theirs", DType::I32),
            sum = d.Fragment("sum", DType::I32);
  Emit(&d.k.body, IndexValue{mine, 0, me});
  Emit(&d.k.body, Store{mine, 0, 1, Space::Global, w, me});
  if (barriers) Emit(&d.k.body, GridSync{});
  Emit(&d.k.body, Load{theirs, 0, 1, Space::Global, w, last - me});
  Emit(&d.k.body, Store{theirs, 0, 1, Space::Global, y, me});
  if (barriers) Emit(&d.k.body, GridSync{});
  Emit(&d.k.body, Load{sum, 0, 1, Space::Global, y, me});
  Emit(&d.k.body,
       Map{OpKind::Add, sum, 0, {Operand::Reg(sum), Operand::Const(DType::I32, IntScalar(last))}});
  Emit(&d.k.body, Store{sum, 0, 1, Space::Global, w, me});
  return std::move(d.k);
}

kernel::Kernel LastingKernel(int ctas, bool asks) {
  KernelDraft d("lasting", 64);
  d.SetGrid(ctas);
  d.k.together = d.k.env->FreshSymbol("together", 0, 1);
  const int y = d.Buffer("y", DType::I32, 64 * ctas, true);
  const int s = d.Shared("s", DType::I32, 64);
  d.k.shared[s].lasting = 0;
  const int left = d.Fragment("left", DType::I32), found = d.Fragment("found", DType::I32);
  Emit(&d.k.body, IndexValue{left, 0, 64 * d.block + d.thread});
  Emit(&d.k.body, Store{left, 0, 1, Space::Shared, s, d.thread});
  Emit(&d.k.body, GridSync{});
  Load load{found, 0, 1, Space::Shared, s, 63 - d.thread};
  if (asks) load.predicate = SymEq(d.k.together, 1);
  load.fill = IntScalar(-1);
  Emit(&d.k.body, load);
  Emit(&d.k.body, Store{found, 0, 1, Space::Global, y, 64 * d.block + d.thread});
  return std::move(d.k);
}

kernel::Kernel ClusterKernel(DType dtype, int clusters, int cluster, int turns) {
  KernelDraft d("cluster", 64);
  const int64_t ctas = int64_t{clusters} * cluster, numbers = int64_t{2} * cluster;
  d.SetGrid(ctas);
  d.k.cluster = cluster;
  d.k.store_barriers = 2;
  const int y = d.Buffer("y", dtype, turns * ctas * 64, true);
  const int s = d.Shared("s", dtype, 2 * numbers);
  const int mine = d.Fragment("mine", dtype), theirs = d.Fragment("theirs", dtype);
  const SymInt turn = d.Symbol("turn", turns);
  const SymInt warp = FloorDiv(d.thread, 32), lane = Mod(d.thread, 32), half = Mod(turn, 2);
  Emit(&d.k.body, ClusterSync{});
  For loop{turn, turns, false, {}};
  Emit(&loop.body, IndexValue{mine, 0, d.block * 2 + warp + turn});
  Emit(&loop.body, RemoteStore{mine, 0, s, half * numbers + Mod(d.block, cluster) * 2 + warp,
                               SymLt(lane, cluster), Mod(lane, cluster), half});
  Emit(&loop.body, AwaitStores{half, FloorDiv(turn, 2), numbers * DTypeBytes(dtype)});
  Emit(&loop.body, Load{theirs, 0, 1, Space::Shared, s, half * numbers + Mod(d.thread, numbers)});
  Emit(&loop.body, Store{theirs, 0, 1, Space::Global, y, (turn * ctas + d.block) * 64 + d.thread});
  Emit(&d.k.body, std::move(loop));
  return std::move(d.k);
}

kernel::Kernel TicketKernel(int ctas, int items) {
  KernelDraft d("tickets");
  d.SetGrid(ctas);
  const int y = d.Buffer("y", DType::I32, int64_t{items} * 128, true);
  const int s = d.Shared("s", DType::I32, 1);
  const int next = d.Fragment("next", DType::I32), item = d.Fragment("item", DType::I32);
  const SymInt total = items + ctas, turn = d.Symbol("turn", items + 1),
               at = d.Symbol("at", total + ctas);
  For loop{turn, items + 1, false, {}};
  If first{SymEq(d.thread, 0), {}, {}};
  Emit(&first.body, TakeTicket{next, 0, total});
  Emit(&first.body, Store{next, 0, 1, Space::Shared, s, 0});
  Emit(&loop.body, std::move(first));
  Emit(&loop.body, CtaSync{});
  Emit(&loop.body, Load{item, 0, 1, Space::Shared, s, 0});
  Emit(&loop.body, CtaSync{});
  Emit(&loop.body, LetSymbol{at, Operand::Reg(item)});
  Emit(&loop.body, Leave{SymGe(at, items)});
  Emit(&loop.body, Store{item, 0, 1, Space::Global, y, at * 128 + d.thread});
  Emit(&d.k.body, std::move(loop));
  return std::move(d.k);
}

kernel::Kernel LoadsAheadKernel(DType dtype, int width, int ctas) {
  KernelDraft d("loads_ahead", 64);
  d.SetGrid(ctas);
  const SymInt n = d.Parameter("n", 1);
  const int x = d.Buffer("x", dtype, n, false), y = d.Buffer("y", dtype, n, true);
  const int s = d.Shared("s", dtype, 64 * width), f = d.Fragment("f", dtype, width);
  const SymInt turns = CeilDiv(n, 64 * width * ctas), turn = d.Symbol("turn", turns);
  const SymInt place = width * d.thread, first = (d.block * 64 + d.thread) * width;
  const SymInt at = turn * (64 * width * ctas) + first, next = at + 64 * width * ctas;
  Emit(&d.k.body, AsyncLoad{s, place, x, first, width, SymLt(first, n)});
  For loop{turn, turns, false, {}};
  Emit(&loop.body, AwaitLoads{});
  Emit(&loop.body, Load{f, 0, width, Space::Shared, s, place, SymLt(at, n)});
  Emit(&loop.body, AsyncLoad{s, place, x, next, width, SymLt(next, n)});
  Emit(&loop.body, Store{f, 0, width, Space::Global, y, at, SymLt(at, n)});
  Emit(&d.k.body, std::move(loop));
  return std::move(d.k);
}

kernel::Kernel ColumnSumKernel() {
  KernelDraft d("column_sum");
  const SymInt M = d.Parameter("M", 1), N = d.Parameter("N", 1);
  const int x = d.Buffer("x", DType::F32, M * N, false), y = d.Buffer("y", DType::F32, N, true);
  const int partial = d.Shared("partial", DType::F32, 128);
  const int value = d.Fragment("value", DType::F32), acc = d.Fragment("acc", DType::F32);
  d.SetGrid(CeilDiv(N, 32));
  const SymInt column = d.block * 32 + Mod(d.thread, 32), group = FloorDiv(d.thread, 32);
  Emit(&d.k.body, Map{OpKind::Copy, acc, 0, {Operand::Const(DType::F32, FloatScalar(0))}});
  const SymInt steps = CeilDiv(M, 4), step = d.Symbol("step", steps), row = step * 4 + group;
  For rows{step, steps, false, {}};
  Emit(&rows.body, Load{value, 0, 1, Space::Global, x, row * N + column,
                        SymAnd(SymLt(row, M), SymLt(column, N)), FloatScalar(0)});
  Emit(&rows.body, Map{OpKind::Add, acc, 0, {Operand::Reg(acc), Operand::Reg(value)}});
  Emit(&d.k.body, std::move(rows));
  Emit(&d.k.body, Store{acc, 0, 1, Space::Shared, partial, d.thread});
  Emit(&d.k.body, CtaSync{});
  If first{SymAnd(SymEq(group, 0), SymLt(column, N)), {}, {}};
  Emit(&first.body, Map{OpKind::Copy, acc, 0, {Operand::Const(DType::F32, FloatScalar(0))}});
  const SymInt g = d.Symbol("g", 4);
  For groups{g, 4, true, {}};
  Emit(&groups.body, Load{value, 0, 1, Space::Shared, partial, g * 32 + d.thread});
  Emit(&groups.body, Map{OpKind::Add, acc, 0, {Operand::Reg(acc), Operand::Reg(value)}});
  Emit(&first.body, std::move(groups));
  Emit(&first.body, Store{acc, 0, 1, Space::Global, y, column});
  Emit(&d.k.body, std::move(first));
  return std::move(d.k);
}

RandomIndexKernel MakeRandomIndexKernel(uint64_t seed, bool index32) {
  std::mt19937_64 random(seed);
  const auto draw = [&](int64_t lo, int64_t hi) {
    return lo + static_cast<int64_t>(random() % static_cast<uint64_t>(hi - lo + 1));
  };
  KernelDraft d("random_index", 32);
  d.k.index32 = index32;
  const int64_t most = index32 ? 100 : int64_t{1} << 20;
  const SymInt n = d.Parameter("n", 1, most), m = d.Parameter("m", -most, most);
  RandomIndexKernel result;
  result.parameters = {draw(1, most), draw(-most, most)};
  result.i = d.Symbol("i", 3);
  result.j = d.Symbol("j", 3);
  const std::vector<SymInt> leaves = {n, m, d.block, d.thread, result.i, result.j};
  // Depth-limited, so that products stay inside the promised width.
  std::function<SymInt(int)> make = [&](int depth) -> SymInt {
    if (depth == 0 || draw(0, 5) == 0)
      return draw(0, 3) == 0 ? SymInt(draw(-9, 40)) : leaves[draw(0, 5)];
    const SymInt a = make(depth - 1);
    switch (draw(0, 11)) {
      case 0:
      case 1:
        return a + draw(-4, 9) * make(depth - 1);
      case 2:
        return a - make(depth - 1);
      case 3:
        return make(0) * make(0) + a;
      case 4:
        return FloorDiv(a, draw(0, 1) ? SymInt(int64_t{1} << draw(1, 5)) : SymInt(draw(2, 37)));
      case 5:
        return Mod(a, draw(0, 1) ? SymInt(int64_t{1} << draw(1, 5)) : SymInt(draw(2, 37)));
      case 6:
        return FloorDiv(a, n);
      case 7:
        return Mod(a, n);
      case 8:
        return Min(a, make(depth - 1));
      case 9:
        return Max(a, make(depth - 1));
      case 10:
        return SymSelect(SymOr(SymLt(a, make(depth - 1)), SymEq(make(0), make(0))), make(depth - 1),
                         a);
      default:
        return SymAnd(SymLe(make(depth - 1), a), SymNe(make(0), 1)) + a;
    }
  };
  const int count = 6;
  while (static_cast<int>(result.expressions.size()) < count) {
    const SymInt e = make(3);
    if (e.is_valid()) result.expressions.push_back(e);
  }
  result.num_elements = 2 * 9 * count * 32;
  const int out = d.Buffer("out", DType::I64, result.num_elements, true);
  d.SetGrid(2);
  For inner{result.j, 3, true, {}};
  for (int e = 0; e < count; ++e) {
    const int f = d.Fragment("value", DType::I64);
    Emit(&inner.body, kernel::IndexValue{f, 0, result.expressions[e]});
    const SymInt index = ((d.block * 9 + 3 * result.i + result.j) * count + e) * 32 + d.thread;
    Emit(&inner.body, Store{f, 0, 1, Space::Global, out, index});
  }
  For outer{result.i, 3, false, {}};
  Emit(&outer.body, std::move(inner));
  Emit(&d.k.body, std::move(outer));
  result.kernel = std::move(d.k);
  return result;
}

}  // namespace seam::testing
