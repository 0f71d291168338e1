// What Tune found, as text and as JSON.
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "runtime/tune.h"

namespace seam {

std::string TuneText(const TuneResult& result) {
  std::string text = absl::StrCat(result.graph, " on ", result.device);
  for (const SymbolValue& s : result.symbols) absl::StrAppend(&text, ", ", s.name, " = ", s.value);
  absl::StrAppendFormat(&text, ": tuned in %.1f s\n", result.seconds);
  for (const TunedGroup& g : result.groups) {
    absl::StrAppend(&text, "group ", g.group, ", ", SchedulerName(g.scheduler), ": ");
    if (g.same_as >= 0) {
      absl::StrAppend(&text, "the same as group ", result.groups[g.same_as].group, "\n");
      continue;
    }
    if (g.best_us == 0) {
      absl::StrAppend(&text, g.note, "\n");
      continue;
    }
    absl::StrAppendFormat(&text, "%.2f us by the heuristic, %.2f us by the best (%.2f times)\n",
                          g.heuristic_us, g.best_us, g.ratio());
    absl::StrAppend(&text, "  heuristic  ", g.heuristic, "\n");
    absl::StrAppend(&text, "  best       ", g.best == g.heuristic ? "the same" : g.best, "\n");
    absl::StrAppend(&text, "  ", g.tried, " others timed; left out: ", g.spilled, " with spills, ",
                    g.failed, " that do not compile or run, ", g.wrong, " with wrong results; ",
                    g.untried, " untried\n");
    if (!g.note.empty()) absl::StrAppend(&text, "  first failure: ", g.note, "\n");
  }
  if (result.groups.empty()) absl::StrAppend(&text, "no group has a schedule to choose\n");
  absl::StrAppend(&text, result.directory.empty()
                             ? "The winners are not kept.\n"
                             : absl::StrCat("The winners are kept in ", result.directory, ".\n"));
  return text;
}

std::string TuneJson(const TuneResult& result) {
  using Json = nlohmann::ordered_json;
  Json sizes = Json::object(), groups = Json::array();
  for (const SymbolValue& s : result.symbols) sizes[s.name] = s.value;
  for (const TunedGroup& g : result.groups) {
    Json group = {{"group", g.group}, {"scheduler", std::string(SchedulerName(g.scheduler))}};
    if (g.same_as >= 0) {
      group["same_as"] = result.groups[g.same_as].group;
    } else {
      Json timed = Json::array();
      for (const TimedSchedule& t : g.timed)
        timed.push_back({{"us", t.us}, {"schedule", t.schedule}});
      group.update({{"heuristic_us", g.heuristic_us},
                    {"best_us", g.best_us},
                    {"ratio", g.ratio()},
                    {"heuristic", g.heuristic},
                    {"best", g.best},
                    {"tried", g.tried},
                    {"spilled", g.spilled},
                    {"failed", g.failed},
                    {"wrong", g.wrong},
                    {"untried", g.untried},
                    {"timed", std::move(timed)},
                    {"note", g.note}});
    }
    groups.push_back(std::move(group));
  }
  const Json json = {{"graph", result.graph},         {"device", result.device},
                     {"sizes", std::move(sizes)},     {"seconds", result.seconds},
                     {"directory", result.directory}, {"groups", std::move(groups)}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace seam
