#include "scheduler/variants.h"

#include <algorithm>
#include <set>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "ir/status.h"
#include "scheduler/choose.h"
#include "scheduler/reduction_turns.h"
#include "scheduler/schedule_fields.h"

namespace seam {
namespace {

// A kernel for rows of this length alone: no field of a Schedule, but a fact of it.
constexpr absl::string_view kConstant = "constant";
// CTAs an SM, by the registers that so many leave a thread.
constexpr absl::string_view kThreadRegisters = "thread_registers";

// A schedule, and what was set in it by name.
struct Changed {
  Schedule schedule;
  std::set<std::string> fields;
  bool constant = false;
  int thread_registers = 0;

  bool sets(absl::string_view field) const { return fields.contains(std::string(field)); }
  void Set(const std::string& field, int value) {
    fields.insert(field);
    if (field == kConstant) constant = value != 0;
    if (field == kThreadRegisters) thread_registers = value;
    VisitFields(schedule, [&](absl::string_view name, auto& plain) {
      if (name == field) plain = static_cast<std::decay_t<decltype(plain)>>(value);
    });
  }
};

std::vector<std::string> FieldNames() {
  std::vector<std::string> names;
  Schedule s;
  VisitFields(s, [&](absl::string_view name, auto&) { names.emplace_back(name); });
  names.emplace_back(kConstant);
  names.emplace_back(kThreadRegisters);
  return names;
}

// A field and its values.
using Values = std::pair<std::string, std::vector<int>>;

absl::StatusOr<std::vector<Values>> Parse(absl::string_view fields) {
  std::vector<Values> parsed;
  for (absl::string_view part : absl::StrSplit(fields, ' ', absl::SkipEmpty())) {
    const std::pair<std::string, std::string> sides = absl::StrSplit(part, '=');
    if (const std::vector<std::string> names = FieldNames();
        !absl::c_linear_search(names, sides.first)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "no field ", sides.first, " to vary; there are ", absl::StrJoin(names, ", ")));
    }
    parsed.emplace_back(sides.first, std::vector<int>());
    for (absl::string_view value : absl::StrSplit(sides.second, ',')) {
      if (!absl::SimpleAtoi(value, &parsed.back().second.emplace_back()))
        return absl::InvalidArgumentError(absl::StrCat(part, ": no integer \"", value, "\""));
    }
  }
  return parsed;
}

std::vector<Changed> Combinations(const Schedule& chosen, const std::vector<Values>& fields) {
  std::vector<Changed> all(1);
  all[0].schedule = chosen;
  for (const auto& [field, values] : fields) {
    std::vector<Changed> next;
    for (const Changed& before : all) {
      for (int value : values) next.emplace_back(before).Set(field, value);
    }
    all = std::move(next);
  }
  return all;
}

// Sets what follows from the fields that are set: threads of a row, the grid, of clusters whose
// rows need not start alike if those of the chosen schedule do not.
Schedule Complete(const SizedGroup& sized, bool in_stretches, Changed c) {
  Schedule& s = c.schedule;
  const bool shares_row = c.sets("registers") || c.sets("cluster") || c.sets("vector");
  if (shares_row && !c.sets("warps_per_row") && s.registers > 0 && s.cluster > 0 && s.vector > 0) {
    const int64_t vectors = CeilDivide(VectorsOf(sized, s), int64_t{s.cluster} * s.registers);
    if (!c.sets("lanes_per_row"))
      s.lanes_per_row = s.shift || s.cluster > 1 ? 32 : PowerOfTwoAtLeast(vectors, 32);
    s.warps_per_row = static_cast<int>(std::min<int64_t>(CeilDivide(vectors, 32), 33));
    // CTAs of at least 128 threads.
    if (s.cluster == 1 && !c.sets("row_warps")) s.row_warps = std::max(1, 4 / s.warps_per_row);
  }
  if (c.thread_registers > 0 && s.threads() > 0) {
    const int fit = sized.context.device.registers_per_sm / (s.threads() * c.thread_registers);
    s.min_ctas_per_sm = std::clamp(fit, 1, 32);
  }
  if (s.cluster > 1 && !c.sets("grid") && s.vector > 0 && s.lanes_per_row > 0) {
    s.grid = reduction::CtasOfClusters(sized, s, /*all=*/in_stretches);
  } else if (s.grid > 0 && !c.sets("grid") && s.cluster > 0) {
    s.grid = CtasInClusters(sized.context.device, s.cluster) * std::max(1, s.min_ctas_per_sm);
    if (s.vector > 0 && s.lanes_per_row > 0) s.grid -= s.grid % s.grid_step();
  }
  if (s.cluster > 1) s.one_launch = false;
  if (s.stages == 0 && !c.sets("settled")) s.settled = false;
  if (s.cluster > 1 && !c.sets("row_warps")) s.row_warps = 1;
  if (c.constant) PinColumns(sized, s);
  return std::move(s);
}

}  // namespace

absl::StatusOr<std::vector<Schedule>> Variants(const Fusion& group, const Schedule& chosen,
                                               const ScheduleContext& context,
                                               absl::string_view fields) {
  std::vector<std::vector<Values>> parts;
  for (absl::string_view part : absl::StrSplit(fields, ';')) {
    SEAM_ASSIGN_OR_RETURN(parts.emplace_back(), Parse(part));
  }
  if (chosen.kind != SchedulerKind::kReduction || chosen.outer || chosen.blocks) {
    return absl::UnimplementedError(
        absl::StrCat("variants are of reductions along rows, not of: ", chosen.ToString()));
  }
  SEAM_ASSIGN_OR_RETURN(const SizedGroup sized, SizeGroup(group, context));
  std::vector<Schedule> variants;
  for (const std::vector<Values>& part : parts) {
    for (Changed& c : Combinations(chosen, part)) {
      Schedule s = Complete(sized, chosen.stretches() > 1, std::move(c));
      if (CheckSchedule(s).ok() && s != chosen && !absl::c_linear_search(variants, s))
        variants.push_back(std::move(s));
    }
  }
  return variants;
}

}  // namespace seam
