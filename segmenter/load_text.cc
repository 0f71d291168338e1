// Reads what dump_text.cc writes: who computes what from the groups' lines, and all others must be
// what DumpText says of that.
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "ir/status.h"
#include "segmenter/dump.h"
#include "segmenter/load_draft.h"

namespace seam {
namespace {

using absl::string_view;

// Splits `*text` at the first `end`: gives what is before it and leaves what is behind it.
bool TakeUntil(string_view* text, string_view end, string_view* before) {
  const size_t at = text->find(end);
  if (at == string_view::npos) return false;
  *before = text->substr(0, at);
  text->remove_prefix(at + end.size());
  return true;
}

// What the tool writes behind a segmentation; nothing of it is read.
constexpr string_view kSchedules = "\nschedules for ";

class TextReader {
 public:
  TextReader(const Fusion& fusion, string_view text)
      : f_(fusion),
        draft_(fusion),
        lines_(absl::StrSplit(text.substr(0, text.find(kSchedules)), '\n')) {}

  absl::StatusOr<LoadedSegmentation> Read() {
    for (size_t i = 0; i < lines_.size(); ++i) {
      const absl::Status status = i == 0 ? ReadHeader(lines_[i]) : ReadLine(lines_[i]);
      if (!status.ok())
        return absl::InvalidArgumentError(absl::StrCat("line ", i + 1, ": ", status.message()));
    }
    SEAM_ASSIGN_OR_RETURN(LoadedSegmentation loaded, draft_.Finish(std::move(sizes_)));
    SEAM_ASSIGN_OR_RETURN(const SizeHints hints, SizeHints::Create(f_, loaded.sizes));
    SEAM_ASSIGN_OR_RETURN(const std::string dump,
                          DumpText(loaded.segmented, {&hints, &loaded.log}));
    SEAM_RETURN_IF_ERROR(Compare(absl::StrSplit(dump, '\n')));
    return loaded;
  }

 private:
  absl::Status Unexpected(string_view line, string_view expected) const {
    return absl::InvalidArgumentError(
        absl::StrCat("found `", absl::CHexEscape(line.substr(0, 100)), "`, expected ", expected));
  }

  // "f: 2 kernels, 4.0 KiB of device memory traffic at M = 8, N = 9".
  absl::Status ReadHeader(string_view line) {
    string_view name, rest = line;
    if (!TakeUntil(&rest, ": ", &name)) return Unexpected(line, "a segmentation as JSON or text");
    if (name != f_.name()) {
      return absl::InvalidArgumentError(absl::StrCat("this is a segmentation of `",
                                                     absl::CHexEscape(name.substr(0, 100)),
                                                     "`, the graph is `", f_.name(), "`"));
    }
    string_view totals;
    if (!TakeUntil(&rest, " at ", &totals)) return absl::OkStatus();
    for (string_view symbol : absl::StrSplit(rest, ", ")) {
      string_view of;
      int64_t value;
      if (!TakeUntil(&symbol, " = ", &of) || !absl::SimpleAtoi(symbol, &value))
        return Unexpected(symbol, "a size, as M = 8");
      sizes_[std::string(of)] = value;
    }
    return absl::OkStatus();
  }

  absl::Status ReadLine(string_view line) {
    if (line.empty()) return absl::OkStatus();
    if (absl::ConsumePrefix(&line, "edges: ")) {
      SEAM_ASSIGN_OR_RETURN(const Narrowing narrowing, SegmentationDraft::FindNarrowing(line));
      draft_.set_narrowing(narrowing);
      return absl::OkStatus();
    }
    if (line == "order" || line == "borders") {
      section_ = line[0];
      return absl::OkStatus();
    }
    if (section_ == 'o') return ReadOrder(line);
    if (section_ == 'b') return ReadBorder(line);
    if (line[0] == 'g') return ReadGroup(line);
    if (draft_.num_groups() == 0) return Unexpected(line, "a group");
    const GroupId g(draft_.num_groups() - 1);
    if (absl::StartsWith(line, "  in   ") || absl::StartsWith(line, "  out  "))
      return absl::OkStatus();
    string_view results, rest = line;
    const bool copy = absl::ConsumePrefix(&rest, "  copy ");
    if (!copy && !absl::ConsumePrefix(&rest, "       ")) return Unexpected(line, "an expression");
    if (!TakeUntil(&rest, " = ", &results)) return Unexpected(line, "an expression");
    const string_view first = results.substr(0, results.find(", "));
    return copy ? draft_.AddCopy(g, first) : draft_.AddHome(g, first);
  }

  // "g1  pointwise, 2 expressions, 3.0 KiB".
  absl::Status ReadGroup(string_view line) {
    string_view name, scheduler, rest = line;
    if (!TakeUntil(&rest, "  ", &name) || !TakeUntil(&rest, ", ", &scheduler))
      return Unexpected(line, "a group");
    uint32_t number;
    if (!absl::ConsumePrefix(&name, "g") || !absl::SimpleAtoi(name, &number))
      return Unexpected(line, "a group");
    if (number < draft_.num_groups())
      return absl::InvalidArgumentError(absl::StrCat("group ", number, " is listed twice"));
    if (number > draft_.num_groups())
      return Unexpected(line, absl::StrCat("the group g", draft_.num_groups()));
    SEAM_ASSIGN_OR_RETURN(const SchedulerKind kind, SegmentationDraft::FindScheduler(scheduler));
    draft_.AddGroup(kind);
    return absl::OkStatus();
  }

  // "  s before y, because of x".
  absl::Status ReadOrder(string_view line) {
    string_view before, after, rest = line;
    if (!absl::ConsumePrefix(&rest, "  ") || !TakeUntil(&rest, " before ", &before) ||
        !TakeUntil(&rest, ", because of ", &after))
      return Unexpected(line, "an order, as s before y, because of x");
    OrderConstraint order;
    SEAM_ASSIGN_OR_RETURN(order.before, draft_.FindExpr(before));
    SEAM_ASSIGN_OR_RETURN(order.after, draft_.FindExpr(after));
    SEAM_ASSIGN_OR_RETURN(order.val, draft_.FindVal(rest));
    draft_.AddOrder(order);
    return absl::OkStatus();
  }

  absl::StatusOr<GroupId> GroupNamed(string_view name) const {
    uint32_t number;
    if (!absl::ConsumePrefix(&name, "g") || !absl::SimpleAtoi(name, &number) ||
        number >= draft_.num_groups())
      return absl::InvalidArgumentError(
          absl::StrCat("there is no group `", absl::CHexEscape(name.substr(0, 100)), "`"));
    return GroupId(number);
  }

  // "  g0 | g1  reduction refuses: grid-barrier: its result ... (`s = sum(x)`, line 5; `...`)", the
  // scheduler, the detail and the expressions where there are such.
  absl::Status ReadBorder(string_view line) {
    string_view from, to, rest = line;
    if (!absl::ConsumePrefix(&rest, "  ") || !TakeUntil(&rest, " | ", &from) ||
        !TakeUntil(&rest, "  ", &to))
      return Unexpected(line, "a border, as g0 | g1  no-gain");
    BorderReason border;
    SEAM_ASSIGN_OR_RETURN(border.from, GroupNamed(from));
    SEAM_ASSIGN_OR_RETURN(border.to, GroupNamed(to));
    string_view scheduler;
    if (TakeUntil(&rest, " refuses: ", &scheduler)) {
      SEAM_ASSIGN_OR_RETURN(border.decision.scheduler, SegmentationDraft::FindScheduler(scheduler));
    }
    if (const size_t about = rest.rfind(" (`"); about != string_view::npos) {
      for (string_view e : absl::StrSplit(rest.substr(about + 2), "; ")) {
        absl::ConsumePrefix(&e, "`");
        SEAM_ASSIGN_OR_RETURN(const ExprId id, draft_.FindExpr(e.substr(0, e.find_first_of(", "))));
        border.decision.about.push_back(id);
      }
      rest = rest.substr(0, about);
    }
    string_view reason = rest, detail = rest;
    if (!TakeUntil(&detail, ": ", &reason)) detail = "";
    SEAM_ASSIGN_OR_RETURN(border.decision.reason, SegmentationDraft::FindReason(reason));
    return draft_.AddBorder(std::move(border), detail);
  }

  absl::Status Compare(const std::vector<string_view>& expected) const {
    for (size_t i = 0; i < std::max(lines_.size(), expected.size()); ++i) {
      const bool here = i < lines_.size(), there = i < expected.size();
      if (here && there && lines_[i] == expected[i]) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          "line ", i + 1, ": ",
          here ? absl::StrCat("found `", absl::CHexEscape(lines_[i].substr(0, 100)), "`")
               : "the file ends",
          ", by the graph and the groups ",
          there ? absl::StrCat("it is `", expected[i], "`") : "the file ends before"));
    }
    return absl::OkStatus();
  }

  const Fusion& f_;
  SegmentationDraft draft_;
  const std::vector<string_view> lines_;
  char section_ = 'g';  // Of the groups, then 'o' of the order, 'b' of the borders.
  SymbolSizes sizes_;
};

}  // namespace

absl::StatusOr<LoadedSegmentation> LoadText(const Fusion& fusion, absl::string_view text) {
  return TextReader(fusion, text).Read();
}

}  // namespace seam
