#include "scheduler/arithmetic.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>

#include "absl/algorithm/container.h"
#include "scheduler/kernel/instructions.h"
#include "scheduler/schedulers.h"
#include "scheduler/small_products.h"
#include "scheduler/stencils.h"

namespace seam {
namespace {

// An H200 issues 6 instructions while it moves a byte. Of those that kernel::InstructionsOf counts
// it is 16, by the times of 44 graphs on an H100 (2026-11-26): with 12, a relu6 in front of a
// depthwise 3x3 convolution stayed apart, which takes 1.6 times as long; with many more, a silu
// came in, which does.
constexpr double kInstructionsPerByte = 16;
// An element that is read beside its place: its address, whether it is there, a load in a shorter
// vector or none. One that may be padding: whether it is.
constexpr int kInstructionsPerRead = 4, kInstructionsPerPad = 4;
// What a load takes that would bring a value instead: the L1 cache gives a fourth of the elements
// that a multiprocessor computes with.
constexpr int kInstructionsPerEntry = 4;
// The index of an element behind a reshape that takes rows apart elsewhere than they were made:
// two divisions, in 64 bits at worst.
constexpr int kInstructionsPerReshape = 100;

// What an operation of a pointwise group takes that is computed for neighbours, many times a
// thread: a quotient's rare cases are a branch, around which nothing is moved, and erf has two
// polynomials. Source: v * clamp(v + 3, 0, 6) / 6 and gelu in front of a depthwise 3x3 convolution,
// computed 3.75 times each, on an H100 (2026-11-26): 7 times InstructionsOf for the quotient, and 3
// times for erf where sigmoid and tanh count once.
int InstructionsForNeighbours(OpKind op) {
  const int instructions = kernel::InstructionsOf(op);
  switch (op) {
    case OpKind::Div:
    case OpKind::Reciprocal:
      return 7 * instructions;
    case OpKind::Erf:
      return 3 * instructions;
    default:
      return instructions;
  }
}

class Counter {
 public:
  Counter(const Fusion& fusion, const AxisMap& axes, const SizeHints& sizes,
          const GroupSummary& summary)
      : f_(fusion), axes_(axes), sizes_(sizes), s_(summary) {
    if (s_.num_reductions == 0) return;
    rows_ = reduction::AxesOfRows(f_, axes_, s_);
    mostly_products_ = AreMostlyProducts();
  }

  double Run() const {
    double instructions = 0;
    for (const GroupSummary::Computed& c : s_.computed) instructions += Of(c);
    return instructions;
  }

 private:
  double Points(ExprId e) const { return sizes_.Points(axes_, axes_.space(e)); }

  // ProductsOfElement (scheduler/small_products.h) as far as a summary tells, of rows that lie
  // along their columns in the largest of what is read.
  bool AreMostlyProducts() const {
    constexpr double kProductBytes = 4;
    double products = 0, most = 0;
    bool along_columns = false;
    for (const GroupSummary::Computed& c : s_.computed) {
      products = std::max(products, Points(c.at));
      for (ValId v : f_.operands(c.expr)) {
        const double elements = sizes_.Points(axes_, axes_.axes(v));
        if (!IsRead(v) || f_.rank(v) == 0 || elements <= most) continue;
        const auto last = axes_.atoms(v, f_.rank(v) - 1);
        if (last.empty()) continue;
        most = elements;
        along_columns = !absl::c_linear_search(rows_, last.back());
      }
    }
    return along_columns &&
           kMostlyProducts * static_cast<double>(s_.moved_bytes) <= kProductBytes * products;
  }

  // Rows of which a thread has all along a short axis, that of a product's few results, compute for
  // all of them what does not depend on it (scheduler/small_products.h).
  double ResultsAtOnce(const AxisSet& own) const {
    double most = 1;
    if (!mostly_products_) return most;
    for (AxisId a : Difference(rows_, own)) {
      const std::optional<int64_t> results = axes_.extent(a).maybe_int();
      if (results && *results <= kMostResults) most = std::max(most, static_cast<double>(*results));
    }
    return most;
  }

  bool IsRead(ValId v) const {  // From memory.
    const auto before = [](const GroupSummary::Computed& c, ExprId e) { return c.expr < e; };
    const ExprId e = f_.definition(v);
    const auto it = absl::c_lower_bound(s_.computed, e, before);
    return !e.valid() || it == s_.computed.end() || it->expr != e;
  }

  // At how many of a group's points something with these axes is computed, or read.
  double PointsOf(const AxisSet& own, double points) const {
    // What rows have in common is so once for each of them.
    if (s_.num_reductions > 0 && IsSubset(own, rows_)) return 0;
    return points / ResultsAtOnce(own);
  }

  // Whether somebody in the group reads it, or a view of it, along more axes than it has: where it
  // would be loaded if it were computed elsewhere.
  bool IsReadAtMore(ExprId e, size_t axes, int most_views = 4) const {
    return absl::c_any_of(f_.uses(f_.result(e)), [&](ExprId reader) {
      if (IsRead(f_.result(reader))) return false;
      if (axes_.space(reader).size() > axes) return true;
      const OpClass of = f_.info(reader).op_class;
      const bool renames = of == OpClass::Broadcast || of == OpClass::View;
      return renames && most_views > 0 && IsReadAtMore(reader, axes, most_views - 1);
    });
  }

  double Of(const GroupSummary::Computed& c) const {
    const double points = PointsOf(axes_.space(c.expr), TimesShared(c) * Points(c.at));
    if (points == 0) return 0;
    const OpKind op = f_.op(c.expr);
    const int instructions = s_.num_reductions == 0 && c.times > 1 ? InstructionsForNeighbours(op)
                                                                   : kernel::InstructionsOf(op);
    // A load would take as long.
    if (c.times == 1 && instructions < kInstructionsPerEntry &&
        IsReadAtMore(c.expr, axes_.space(c.expr).size())) {
      return Accesses(c) * points;
    }
    return Accesses(c) * points + instructions * std::max(0.0, points - Points(c.expr));
  }

  // How often it is computed for a point, where a thread has several neighbours along a dimension
  // (scheduler/stencils.h): of a pointwise group any but the last, along which vectors lie; of rows
  // that are reduced one of the rows'.
  double TimesShared(const GroupSummary::Computed& c) const {
    const bool reduces = s_.num_reductions > 0;
    const int most_points = reduces ? kMostPointsOfRows : kMostPoints;
    double times = c.times;
    const ValId v = f_.result(c.expr), at = f_.result(c.at);
    // Few points leave a thread one.
    constexpr double kLeastPoints = 1 << 19;
    if (c.times == 1 || f_.rank(v) != f_.rank(at) || Points(c.at) < kLeastPoints) return times;
    for (size_t d = 0; d + 1 < c.lines.size(); ++d) {
      const int dim = static_cast<int>(d);
      if (reduces && !absl::c_all_of(axes_.atoms(at, dim),
                                     [&](AxisId a) { return absl::c_binary_search(rows_, a); })) {
        continue;
      }
      const int64_t extent = sizes_.Extent(f_.domain(at)[d].extent);
      const auto points = static_cast<double>(std::gcd<int64_t>(extent, most_points));
      times = std::min(times, (c.times + (points - 1) * c.lines[d]) / points);
    }
    return times;
  }

  // Those of an element that come with where it is read. They are the same whether that is one of
  // the group's own values or one in memory.
  int Accesses(const GroupSummary::Computed& c) const {
    int instructions = 0;
    const bool is_view = f_.info(c.expr).op_class == OpClass::View;
    if (c.times > 1 || is_view) {
      for (ValId v : f_.operands(c.expr)) {
        if (IsRead(v)) instructions += kInstructionsPerRead;
      }
    }
    if (f_.op(c.expr) == OpKind::Pad) instructions += kInstructionsPerPad;
    if (f_.op(c.expr) == OpKind::Reshape && !axes_.exchanged(c.expr, 0).empty())
      instructions += kInstructionsPerReshape;
    return instructions;
  }

  const Fusion& f_;
  const AxisMap& axes_;
  const SizeHints& sizes_;
  const GroupSummary& s_;
  AxisSet rows_;
  bool mostly_products_ = false;
};

}  // namespace

double BytesBesideArithmetic(const Fusion& fusion, const AxisMap& axes, const SizeHints& sizes,
                             const GroupSummary& summary) {
  return Counter(fusion, axes, sizes, summary).Run() / kInstructionsPerByte;
}

}  // namespace seam
