// Reads what dump_json.cc writes.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ir/status.h"
#include "segmenter/check_json.h"
#include "segmenter/dump.h"
#include "segmenter/load_draft.h"

namespace seam {
namespace {

using Json = nlohmann::ordered_json;

// What the tool adds; nothing follows from it.
constexpr const char* kRemarks[] = {"device", "schedule"};

std::string Shown(const Json& json) {
  std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() > 160) text = absl::StrCat(text.substr(0, 157), "...");
  return text;
}

absl::Status At(absl::string_view place, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(place, ": ", what));
}
absl::Status At(absl::string_view place, const absl::Status& status) {
  return status.ok() ? status : At(place, status.message());
}

class Reader {
 public:
  Reader(const Fusion& fusion) : f_(fusion), draft_(fusion) {}

  absl::StatusOr<LoadedSegmentation> Read(const Json& json) {
    if (!json.is_object())
      return At("the file", absl::StrCat("found ", Shown(json), ", expected an object"));
    SEAM_ASSIGN_OR_RETURN(const std::string name, String(json, "", "fusion"));
    if (name != f_.name()) {
      return At("fusion", absl::StrCat("this is a segmentation of `", name, "`, the graph is `",
                                       f_.name(), "`"));
    }
    if (json.contains("narrow_edges")) {
      SEAM_ASSIGN_OR_RETURN(const std::string narrow, String(json, "", "narrow_edges"));
      const absl::StatusOr<Narrowing> narrowing = SegmentationDraft::FindNarrowing(narrow);
      if (!narrowing.ok()) return At("narrow_edges", narrowing.status());
      draft_.set_narrowing(*narrowing);
    }
    SEAM_ASSIGN_OR_RETURN(SymbolSizes sizes, ReadSizes(json));
    SEAM_RETURN_IF_ERROR(
        ForEach(json, "groups", /*required=*/true,
                [&](const Json& group, const std::string& at) { return ReadGroup(group, at); }));
    SEAM_RETURN_IF_ERROR(CheckEdges(json));
    SEAM_RETURN_IF_ERROR(
        ForEach(json, "order", false,
                [&](const Json& order, const std::string& at) { return ReadOrder(order, at); }));
    SEAM_RETURN_IF_ERROR(
        ForEach(json, "borders", false,
                [&](const Json& border, const std::string& at) { return ReadBorder(border, at); }));
    SEAM_ASSIGN_OR_RETURN(LoadedSegmentation loaded, draft_.Finish(std::move(sizes)));
    // All that the file says beyond that.
    SEAM_ASSIGN_OR_RETURN(const SizeHints hints, SizeHints::Create(f_, loaded.sizes));
    SEAM_ASSIGN_OR_RETURN(const std::string dump,
                          DumpJson(loaded.segmented, {&hints, &loaded.log}));
    const Json expected = Json::parse(dump);
    for (const char* key : {"groups", "edges"}) {  // Sums of these tell no place.
      if (json.contains(key)) SEAM_RETURN_IF_ERROR(Compare(json[key], expected[key], key));
    }
    SEAM_RETURN_IF_ERROR(Compare(json, expected, ""));
    return loaded;
  }

 private:
  static std::string Join(const std::string& at, absl::string_view key) {
    return at.empty() ? std::string(key) : absl::StrCat(at, ".", key);
  }

  static absl::StatusOr<const Json*> Field(const Json& object, const std::string& at,
                                           const char* key) {
    const auto it = object.find(key);
    if (it == object.end()) return At(Join(at, key), "is missing");
    return &*it;
  }
  static absl::StatusOr<std::string> AsString(const Json& json, const std::string& at) {
    if (!json.is_string())
      return At(at, absl::StrCat("found ", Shown(json), ", expected a string"));
    return json.get<std::string>();
  }
  static absl::StatusOr<std::string> String(const Json& object, const std::string& at,
                                            const char* key) {
    SEAM_ASSIGN_OR_RETURN(const Json* field, Field(object, at, key));
    return AsString(*field, Join(at, key));
  }
  static absl::StatusOr<int64_t> AsInteger(const Json& json, const std::string& at) {
    const bool fits = json.is_number_integer() &&
                      (!json.is_number_unsigned() || json.get<uint64_t>() <= INT64_MAX);
    if (!fits)
      return At(at, absl::StrCat("found ", Shown(json), ", expected an integer of 64 bits"));
    return json.get<int64_t>();
  }
  // A group that the file has.
  absl::StatusOr<GroupId> Group(const Json& object, const std::string& at, const char* key) const {
    SEAM_ASSIGN_OR_RETURN(const Json* field, Field(object, at, key));
    SEAM_ASSIGN_OR_RETURN(const int64_t g, AsInteger(*field, Join(at, key)));
    if (g >= 0 && g < draft_.num_groups()) return GroupId(static_cast<uint32_t>(g));
    return At(Join(at, key), absl::StrCat("there is no group ", g));
  }
  absl::StatusOr<ExprId> Expr(const Json& object, const std::string& at, const char* key) const {
    SEAM_ASSIGN_OR_RETURN(const std::string name, String(object, at, key));
    const absl::StatusOr<ExprId> e = draft_.FindExpr(name);
    if (!e.ok()) return At(Join(at, key), e.status());
    return e;
  }

  // Calls `read`(entry, place) for the entries of an array.
  template <typename Read>
  static absl::Status ForEach(const Json& object, const std::string& place, bool required,
                              Read read, const std::string& at = "") {
    const std::string here = Join(at, place);
    const auto it = object.find(place);
    if (it == object.end()) return required ? At(here, "is missing") : absl::OkStatus();
    if (!it->is_array()) return At(here, absl::StrCat("found ", Shown(*it), ", expected an array"));
    size_t i = 0;
    for (const Json& entry : *it)
      SEAM_RETURN_IF_ERROR(read(entry, absl::StrCat(here, "[", i++, "]")));
    return absl::OkStatus();
  }
  static absl::Status ExpectObject(const Json& json, const std::string& at) {
    if (json.is_object()) return absl::OkStatus();
    return At(at, absl::StrCat("found ", Shown(json), ", expected an object"));
  }

  absl::StatusOr<SymbolSizes> ReadSizes(const Json& json) {
    SymbolSizes sizes;
    const auto it = json.find("symbols");
    if (it == json.end()) return sizes;
    SEAM_RETURN_IF_ERROR(ExpectObject(*it, "symbols"));
    for (const auto& [name, value] : it->items()) {
      SEAM_ASSIGN_OR_RETURN(sizes[name], AsInteger(value, absl::StrCat("symbols.", name)));
    }
    return sizes;
  }

  absl::Status ReadGroup(const Json& json, const std::string& at) {
    SEAM_RETURN_IF_ERROR(ExpectObject(json, at));
    if (const auto id = json.find("id"); id != json.end()) {
      SEAM_ASSIGN_OR_RETURN(const int64_t number, AsInteger(*id, at + ".id"));
      if (number >= 0 && number < draft_.num_groups())
        return At(at + ".id", absl::StrCat("group ", number, " is listed twice"));
      if (number != draft_.num_groups()) {
        return At(at + ".id",
                  absl::StrCat("found ", number, ", the next group is ", draft_.num_groups()));
      }
    }
    SEAM_ASSIGN_OR_RETURN(const std::string name, String(json, at, "scheduler"));
    const absl::StatusOr<SchedulerKind> scheduler = SegmentationDraft::FindScheduler(name);
    if (!scheduler.ok()) return At(at + ".scheduler", scheduler.status());
    const GroupId g = draft_.AddGroup(*scheduler);
    SEAM_RETURN_IF_ERROR(ForEach(
        json, "exprs", true,
        [&](const Json& expr, const std::string& place) -> absl::Status {
          SEAM_ASSIGN_OR_RETURN(const std::string e, AsString(expr, place));
          return At(place, draft_.AddHome(g, e));
        },
        at));
    return ForEach(
        json, "copies", false,
        [&](const Json& expr, const std::string& place) -> absl::Status {
          SEAM_ASSIGN_OR_RETURN(const std::string e, AsString(expr, place));
          return At(place, draft_.AddCopy(g, e));
        },
        at);
  }

  // The edges lead from group to group and in no circle; that they are the right ones shows later.
  absl::Status CheckEdges(const Json& json) {
    std::vector<std::vector<uint32_t>> out(draft_.num_groups());
    std::vector<int> missing(draft_.num_groups());
    SEAM_RETURN_IF_ERROR(
        ForEach(json, "edges", false, [&](const Json& edge, const std::string& at) -> absl::Status {
          SEAM_RETURN_IF_ERROR(ExpectObject(edge, at));
          SEAM_ASSIGN_OR_RETURN(const GroupId from, Group(edge, at, "from"));
          SEAM_ASSIGN_OR_RETURN(const GroupId to, Group(edge, at, "to"));
          out[from.index()].push_back(to.index());
          ++missing[to.index()];
          return absl::OkStatus();
        }));
    std::vector<uint32_t> ready;
    for (uint32_t g = 0; g < missing.size(); ++g) {
      if (missing[g] == 0) ready.push_back(g);
    }
    for (size_t i = 0; i < ready.size(); ++i) {
      for (uint32_t to : out[ready[i]]) {
        if (--missing[to] == 0) ready.push_back(to);
      }
    }
    if (ready.size() == missing.size()) return absl::OkStatus();
    const auto stuck = std::find_if(missing.begin(), missing.end(), [](int n) { return n > 0; });
    return At("edges", absl::StrCat("they form a cycle, group ", stuck - missing.begin(),
                                    " in it or behind it"));
  }

  absl::Status ReadOrder(const Json& json, const std::string& at) {
    SEAM_RETURN_IF_ERROR(ExpectObject(json, at));
    OrderConstraint order;
    SEAM_ASSIGN_OR_RETURN(order.before, Expr(json, at, "before"));
    SEAM_ASSIGN_OR_RETURN(order.after, Expr(json, at, "after"));
    SEAM_ASSIGN_OR_RETURN(const std::string name, String(json, at, "val"));
    const absl::StatusOr<ValId> val = draft_.FindVal(name);
    if (!val.ok()) return At(at + ".val", val.status());
    order.val = *val;
    draft_.AddOrder(order);
    return absl::OkStatus();
  }

  absl::Status ReadBorder(const Json& json, const std::string& at) {
    SEAM_RETURN_IF_ERROR(ExpectObject(json, at));
    BorderReason border;
    SEAM_ASSIGN_OR_RETURN(border.from, Group(json, at, "from"));
    SEAM_ASSIGN_OR_RETURN(border.to, Group(json, at, "to"));
    SEAM_ASSIGN_OR_RETURN(const std::string reason, String(json, at, "reason"));
    const absl::StatusOr<ReasonCode> code = SegmentationDraft::FindReason(reason);
    if (!code.ok()) return At(at + ".reason", code.status());
    SEAM_ASSIGN_OR_RETURN(const std::string name, String(json, at, "scheduler"));
    if (name != SchedulerName(SchedulerKind::kNone)) {
      const absl::StatusOr<SchedulerKind> scheduler = SegmentationDraft::FindScheduler(name);
      if (!scheduler.ok()) return At(at + ".scheduler", scheduler.status());
      border.decision.scheduler = *scheduler;
    }
    border.decision.reason = *code;
    SEAM_RETURN_IF_ERROR(ForEach(
        json, "about", true,
        [&](const Json& expr, const std::string& place) -> absl::Status {
          SEAM_ASSIGN_OR_RETURN(const std::string e, AsString(expr, place));
          const absl::StatusOr<ExprId> id = draft_.FindExpr(e);
          if (!id.ok()) return At(place, id.status());
          border.decision.about.push_back(*id);
          return absl::OkStatus();
        },
        at));
    SEAM_ASSIGN_OR_RETURN(const std::string detail, String(json, at, "detail"));
    return At(at, draft_.AddBorder(std::move(border), detail));
  }

  // What a group reads and writes, in whatever order: a graph that was printed and read again has
  // its inputs in front.
  static bool IsSameSet(absl::string_view key, Json found, Json expected) {
    if (key != "inputs" && key != "outputs") return false;
    if (!found.is_array() || !expected.is_array()) return false;
    std::sort(found.begin(), found.end());
    std::sort(expected.begin(), expected.end());
    return found == expected;
  }

  // `found` may leave out keys of `expected`, but say nothing else.
  static absl::Status Compare(const Json& found, const Json& expected, const std::string& at) {
    if (found.is_object() && expected.is_object()) {
      for (const auto& [key, value] : found.items()) {
        const std::string here = Join(at, key);
        if (const auto it = expected.find(key); it != expected.end()) {
          if (!IsSameSet(key, value, *it)) SEAM_RETURN_IF_ERROR(Compare(value, *it, here));
        } else if (std::find(std::begin(kRemarks), std::end(kRemarks), key) == std::end(kRemarks)) {
          return At(here, "nothing of that name belongs here");
        }
      }
      return absl::OkStatus();
    }
    const bool nested = expected.is_array() && !expected.empty() && expected[0].is_object();
    if (found.is_array() && nested) {
      for (size_t i = 0; i < std::min(found.size(), expected.size()); ++i)
        SEAM_RETURN_IF_ERROR(Compare(found[i], expected[i], absl::StrCat(at, "[", i, "]")));
      if (found.size() == expected.size()) return absl::OkStatus();
      return At(at, absl::StrCat("the file has ", found.size(),
                                 ", by the graph and the groups there are ", expected.size()));
    }
    if (found == expected) return absl::OkStatus();
    return At(at, absl::StrCat("found ", Shown(found), ", by the graph and the groups it is ",
                               Shown(expected)));
  }

  const Fusion& f_;
  SegmentationDraft draft_;
};

}  // namespace

absl::StatusOr<LoadedSegmentation> LoadJson(const Fusion& fusion, absl::string_view text) {
  SEAM_RETURN_IF_ERROR(CheckJson(text));
  return Reader(fusion).Read(Json::parse(text.begin(), text.end()));
}

}  // namespace seam
