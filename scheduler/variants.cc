#include "scheduler/variants.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "ir/status.h"
#include "scheduler/choose.h"

namespace seam {
namespace {

// What is set in one schedule.
struct Changes {
  Schedule schedule;
  bool shares_row = false;  // Threads of a row follow.
  bool grid = false;        // The grid was given.
  bool constant = false;
};

struct Field {
  const char* name;
  void (*set)(Changes& c, int value);
};

constexpr Field kFields[] = {
    {"registers",
     [](Changes& c, int v) {
       c.schedule.registers = v;
       c.shares_row = true;
     }},
    {"cluster",
     [](Changes& c, int v) {
       c.schedule.cluster = v;
       c.shares_row = true;
     }},
    {"row_warps", [](Changes& c, int v) { c.schedule.row_warps = v; }},
    {"persistent", [](Changes& c, int v) { c.schedule.persistent = v != 0; }},
    {"stages", [](Changes& c, int v) { c.schedule.stages = v; }},
    {"reread", [](Changes& c, int v) { c.schedule.reread = v != 0; }},
    {"tickets", [](Changes& c, int v) { c.schedule.tickets = v != 0; }},
    {"pace", [](Changes& c, int v) { c.schedule.pace = v; }},
    {"early", [](Changes& c, int v) { c.schedule.early = v != 0; }},
    {"chan_welford", [](Changes& c, int v) { c.schedule.chan_welford = v != 0; }},
    {"one_launch", [](Changes& c, int v) { c.schedule.one_launch = v != 0; }},
    {"min_ctas_per_sm", [](Changes& c, int v) { c.schedule.min_ctas_per_sm = v; }},
    {"grid",
     [](Changes& c, int v) {
       c.schedule.grid = v;
       c.grid = true;
     }},
    {"constant", [](Changes& c, int v) { c.constant = v != 0; }},
};

// A field and its values.
using Values = std::pair<const Field*, std::vector<int>>;

absl::StatusOr<std::vector<Values>> Parse(absl::string_view fields) {
  std::vector<Values> parsed;
  for (absl::string_view part : absl::StrSplit(fields, ' ', absl::SkipEmpty())) {
    const std::pair<absl::string_view, absl::string_view> sides = absl::StrSplit(part, '=');
    const auto* field =
        absl::c_find_if(kFields, [&](const Field& f) { return sides.first == f.name; });
    if (field == std::end(kFields)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "no field ", sides.first, " to vary; there are ",
          absl::StrJoin(kFields, ", ",
                        [](std::string* out, const Field& f) { absl::StrAppend(out, f.name); })));
    }
    parsed.emplace_back(field, std::vector<int>());
    const std::string values(sides.second);
    for (absl::string_view value : absl::StrSplit(values, ',')) {
      if (!absl::SimpleAtoi(value, &parsed.back().second.emplace_back()))
        return absl::InvalidArgumentError(absl::StrCat(part, ": no integer \"", value, "\""));
    }
  }
  return parsed;
}

// Sets what follows from the fields that are set.
Schedule Complete(const SizedGroup& sized, Changes c) {
  Schedule& s = c.schedule;
  if (c.shares_row && s.registers > 0 && s.cluster > 0) {
    const int64_t vectors = CeilDivide(VectorsOf(sized, s), int64_t{s.cluster} * s.registers);
    s.lanes_per_row = s.shift || s.cluster > 1 ? 32 : PowerOfTwoAtLeast(vectors, 32);
    s.warps_per_row = static_cast<int>(std::min<int64_t>(CeilDivide(vectors, 32), 33));
  }
  if (s.grid > 0 && !c.grid && s.cluster > 0) {
    s.grid = CtasInClusters(sized.context.device, s.cluster) * std::max(1, s.min_ctas_per_sm);
    if (s.shift) s.grid -= s.grid % (s.vector / std::gcd<int64_t>(s.vector, s.rows_per_cta()));
  }
  if (s.cluster > 1) s.one_launch = false;
  if (c.constant) PinColumns(sized, s);
  return std::move(s);
}

}  // namespace

absl::StatusOr<std::vector<Schedule>> Variants(const Fusion& group, const Schedule& chosen,
                                               const ScheduleContext& context,
                                               absl::string_view fields) {
  SEAM_ASSIGN_OR_RETURN(const std::vector<Values> parsed, Parse(fields));
  if (chosen.kind != SchedulerKind::kReduction || chosen.outer || chosen.blocks) {
    return absl::UnimplementedError(
        absl::StrCat("variants are of reductions along rows, not of: ", chosen.ToString()));
  }
  SEAM_ASSIGN_OR_RETURN(const SizedGroup sized, SizeGroup(group, context));
  std::vector<Changes> all = {{chosen}};
  for (const auto& [field, values] : parsed) {
    std::vector<Changes> next;
    for (const Changes& before : all) {
      for (int value : values) field->set(next.emplace_back(before), value);
    }
    all = std::move(next);
  }
  std::vector<Schedule> variants;
  for (Changes& c : all) {
    Schedule s = Complete(sized, std::move(c));
    if (CheckSchedule(s).ok() && s != chosen && !absl::c_linear_search(variants, s))
      variants.push_back(std::move(s));
  }
  return variants;
}

}  // namespace seam
