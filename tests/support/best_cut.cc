#include "tests/support/best_cut.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>
#include <vector>

#include "ir/status.h"
#include "segmenter/passes.h"
#include "segmenter/traffic.h"

namespace seam {
namespace {

UnitMask Bit(int i) { return UnitMask{1} << i; }

}  // namespace

absl::StatusOr<std::unique_ptr<WholeGraph>> WholeGraph::Create(const Fusion& fusion,
                                                               const SchedulabilityGuard& guard) {
  SEAM_ASSIGN_OR_RETURN(SizeHints sizes, SizeHints::Create(fusion, {}));
  std::unique_ptr<WholeGraph> whole(new WholeGraph(fusion, std::move(sizes)));
  auto axes = std::make_shared<const AxisMap>(AxisMap::Build(fusion));
  const ValueFacts facts = FactsOf(fusion);
  SEAM_ASSIGN_OR_RETURN(
      InitialGroups initial,
      MakeInitialGroups(fusion, *axes, facts, guard, LeaveOutDeadCode(fusion, true),
                        PrivatizeCheapProducers(fusion, *axes, facts, true)));
  if (initial.partition.num_groups > CutModel::kMaxUnits) {
    return absl::InvalidArgumentError("more units than a model has room for");
  }
  whole->units_ = std::move(initial.units);
  SEAM_ASSIGN_OR_RETURN(SegmentedFusion s,
                        SegmentedFusion::Create(fusion, axes, std::move(initial.partition)));
  whole->singletons_ = std::make_unique<SegmentedFusion>(std::move(s));
  std::vector<GroupId> groups;
  for (uint32_t g = 0; g < whole->singletons_->num_groups(); ++g) groups.emplace_back(g);
  whole->model_ =
      std::make_unique<CutModel>(*whole->singletons_, whole->units_, whole->sizes_, guard,
                                 whole->judgements_, groups, absl::Span<const GroupId>());
  return whole;
}

Cut WholeGraph::CutOf(const SegmentedFusion& segmented) const {
  Cut cut(segmented.group_limit());
  for (uint32_t g = 0; g < singletons_->num_groups(); ++g) {
    for (ExprId e : singletons_->exprs(GroupId(g))) {
      if (units_.is_unit[e.index()]) cut[segmented.home(e).index()] |= Bit(static_cast<int>(g));
    }
  }
  return cut;
}

int64_t WholeGraph::BytesOf(const SegmentedFusion& segmented) const {
  const SegmentationTotals totals = TotalsOf(segmented, sizes_);
  return totals.bytes + totals.kernels * kLaunchBytes;
}

absl::StatusOr<SegmentedFusion> WholeGraph::Segmented(const Cut& cut) {
  Partition partition;
  partition.num_groups = static_cast<uint32_t>(cut.size());
  partition.home.resize(fusion_.num_exprs());
  for (uint32_t g = 0; g < cut.size(); ++g) {
    for (ExprId e : model_->Exprs(cut[g])) {
      if (units_.is_unit[e.index()]) continue;
      GroupId& home = partition.home[e.index()];
      if (home.valid()) {
        partition.copies.emplace_back(e, GroupId(g));
      } else {
        home = GroupId(g);
      }
    }
  }
  for (uint32_t u = 0; u < singletons_->num_groups(); ++u) {
    for (ExprId e : singletons_->exprs(GroupId(u))) {
      if (!units_.is_unit[e.index()]) continue;
      for (uint32_t g = 0; g < cut.size(); ++g) {
        if ((cut[g] & Bit(static_cast<int>(u))) != 0) partition.home[e.index()] = GroupId(g);
      }
    }
  }
  for (uint32_t g = 0; g < cut.size(); ++g) {  // Copies of what has a unit elsewhere.
    for (ExprId e : model_->Exprs(cut[g])) {
      if (units_.is_unit[e.index()] && partition.home[e.index()] != GroupId(g)) {
        partition.copies.emplace_back(e, GroupId(g));
      }
    }
  }
  SEAM_ASSIGN_OR_RETURN(SegmentedFusion s,
                        SegmentedFusion::Create(fusion_, singletons_->shared_axes(), partition));
  for (uint32_t g = 0; g < cut.size(); ++g) {
    s.set_scheduler(GroupId(g), model_->PriceOf(cut[g]).scheduler);
  }
  return s;
}

Cut BestCut(CutModel& model) {
  const int n = model.num_units();
  const UnitMask all = Bit(n) - 1;
  struct State {
    int64_t bytes = INT64_MAX;
    UnitMask last = 0;  // The block that was added last.
  };
  std::vector<State> states(all + 1);
  states[0].bytes = 0;
  std::vector<UnitMask> before(all + 1, 0);  // What the units of a set read from.
  for (UnitMask m = 1; m <= all; ++m) {
    before[m] = before[m & (m - 1)] | model.producers(__builtin_ctzll(m));
  }
  for (UnitMask done = 0; done < all; ++done) {
    if (states[done].bytes == INT64_MAX) continue;
    const UnitMask rest = all & ~done;
    for (UnitMask block = rest; block != 0; block = (block - 1) & rest) {
      if ((before[block] & ~done & ~block) != 0) continue;
      const CutModel::Price& price = model.PriceOf(block);
      if (!price.legal) continue;
      const int64_t bytes = states[done].bytes + price.bytes;
      if (bytes < states[done | block].bytes) states[done | block] = {bytes, block};
    }
  }
  Cut cut;
  for (UnitMask left = all; left != 0; left &= ~cut.back()) cut.push_back(states[left].last);
  return cut;
}

Cut LongSearch(CutModel& model, const Cut& start, int restarts, int steps, uint32_t seed) {
  std::mt19937 rng(seed);
  const auto below = [&](size_t n) { return static_cast<size_t>(rng()) % n; };
  Cut best = start;
  int64_t best_bytes = model.BytesOf(best);
  for (int restart = 0; restart < restarts; ++restart) {
    Cut cut = best;
    if (restart % 3 == 2) {  // Every third from single units.
      cut.clear();
      for (int u = 0; u < model.num_units(); ++u) cut.push_back(Bit(u));
    }
    int64_t bytes = model.BytesOf(cut);
    for (int step = 0; step < steps; ++step) {
      const double temperature = (24 << 20) * std::pow(0.01, static_cast<double>(step) / steps);
      Cut next = cut;
      const size_t a = below(cut.size());
      const int move = static_cast<int>(below(4));
      if (move == 0 && cut.size() > 1) {  // Join two.
        size_t b = below(cut.size() - 1);
        b += b >= a;
        next[a] |= next[b];
        next.erase(next.begin() + static_cast<std::ptrdiff_t>(b));
      } else {
        std::vector<int> units;
        for (UnitMask m = cut[a]; m != 0; m &= m - 1) units.push_back(__builtin_ctzll(m));
        const int u = units[below(units.size())];
        UnitMask part = Bit(u);  // A unit, or a cone of it, to a new block or another one.
        if (move == 2) part = model.Upstream(u, cut[a]);
        if (move == 3) part = model.Downstream(u, cut[a]);
        const size_t b = below(cut.size() + 1);
        if (b == a || (part == cut[a] && b == cut.size())) continue;
        if (b == cut.size()) next.push_back(0);
        next[b] |= part;
        next[a] &= ~part;
        if (next[a] == 0) next.erase(next.begin() + static_cast<std::ptrdiff_t>(a));
      }
      if (!std::all_of(next.begin(), next.end(),
                       [&](UnitMask block) { return model.PriceOf(block).legal; })) {
        continue;
      }
      const int64_t next_bytes = model.BytesOf(next);
      const double chance = std::exp(static_cast<double>(bytes - next_bytes) / temperature);
      if (chance * 4294967296.0 < static_cast<double>(rng()) || !model.IsAcyclic(next)) continue;
      cut = std::move(next);
      bytes = next_bytes;
      if (bytes < best_bytes) {
        best = cut;
        best_bytes = bytes;
      }
    }
  }
  return best;
}

}  // namespace seam
