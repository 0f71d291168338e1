#include "segmenter/check_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"

namespace seam {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kMaxNesting = 64;  // Seam's own files have fewer than ten.

// "line 3, column 7" of the byte at `offset`.
std::string Place(absl::string_view text, size_t offset) {
  const absl::string_view before = text.substr(0, offset);
  const size_t line_start = before.rfind('\n') + 1;  // 0 where there is none.
  return absl::StrCat("line ", std::count(before.begin(), before.end(), '\n') + 1, ", column ",
                      before.size() - line_start + 1);
}

}  // namespace

absl::Status CheckJson(absl::string_view text) {
  std::vector<std::set<std::string>> keys;  // Of the open objects.
  std::optional<std::string> duplicate;
  bool too_deep = false;
  const auto look = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (depth > kMaxNesting) {
      too_deep = true;
      return false;  // It is left out.
    }
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key && !keys.back().insert(parsed.get<std::string>()).second)
      duplicate = parsed.dump(-1, ' ', false, Json::error_handler_t::replace);
    return true;
  };
  try {
    std::ignore = Json::parse(text.begin(), text.end(), look);
    if (too_deep) {
      return absl::InvalidArgumentError(
          absl::StrCat("something lies in more than ", kMaxNesting, " arrays and objects"));
    }
    if (!duplicate.has_value()) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("an object has the key ", *duplicate, " twice"));
  } catch (const Json::parse_error& error) {
    return absl::InvalidArgumentError(absl::StrCat(
        Place(text, error.byte > 0 ? error.byte - 1 : 0), ": ",
        error.byte > text.size() ? "the file ends in the middle" : "this is not JSON"));
  } catch (const Json::exception&) {
    return absl::InvalidArgumentError("a number does not fit into 64 bits");
  }
}

}  // namespace seam
