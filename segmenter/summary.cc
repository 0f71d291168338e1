#include "segmenter/summary.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "absl/container/inlined_vector.h"

namespace seam {
namespace {

constexpr size_t kNamedReductions = 16;
constexpr double kLogUnit = 65536;

const AxisSet& SetOf(const AxisSet& set) { return set; }
const AxisSet& SetOf(const AxisSet* set) { return *set; }

// Adds `set` to a family without subsets of one another, which keeps the smallest or the largest.
template <typename Family, typename Set>
void AddToAntichain(Family& family, const Set& set, bool keep_smallest) {
  const auto covers = [&](const Set& a, const Set& b) {  // b is not needed beside a.
    return keep_smallest ? IsSubset(SetOf(a), SetOf(b)) : IsSubset(SetOf(b), SetOf(a));
  };
  for (const Set& member : family) {
    if (covers(member, set)) return;
  }
  family.erase(std::remove_if(family.begin(), family.end(),
                              [&](const Set& member) { return covers(set, member); }),
               family.end());
  family.push_back(set);
}

bool IsReduction(OpClass c) { return c == OpClass::Reduction || c == OpClass::Welford; }

}  // namespace

AxisSet GroupSummary::GridAxes() const {
  if (spaces.empty()) return {};
  AxisSet p = spaces[0];
  for (const AxisSet& space : spaces) p = Intersection(p, space);
  for (const AxisSet& set : held) p = Intersection(p, set);
  return p;
}

bool GroupSummary::IsScalar() const {
  return std::all_of(spaces.begin(), spaces.end(), [](const AxisSet& s) { return s.empty(); });
}

ValueFacts FactsOf(const Fusion& fusion) {
  ValueFacts facts;
  facts.is_free_to_read.assign(fusion.num_vals(), true);
  facts.is_free_to_return.assign(fusion.num_vals(), true);
  std::vector<bool> row_major(fusion.num_vals(), true);  // As far as the views say.
  facts.weightless.resize(fusion.num_vals());
  facts.is_view_of_source.resize(fusion.num_vals());
  const auto one_element = [&](ValId v) {
    const auto domain = fusion.domain(v);
    return std::all_of(domain.begin(), domain.end(),
                       [](const IterDomain& d) { return d.is_broadcast(); });
  };
  facts.is_read_of_source.resize(fusion.num_vals());
  facts.connects_readers.resize(fusion.num_vals());
  for (uint32_t i = 0; i < fusion.num_vals(); ++i) {
    const ValId v(i);
    const ExprId e = fusion.definition(v);
    facts.connects_readers[i] = !one_element(v);
    if (AxisMap::IsSource(fusion, v)) {
      facts.weightless[i] = !e.valid() && one_element(v);
      facts.is_view_of_source[i] = facts.is_read_of_source[i] = true;
      continue;
    }
    const OpClass c = fusion.info(e).op_class;
    const auto all = [&](const std::vector<bool>& fact) {
      return std::all_of(fusion.operands(e).begin(), fusion.operands(e).end(),
                         [&](ValId operand) { return fact[operand.index()]; });
    };
    const bool view = c == OpClass::View || c == OpClass::Broadcast;
    facts.weightless[i] =
        (c == OpClass::Factory || view || c == OpClass::Elementwise || c == OpClass::Cast) &&
        all(facts.weightless);
    if (facts.weightless[i]) facts.connects_readers[i] = false;
    facts.is_view_of_source[i] = c == OpClass::Factory || (view && all(facts.is_view_of_source));
    facts.is_read_of_source[i] =
        facts.is_view_of_source[i] || (view && all(facts.is_read_of_source)) ||
        (c == OpClass::Cast && all(facts.is_read_of_source) &&
         DTypeBytes(fusion.dtype(v)) > DTypeBytes(fusion.dtype(fusion.operands(e)[0])));
    if (!view) continue;
    const uint32_t from = fusion.operands(e)[0].index();
    const OpKind op = fusion.op(e);
    const bool keeps_order =
        op == OpKind::Reshape || op == OpKind::Squeeze || op == OpKind::Broadcast;
    row_major[i] = keeps_order && row_major[from];
    facts.is_free_to_read[i] =
        row_major[i] || (op == OpKind::Permute && facts.is_free_to_read[from]);
    facts.is_free_to_return[i] = facts.is_free_to_return[from] && op != OpKind::Pad &&
                                 (op != OpKind::Reshape || row_major[i]);
    if (fusion.is_output(v)) facts.is_free_to_read[i] = row_major[i];
  }
  return facts;
}

int64_t RecomputeLog(uint32_t num_maps) {
  return num_maps <= 1 ? 0 : std::llround(kLogUnit * std::log2(static_cast<double>(num_maps)));
}

int RecomputeFactor(int64_t log) {
  return static_cast<int>(std::lround(std::exp2(std::min(log / kLogUnit, 30.0))));
}

GroupSummary Summarize(const Fusion& fusion, const AxisMap& axes, const ValueFacts& facts,
                       absl::Span<const ExprId> exprs) {
  GroupSummary s;
  s.views_only = !exprs.empty();
  // Values of the group: whether computed here, the kept sets of the reductions upstream, how they
  // are read.
  using Upstream = absl::InlinedVector<const AxisSet*, 2>;
  struct Value {
    bool computed = false, plainly_read = false;
    uint32_t exchanged_reads = 0;
    int component = -1;  // Of what defines it or of the first who reads it.
    Upstream upstream;
  };
  std::vector<ValId> ids;  // Of the values, ascending.
  for (ExprId e : exprs) {
    const auto operands = fusion.operands(e);
    ids.insert(ids.end(), operands.begin(), operands.end());
    for (int r = 0; r < fusion.num_results(e); ++r) ids.push_back(fusion.result(e, r));
  }
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  std::vector<Value> values(ids.size());
  const auto value_of = [&](ValId v) -> Value& {
    return values[std::lower_bound(ids.begin(), ids.end(), v) - ids.begin()];
  };
  std::vector<int> component(exprs.size());
  std::iota(component.begin(), component.end(), 0);
  const auto find = [&](int c) {
    while (component[c] != c) c = component[c];
    return c;
  };
  for (size_t n = 0; n < exprs.size(); ++n) {
    const ExprId e = exprs[n];
    const OpClass c = fusion.info(e).op_class;
    const AxisSet& space = axes.space(e);
    const bool reduces = IsReduction(c);
    AddToAntichain(s.spaces, space, /*keep_smallest=*/false);
    Upstream upstream;
    for (int i = 0; i < static_cast<int>(fusion.operands(e).size()); ++i) {
      const ValId v = fusion.operands(e)[i];
      Value& value = value_of(v);
      const AxisSet& exchanged = axes.exchanged(e, i);
      for (const AxisSet* k : value.upstream) {
        if (reduces || !IsSubset(space, *k)) AddToAntichain(s.held, *k, /*keep_smallest=*/true);
        AddToAntichain(upstream, k, /*keep_smallest=*/true);
      }
      if (exchanged.empty()) {
        value.plainly_read = true;
      } else {
        ++value.exchanged_reads;
        if (!value.upstream.empty()) {
          AddToAntichain(s.held, Difference(axes.axes(v), exchanged), /*keep_smallest=*/true);
        }
      }
      if (value.computed ? !facts.weightless[v.index()] : facts.connects_readers[v.index()]) {
        if (value.component < 0) value.component = static_cast<int>(n);
        const int a = find(value.component), b = find(static_cast<int>(n));
        component[std::max(a, b)] = std::min(a, b);
      }
    }
    if (reduces) {
      const AxisSet& kept = axes.kept(e);
      AddToAntichain(upstream, &kept, /*keep_smallest=*/true);
      s.kept.push_back(kept);
      ++s.num_reductions;
      if (s.reductions.size() < kNamedReductions) s.reductions.push_back(e);
    }
    for (int r = 0; r < fusion.num_results(e); ++r) {
      Value& value = value_of(fusion.result(e, r));
      value.computed = true;
      value.upstream = upstream;
      value.component = static_cast<int>(n);
    }
    ++s.num_exprs;
    s.views_only &= c == OpClass::View || c == OpClass::Broadcast;
    s.library |= c == OpClass::Library || c == OpClass::Template || c == OpClass::Communication;
    s.barrier |= c == OpClass::Barrier;
  }
  int components = 0;
  for (size_t n = 0; n < exprs.size(); ++n) {
    if (!facts.weightless[fusion.result(exprs[n]).index()])
      components += find(n) == static_cast<int>(n);
  }
  s.connected = components <= 1;
  int64_t log = 0;
  for (size_t i = 0; i < ids.size(); ++i) {
    const Value& value = values[i];
    if (value.computed && !facts.is_read_of_source[ids[i].index()]) {
      log += RecomputeLog(value.exchanged_reads + (value.plainly_read ? 1 : 0));
    }
  }
  s.recompute_factor = RecomputeFactor(log);
  std::sort(s.spaces.begin(), s.spaces.end());
  std::sort(s.held.begin(), s.held.end());
  std::sort(s.kept.begin(), s.kept.end());
  s.kept.erase(std::unique(s.kept.begin(), s.kept.end()), s.kept.end());
  return s;
}

}  // namespace seam
