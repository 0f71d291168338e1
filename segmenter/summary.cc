#include "segmenter/summary.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "segmenter/traffic.h"

namespace seam {
namespace {

constexpr double kLogUnit = 65536;

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

ValueFacts FactsOf(const Fusion& fusion, const std::vector<bool>& kept) {
  ValueFacts facts;
  facts.left_out.resize(fusion.num_exprs());
  for (uint32_t i = 0; i < kept.size(); ++i) facts.left_out[i] = !kept[i];
  facts.is_free_to_read.assign(fusion.num_vals(), true);
  facts.is_free_to_return.assign(fusion.num_vals(), true);
  std::vector<bool> row_major(fusion.num_vals(), true);  // As far as the views say.
  // Where strides give its elements in the memory of what it is a view of.
  std::vector<bool> has_strides(fusion.num_vals(), true);
  // In memory that the caller has, or gets: what he wants of intermediate memory is copied.
  std::vector<bool> is_callers(fusion.num_vals());
  facts.weightless.resize(fusion.num_vals());
  facts.is_view_of_source.resize(fusion.num_vals());
  const auto one_element = [&](ValId v) {
    const auto domain = fusion.domain(v);
    return std::all_of(domain.begin(), domain.end(),
                       [](const IterDomain& d) { return d.is_broadcast(); });
  };
  facts.is_read_of_source.resize(fusion.num_vals());
  facts.connects_readers.resize(fusion.num_vals());
  facts.is_read_in_part.resize(fusion.num_vals());
  for (uint32_t i = 0; i < fusion.num_exprs(); ++i) {
    const ExprId e(i);
    if (!facts.left_out[i] && ReadsInPart(fusion, e, 0))
      facts.is_read_in_part[fusion.operands(e)[0].index()] = true;
  }
  for (uint32_t i = 0; i < fusion.num_vals(); ++i) {
    const ValId v(i);
    const ExprId e = fusion.definition(v);
    facts.connects_readers[i] = !one_element(v);
    is_callers[i] = !e.valid() || fusion.is_output(v);
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
    has_strides[i] =
        has_strides[from] && op != OpKind::Pad && (op != OpKind::Reshape || row_major[i]);
    facts.is_free_to_return[i] = has_strides[i];
    if (fusion.is_output(v)) {
      facts.is_free_to_read[i] = row_major[i];
      facts.is_free_to_return[i] =
          has_strides[i] && is_callers[from] && !fusion.has_explicit_strides(v);
      has_strides[i] = true;  // If only as a copy.
    }
    is_callers[i] = is_callers[i] || is_callers[from];
  }
  return facts;
}

bool MakesView(const Fusion& fusion, ExprId e) {
  const OpClass c = fusion.info(e).op_class;
  return (c == OpClass::View && fusion.op(e) != OpKind::Pad) || c == OpClass::Broadcast;
}

bool ReadsOtherPlaces(const Fusion& fusion, ExprId e) {
  const OpClass c = fusion.info(e).op_class;
  return c == OpClass::Indexing || c == OpClass::Concat ||
         (c == OpClass::View && fusion.op(e) != OpKind::Reshape);
}

int64_t RecomputeLog(uint32_t num_maps) {
  return num_maps <= 1 ? 0 : std::llround(kLogUnit * std::log2(static_cast<double>(num_maps)));
}

int RecomputeFactor(int64_t log) {
  return static_cast<int>(std::lround(std::exp2(std::min(log / kLogUnit, 30.0))));
}

GroupSummary Summarize(const Fusion& fusion, const AxisMap& axes, const ValueFacts& facts,
                       absl::Span<const ExprId> exprs) {
  constexpr size_t kUsual = 32;
  using Family = absl::InlinedVector<uint32_t, 4>;  // Of sets of the AxisMap, by their numbers.
  const std::vector<AxisSet>& sets = axes.sets();
  const auto is_within = [&](uint32_t a, uint32_t b) {
    return a == b || IsSubset(sets[a], sets[b]);
  };
  const auto contains = [&](uint32_t a, uint32_t b) { return is_within(b, a); };
  struct Value {  // That the group computes.
    ValId val;
    bool plainly_read = false;
    uint32_t exchanged_reads = 0;
    Family upstream;  // The kept sets of the reductions there.
  };
  absl::InlinedVector<Value, kUsual> values;
  struct Place {  // Of an expression.
    uint32_t first_value, component;
  };
  absl::InlinedVector<Place, kUsual> places;
  const auto find = [&](uint32_t c) {
    while (places[c].component != c) c = places[c].component;
    return c;
  };
  const auto connect = [&](uint32_t a, uint32_t b) {
    a = find(a);
    b = find(b);
    places[std::max(a, b)].component = std::min(a, b);
  };
  // Values of others that connect who reads them, and these.
  absl::InlinedVector<std::pair<ValId, uint32_t>, kUsual> shared;

  GroupSummary s;
  s.views_only = !exprs.empty();
  Family spaces, kept;
  for (uint32_t n = 0; n < exprs.size(); ++n) {
    const ExprId e = exprs[n];
    const OpClass c = fusion.info(e).op_class;
    const uint32_t space = axes.space_number(e);
    const bool reduces = IsReduction(c);
    places.push_back({static_cast<uint32_t>(values.size()), n});
    AddToAntichain(spaces, space, contains);
    Family upstream;
    const absl::Span<const ValId> operands = fusion.operands(e);
    for (int i = 0; i < static_cast<int>(operands.size()); ++i) {
      const ValId v = operands[i];
      const ExprId definition = fusion.definition(v);
      const auto at = std::lower_bound(exprs.begin(), exprs.begin() + n, definition);
      if (at == exprs.begin() + n || *at != definition) {
        if (facts.connects_readers[v.index()]) shared.emplace_back(v, n);
        continue;
      }
      const uint32_t from = static_cast<uint32_t>(at - exprs.begin());
      if (!facts.weightless[v.index()]) connect(from, n);
      Value& value =
          values[places[from].first_value + v.index() - fusion.result(definition).index()];
      for (uint32_t k : value.upstream) {
        if (reduces || !is_within(space, k)) AddToAntichain(s.held, sets[k], IsSubset);
        AddToAntichain(upstream, k, is_within);
      }
      const AxisSet& exchanged = axes.exchanged(e, i);
      if (exchanged.empty()) {
        value.plainly_read = true;
      } else {
        ++value.exchanged_reads;
        if (!value.upstream.empty())
          AddToAntichain(s.held, Difference(axes.axes(v), exchanged), IsSubset);
      }
    }
    if (reduces) {
      const uint32_t k = axes.axes_number(fusion.result(e));
      AddToAntichain(upstream, k, is_within);
      AddToAntichain(kept, k, std::equal_to<>());
      ++s.num_reductions;
      if (s.reductions.size() < GroupSummary::kNamedReductions) s.reductions.push_back(e);
    }
    for (int r = 0; r < fusion.num_results(e); ++r)
      values.push_back({fusion.result(e, r), false, 0, upstream});
    ++s.num_exprs;
    s.views_only &= MakesView(fusion, e);
    s.moves |= ReadsOtherPlaces(fusion, e);
    s.turns |= fusion.op(e) == OpKind::Permute;
    s.library |= c == OpClass::Library || c == OpClass::Template || c == OpClass::Communication;
    s.barrier |= c == OpClass::Barrier;
  }
  std::sort(shared.begin(), shared.end());
  for (size_t i = 1; i < shared.size(); ++i) {
    if (shared[i].first == shared[i - 1].first) connect(shared[i - 1].second, shared[i].second);
  }
  int components = 0;
  for (uint32_t n = 0; n < exprs.size(); ++n) {
    if (!facts.weightless[values[places[n].first_value].val.index()])
      components += places[n].component == n;
  }
  s.connected = components <= 1;
  int64_t log = 0;
  for (const Value& value : values) {
    if (!facts.is_read_of_source[value.val.index()])
      log += RecomputeLog(value.exchanged_reads + (value.plainly_read ? 1 : 0));
  }
  s.recompute_factor = RecomputeFactor(log);
  const auto expand = [&](const Family& family) {
    std::vector<AxisSet> list;
    list.reserve(family.size());
    for (uint32_t k : family) list.push_back(sets[k]);
    return list;
  };
  s.spaces = expand(spaces);
  s.kept = expand(kept);
  for (std::vector<AxisSet>* list : {&s.spaces, &s.held, &s.kept})
    std::sort(list->begin(), list->end());
  return s;
}

}  // namespace seam
