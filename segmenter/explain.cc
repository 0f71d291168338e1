#include "segmenter/explain.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "ir/status.h"
#include "segmenter/dump.h"
#include "segmenter/islands.h"
#include "segmenter/traffic.h"

namespace seam {
namespace {

constexpr int kMaxEdgesBetween = 1 << 20;
constexpr int kMaxGroupsBetween = 64;
constexpr size_t kColumns = 96, kMaxListed = 4;

// Edits (one character more, less or other) that make one name of the other.
size_t Distance(absl::string_view a, absl::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t other = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, other});
    }
  }
  return row.back();
}

absl::StatusOr<ValId> FindValue(const Fusion& f, absl::string_view name) {
  std::vector<std::pair<size_t, absl::string_view>> near;
  for (uint32_t v = 0; v < f.num_vals(); ++v) {
    const absl::string_view other = f.name(ValId(v));
    if (other == name) return ValId(v);
    if (name.size() > 64 || other.size() > 64) continue;
    if (const size_t d = Distance(name, other); d <= std::max<size_t>(2, name.size() / 3))
      near.emplace_back(d, other);
  }
  std::sort(near.begin(), near.end());
  if (near.size() > kMaxListed) near.resize(kMaxListed);
  const auto quote = [](std::string* s, const std::pair<size_t, absl::string_view>& n) {
    absl::StrAppend(s, "`", n.second, "`");
  };
  return absl::NotFoundError(absl::StrCat(
      f.name(), " has no value `", absl::CHexEscape(name.substr(0, 100)), "`",
      near.empty() ? "" : absl::StrCat("; it has ", absl::StrJoin(near, ", ", quote))));
}

std::string Wrapped(absl::string_view text) {
  std::string out;
  size_t column = 0;
  for (absl::string_view word : absl::StrSplit(text, ' ')) {
    const bool wrap = column > 0 && column + 1 + word.size() > kColumns;
    if (column > 0) absl::StrAppend(&out, wrap ? "\n" : " ");
    column = (wrap || column == 0 ? 0 : column + 1) + word.size();
    absl::StrAppend(&out, word);
  }
  return absl::StrCat(out, "\n");
}

class Explainer {
 public:
  Explainer(SegmentedFusion& s, const SegmentationLog& log, const SchedulabilityGuard& guard,
            const SizeHints& sizes)
      : s_(s), f_(s.fusion()), log_(log), guard_(guard), sizes_(sizes) {
    for (const MergeTrial& trial : log.trials) {
      if (trial.decision.ok || trial.members.size() != 2) continue;
      const GroupId a = s_.home(trial.members[0].first), b = s_.home(trial.members[1].first);
      last_trial_[std::minmax(a, b)] = &trial;
    }
    for (const BorderReason& border : log.borders) border_[{border.from, border.to}] = &border;
  }

  std::string Explain(ValId a, ValId b) {
    for (ValId v : {a, b}) {
      if (IsComputed(v)) continue;
      return Notes(a, b);
    }
    const ExprId x = f_.definition(a), y = f_.definition(b);
    for (GroupId g : s_.groups()) {
      if (s_.computes(g, x) && s_.computes(g, y)) return InOneKernel(a, b, g);
    }
    return InTwoKernels(a, b);
  }

  std::string Border(GroupId a, GroupId b) {
    return WhyApart(s_.Precedes(a, b) ? a : b, s_.Precedes(a, b) ? b : a).substr(1);
  }

 private:
  std::string Name(ValId v) const { return absl::StrCat("`", f_.name(v), "`"); }
  static std::string Name(GroupId g) { return absl::StrCat("g", g.index()); }
  std::string Described(GroupId g) const {
    const int n = s_.num_exprs(g);
    return absl::StrCat(Name(g), " (", SchedulerName(s_.scheduler(g)), ", ", n, " expression",
                        n == 1 ? "" : "s", Launches(s_, g) ? "" : ", no launch", ")");
  }
  bool IsComputed(ValId v) const {
    return f_.definition(v).valid() && s_.home(f_.definition(v)).valid();
  }

  // "`a`, `b` and 3 more".
  template <typename T, typename Format>
  static std::string List(const std::vector<T>& items, Format format) {
    std::vector<std::string> names;
    for (size_t i = 0; i < std::min(items.size(), kMaxListed); ++i)
      names.push_back(format(items[i]));
    if (items.size() > kMaxListed) {
      names.push_back(absl::StrCat(items.size() - kMaxListed, " more"));
    }
    if (names.size() == 1) return names[0];
    const std::string last = names.back();
    names.pop_back();
    return absl::StrCat(absl::StrJoin(names, ", "), " and ", last);
  }

  // Of values of which one at least is computed in no kernel.
  std::string Notes(ValId a, ValId b) const {
    std::string text;
    for (ValId v : {a, b}) {
      if (!text.empty() && a == b) break;
      if (!text.empty()) text += ' ';
      if (f_.is_input(v)) {
        std::vector<GroupId> readers;
        for (GroupId g : s_.groups()) {
          if (s_.data_edge(g, v).valid()) readers.push_back(g);
        }
        absl::StrAppend(&text, Name(v), " is an input of the graph, which no kernel computes; ",
                        readers.empty()
                            ? "no group reads it."
                            : absl::StrCat(List(readers, [](GroupId g) { return Name(g); }),
                                           readers.size() == 1 ? " reads it." : " read it."));
      } else if (!IsComputed(v)) {
        absl::StrAppend(&text, Name(v),
                        " is needed by no output of the graph; no kernel computes it.");
      } else {
        const GroupId home = s_.home(f_.definition(v));
        absl::StrAppend(&text, Name(v), " is computed in ", Described(home),
                        s_.data_edge(home, a == v ? b : a).valid()
                            ? absl::StrCat(", which reads ", Name(a == v ? b : a), ".")
                            : ".");
      }
    }
    return text;
  }

  // The change that brought two expressions of one group together, the last one if they parted.
  const MergeTrial* MergeOf(ExprId x, ExprId y, int* number) const {
    if (log_.trials.empty()) return nullptr;
    // Groups by their lowest expressions, as the log names them.
    ExprId group_x = log_.beginnings[x.index()], group_y = log_.beginnings[y.index()];
    const MergeTrial* found = nullptr;
    int merges = 0;
    for (const MergeTrial& trial : log_.trials) {
      if (!trial.decision.ok) continue;
      ++merges;
      const bool apart = group_x != group_y;
      for (const auto& [e, group] : {std::pair(x, &group_x), std::pair(y, &group_y)}) {
        const bool in =
            std::any_of(trial.members.begin(), trial.members.end(),
                        [g = *group](const MergeTrial::Member& m) { return m.first == g; });
        if (!in) continue;
        if (trial.made.empty()) {
          for (const MergeTrial::Member& m : trial.members) *group = std::min(*group, m.first);
        }
        for (const std::vector<ExprId>& made : trial.made) {
          if (std::binary_search(made.begin(), made.end(), e)) *group = made.front();
        }
      }
      if (apart && group_x == group_y) {
        found = &trial;
        *number = merges;
      }
    }
    return found;
  }

  std::string Members(const MergeTrial& trial) const {
    return absl::StrJoin(trial.members, " + ", [&](std::string* s, const MergeTrial::Member& m) {
      absl::StrAppend(s, Name(f_.result(m.first)),
                      m.num_exprs > 1 ? absl::StrCat(" and ", m.num_exprs - 1, " more") : "");
    });
  }

  std::string InOneKernel(ValId a, ValId b, GroupId g) const {
    const ExprId x = f_.definition(a), y = f_.definition(b);
    if (a == b) return absl::StrCat(Name(a), " is computed in ", Described(g), ".");
    std::string text =
        absl::StrCat(Name(a), " and ", Name(b), " are computed in one kernel, ", Described(g), ".");
    if (x == y) absl::StrAppend(&text, " They are results of one expression.");
    for (ValId v : {a, b}) {
      const GroupId home = s_.home(f_.definition(v));
      if (home == g) continue;
      absl::StrAppend(&text, " ", Name(v), " is cheap to compute again: its home is ", Name(home),
                      ", and ", Name(g), " has a copy of its own.");
    }
    int number = 0;
    if (const MergeTrial* trial = MergeOf(x, y, &number); trial != nullptr) {
      absl::StrAppend(&text, " Merge ", number, " of ", log_.num_merges, " (pass ", trial->pass,
                      ") ", trial->made.empty() ? "joined " : "made new groups of ",
                      Members(*trial), " and so saved ", FormatBytes(trial->gain_bytes),
                      " of memory traffic and launches.");
    }
    return text;
  }

  // A shortest path; empty where there is none.
  std::vector<GroupId> Path(GroupId from, GroupId to) const {
    absl::flat_hash_map<GroupId, GroupId> before = {{from, from}};
    std::vector<GroupId> reached = {from};
    for (size_t i = 0; i < reached.size() && !before.contains(to); ++i) {
      for (EdgeId e : s_.out_edges(reached[i])) {
        const GroupId g = s_.edge(e).to;
        if (g != to && !s_.Precedes(g, to)) continue;
        if (before.emplace(g, reached[i]).second) reached.push_back(g);
      }
    }
    if (!before.contains(to)) return {};
    std::vector<GroupId> path = {to};
    while (path.back() != from) path.push_back(before[path.back()]);
    std::reverse(path.begin(), path.end());
    return path;
  }

  // What ties two groups together, as a sentence; `*between` are all groups on paths between them,
  // where these are few; where they are many, `*path` is one of the paths.
  std::string Tie(GroupId from, GroupId to, std::vector<GroupId>* between,
                  std::vector<GroupId>* path) {
    std::vector<ValId> handed, shared;
    for (ValId v : s_.inputs(to)) {
      const ExprId definition = f_.definition(v);
      if (definition.valid() && s_.home(definition) == from) {
        handed.push_back(v);
      } else if (s_.data_edge(from, v).valid()) {
        shared.push_back(v);
      }
    }
    const auto value = [&](ValId v) {
      return absl::StrCat(Name(v), " (", StoredType(s_, v), ", ",
                          FormatBytes(StoredBytes(s_, sizes_, v)), ")");
    };
    std::string text;
    if (!handed.empty())
      absl::StrAppend(&text, " ", Name(from), " hands ", List(handed, value), " to ", Name(to),
                      ".");
    if (!shared.empty()) absl::StrAppend(&text, " Both read ", List(shared, value), ".");
    *between = s_.Closure(from, to, kMaxGroupsBetween, kMaxEdgesBetween);
    if (between->empty()) *path = Path(from, to);
    between->erase(std::remove_if(between->begin(), between->end(),
                                  [&](GroupId g) { return g == from || g == to; }),
                   between->end());
    std::sort(between->begin(), between->end());
    if (!between->empty()) {
      absl::StrAppend(&text, " ", Name(to), " also depends on ", Name(from), " through ",
                      List(*between, [](GroupId g) { return Name(g); }), ".");
    } else if (handed.empty() && path->size() > 2) {
      const std::vector<GroupId> inner(path->begin() + 1, path->end() - 1);
      absl::StrAppend(&text, " ", Name(to), " depends on ", Name(from), " by way of ",
                      List(inner, [](GroupId g) { return Name(g); }), ".");
    }
    if (text.empty()) text = " Nothing passes between these two, and they read nothing in common.";
    return text;
  }

  // What the guard says of one kernel for all of them, from the expressions.
  Decision Ask(const std::vector<GroupId>& members) {
    const std::vector<ExprId> exprs = s_.all_exprs(members);
    const Decision d =
        CanScheduleAs(SchedulerKind::kNone, guard_, f_, s_.axes(), s_.facts(), exprs);
    if (d.ok) return d;
    const std::vector<std::vector<ExprId>> parts = IslandsOf(f_, s_.axes(), s_.facts(), exprs);
    if (parts.size() < 2) return d;
    const Decision islands = CanScheduleIslands(guard_, f_, s_.axes(), s_.facts(), parts);
    const bool says_more =
        islands.ok || (d.reason == ReasonCode::kUnconnected && islands.reason != d.reason);
    return says_more ? islands : d;
  }

  // "who refuses it: reason, detail (`expression`): what the reason means".
  std::string Refusal(const Decision& d) const {
    Decision bare = d;
    bare.scheduler = SchedulerKind::kNone;
    return absl::StrCat(DescribeRefusal(f_, bare), ". That is, ", ReasonSentence(d.reason), ".");
  }
  static std::string Refuser(const Decision& d) {
    return d.scheduler == SchedulerKind::kNone
               ? "it was refused"
               : absl::StrCat("the ", SchedulerName(d.scheduler), " scheduler refuses it");
  }

  std::string InTwoKernels(ValId a, ValId b) {
    const GroupId home_a = s_.home(f_.definition(a)), home_b = s_.home(f_.definition(b));
    const GroupId from = s_.Precedes(home_a, home_b) ? home_a : home_b;
    return absl::StrCat(Name(a), " is computed in ", Described(home_a), " and ", Name(b), " in ",
                        Described(home_b), ".", WhyApart(from, from == home_a ? home_b : home_a));
  }

  // `from` comes first. Begins with a space.
  std::string WhyApart(GroupId from, GroupId to) {
    std::vector<GroupId> between, path;
    std::string text = Tie(from, to, &between, &path);
    const std::pair<GroupId, GroupId> pair(std::min(from, to), std::max(from, to));
    if (const auto border = border_.find(pair); border != border_.end()) {
      const Decision& decision = border->second->decision;
      const auto trial = last_trial_.find(pair);
      if (trial != last_trial_.end()) {
        absl::StrAppend(&text, " The pass ", trial->second->pass,
                        " tried to make one kernel of them, which would have saved ",
                        FormatBytes(trial->second->gain_bytes),
                        " of memory traffic and launches; ");
      } else {
        absl::StrAppend(&text, " One kernel of both was tried; ");
      }
      absl::StrAppend(&text, Refuser(decision), ": ", Refusal(decision));
      return text;
    }
    // Nobody tried this pair. Far apart, the first border on the way speaks for all of them.
    for (size_t i = 0; i + 1 < path.size(); ++i) {
      const auto on_the_way = border_.find(std::minmax(path[i], path[i + 1]));
      if (on_the_way == border_.end()) continue;
      const Decision& decision = on_the_way->second->decision;
      absl::StrAppend(&text, " On that way ", Name(path[i]), " and ", Name(path[i + 1]),
                      " are not one kernel either; ", Refuser(decision), ": ", Refusal(decision));
      return text;
    }
    // With groups between them only all together can be one kernel.
    std::vector<GroupId> members = between;
    members.push_back(from);
    members.push_back(to);
    std::sort(members.begin(), members.end());
    const Decision decision = Ask(members);
    absl::StrAppend(
        &text, " No pass tried ",
        between.empty() ? "to make one kernel of the two" : "to make one kernel of all these",
        "; asked now, ");
    if (decision.ok) {
      absl::StrAppend(&text, "the ", SchedulerName(decision.scheduler),
                      " scheduler would take it. The segmenter joins groups only where that saves "
                      "memory traffic or a launch and no border of another merge stands against "
                      "it");
      if (decision.scheduler == SchedulerKind::kHorizontal) {
        absl::StrAppend(&text, ", and puts reductions side by side that move up to ",
                        kMostReducedBytes >> 20, " MiB each");
      }
      text += ".";
    } else {
      absl::StrAppend(&text, Refuser(decision), ": ", Refusal(decision));
    }
    return text;
  }

  SegmentedFusion& s_;
  const Fusion& f_;
  const SegmentationLog& log_;
  const SchedulabilityGuard& guard_;
  const SizeHints& sizes_;
  // By pair, the lower group first.
  absl::flat_hash_map<std::pair<GroupId, GroupId>, const MergeTrial*> last_trial_;
  absl::flat_hash_map<std::pair<GroupId, GroupId>, const BorderReason*> border_;
};

}  // namespace

absl::string_view ReasonSentence(ReasonCode code) {
  switch (code) {
    case ReasonCode::kOk:
      return "nothing stands against it";
    case ReasonCode::kGridBarrier:
    case ReasonCode::kSiblingsGridBarrier:
      return "a reduction's result would be needed by tiles that do not compute it, and the tiles "
             "of a kernel do not wait for one another";
    case ReasonCode::kNoCommonAxis:
    case ReasonCode::kSiblingsNoCommonAxis:
      return "there is no axis along which all of it could be divided among the tiles of a kernel";
    case ReasonCode::kUnconnected:
      return "nothing flows between them and they read nothing in common";
    case ReasonCode::kBarrier:
      return "the graph asks for a border there";
    case ReasonCode::kLibrary:
      return "a library call is a launch of its own";
    case ReasonCode::kNotConvex:
      return "a value would leave the kernel and come back to it through another one";
    case ReasonCode::kNoGain:
      return "it would save nothing";
    case ReasonCode::kBudget:
      return "the search for a path that leaves and comes back was cut off";
    case ReasonCode::kUnsupported:
      return "the rule of what a kernel may hold allows it, and no scheduler lowers it yet";
    case ReasonCode::kRecompute:
      return "values would be computed too many times over";
    case ReasonCode::kCapacity:
      return "it would not fit into one kernel";
    case ReasonCode::kSlower:
      return "it would take longer than the kernels apart";
  }
  return "the schedulers do not take it";
}

absl::StatusOr<std::string> ExplainValues(SegmentedFusion& segmented, const SegmentationLog& log,
                                          const SchedulabilityGuard& guard, const SizeHints& sizes,
                                          absl::string_view a, absl::string_view b) {
  SEAM_ASSIGN_OR_RETURN(const ValId x, FindValue(segmented.fusion(), a));
  SEAM_ASSIGN_OR_RETURN(const ValId y, FindValue(segmented.fusion(), b));
  return Wrapped(Explainer(segmented, log, guard, sizes).Explain(x, y));
}

std::vector<std::string> ExplainBorders(SegmentedFusion& segmented, const SegmentationLog& log,
                                        const SchedulabilityGuard& guard, const SizeHints& sizes,
                                        absl::Span<const std::pair<GroupId, GroupId>> borders) {
  Explainer explainer(segmented, log, guard, sizes);
  std::vector<std::string> texts;
  for (const auto& [a, b] : borders) texts.push_back(explainer.Border(a, b));
  return texts;
}

}  // namespace seam
