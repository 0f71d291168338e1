// Times segmentation, by the real schedulers, against the size of the graph.
//
//   segment_scale_bench [--family NAME] [--min EXPRESSIONS] [--max EXPRESSIONS] [--json FILE]
//
// Each size of each family (chain, wide, transformer, random, star, layers alike and unlike; all
// unless one is named; sizes up to 1000000 unless told) runs in a process of its own, so that peaks
// of memory are its own. A time is the least of three runs by the clock on the wall. The exponent
// is the slope of log time over log size, by least squares, over the sizes from 10000 expressions.
// Memory is how far the peak of the process lies above what it held before, per expression.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "ir/composites.h"
#include "ir/fusion_builder.h"
#include "scheduler/scheduler.h"
#include "segmenter/segment.h"
#include "segmenter/traffic.h"

namespace seam {
namespace {

using Graph = absl::StatusOr<Fusion>;

OpKind Unary(uint32_t i) {
  static constexpr OpKind kOps[] = {OpKind::Exp, OpKind::Tanh, OpKind::Sigmoid, OpKind::Sin};
  return kOps[i % 4];
}

// One value after the other.
Graph Chain(int num_exprs) {
  FusionBuilder b("chain");
  ValId v = b.Input("x", DType::F32, {b.Symbol("M", 1, 65536)});
  for (int i = 0; i < num_exprs; ++i) v = b.Op(Unary(i), {v});
  b.Output(v);
  return b.Finish();
}

// Layers of 256 values, each of two of the layer before; every eighth layer is a softmax's.
Graph Wide(int num_exprs) {
  constexpr int kWidth = 256;
  FusionBuilder b("wide");
  const SymInt m = b.Symbol("M", 1, 65536), n = b.Symbol("N", 1, 65536);
  std::vector<ValId> layer;
  for (int i = 0; i < kWidth; ++i)
    layer.push_back(b.Input(absl::StrCat("x", i), DType::F32, {m, n}));
  for (int depth = 0, made = 0; made < num_exprs; ++depth) {
    std::vector<ValId> next;
    for (int i = 0; i < kWidth; ++i) {
      if (depth % 8 == 7) {
        next.push_back(b.Sub(layer[i], b.Broadcast(b.Reduce(OpKind::Max, layer[i], {1}), {1})));
        made += 3;
      } else {
        next.push_back(b.Add(layer[i], layer[(i + depth + 1) % kWidth]));
        ++made;
      }
    }
    layer = std::move(next);
  }
  for (ValId v : layer) b.Output(v);
  return b.Finish();
}

// Blocks of attention and gated feed-forward, 16-bit, of about 80 expressions each.
Graph Transformer(int num_exprs) {
  FusionBuilder b("transformer");
  const SymInt t = b.Symbol("T", 1, 65536);
  constexpr int kHeads = 8, kHead = 64, kFeatures = kHeads * kHead, kInner = 2048;
  const auto bf16 = [&](absl::string_view name, int layer, SymVector sizes) {
    return b.Input(absl::StrCat(name, layer), DType::BF16, std::move(sizes));
  };
  ValId x = b.Input("x", DType::BF16, {t, kFeatures});
  const ValId cos = b.Input("cos", DType::F32, {t, kHead / 2});
  const ValId sin = b.Input("sin", DType::F32, {t, kHead / 2});
  const auto product = [&](ValId a, ValId w) { return b.Op(OpKind::Matmul, {a, w}); };
  const auto heads = [&](ValId v) {
    return b.Permute(b.Reshape(v, {t, kHeads, kHead}), {1, 0, 2});
  };
  const uint32_t inputs = b.num_vals();
  for (int layer = 0; static_cast<int>(b.num_vals() - inputs) < num_exprs; ++layer) {
    const ValId y = RmsNorm(b, x, {1}, bf16("norm1_", layer, {kFeatures}), 1e-5).y;
    const ValId q =
        RotaryEmbedding(b, heads(product(y, bf16("wq", layer, {kFeatures, kFeatures}))), cos, sin);
    const ValId k =
        RotaryEmbedding(b, heads(product(y, bf16("wk", layer, {kFeatures, kFeatures}))), cos, sin);
    const ValId v = heads(product(y, bf16("wv", layer, {kFeatures, kFeatures})));
    const ValId p = Softmax(b, product(q, b.Permute(k, {0, 2, 1})), -1);
    const ValId a = b.Reshape(b.Permute(product(p, v), {1, 0, 2}), {t, kFeatures});
    x = b.Add(x, product(a, bf16("wo", layer, {kFeatures, kFeatures})));
    const ValId z = RmsNorm(b, x, {1}, bf16("norm2_", layer, {kFeatures}), 1e-5).y;
    const ValId h = SwiGlu(b, product(z, bf16("wg", layer, {kFeatures, kInner})),
                           product(z, bf16("wu", layer, {kFeatures, kInner})));
    x = b.Add(x, product(h, bf16("wd", layer, {kInner, kFeatures})));
  }
  b.Output(x);
  return b.Finish();
}

// Operands from anywhere among the values, half of them from the last few; a reduction and what
// uses it in one of seven. The values are those of [m, n].
void AddRandom(FusionBuilder& b, int num_exprs, std::mt19937& dice, std::vector<ValId>& values) {
  const auto pick = [&] {
    const uint32_t all = static_cast<uint32_t>(values.size());
    return dice() % 2 == 0 ? values[all - 1 - dice() % std::min(all, 4u)] : values[dice() % all];
  };
  for (int made = 0; made < num_exprs;) {
    switch (dice() % 7) {
      case 0: {
        const int axis = static_cast<int>(dice() % 2);
        const ValId v = pick();
        values.push_back(b.Sub(v, b.Broadcast(b.Reduce(OpKind::Sum, v, {axis}), {axis})));
        made += 3;
        break;
      }
      case 1:
      case 2:
        values.push_back(b.Op(Unary(dice()), {pick()}));
        ++made;
        break;
      default:
        values.push_back(b.Add(pick(), pick()));
        ++made;
    }
    if (dice() % 16 == 0) b.Output(values.back());
  }
}

Graph Random(int num_exprs) {
  FusionBuilder b("random");
  const SymInt m = b.Symbol("M", 1, 65536), n = b.Symbol("N", 1, 65536);
  std::mt19937 dice(1);
  std::vector<ValId> values;
  for (int i = 0; i < 4; ++i) values.push_back(b.Input(absl::StrCat("x", i), DType::F32, {m, n}));
  AddRandom(b, num_exprs, dice, values);
  b.Output(values.back());
  return b.Finish();
}

// Random layers of 70 expressions with a matrix product between two: all alike, or each another.
Graph Layers(int num_exprs, bool alike) {
  FusionBuilder b("layers");
  const SymInt m = b.Symbol("M", 1, 65536);
  const SymInt n = 1024;
  ValId x = b.Input("x", DType::F32, {m, n});
  const uint32_t inputs = b.num_vals();
  for (uint32_t layer = 0; static_cast<int>(b.num_vals() - inputs) < num_exprs; ++layer) {
    std::mt19937 dice(alike ? 1 : layer);
    std::vector<ValId> values = {x};
    AddRandom(b, 70, dice, values);
    const ValId w = b.Input(absl::StrCat("w", layer), DType::F32, {n, n});
    x = b.Op(OpKind::Matmul, {values.back(), w});
  }
  b.Output(x);
  return b.Finish();
}
Graph AlikeLayers(int num_exprs) { return Layers(num_exprs, true); }
Graph UnlikeLayers(int num_exprs) { return Layers(num_exprs, false); }

// One value with so many readers.
Graph Star(int num_exprs) {
  FusionBuilder b("star");
  const ValId hub =
      b.Op(OpKind::Exp, {b.Input("x", DType::F32, {b.Symbol("M", 1, 65536), SymInt(64)})});
  for (int i = 1; i < num_exprs; ++i) b.Output(b.Op(Unary(i), {hub}));
  return b.Finish();
}

struct Family {
  const char* name;
  Graph (*make)(int num_exprs);
};
constexpr Family kFamilies[] = {
    {"chain", Chain}, {"wide", Wide},         {"transformer", Transformer}, {"random", Random},
    {"star", Star},   {"alike", AlikeLayers}, {"unlike", UnlikeLayers}};

struct Result {
  int64_t exprs = 0, kernels = 0, trials = 0;
  double seconds = 0, bytes_per_expr = 0;
};

int64_t ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  int64_t total = 0, resident = 0;
  statm >> total >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

bool Measure(const Family& family, int num_exprs, Result* result) {
  const Graph graph = family.make(num_exprs);
  if (!graph.ok()) {
    std::cerr << family.name << ": " << graph.status() << "\n";
    return false;
  }
  result->exprs = graph->num_exprs();
  result->seconds = 1e9;
  const int64_t before = ResidentBytes();
  for (int run = 0; run < 3; ++run) {
    const auto start = std::chrono::steady_clock::now();
    const absl::StatusOr<Segmentation> cut = SegmentWithLog(*graph, RealGuard());
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (!cut.ok()) {
      std::cerr << family.name << ": " << cut.status() << "\n";
      return false;
    }
    if (run == 0) {
      rusage usage;
      getrusage(RUSAGE_SELF, &usage);
      result->bytes_per_expr =
          static_cast<double>(usage.ru_maxrss * 1024 - before) / static_cast<double>(result->exprs);
      result->trials = cut->log.num_trials;
      for (GroupId g : cut->segmented.groups()) result->kernels += Launches(cut->segmented, g);
    }
    result->seconds = std::min(result->seconds, seconds);
  }
  return true;
}

// Measure in a process of its own.
bool MeasureApart(const Family& family, int num_exprs, Result* result) {
  int ends[2];
  if (pipe(ends) != 0) return false;
  const pid_t child = fork();
  if (child < 0) return false;
  if (child == 0) {
    close(ends[0]);
    const bool good = Measure(family, num_exprs, result);
    if (good && write(ends[1], result, sizeof *result) != sizeof *result) _exit(1);
    _exit(good ? 0 : 1);
  }
  close(ends[1]);
  const bool good = read(ends[0], result, sizeof *result) == sizeof *result;
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  return good && status == 0;
}

double Exponent(const std::vector<Result>& results) {
  double n = 0, sx = 0, sy = 0, sxx = 0, sxy = 0;
  for (const Result& r : results) {
    if (r.exprs < 10000) continue;
    const double x = std::log(static_cast<double>(r.exprs)), y = std::log(r.seconds);
    n += 1, sx += x, sy += y, sxx += x * x, sxy += x * y;
  }
  return n < 2 ? NAN : (n * sxy - sx * sy) / (n * sxx - sx * sx);
}

int Main(int argc, char** argv) {
  std::string only, json;
  int min_exprs = 0, max_exprs = 1000000;
  for (int i = 1; i < argc; i += 2) {
    const std::string option = argv[i];
    if (i + 1 < argc && option == "--family") {
      only = argv[i + 1];
    } else if (i + 1 < argc && option == "--json") {
      json = argv[i + 1];
    } else if (i + 1 >= argc || (option != "--max" && option != "--min") ||
               !absl::SimpleAtoi(argv[i + 1], option == "--max" ? &max_exprs : &min_exprs)) {
      std::cerr << "usage: segment_scale_bench [--family NAME] [--min EXPRESSIONS] "
                   "[--max EXPRESSIONS] [--json FILE]\n";
      return 2;
    }
  }
  std::vector<std::string> rows;
  absl::PrintF("%-12s %10s %9s %10s %10s %12s %9s\n", "family", "exprs", "kernels", "trials",
               "seconds", "us an expr", "B an expr");
  for (const Family& family : kFamilies) {
    if (!only.empty() && only != family.name) continue;
    std::vector<Result> results;
    for (const int size : {1000, 3000, 10000, 30000, 100000, 300000, 1000000}) {
      if (size < min_exprs) continue;
      if (size > max_exprs) break;
      Result& r = results.emplace_back();
      if (!MeasureApart(family, size, &r)) return 1;
      absl::PrintF("%-12s %10d %9d %10d %10.3f %12.2f %9.0f\n", family.name, r.exprs, r.kernels,
                   r.trials, r.seconds, r.seconds * 1e6 / static_cast<double>(r.exprs),
                   r.bytes_per_expr);
      std::fflush(stdout);
      rows.push_back(absl::StrFormat(
          "{\"family\": \"%s\", \"exprs\": %d, \"kernels\": %d, \"trials\": %d, \"seconds\": %.4f, "
          "\"bytes_per_expr\": %.0f}",
          family.name, r.exprs, r.kernels, r.trials, r.seconds, r.bytes_per_expr));
    }
    if (results.size() > 1) absl::PrintF("%-12s exponent %.2f\n", family.name, Exponent(results));
  }
  if (!json.empty()) {
    std::ofstream file(json);
    file << "{\"rows\": [\n  " << absl::StrJoin(rows, ",\n  ") << "\n]}\n";
    if (!file) {
      std::cerr << "cannot write " << json << "\n";
      return 1;
    }
  }
  return 0;
}

}  // namespace
}  // namespace seam

int main(int argc, char** argv) { return seam::Main(argc, argv); }
