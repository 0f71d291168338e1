#include "segmenter/closer_look.h"

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/hash/hash.h"

namespace seam {
namespace {

// A way from where something is handed on to a value: the same for ways that lead to the same
// point, as those do whose shifts add up to the same.
struct Way {
  absl::InlinedVector<uint64_t, 4> shifts;  // Along each dimension of the value.
  // What else there was: pieces of concatenations, look-ups, mirrors, steps over some elements.
  uint64_t other = 0;
  // It leads to slices of one value that are put together in another order: of these one is wanted
  // at a point, and which is an index.
  bool reorders = false;

  explicit Way(int rank) : shifts(rank) {}
  friend bool operator==(const Way&, const Way&) = default;
  friend bool operator<(const Way& a, const Way& b) {
    return std::tie(a.other, a.reorders, a.shifts) < std::tie(b.other, b.reorders, b.shifts);
  }
};

// Whether a concatenation is one of slices of a single value.
bool Reorders(const Fusion& f, ExprId cat) {
  const auto sliced = [&](ValId v) {
    const ExprId slice = f.definition(v);
    return slice.valid() && f.op(slice) == OpKind::Slice ? f.operands(slice)[0] : ValId();
  };
  const ValId first = sliced(f.operands(cat)[0]);
  return first.valid() &&
         absl::c_all_of(f.operands(cat), [&](ValId v) { return sliced(v) == first; });
}

constexpr int kNoDim = -1;

// Per dimension of operand `i` the one of the result that it is; kNoDim where there is none.
// Nothing where dimensions are taken apart or put together.
std::optional<absl::InlinedVector<int, 4>> DimsRead(const Fusion& f, ExprId e, int i) {
  const ValId from = f.operands(e)[i], to = f.result(e);
  const Attributes& a = f.attributes(e);
  absl::InlinedVector<int, 4> dims(f.rank(from), kNoDim);
  switch (f.op(e)) {
    case OpKind::Broadcast:
      for (int d = 0, at = 0; d < f.rank(to); ++d) {
        if (!absl::c_linear_search(a.axes, d)) dims[at++] = d;
      }
      return dims;
    case OpKind::Squeeze:
      for (int d = 0, at = 0; d < f.rank(from); ++d) {
        if (!absl::c_linear_search(a.axes, d)) dims[d] = at++;
      }
      return dims;
    case OpKind::Permute:
      for (int d = 0; d < f.rank(to); ++d) dims[a.axes[d]] = d;
      return dims;
    default:
      if (f.rank(from) == 0) return dims;
      if (f.op(e) == OpKind::Reshape || f.rank(from) != f.rank(to)) return std::nullopt;
      for (int d = 0; d < f.rank(from); ++d) {
        if (!f.domain(from)[d].is_broadcast()) dims[d] = d;
      }
      return dims;
  }
}

// The way on to operand `i` of an expression, whose result is wanted at the end of `way`; `plain`
// where it is read at its own points.
Way Onward(const Fusion& f, ExprId e, int i, bool plain, const Way& way) {
  const Attributes& a = f.attributes(e);
  Way on(f.rank(f.operands(e)[i]));
  on.other = way.other;
  if (const auto dims = DimsRead(f, e, i)) {
    for (size_t d = 0; d < dims->size(); ++d) {
      if ((*dims)[d] != kNoDim) on.shifts[d] = way.shifts[(*dims)[d]];
    }
  } else {
    on.other = absl::HashOf(on.other, way.shifts);
  }
  const auto is_one = [](SymInt step) { return step.maybe_int() == 1; };
  const bool shifts = f.op(e) == OpKind::Pad || absl::c_all_of(a.step, is_one);
  switch (f.op(e)) {
    case OpKind::Cat:
      on.reorders = Reorders(f, e);
      on.other = absl::HashOf(on.other, e.index(), on.reorders ? 0 : i);
      return on;
    case OpKind::Pad:
    case OpKind::Slice:
      if (way.reorders) return on;
      for (size_t d = 0; d < a.start.size(); ++d) {
        if (!shifts) {
          on.other = absl::HashOf(on.other, d, a.start[d].bits(), a.step[d].bits());
          continue;
        }
        const std::optional<int64_t> known = a.start[d].maybe_int();
        const uint64_t by =
            known ? static_cast<uint64_t>(*known) : uint64_t{absl::HashOf(a.start[d].bits())};
        on.shifts[d] += f.op(e) == OpKind::Pad ? -by : by;
      }
      return on;
    default:
      if (!plain) on.other = absl::HashOf(on.other, e.index(), i);
      return on;
  }
}

class Look {
 public:
  Look(const Fusion& fusion, const AxisMap& axes, const ValueFacts& facts,
       absl::Span<const ExprId> exprs)
      : f_(fusion), axes_(axes), facts_(facts), exprs_(exprs) {}

  void Run(GroupSummary& summary) {
    notes_.resize(exprs_.size());
    FindReduced();
    for (size_t n = exprs_.size(); n-- > 0;) Visit(n);
    summary.spaces.clear();
    const auto covers = [](const AxisSet& all, const AxisSet& some) { return IsSubset(some, all); };
    for (size_t n = 0; n < exprs_.size(); ++n) {
      if (notes_[n].is_run_over) AddToAntichain(summary.spaces, axes_.space(exprs_[n]), covers);
      summary.computed.push_back({exprs_[n], static_cast<int>(notes_[n].ways.size()), notes_[n].at,
                                  LinesOf(notes_[n].ways)});
    }
    absl::c_sort(summary.spaces);
  }

 private:
  struct Note {                // Of an expression.
    bool is_run_over = false;  // The group runs over its space.
    bool reduced = false;      // It reduces, or a reduction is above it.
    ExprId at;                 // At the points of this one's space it is computed,
    std::vector<Way> ways;     // for each of these once; sorted.
  };

  // Ways that differ in one dimension's shift alone lead to points of one line.
  static absl::InlinedVector<int, 4> LinesOf(const std::vector<Way>& ways) {
    absl::InlinedVector<int, 4> lines;
    if (ways.size() <= 1) return lines;  // Nothing is in common.
    for (size_t d = 0; d < ways[0].shifts.size(); ++d) {
      std::vector<Way> others = ways;
      for (Way& way : others) way.shifts[d] = 0;
      absl::c_sort(others);
      lines.push_back(static_cast<int>(std::unique(others.begin(), others.end()) - others.begin()));
    }
    return lines;
  }

  // Where in exprs_ the one is that computes a value, or its size.
  size_t Find(ValId v) const {
    const ExprId e = f_.definition(v);
    const auto it = std::lower_bound(exprs_.begin(), exprs_.end(), e);
    return e.valid() && it != exprs_.end() && *it == e ? static_cast<size_t>(it - exprs_.begin())
                                                       : exprs_.size();
  }
  bool IsHere(ExprId e) const { return std::binary_search(exprs_.begin(), exprs_.end(), e); }

  // What is above is run over at its own points: results of reductions are read where they are.
  void FindReduced() {
    for (size_t n = 0; n < exprs_.size(); ++n) {
      const ExprId e = exprs_[n];
      notes_[n].reduced =
          IsReduction(f_.info(e).op_class) || absl::c_any_of(f_.operands(e), [&](ValId v) {
            const size_t from = Find(v);
            return from < n && notes_[from].reduced;
          });
    }
  }

  bool IsHandedOn(ValId v) const {
    bool read_here = false, read_elsewhere = false;
    for (ExprId reader : f_.uses(v)) {
      if (!facts_.left_out[reader.index()]) (IsHere(reader) ? read_here : read_elsewhere) = true;
    }
    return f_.is_output(v) || !read_here ||
           (read_elsewhere && !facts_.is_read_of_source[v.index()]);
  }

  void Add(Note& note, Way way) const {
    const auto it = absl::c_lower_bound(note.ways, way);
    if ((it == note.ways.end() || *it != way) && note.ways.size() <= GroupSummary::kMostTimes)
      note.ways.insert(it, std::move(way));
  }

  // All that reads it has been visited.
  void Visit(size_t n) {
    const ExprId e = exprs_[n];
    Note& note = notes_[n];
    const bool reduces = IsReduction(f_.info(e).op_class);
    bool is_root = reduces;
    for (int r = 0; r < f_.num_results(e); ++r) is_root = is_root || IsHandedOn(f_.result(e, r));
    if (is_root) {
      // Rows that fold it here at more points compute it there.
      const bool folded = note.at.valid() && IsReduction(f_.info(note.at).op_class);
      if (!folded || axes_.space(note.at).size() < axes_.space(e).size()) note.at = e;
      Add(note, Way(f_.rank(f_.result(e))));
    }
    note.is_run_over = note.is_run_over || is_root || note.reduced;
    for (int i = 0; i < static_cast<int>(f_.operands(e).size()); ++i) {
      const size_t from = Find(f_.operands(e)[i]);
      if (from >= n) continue;
      Note& above = notes_[from];
      const bool plain = axes_.exchanged(e, i).empty();
      above.is_run_over = above.is_run_over || (plain && note.is_run_over);
      if (!above.at.valid() || axes_.space(above.at).size() < axes_.space(note.at).size())
        above.at = note.at;
      if (reduces) {
        Add(above, Way(f_.rank(f_.operands(e)[i])));
        continue;
      }
      for (const Way& way : note.ways) Add(above, Onward(f_, e, i, plain, way));
    }
  }

  const Fusion& f_;
  const AxisMap& axes_;
  const ValueFacts& facts_;
  const absl::Span<const ExprId> exprs_;
  std::vector<Note> notes_;
};

// Whether a refusal may be one for the points at which values are computed.
bool DependsOnPoints(ReasonCode reason) {
  switch (reason) {
    case ReasonCode::kGridBarrier:
    case ReasonCode::kNoCommonAxis:
    case ReasonCode::kRecompute:
    case ReasonCode::kUnsupported:
      return true;
    default:
      return false;
  }
}

}  // namespace

bool ReadsElsewhere(const Fusion& fusion, const AxisMap& axes, absl::Span<const ExprId> exprs) {
  return absl::c_any_of(exprs, [&](ExprId e) {
    for (int i = 0; i < static_cast<int>(fusion.operands(e).size()); ++i) {
      const ExprId from = fusion.definition(fusion.operands(e)[i]);
      if (!axes.exchanged(e, i).empty() && from.valid() && absl::c_binary_search(exprs, from))
        return true;
    }
    return false;
  });
}

bool SpreadsArithmetic(const SchedulabilityGuard& guard, const Fusion& fusion, const AxisMap& axes,
                       absl::Span<const ExprId> exprs) {
  absl::flat_hash_map<uint32_t, double> bytes;  // By space.
  for (ExprId e : exprs) bytes[axes.space_number(e)] += guard.BytesOfArithmetic(fusion, e);
  return absl::c_any_of(bytes, [&](const auto& few) {
    return few.second >= kCostlyBytes && absl::c_any_of(bytes, [&](const auto& more) {
             return few.first != more.first &&
                    IsSubset(axes.sets()[few.first], axes.sets()[more.first]);
           });
  });
}

void LookCloser(const Fusion& fusion, const AxisMap& axes, const ValueFacts& facts,
                absl::Span<const ExprId> exprs, GroupSummary& summary) {
  Look(fusion, axes, facts, exprs).Run(summary);
}

Decision AskGuard(const SchedulabilityGuard& guard, const Fusion& fusion, const AxisMap& axes,
                  const ValueFacts& facts, absl::FunctionRef<std::vector<ExprId>()> exprs,
                  GroupSummary& summary) {
  Decision decision = guard.CanSchedule(fusion, axes, summary);
  if (decision.ok || !DependsOnPoints(decision.reason) || summary.num_exprs > kMostLookedAt)
    return decision;
  const std::vector<ExprId> all = exprs();
  if (!ReadsElsewhere(fusion, axes, all)) return decision;
  LookCloser(fusion, axes, facts, all, summary);
  return guard.CanSchedule(fusion, axes, summary);
}

Decision AskGuard(const SchedulabilityGuard& guard, const Fusion& fusion, const AxisMap& axes,
                  const ValueFacts& facts, absl::Span<const ExprId> exprs) {
  GroupSummary summary = Summarize(fusion, axes, facts, exprs);
  return AskGuard(
      guard, fusion, axes, facts, [&] { return std::vector<ExprId>(exprs.begin(), exprs.end()); },
      summary);
}

}  // namespace seam
