#include "runtime/tuned_schedules.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ir/canonical_order.h"
#include "ir/status.h"
#include "ir/text/printer.h"
#include "scheduler/schedule_fields.h"
#include "segmenter/check_json.h"

namespace seam {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kMostStoredBytes = int64_t{16} << 20;

// --- What a file is for ---

// The group without the names of its values and in the order of its structure, so that the layers
// of a model are one group. Symbols keep their names, as facts of schedules are about them.
std::vector<std::string> StructureOf(const Fusion& group) {
  const CanonicalOrder order = CanonicalOrderOf(group);
  std::vector<std::string> lines;
  std::vector<size_t> number(group.num_vals());
  for (size_t i = 0; i < order.vals.size(); ++i) number[order.vals[i].index()] = i;
  const auto expressions = [](const auto& list) {
    return absl::StrCat(
        "[", absl::StrJoin(list, ", ", [](std::string* to, SymInt e) { *to += e.ToString(); }),
        "]");
  };
  const auto value = [&](ValId v) {
    SymVector sizes;
    for (const IterDomain& axis : group.domain(v)) sizes.push_back(axis.extent);
    std::string text =
        absl::StrCat("%", number[v.index()], ": ", DTypeName(group.dtype(v)), expressions(sizes));
    if (group.has_explicit_strides(v))
      absl::StrAppend(&text, " strides ", expressions(group.strides(v)));
    return text;
  };
  for (const SymNode* s : group.env().symbols()) {
    lines.push_back(absl::StrCat("symbol ", std::string(s->name), " in [", s->range.lo, ", ",
                                 s->range.hi, "]"));
  }
  for (ValId v : order.vals) {
    if (group.is_input(v)) lines.push_back(absl::StrCat("input ", value(v)));
  }
  for (ExprId e : order.exprs) {
    std::string line;
    for (int r = 0; r < group.num_results(e); ++r)
      absl::StrAppend(&line, r > 0 ? ", " : "", value(group.result(e, r)));
    absl::StrAppend(&line, " = ", group.info(e).name);
    for (ValId v : group.operands(e)) absl::StrAppend(&line, " %", number[v.index()]);
    const uint32_t fields = AttributesOf(group.op(e));
    const Attributes& a = group.attributes(e);
    if (fields & kAttrAxes) absl::StrAppend(&line, " axes=[", absl::StrJoin(a.axes, ", "), "]");
    if (fields & kAttrSizes) absl::StrAppend(&line, " sizes=", expressions(a.sizes));
    if (fields & kAttrStart) absl::StrAppend(&line, " start=", expressions(a.start));
    if (fields & kAttrStop) absl::StrAppend(&line, " stop=", expressions(a.stop));
    if (fields & kAttrStep) absl::StrAppend(&line, " step=", expressions(a.step));
    if (fields & kAttrDType) absl::StrAppend(&line, " dtype=", DTypeName(a.dtype));
    // In full: constants that differ are other groups.
    if (fields & kAttrValue)
      absl::StrAppend(&line, " value=", PrintFloat(a.value, DType::F64), ",", a.int_value);
    lines.push_back(std::move(line));
  }
  for (ValId v : order.vals) {
    if (group.is_output(v)) lines.push_back(absl::StrCat("output %", number[v.index()]));
  }
  return lines;
}

Json SubjectOf(const Fusion& group, SchedulerKind kind, const ScheduleContext& context) {
  Json sizes = Json::object();
  const std::vector<const SymNode*> symbols = group.env().symbols();
  for (size_t i = 0; i < symbols.size() && i < context.sizes.size(); ++i)
    sizes[std::string(symbols[i]->name)] = context.sizes[i];
  return {{"arch", context.device.arch},
          {"sms", context.device.sms},
          {"scheduler", std::string(SchedulerName(kind))},
          {"sizes", std::move(sizes)},
          {"alignment_bytes", std::min(context.alignment_bytes, 16)},
          {"any_order", context.any_order},
          {"group", StructureOf(group)}};
}

std::string TextOf(const Json& json, int indent = -1) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

cuda::FileKey KeyOfSubject(const Json& subject) {
  return cuda::FileKey::Of(absl::StrCat("seam schedule ", kTunedFormat, ";", TextOf(subject)));
}

// --- Schedules ---

Json ToJson(const Schedule& s) {
  Json json = {{"kind", std::string(SchedulerName(s.kind))}};
  VisitFields(s, [&](const char* name, const auto& field) { json[name] = field; });
  json["facts"] = Json::array();
  for (const SymbolFact& f : s.facts)
    json["facts"].push_back({{"symbol", f.symbol}, {"multiple", f.multiple}, {"value", f.value}});
  json["islands"] = Json::array();
  for (const Schedule& island : s.islands) json["islands"].push_back(ToJson(island));
  return json;
}

absl::Status Damage(absl::string_view what) { return absl::DataLossError(what); }

// The member `name` of an object, which must have it.
absl::StatusOr<const Json*> Member(const Json& json, const char* name) {
  if (!json.is_object()) return Damage("it is no object where one belongs");
  const auto it = json.find(name);
  if (it == json.end()) return Damage(absl::StrCat("it has no ", name));
  return &*it;
}

template <typename T>
absl::Status Read(const Json& json, const char* name, T* to) {
  SEAM_ASSIGN_OR_RETURN(const Json* const member, Member(json, name));
  if constexpr (std::is_same_v<T, bool>) {
    if (!member->is_boolean()) return Damage(absl::StrCat(name, " is neither true nor false"));
    *to = member->get<bool>();
  } else if constexpr (std::is_same_v<T, std::string>) {
    if (!member->is_string()) return Damage(absl::StrCat(name, " is no text"));
    *to = member->get<std::string>();
  } else if constexpr (std::is_floating_point_v<T>) {
    if (!member->is_number()) return Damage(absl::StrCat(name, " is no number"));
    *to = member->get<T>();
  } else {
    if (!member->is_number_integer()) return Damage(absl::StrCat(name, " is no integer"));
    const int64_t value = member->get<int64_t>();
    if (value < std::numeric_limits<T>::min() || value > std::numeric_limits<T>::max())
      return Damage(absl::StrCat(name, " is out of range"));
    *to = static_cast<T>(value);
  }
  return absl::OkStatus();
}

absl::StatusOr<Schedule> ScheduleOf(const Json& json, bool is_island = false) {
  Schedule s;
  std::string kind;
  SEAM_RETURN_IF_ERROR(Read(json, "kind", &kind));
  for (const Scheduler& scheduler : Schedulers()) {
    if (SchedulerName(scheduler.kind) == kind) s.kind = scheduler.kind;
  }
  if (!IsTunable(s.kind)) return Damage(absl::StrCat("there is nothing to tune of kind ", kind));
  absl::Status status;
  size_t members = 3;
  VisitFields(s, [&](const char* name, auto& field) {
    ++members;
    if (status.ok()) status = Read(json, name, &field);
  });
  SEAM_RETURN_IF_ERROR(status);
  if (json.size() != members) return Damage("its schedule has more fields than a schedule has");
  SEAM_ASSIGN_OR_RETURN(const Json* const facts, Member(json, "facts"));
  SEAM_ASSIGN_OR_RETURN(const Json* const islands, Member(json, "islands"));
  if (!facts->is_array() || !islands->is_array()) return Damage("facts or islands are no list");
  for (const Json& fact : *facts) {
    SymbolFact f;
    SEAM_RETURN_IF_ERROR(Read(fact, "symbol", &f.symbol));
    SEAM_RETURN_IF_ERROR(Read(fact, "multiple", &f.multiple));
    SEAM_RETURN_IF_ERROR(Read(fact, "value", &f.value));
    s.facts.push_back(std::move(f));
  }
  if (is_island && !islands->empty()) return Damage("an island has islands");
  for (const Json& island : *islands) {
    SEAM_ASSIGN_OR_RETURN(Schedule own, ScheduleOf(island, true));
    s.islands.push_back(std::move(own));
  }
  return s;
}

std::string ChecksumOf(Json json) {
  json.erase("checksum");
  return cuda::FileKey::Of(TextOf(json)).Hex();
}

absl::StatusOr<TunedSchedule> Decode(absl::string_view text, const Json& subject) {
  if (const absl::Status status = CheckJson(text); !status.ok())
    return Damage(absl::StrCat("it is no JSON object: ", status.message()));
  const Json json = Json::parse(text.begin(), text.end());
  if (!json.is_object()) return Damage("it is no JSON object");
  int format = 0;
  std::string checksum;
  SEAM_RETURN_IF_ERROR(Read(json, "seam_tuned_schedule", &format));
  if (format != kTunedFormat) return Damage(absl::StrCat("it has format ", format));
  SEAM_RETURN_IF_ERROR(Read(json, "checksum", &checksum));
  if (checksum != ChecksumOf(json)) return Damage("it does not agree with its checksum");
  SEAM_ASSIGN_OR_RETURN(const Json* const made_for, Member(json, "for"));
  if (*made_for != subject) return Damage("it is for another group, other sizes or another device");
  TunedSchedule tuned;
  SEAM_RETURN_IF_ERROR(Read(json, "us", &tuned.us));
  SEAM_RETURN_IF_ERROR(Read(json, "heuristic_us", &tuned.heuristic_us));
  SEAM_RETURN_IF_ERROR(Read(json, "tried", &tuned.tried));
  SEAM_ASSIGN_OR_RETURN(const Json* const schedule, Member(json, "schedule"));
  SEAM_ASSIGN_OR_RETURN(tuned.schedule, ScheduleOf(*schedule));
  return tuned;
}

}  // namespace

bool IsTunable(SchedulerKind kind) {
  return kind == SchedulerKind::kPointwise || kind == SchedulerKind::kHorizontal ||
         kind == SchedulerKind::kReduction;
}

std::unique_ptr<TunedSchedules> TunedSchedules::FromEnvironment() {
  cuda::CacheLocation location = cuda::CacheLocation::FromEnvironment("Tuned schedules");
  location.capacity_bytes = std::min(location.capacity_bytes, kMostStoredBytes);
  return std::unique_ptr<TunedSchedules>(new TunedSchedules(std::move(location)));
}

TunedSchedules::TunedSchedules(cuda::CacheLocation location)
    : files_(std::move(location), ".schedule.json", "Tuned schedules") {}

cuda::FileKey TunedSchedules::KeyOf(const Fusion& group, SchedulerKind kind,
                                    const ScheduleContext& context) {
  return KeyOfSubject(SubjectOf(group, kind, context));
}

std::string TunedSchedules::FilePath(const Fusion& group, SchedulerKind kind,
                                     const ScheduleContext& context) const {
  return files_.FilePath(KeyOf(group, kind, context));
}

absl::StatusOr<TunedSchedule> TunedSchedules::Find(const Fusion& group, SchedulerKind kind,
                                                   const ScheduleContext& context) {
  const absl::Status nothing = absl::NotFoundError("nothing is tuned for these sizes");
  if (directory().empty() || !IsTunable(kind)) return nothing;
  const Json subject = SubjectOf(group, kind, context);
  absl::StatusOr<TunedSchedule> found = nothing;
  const absl::Status read = files_.Find(KeyOfSubject(subject), [&](absl::string_view text) {
    found = Decode(text, subject);
    if (found.ok() && found->schedule.kind != kind)
      found = Damage("its schedule is of another kind");
    return found.ok();
  });
  if (absl::IsUnavailable(read)) return read;
  return found;
}

void TunedSchedules::Store(const Fusion& group, const ScheduleContext& context,
                           const TunedSchedule& tuned) {
  const Json subject = SubjectOf(group, tuned.schedule.kind, context);
  Json json = {{"seam_tuned_schedule", kTunedFormat},  {"for", subject},
               {"summary", tuned.schedule.ToString()}, {"us", tuned.us},
               {"heuristic_us", tuned.heuristic_us},   {"tried", tuned.tried},
               {"schedule", ToJson(tuned.schedule)}};
  json["checksum"] = ChecksumOf(json);
  files_.Store(KeyOfSubject(subject), TextOf(json, 2) + "\n");
}

}  // namespace seam
