#include "scheduler/choose.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <numeric>
#include <optional>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "ir/status.h"
#include "scheduler/axis_order.h"
#include "scheduler/kernel/access.h"
#include "scheduler/kernel/rows_ahead.h"
#include "scheduler/trace.h"
#include "scheduler/vector_fit.h"
#include "segmenter/traffic.h"

namespace seam {
namespace {

// Evaluates extents of the group at the context's sizes.
class Sizes {
 public:
  Sizes(const Fusion& group, const ScheduleContext& context)
      : symbols_(group.env().symbols()), context_(context) {}
  absl::StatusOr<int64_t> Of(SymInt e) const {
    return Evaluate(e, [&](const SymNode* s) -> std::optional<int64_t> {
      for (size_t i = 0; i < symbols_.size(); ++i) {
        if (symbols_[i] == s) return context_.sizes[i];
      }
      return std::nullopt;
    });
  }

 private:
  std::vector<const SymNode*> symbols_;
  const ScheduleContext& context_;
};

using TensorBytes = std::vector<std::pair<ValId, int64_t>>;

// What the group moves of each of its inputs and outputs: of an input that it only slices or looks
// things up in as much as these return, at most all.
absl::StatusOr<TensorBytes> BytesOfTensors(const Fusion& group, const Sizes& sizes) {
  std::vector<SymInt> read(group.num_vals(), 0);
  for (uint32_t i = 0; i < group.num_exprs(); ++i) {
    const ExprId e(i);
    for (int k = 0; k < static_cast<int>(group.operands(e).size()); ++k) {
      const ValId v = group.operands(e)[k];
      read[v.index()] += group.type(ReadsInPart(group, e, k) ? group.result(e) : v).numel();
    }
  }
  TensorBytes bytes;
  const auto add = [&](ValId v, SymInt elements) -> absl::Status {
    SEAM_ASSIGN_OR_RETURN(const int64_t n, sizes.Of(elements));
    bytes.emplace_back(v, n * DTypeBytes(group.dtype(v)));
    return absl::OkStatus();
  };
  for (ValId v : group.inputs())
    SEAM_RETURN_IF_ERROR(add(v, Min(group.type(v).numel(), read[v.index()])));
  for (ValId v : group.outputs()) SEAM_RETURN_IF_ERROR(add(v, group.type(v).numel()));
  return bytes;
}

// Large: at least a quarter of what is moved of the tensor of which most is.
std::vector<ValId> LargeOf(const TensorBytes& tensors) {
  int64_t most = 0;
  for (const auto& [v, bytes] : tensors) most = std::max(most, bytes);
  std::vector<ValId> large;
  for (const auto& [v, bytes] : tensors) {
    if (bytes * 4 >= most) large.push_back(v);
  }
  return large;
}

int64_t SumOf(const TensorBytes& tensors) {
  int64_t all = 0;
  for (const auto& [v, bytes] : tensors) all += bytes;
  return all;
}

// The symbols that make extents of the group 0, pinned to their values: a kernel that knows which
// axes are empty computes nothing for them.
absl::StatusOr<std::vector<SymbolFact>> FactsOfEmptyAxes(const SizedGroup& sized,
                                                         const Sizes& sizes) {
  std::vector<SymbolFact> facts;
  for (SymInt extent : sized.shape.extents) {
    SEAM_ASSIGN_OR_RETURN(const int64_t value, sizes.Of(extent));
    if (value != 0) continue;
    for (const SymNode* symbol : FreeSymbols(extent)) {
      SymbolFact fact{std::string(symbol->name)};
      SEAM_ASSIGN_OR_RETURN(fact.value, sizes.Of(SymInt::FromNode(symbol)));
      if (std::find(facts.begin(), facts.end(), fact) == facts.end()) facts.push_back(fact);
    }
  }
  return facts;
}

// Of each symbol. Linear in the nodes of the extents times the symbols of those that divide.
std::vector<Divisors> FindDivisors(const Fusion& group, const GroupShape& shape) {
  constexpr int64_t kMostDivisor = 4096;
  const std::vector<const SymNode*> symbols = group.env().symbols();
  std::vector<Divisors> divisors(symbols.size());
  for (const SymNode* node : TopologicalNodes(shape.extents)) {
    if (node->kind != SymKind::FloorDiv) continue;
    const std::optional<int64_t> constant = node->children[1].maybe_int();
    for (const SymNode* symbol : FreeSymbols(SymInt::FromNode(node))) {
      Divisors& of = divisors[absl::c_find(symbols, symbol) - symbols.begin()];
      if (!constant) {
        of.by_symbol = true;
      } else if (const int64_t both = std::lcm(of.constant, std::min(*constant, kMostDivisor + 1));
                 both <= kMostDivisor) {
        of.constant = both;
      }
    }
  }
  return divisors;
}

}  // namespace

absl::StatusOr<SizedGroup> SizeGroup(const Fusion& group, const ScheduleContext& context) {
  return SizeGroup(group, context, Schedule());
}

absl::StatusOr<SizedGroup> SizeGroup(const Fusion& group, const ScheduleContext& context,
                                     const Schedule& schedule) {
  if (context.sizes.size() != group.env().symbols().size()) {
    return absl::InvalidArgumentError(absl::StrCat("group ", std::string(group.name()), ": ",
                                                   context.sizes.size(), " sizes for ",
                                                   group.env().symbols().size(), " symbols"));
  }
  SizedGroup sized{&group, {}, context};
  SEAM_ASSIGN_OR_RETURN(sized.shape, ShapeFor(group, schedule));
  sized.divisors = FindDivisors(group, sized.shape);
  const Sizes sizes(group, sized.context);
  SEAM_ASSIGN_OR_RETURN(sized.rows, sizes.Of(sized.shape.row_extent));
  SEAM_ASSIGN_OR_RETURN(sized.batches, sizes.Of(sized.shape.Extent(sized.shape.batch)));
  std::vector<AxisId> widest;
  for (const std::vector<AxisId>& held : sized.shape.held) {
    SEAM_ASSIGN_OR_RETURN(const int64_t columns, sizes.Of(sized.shape.Extent(held)));
    const bool first = &held == &sized.shape.held.front();
    if (first || columns > sized.columns) widest = held;
    sized.columns = std::max(sized.columns, columns);
    sized.fewest_columns = first ? columns : std::min(sized.fewest_columns, columns);
  }
  for (auto a = sized.shape.order.rbegin(); a != sized.shape.order.rend(); ++a) {
    const bool is_row = absl::c_linear_search(sized.shape.rows, *a);
    // Other columns are those of tensors that are seldom as wide.
    if (!is_row && !absl::c_linear_search(widest, *a)) continue;
    SEAM_ASSIGN_OR_RETURN(const int64_t n, sizes.Of(sized.shape.axes.extent(*a)));
    if (!is_row && sized.beside > 1) break;
    (is_row ? sized.beside : sized.run) *= std::max<int64_t>(n, 1);
  }
  for (uint32_t i = 0; i < group.num_exprs(); ++i) {
    if (sized.shape.crosses[i] == Crossing::kNone) continue;
    SymInt results = 1;
    for (AxisId a : sized.shape.axes.kept(ExprId(i))) results *= sized.shape.axes.extent(a);
    SEAM_ASSIGN_OR_RETURN(const int64_t n, sizes.Of(results));
    const bool of_all = !sized.shape.batch.empty() && !sized.shape.KeepsBatches(ExprId(i));
    int64_t& most = of_all ? sized.whole : sized.finished;
    most = std::max(most, n);
  }
  SEAM_ASSIGN_OR_RETURN(const TensorBytes tensors, BytesOfTensors(group, sizes));
  for (ValId v : LargeOf(tensors)) {
    sized.widest_bytes = std::max(sized.widest_bytes, DTypeBytes(group.dtype(v)));
    sized.narrowest_bytes = std::min(sized.narrowest_bytes, DTypeBytes(group.dtype(v)));
    if (!absl::c_linear_search(group.inputs(), v)) {
      ++sized.large_outputs;
      continue;
    }
    ++sized.large_inputs;
    // What threads fold by themselves has several elements for one of the rows' and columns'.
    SEAM_ASSIGN_OR_RETURN(const int64_t elements, sizes.Of(group.type(v).numel()));
    const int64_t points = std::max<int64_t>(1, sized.rows * sized.shape.points * sized.columns);
    const int64_t times = sized.shape.unrolls ? CeilDivide(elements, points) : 1;
    sized.input_words += static_cast<double>(times) * DTypeBytes(group.dtype(v)) / 4.0;
  }
  return sized;
}

absl::StatusOr<TracedKernel> TraceWith(const SizedGroup& sized, const Schedule& s) {
  TraceOptions options;
  options.facts = s.facts;
  options.alignment_bytes = s.alignment_bytes;
  SEAM_ASSIGN_OR_RETURN(const GroupShape shape, ShapeFor(*sized.group, s));
  return Trace(*sized.group, shape, options);
}

absl::StatusOr<int64_t> MovedBytes(const SizedGroup& sized) {
  SEAM_ASSIGN_OR_RETURN(const auto tensors,
                        BytesOfTensors(*sized.group, Sizes(*sized.group, sized.context)));
  return SumOf(tensors);
}

absl::StatusOr<int64_t> ValueOf(const SizedGroup& sized, SymInt expression) {
  return Sizes(*sized.group, sized.context).Of(expression);
}

SymInt LargestReach(const Fusion& group) {
  SymInt reach = 1;
  for (uint32_t i = 0; i < group.num_vals(); ++i) {
    const ValId v(i);
    const SymVector strides = group.strides(v);
    SymInt last = 1;
    for (int d = 0; d < group.rank(v); ++d)
      last += (Max(group.domain(v)[d].extent, 1) - 1) * strides[d];
    reach = Max(reach, Max(last, group.type(v).numel()));
  }
  return reach;
}

std::vector<SymbolFact> DivisibilityFacts(const SizedGroup& sized, int vector) {
  std::vector<SymbolFact> facts;
  const std::vector<const SymNode*> symbols = sized.group->env().symbols();
  for (size_t i = 0; i < symbols.size(); ++i) {
    const int64_t multiple = std::gcd(sized.context.sizes[i], vector * sized.divisors[i].constant);
    if (multiple > 1) facts.push_back({std::string(symbols[i]->name), multiple});
  }
  return facts;
}

void AddDivisibility(const SizedGroup& sized, int vector, Schedule& s) {
  for (SymbolFact& fact : DivisibilityFacts(sized, vector)) {
    const auto same = [&](const SymbolFact& other) { return other.symbol == fact.symbol; };
    if (std::none_of(s.facts.begin(), s.facts.end(), same)) s.facts.push_back(std::move(fact));
  }
}

void AddMultiples(const SizedGroup& sized, const std::vector<const SymNode*>& symbols, int multiple,
                  Schedule& s) {
  for (SymbolFact& fact : DivisibilityFacts(sized, multiple)) {
    if (!absl::c_any_of(symbols, [&](auto* symbol) { return symbol->name == fact.symbol; }))
      continue;
    const auto known = absl::c_find_if(
        s.facts, [&](const SymbolFact& other) { return other.symbol == fact.symbol; });
    if (known == s.facts.end()) {
      s.facts.push_back(std::move(fact));
    } else if (known->value < 0) {
      known->multiple = std::lcm(known->multiple, fact.multiple);
    }
  }
}

void AddLines(const SizedGroup& sized, Schedule& s) {
  const int64_t line = kernel::kLineBytes / sized.narrowest_bytes;
  if (sized.columns % line != 0) return;
  std::vector<const SymNode*> symbols;
  for (const std::vector<AxisId>& columns : sized.shape.held) {
    for (const SymNode* symbol : FreeSymbols(sized.shape.Extent(columns)))
      symbols.push_back(symbol);
  }
  AddMultiples(sized, symbols, static_cast<int>(line), s);
}

absl::StatusOr<std::vector<std::vector<AxisId>>> OrdersOfLarge(const SizedGroup& sized) {
  const Fusion& group = *sized.group;
  SEAM_ASSIGN_OR_RETURN(const TensorBytes tensors,
                        BytesOfTensors(group, Sizes(group, sized.context)));
  std::vector<std::vector<AxisId>> orders;
  for (ValId v : LargeOf(tensors))
    absl::c_move(MemoryOrders(group, sized.shape, v), std::back_inserter(orders));
  return orders;
}

absl::StatusOr<bool> LieAcross(const SizedGroup& sized) {
  bool along_rows = false, along_columns = false;
  const auto is_row = [&](AxisId a) { return absl::c_linear_search(sized.shape.rows, a); };
  const auto column =
      std::find_if_not(sized.shape.order.rbegin(), sized.shape.order.rend(), is_row);
  if (sized.shape.rows.empty() || column == sized.shape.order.rend()) return false;
  SEAM_ASSIGN_OR_RETURN(const std::vector<std::vector<AxisId>> orders, OrdersOfLarge(sized));
  for (const std::vector<AxisId>& order : orders) {
    if (absl::c_all_of(order, is_row)) continue;
    const AxisId fastest = order.back();
    const bool of_rows = fastest == sized.shape.rows.back(), of_columns = fastest == *column;
    // One that lies along another axis has single elements everywhere.
    if (!of_rows && !of_columns) return false;
    along_rows |= of_rows;
    along_columns |= of_columns;
  }
  return along_rows && along_columns;
}

namespace {

// Sets the facts, index32 and alignment_bytes, and says what part of the large tensors' bytes is
// then moved by single elements, each of an address or a mask of its own. No more facts than it
// takes for that part; those of empty axes alone, and 1, where it is above `most`.
absl::StatusOr<double> FitFacts(const SizedGroup& sized, double most, Schedule& schedule) {
  const Fusion& group = *sized.group;
  const Sizes sizes(group, sized.context);
  SEAM_ASSIGN_OR_RETURN(const TensorBytes tensors, BytesOfTensors(group, sizes));
  const std::vector<ValId> large = LargeOf(tensors);
  const auto all = static_cast<double>(SumOf(tensors));
  // Alignment: what the vectors need of it, capped by what there is.
  schedule.alignment_bytes = std::min(16, sized.context.alignment_bytes);
  SEAM_ASSIGN_OR_RETURN(const std::vector<SymbolFact> pinned, FactsOfEmptyAxes(sized, sizes));
  SEAM_ASSIGN_OR_RETURN(const int64_t reach, sizes.Of(LargestReach(group)));
  schedule.index32 = reach <= kIndex32Limit;
  const auto by_element = [&](const std::vector<SymbolFact>& facts,
                              double limit) -> absl::StatusOr<double> {
    TraceOptions options;
    options.facts = facts;
    options.alignment_bytes = schedule.alignment_bytes;
    options.chan_welford = schedule.chan_welford;
    SEAM_ASSIGN_OR_RETURN(const TracedKernel traced, Trace(group, sized.shape, options));
    return BytesByElement(sized, traced, large, schedule, limit);
  };
  schedule.facts = pinned;
  // What is divided by symbols shows only by values.
  const std::vector<const SymNode*> symbols = group.env().symbols();
  std::vector<const SymNode*> by_symbols;
  for (size_t i = 0; i < symbols.size(); ++i) {
    const auto is_it = [&](const SymbolFact& fact) { return fact.symbol == symbols[i]->name; };
    if (sized.divisors[i].by_symbol && absl::c_none_of(pinned, is_it))
      by_symbols.push_back(symbols[i]);
  }
  Pin(sized, by_symbols, schedule);
  const int vector = std::max(schedule.vector, schedule.tiles ? schedule.registers : 1);
  AddDivisibility(sized, vector, schedule);
  SEAM_ASSIGN_OR_RETURN(const double bytes, by_element(schedule.facts, most * all));
  if (bytes > most * all) {
    schedule.facts = pinned;
    return 1;
  }
  for (size_t i = schedule.facts.size(); i-- > pinned.size();) {
    std::vector<SymbolFact> fewer = schedule.facts;
    fewer.erase(fewer.begin() + static_cast<int64_t>(i));
    SEAM_ASSIGN_OR_RETURN(double without, by_element(fewer, bytes));
    if (without <= bytes) {
      schedule.facts = std::move(fewer);
      continue;
    }
    // Smaller multiples of what is divided.
    fewer = schedule.facts;
    for (int64_t& multiple = fewer[i].multiple; multiple > vector && multiple % 2 == 0;) {
      multiple /= 2;
      SEAM_ASSIGN_OR_RETURN(without, by_element(fewer, bytes));
      if (without > bytes) break;
      schedule.facts = fewer;
    }
  }
  return all == 0 ? 0 : bytes / all;
}

}  // namespace

absl::StatusOr<bool> ChooseFacts(const SizedGroup& sized, Schedule& schedule) {
  // A masked or unlike access of a small part of all is no reason to move the rest by elements:
  // 8 lanes' elements of a line take 4 times as many transactions as with a vector of 1, the
  // others' a quarter of the instructions.
  constexpr double kLeast = 1.0 / 16;
  SEAM_ASSIGN_OR_RETURN(const double part, FitFacts(sized, kLeast, schedule));
  return part <= kLeast;
}

absl::Status ChooseVector(const SizedGroup& sized, int limit, Schedule& schedule) {
  for (schedule.vector = limit;; schedule.vector /= 2) {
    SEAM_ASSIGN_OR_RETURN(const bool fits, ChooseFacts(sized, schedule));
    if (schedule.vector == 1) schedule.shift = false;
    if (fits || schedule.vector == 1) return absl::OkStatus();
  }
}

absl::StatusOr<double> TakeElements(const SizedGroup& sized, int elements, Schedule& schedule) {
  // A tensor may be read at several places.
  constexpr double kAnything = std::numeric_limits<double>::infinity();
  schedule.vector = elements;
  return FitFacts(sized, kAnything, schedule);
}

void Pin(const SizedGroup& sized, const std::vector<const SymNode*>& symbols, Schedule& s) {
  const std::vector<const SymNode*> all = sized.group->env().symbols();
  for (const SymNode* symbol : symbols) {
    const size_t i = absl::c_find(all, symbol) - all.begin();
    std::erase_if(s.facts, [&](const SymbolFact& f) { return f.symbol == symbol->name; });
    s.facts.push_back({std::string(symbol->name), 1, sized.context.sizes[i]});
  }
}

void PinColumns(const SizedGroup& sized, Schedule& s) {
  for (const std::vector<AxisId>& columns : sized.shape.held)
    Pin(sized, FreeSymbols(sized.shape.Extent(columns)), s);
}

int64_t VectorsOf(const SizedGroup& sized, const Schedule& s) {
  return std::max<int64_t>(
      1, s.shift ? sized.columns / s.vector : CeilDivide(sized.columns, s.vector));
}

int ColumnStates(const SizedGroup& sized) {
  int states = 0;
  for (uint32_t i = 0; i < sized.group->num_exprs(); ++i) {
    const OpKind op = sized.group->op(ExprId(i));
    if (sized.shape.crosses[i] != Crossing::kRows) continue;
    // A thread counts its rows once for all columns, unless these states lie in memory.
    states += kernel::NumComponents(op) - (op == OpKind::Welford);
  }
  return states;
}

int64_t ResidentCtas(const Schedule& s, const DeviceInfo& device) {
  return int64_t{CtasInClusters(device, s.cluster)} *
         std::clamp(s.min_ctas_per_sm, 1, std::max(1, device.max_threads_per_sm / s.threads()));
}

}  // namespace seam
