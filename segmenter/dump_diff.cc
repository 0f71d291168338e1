#include "segmenter/dump_diff.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace seam {
namespace {

absl::Status ExpectOneGraph(const Fusion& left, const Fusion& right) {
  if (left.num_exprs() != right.num_exprs()) {
    return absl::InvalidArgumentError(absl::StrCat("two graphs, of ", left.num_exprs(), " and ",
                                                   right.num_exprs(),
                                                   " expressions, cannot be compared"));
  }
  for (uint32_t i = 0; i < left.num_exprs(); ++i) {
    const ExprId e(i);
    if (left.op(e) == right.op(e) && left.name(left.result(e)) == right.name(right.result(e)))
      continue;
    return absl::InvalidArgumentError(
        absl::StrCat("two graphs cannot be compared: expression ", i, " is `",
                     left.name(left.result(e)), " = ", OpName(left.op(e)), "` in one and `",
                     right.name(right.result(e)), " = ", OpName(right.op(e)), "` in the other"));
  }
  return absl::OkStatus();
}

SegmentationTotals TotalsOfGroups(const SegmentedFusion& s, const SizeHints& sizes,
                                  const std::vector<GroupId>& groups) {
  SegmentationTotals totals;
  for (GroupId g : groups) {
    totals.kernels += Launches(s, g) ? 1 : 0;
    totals.bytes = SaturatingAdd(totals.bytes, TrafficOf(s, sizes, g).bytes());
  }
  return totals;
}

GroupChange::Kind KindOf(const SegmentedFusion& left, const SegmentedFusion& right,
                         const GroupChange& change) {
  if (change.left.empty() || change.right.empty()) return GroupChange::Kind::kDead;
  if (change.left.size() > 1)
    return change.right.size() > 1 ? GroupChange::Kind::kRegrouped : GroupChange::Kind::kMerged;
  if (change.right.size() > 1) return GroupChange::Kind::kSplit;
  const GroupId a = change.left[0], b = change.right[0];
  if (left.exprs(a) != right.exprs(b)) return GroupChange::Kind::kRegrouped;
  return left.scheduler(a) == right.scheduler(b) && left.copies(a) == right.copies(b)
             ? GroupChange::Kind::kSame
             : GroupChange::Kind::kCopies;
}

std::string Names(const std::vector<GroupId>& groups) {
  if (groups.empty()) return "none";
  return absl::StrJoin(groups, " ",
                       [](std::string* s, GroupId g) { absl::StrAppend(s, "g", g.index()); });
}

std::string Totals(const SegmentationTotals& totals) {
  return absl::StrCat(totals.kernels, totals.kernels == 1 ? " kernel, " : " kernels, ",
                      FormatBytes(totals.bytes));
}

}  // namespace

const char* ChangeName(GroupChange::Kind kind) {
  switch (kind) {
    case GroupChange::Kind::kSame:
      return "same";
    case GroupChange::Kind::kCopies:
      return "copies";
    case GroupChange::Kind::kSplit:
      return "split";
    case GroupChange::Kind::kMerged:
      return "merged";
    case GroupChange::Kind::kRegrouped:
      return "regrouped";
    case GroupChange::Kind::kDead:
      return "dead";
  }
  return "unknown";
}

bool SegmentationDiff::same() const {
  return std::all_of(changes.begin(), changes.end(), [](const GroupChange& change) {
    return change.kind == GroupChange::Kind::kSame;
  });
}

absl::StatusOr<SegmentationDiff> DiffSegmentations(const SegmentedFusion& left,
                                                   const SizeHints& left_sizes,
                                                   const SegmentedFusion& right,
                                                   const SizeHints& right_sizes) {
  if (absl::Status status = ExpectOneGraph(left.fusion(), right.fusion()); !status.ok())
    return status;
  // Groups of both sides that share an expression hang together.
  const uint32_t num_left = left.group_limit();
  std::vector<uint32_t> parent(num_left + right.group_limit());
  std::iota(parent.begin(), parent.end(), 0u);
  const auto root = [&](uint32_t i) {
    while (parent[i] != i) i = parent[i] = parent[parent[i]];
    return i;
  };
  for (uint32_t i = 0; i < left.fusion().num_exprs(); ++i) {
    const GroupId a = left.home(ExprId(i)), b = right.home(ExprId(i));
    if (!a.valid() || !b.valid()) continue;  // Dead code.
    const uint32_t x = root(a.index()), y = root(num_left + b.index());
    parent[std::max(x, y)] = std::min(x, y);  // Roots are on the left.
  }
  SegmentationDiff diff;
  diff.fusion = std::string(left.fusion().name());
  diff.left = TotalsOf(left, left_sizes);
  diff.right = TotalsOf(right, right_sizes);
  diff.left_sizes = left_sizes.symbols();
  diff.right_sizes = right_sizes.symbols();
  std::vector<int> change_of(parent.size(), -1);
  const auto change_at = [&](uint32_t i) -> GroupChange& {
    int& change = change_of[root(i)];
    if (change < 0) {
      change = static_cast<int>(diff.changes.size());
      diff.changes.emplace_back();
    }
    return diff.changes[change];
  };
  for (uint32_t g = 0; g < num_left; ++g) change_at(g).left.push_back(GroupId(g));
  for (uint32_t g = 0; g < right.group_limit(); ++g)
    change_at(num_left + g).right.push_back(GroupId(g));
  for (GroupChange& change : diff.changes) {
    change.kind = KindOf(left, right, change);
    change.left_totals = TotalsOfGroups(left, left_sizes, change.left);
    change.right_totals = TotalsOfGroups(right, right_sizes, change.right);
  }
  return diff;
}

std::string DiffText(const SegmentationDiff& diff, bool color) {
  // Traffic at other sizes says nothing of the cut.
  const auto at = [&](const SymbolSizes& sizes) {
    return diff.left_sizes == diff.right_sizes
               ? ""
               : absl::StrCat(" at ", absl::StrJoin(sizes, ", ", absl::PairFormatter(" = ")));
  };
  std::string out =
      absl::StrCat(color ? "\x1b[1m" : "", diff.fusion, color ? "\x1b[0m" : "", ": ",
                   Totals(diff.left), " of device memory traffic", at(diff.left_sizes), " -> ",
                   Totals(diff.right), at(diff.right_sizes), "\n");
  std::vector<std::string> same;
  for (const GroupChange& change : diff.changes) {
    if (change.kind == GroupChange::Kind::kSame) {
      same.push_back(change.left == change.right
                         ? Names(change.left)
                         : absl::StrCat(Names(change.left), " = ", Names(change.right)));
      continue;
    }
    std::string name = ChangeName(change.kind);
    name.resize(9, ' ');
    absl::StrAppend(&out, "  ", color ? "\x1b[33m" : "", name, color ? "\x1b[0m" : "", "  ",
                    Names(change.left), " -> ", Names(change.right), "  (",
                    Totals(change.left_totals), " -> ", Totals(change.right_totals), ")\n");
  }
  constexpr size_t kMaxListed = 12;
  if (same.size() > kMaxListed) {
    absl::StrAppend(&out, "  same       ", same.size(), " groups\n");
  } else if (!same.empty()) {
    absl::StrAppend(&out, "  same       ", absl::StrJoin(same, ", "), "\n");
  }
  return out;
}

std::string DiffJson(const SegmentationDiff& diff) {
  using Json = nlohmann::ordered_json;
  const auto totals = [](const SegmentationTotals& t) {
    return Json{{"kernels", t.kernels}, {"bytes", t.bytes}};
  };
  const auto side = [&](const SegmentationTotals& t, const SymbolSizes& sizes) {
    Json json = totals(t);
    json["symbols"] = sizes;
    return json;
  };
  const auto ids = [](const std::vector<GroupId>& groups) {
    Json list = Json::array();
    for (GroupId g : groups) list.push_back(g.index());
    return list;
  };
  Json json = {{"fusion", diff.fusion},
               {"same", diff.same()},
               {"left", side(diff.left, diff.left_sizes)},
               {"right", side(diff.right, diff.right_sizes)},
               {"changes", Json::array()}};
  for (const GroupChange& change : diff.changes) {
    json["changes"].push_back({{"kind", ChangeName(change.kind)},
                               {"left", ids(change.left)},
                               {"right", ids(change.right)},
                               {"left_totals", totals(change.left_totals)},
                               {"right_totals", totals(change.right_totals)}});
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace seam
