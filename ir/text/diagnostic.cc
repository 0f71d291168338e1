// Places, carets and suggestions: everything that only the path of an error needs.
#include "ir/text/diagnostic.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace seam::text {
namespace {

constexpr size_t kMaxShown = 100;     // Columns of a source line in an error.
constexpr size_t kMaxQuoted = 40;     // Bytes of a token in an error.
constexpr size_t kMaxSuggested = 64;  // Longer names get no suggestions.

// Levenshtein distance, or `limit + 1` where it is larger than `limit`.
size_t EditDistance(absl::string_view a, absl::string_view b, size_t limit) {
  size_t longer = std::max(a.size(), b.size()), shorter = std::min(a.size(), b.size());
  if (longer - shorter > limit || longer > kMaxSuggested) return limit + 1;
  size_t row[kMaxSuggested + 1];
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      size_t above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1])});
      diagonal = above;
    }
  }
  return std::min(row[b.size()], limit + 1);
}

}  // namespace

SourceLoc LocationAt(absl::string_view text, size_t offset) {
  offset = std::min(offset, text.size());
  auto end = text.begin() + offset;
  SourceLoc location;
  location.line = static_cast<int32_t>(1 + std::count(text.begin(), end, '\n'));
  size_t newline = offset == 0 ? absl::string_view::npos : text.rfind('\n', offset - 1);
  size_t line_begin = newline == absl::string_view::npos ? 0 : newline + 1;
  location.column = static_cast<int32_t>(1 + offset - line_begin);
  return location;
}

absl::Status ErrorAt(const TextSource& source, size_t offset, absl::string_view message) {
  offset = std::min(offset, source.text.size());
  SourceLoc location = LocationAt(source.text, offset);
  size_t begin = offset + 1 - static_cast<size_t>(location.column);
  size_t end = std::min(source.text.find('\n', offset), source.text.size());
  if (end > begin && source.text[end - 1] == '\r') --end;
  std::string prefix, suffix;
  if (offset - begin > kMaxShown / 2 && end - begin > kMaxShown) {
    begin = offset - kMaxShown / 2;
    prefix = "...";
  }
  if (end - begin > kMaxShown) {
    end = begin + kMaxShown;
    suffix = "...";
  }
  std::string shown, caret(2 + prefix.size(), ' ');
  for (size_t i = begin; i < end; ++i) {
    char c = source.text[i];
    bool prints = c == '\t' || (c >= 0x20 && c < 0x7f);
    shown += prints ? c : '?';
  }
  for (size_t i = begin; i < offset && i < end; ++i) {
    caret += source.text[i] == '\t' ? '\t' : ' ';
  }
  return absl::InvalidArgumentError(absl::StrCat(source.file_name, ":", location.line, ":",
                                                 location.column, ": ", message, "\n  ", prefix,
                                                 shown, suffix, "\n", caret, "^"));
}

std::string DidYouMean(absl::string_view name, const std::vector<absl::string_view>& candidates) {
  // A third of the letters may be wrong, so that a name of one or two letters needs an equal
  // length.
  size_t limit = name.size() < 3 ? 1 : std::min<size_t>(3, (name.size() + 2) / 3);
  absl::string_view best;
  for (absl::string_view candidate : candidates) {
    size_t distance = EditDistance(name, candidate, limit);
    if (distance > limit || distance >= std::max(name.size(), candidate.size())) continue;
    best = candidate;
    if (distance == 0) break;
    limit = distance - 1;
  }
  return best.empty() ? "" : absl::StrCat("; did you mean '", best, "'?");
}

std::string Quoted(absl::string_view text) {
  std::string quoted = "'";
  for (char c : text.substr(0, kMaxQuoted)) quoted += c >= 0x20 && c < 0x7f ? c : '?';
  absl::StrAppend(&quoted, text.size() > kMaxQuoted ? "..." : "", "'");
  return quoted;
}

}  // namespace seam::text
