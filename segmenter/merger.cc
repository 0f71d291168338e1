#include "segmenter/merger.h"

#include <algorithm>
#include <array>
#include <climits>
#include <queue>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "segmenter/closer_look.h"
#include "segmenter/islands.h"
#include "segmenter/traffic.h"
#include "segmenter/verify.h"

namespace seam {

int64_t Merger::Gain(absl::Span<const GroupId> members) {
  return GainOf(members, s_.SavedBytes(members, sizes_.bytes()));
}

// A group of views moves nothing and launches nothing until it is merged with one that does.
int64_t Merger::GainOf(absl::Span<const GroupId> members, int64_t saved_bytes) const {
  int64_t gain = saved_bytes - kLaunchBytes;
  int launching = 0;
  for (GroupId g : members) {
    if (s_.scheduler(g) == SchedulerKind::kAlias &&
        s_.degree(g) + s_.buffers(g).size() > kMaxViewBorder) {
      return -1;
    }
    if (Launches(s_, g)) {
      ++launching;
      gain = SaturatingAdd(gain, kLaunchBytes);
      continue;
    }
    gain = SaturatingAdd(gain, -BorderBytes(g));
  }
  return launching == 0 ? 0 : gain;
}

int64_t Merger::BorderBytes(GroupId g) const {
  int64_t bytes = 0;
  for (EdgeId e : s_.in_edges(g)) {
    if (s_.edge(e).kind() == EdgeKind::kData)
      bytes = SaturatingAdd(bytes, sizes_.Bytes(s_.edge(e).val));
  }
  for (BufferId b : s_.buffers(g)) bytes = SaturatingAdd(bytes, sizes_.Bytes(s_.buffer(b).val));
  return bytes;
}

bool Merger::Refused(absl::Span<const GroupId> members) {
  for (size_t i = 0; i < members.size(); ++i) {
    for (size_t j = i + 1; j < members.size(); ++j) {
      const Refusal* refusal = refusals_.Find(members[i], members[j]);
      if (refusal != nullptr && IsPermanent(refusal->reason)) return true;
    }
  }
  return false;
}

Decision Merger::DecideByOutline(absl::Span<const GroupId> members) const {
  Decision decision = guard_.CanSchedule(s_.fusion(), s_.axes(), s_.Outline(members));
  switch (decision.reason) {
    case ReasonCode::kLibrary:
    case ReasonCode::kBarrier:
    case ReasonCode::kCapacity:
    case ReasonCode::kGridBarrier:
      return decision;
    default:
      return Decision::Accept(SchedulerKind::kNone);
  }
}

Decision Merger::Decide(absl::Span<const GroupId> members, int64_t* saved_bytes,
                        Placement* placement) {
  MergeEstimate estimate = s_.Estimate(members, sizes_.bytes());
  *saved_bytes = estimate.saved_bytes;
  GroupSummary summary = std::move(estimate.summary);
  const auto exprs = [&] { return s_.all_exprs(members); };
  const auto ask = [&] {
    return AskGuard(guard_, s_.fusion(), s_.axes(), s_.facts(), exprs, summary);
  };
  Decision decision = ask();
  if (!decision.ok && !estimate.exact && summary.num_exprs <= kMaxExactExprs) {
    const int num_tensors = summary.num_tensors;
    summary = Summarize(s_.fusion(), s_.axes(), s_.facts(), exprs());
    summary.num_tensors = num_tensors;
    decision = ask();
  }
  if (decision.ok && decision.late && accepts_late_since_ == 0) {
    return Decision::Refuse(decision.scheduler, ReasonCode::kSlower, summary.reductions,
                            "every element would wait for a reduction over all of them; to be "
                            "weighed behind all other merges");
  }
  if (decision.ok && summary.num_exprs <= kMostLookedAt && SpreadsArithmetic(members, summary)) {
    if (weighs_spreading_since_ == 0) {
      spreading_waits_ = true;
      return Decision::Refuse(decision.scheduler, ReasonCode::kSlower, {s_.first_expr(members[0])},
                              "much would be computed again at more points; to be weighed when the "
                              "kernels around are whole");
    }
    if (summary.computed.empty()) LookCloser(s_.fusion(), s_.axes(), s_.facts(), exprs(), summary);
  }
  if (decision.ok)
    decision = Weigh(members, std::move(summary), estimate.saved_bytes, std::move(decision));
  if (!decision.ok) return decision;
  return DecideConvex(members, kMaxSearchedEdges, std::move(decision), placement);
}

Decision Merger::DecideConvex(absl::Span<const GroupId> members, int max_edges, Decision accepted,
                              Placement* placement) {
  const Convexity convexity = s_.CheckConvex(members, max_edges, placement);
  if (convexity == Convexity::kConvex) return accepted;
  std::vector<ExprId> about;
  for (GroupId g : members) about.push_back(s_.first_expr(g));
  if (convexity == Convexity::kNotConvex) {
    return Decision::Refuse(SchedulerKind::kNone, ReasonCode::kNotConvex, std::move(about),
                            "a value leaves the merged group and comes back through another one");
  }
  return Decision::Refuse(SchedulerKind::kNone, ReasonCode::kBudget, std::move(about),
                          "the search for a path that leaves and comes back was too long");
}

bool Merger::SpreadsArithmetic(absl::Span<const GroupId> members,
                               const GroupSummary& merged) const {
  // Less than kCostlyBytes, but so much at all points that memory would wait for it.
  constexpr double kFewBytes = 1.5, kTimesMoved = 8;
  const auto outweighs_memory = [&](double bytes) {
    double points = 0, moved = 0;
    for (const AxisSet& space : merged.spaces)
      points = std::max(points, sizes_.Points(s_.axes(), space));
    for (GroupId g : members) moved += static_cast<double>(MovedBytes(s_, sizes_, g));
    return bytes * points > kTimesMoved * moved;
  };
  return std::any_of(members.begin(), members.end(), [&](GroupId g) {
    if (s_.num_exprs(g) > kMaxSpreadExprs) return false;
    double bytes = 0;
    for (ExprId e : s_.exprs(g)) bytes += guard_.BytesOfArithmetic(s_.fusion(), e);
    if (bytes < kFewBytes) return false;
    const std::vector<AxisSet> own = s_.summary(g).spaces;
    const auto is_part = [](const AxisSet& few, const std::vector<AxisSet>& spaces) {
      return std::any_of(spaces.begin(), spaces.end(), [&](const AxisSet& space) {
        return few.size() < space.size() && IsSubset(few, space);
      });
    };
    bytes = 0;
    for (ExprId e : s_.exprs(g)) {
      const AxisSet& space = s_.axes().space(e);
      if (!is_part(space, own) && is_part(space, merged.spaces))
        bytes += guard_.BytesOfArithmetic(s_.fusion(), e);
    }
    return bytes >= kCostlyBytes || (bytes >= kFewBytes && outweighs_memory(bytes));
  });
}

Decision Merger::Weigh(absl::Span<const GroupId> members, GroupSummary merged, int64_t saved_bytes,
                       Decision accepted) {
  double fraction = guard_.FractionOfPeak(s_.fusion(), s_.axes(), sizes_, merged);
  const bool counted = !merged.computed.empty();
  if (fraction >= 1 && !counted) return accepted;
  const auto refuse = [&](const char* why) {
    return Decision::Refuse(accepted.scheduler, ReasonCode::kSlower, merged.reductions, why);
  };
  if (fraction <= 0)
    return refuse("it would read and write more tensors than a thread has registers for");
  double apart = 0, bytes = 0;
  for (GroupId g : members) {
    GroupSummary summary = s_.summary(g);
    if (counted) LookCloser(s_.fusion(), s_.axes(), s_.facts(), s_.all_exprs({g}), summary);
    summary.num_tensors = s_.num_tensors(g);
    summary.moved_bytes = MovedBytes(s_, sizes_, g);
    const auto own = static_cast<double>(summary.moved_bytes);
    bytes += own;
    if (!Launches(s_, g)) saved_bytes = SaturatingAdd(saved_bytes, -BorderBytes(g));
    apart += own / std::max(1e-3, guard_.FractionOfPeak(s_.fusion(), s_.axes(), sizes_, summary)) +
             (Launches(s_, g) ? kLaunchBytes : 0);
  }
  const double moved = bytes - static_cast<double>(saved_bytes);
  merged.moved_bytes = static_cast<int64_t>(moved);
  const auto together = [&](const GroupSummary& summary) {
    return moved / guard_.FractionOfPeak(s_.fusion(), s_.axes(), sizes_, summary) + kLaunchBytes;
  };
  if (together(merged) <= apart) return accepted;
  const std::vector<GroupSummary::Computed> computed = std::exchange(merged.computed, {});
  if (!counted || together(merged) > apart)
    return refuse("it would leave much of the machine idle");
  const auto cost = [&](const GroupSummary::Computed& c) {
    const auto points = [&](ExprId e) { return sizes_.Points(s_.axes(), s_.axes().space(e)); };
    return (c.times * points(c.at) - points(c.expr)) *
           guard_.BytesOfArithmetic(s_.fusion(), c.expr);
  };
  const auto most =
      std::max_element(computed.begin(), computed.end(),
                       [&](const auto& a, const auto& b) { return cost(a) < cost(b); });
  return Decision::Refuse(accepted.scheduler, ReasonCode::kSlower, {most->expr},
                          "to compute this again at other points would take longer than to write "
                          "and to read it");
}

void Merger::Remember(absl::Span<const GroupId> members, Decision decision) {
  const GroupId a = members.front(), b = members.back();
  if (decision.reason == ReasonCode::kNotConvex && members.size() == 2)
    not_convex_.emplace_back(a, b);
  refusals_.Add(a, b, std::move(decision), changes_);
}

bool Merger::TryMerge(const char* pass, absl::Span<const GroupId> members) {
  if (Refused(members) || !status_.ok()) return false;
  return PassesOutline(pass, members) && TryPassed(pass, members);
}

bool Merger::PassesOutline(const char* pass, absl::Span<const GroupId> members) {
  Decision decision = DecideByOutline(members);
  if (decision.ok) return true;
  Record(TrialOf(pass, members, options_.trace ? Gain(members) : 0), decision);
  Remember(members, std::move(decision));
  return false;
}

bool Merger::TryPassed(const char* pass, absl::Span<const GroupId> members) {
  Placement placement;
  int64_t saved_bytes = 0;
  Decision decision = Decide(members, &saved_bytes, &placement);
  if (decision.ok && !decision.late && accepts_late_since_ > 0) return false;  // Weighed before.
  const int64_t gain = GainOf(members, saved_bytes);
  if (decision.ok && gain < 0) {
    decision = Decision::Refuse(decision.scheduler, ReasonCode::kNoGain, {},
                                "views cost nothing, and would be written by a kernel");
  }
  Record(TrialOf(pass, members, gain), decision);
  if (!decision.ok) {
    Remember(members, std::move(decision));
    return false;
  }
  Commit(members, placement, decision.scheduler);
  return true;
}

bool Merger::TryIslands(const char* pass, absl::Span<const GroupId> members) {
  if (!status_.ok()) return false;
  // Copies that meet may connect what was apart, so it is the union that is asked about.
  Placement placement;
  const std::vector<std::vector<ExprId>> islands =
      IslandsOf(s_.fusion(), s_.axes(), s_.facts(), s_.all_exprs(members));
  Decision decision = CanScheduleIslands(guard_, s_.fusion(), s_.axes(), s_.facts(), islands);
  if (decision.ok && islands.size() < members.size()) {
    decision = Decision::Refuse(SchedulerKind::kHorizontal, ReasonCode::kNoGain, {},
                                "what some of them read in common would make one island of these");
  }
  if (decision.ok) decision = DecideConvex(members, kMaxIslandEdges, decision, &placement);
  Record(TrialOf(pass, members, GainOf(members, 0)), decision);
  if (!decision.ok) {
    Remember(members, std::move(decision));
    return false;
  }
  Commit(members, placement, decision.scheduler);
  return true;
}

MergeTrial Merger::TrialOf(const char* pass, absl::Span<const GroupId> members,
                           int64_t gain_bytes) const {
  MergeTrial trial;
  if (!options_.trace) return trial;
  trial.pass = pass;
  trial.gain_bytes = gain_bytes;
  for (GroupId g : members) trial.members.push_back({s_.first_expr(g), s_.num_exprs(g)});
  return trial;
}

void Merger::Record(MergeTrial trial, const Decision& decision) {
  ++log_.num_trials;
  if (decision.ok) ++log_.num_merges;
  if (!options_.trace) return;
  trial.decision = decision;
  log_.trials.push_back(std::move(trial));
}

void Merger::RecordCut(MergeTrial trial, absl::Span<const GroupId> made) {
  if (options_.trace) {
    for (GroupId g : made) trial.made.push_back(s_.exprs(g));
  }
  Record(std::move(trial), Decision::Accept(SchedulerKind::kNone));
}

GroupId Merger::Commit(absl::Span<const GroupId> members, const Placement& placement,
                       SchedulerKind scheduler) {
  const GroupId joined = s_.Merge(members, placement);
  s_.set_scheduler(joined, scheduler);
  NoteChange(joined);
  for (GroupId g : members) {
    if (g != joined) refusals_.Inherit(g, joined);
  }
  Verify();
  return joined;
}

void Merger::Verify() {
  if (options_.verify_each_merge && status_.ok()) status_ = VerifySegmentation(s_);
}

GroupId Merger::MergeKnown(absl::Span<const GroupId> members, SchedulerKind scheduler) {
  Placement placement;
  if (s_.CheckConvex(members, INT_MAX, &placement) == Convexity::kConvex) {
    return Commit(members, placement, scheduler);
  }
  status_ = absl::InternalError("a cut that was found to have no cycle has one");
  return members.front();
}

std::vector<GroupId> Merger::Replace(GroupId g, absl::Span<const GroupPart> parts) {
  std::vector<GroupId> ids = s_.Replace(g, parts);
  for (GroupId part : ids) NoteChange(part);
  last_cut_ = changes_;
  refusals_.Forget(g);
  Verify();
  return ids;
}

void Merger::RemakeAll(absl::Span<const Remake> remakes) {
  for (const Remake& remake : remakes) {
    s_.Replace(remake.group, {remake.part});
    s_.set_scheduler(remake.group, remake.scheduler);
    NoteChange(remake.group);
  }
  Verify();
}

void Merger::NoteChange(GroupId g) {
  last_change_.resize(s_.group_limit());
  last_change_[g.index()] = ++changes_;
}

bool Merger::IsSince(int at, GroupId g) const {
  return g.index() < last_change_.size() && last_change_[g.index()] > at;
}

bool Merger::RefusedAsTheyAre(GroupId a, GroupId b) {
  const Refusal* refusal = refusals_.Find(a, b);
  if (refusal == nullptr) return false;
  if (IsPermanent(refusal->reason)) return true;
  if (IsSince(refusal->at, a) || IsSince(refusal->at, b)) return false;
  if (refusal->reason == ReasonCode::kSlower &&
      refusal->at < std::max(weighs_spreading_since_, accepts_late_since_)) {
    return false;
  }
  // What a merge would save depends on who else reads.
  if (refusal->reason == ReasonCode::kNoGain) return false;
  if (refusal->reason == ReasonCode::kNotConvex) {
    if (refusal->at < last_cut_) return false;
    not_convex_.emplace_back(a, b);
  }
  return true;
}

bool Merger::MergePairs(const char* pass, std::vector<std::pair<GroupId, GroupId>> pairs) {
  // Along the order of the groups, each window by gain: what is near in the graph is near in
  // memory, too. A key is the later one's position, the earlier one's, and whether the pair begins
  // with the later one.
  const std::vector<GroupId> groups = s_.groups();
  std::vector<uint32_t> position(s_.group_limit());
  for (uint32_t i = 0; i < groups.size(); ++i) position[groups[i].index()] = i;
  std::vector<uint64_t> keys;
  keys.reserve(pairs.size());
  for (const auto& [a, b] : pairs) {
    const auto [low, high] = std::minmax(position[a.index()], position[b.index()]);
    keys.push_back(uint64_t{high} << 32 | low << 1 | (position[a.index()] == high));
  }
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  pairs.clear();
  for (uint64_t key : keys) {
    pairs.emplace_back(groups[static_cast<uint32_t>(key) >> 1], groups[key >> 32]);
    if ((key & 1) != 0) std::swap(pairs.back().first, pairs.back().second);
  }
  keys = {};
  bool any = false;
  for (size_t begin = 0; begin < pairs.size(); begin += kWindow) {
    any |= MergeWindow(pass, absl::MakeConstSpan(pairs).subspan(begin, kWindow));
  }
  return any;
}

bool Merger::MergeWindow(const char* pass, absl::Span<const std::pair<GroupId, GroupId>> pairs) {
  struct Candidate {
    int64_t gain;
    GroupId a, b;
    int at;  // changes_ when the gain was found.
  };
  const auto sooner = [](const Candidate& x, const Candidate& y) {
    return std::tuple(-x.gain, x.a, x.b) < std::tuple(-y.gain, y.a, y.b);
  };
  const auto later = [&](const Candidate& x, const Candidate& y) { return sooner(y, x); };
  // What is looked at soon is far apart in memory.
  constexpr size_t kAhead = 8;
  const auto hint = [&](const auto& list, size_t i, auto ends) {
    if (i + kAhead < list.size()) {
      for (GroupId g : ends(list[i + kAhead])) s_.PrefetchGroup(g);
    }
    if (i + kAhead / 2 < list.size()) {
      for (GroupId g : ends(list[i + kAhead / 2])) s_.PrefetchEdges(g);
    }
  };
  using Pair = std::array<GroupId, 2>;
  std::vector<Pair> alive;
  alive.reserve(pairs.size());
  for (const auto& [old_a, old_b] : pairs) {
    const GroupId a = s_.survivor(old_a), b = s_.survivor(old_b);
    if (a != b) alive.push_back({a, b});
  }
  std::vector<Candidate> initial;
  for (size_t i = 0; i < alive.size(); ++i) {
    hint(alive, i, [](const Pair& p) { return p; });
    const auto [a, b] = alive[i];
    if (RefusedAsTheyAre(a, b)) continue;
    // What is refused at a glance needs no place in the queue.
    if (PassesOutline(pass, {a, b})) initial.push_back({Gain({a, b}), a, b, changes_});
  }
  std::sort(initial.begin(), initial.end(), sooner);
  // Those whose gains have become less.
  std::priority_queue<Candidate, std::vector<Candidate>, decltype(later)> sunk(later);
  size_t next = 0;
  const auto is_empty = [&] { return next == initial.size() && sunk.empty(); };
  const auto first = [&] {
    return sunk.empty() || (next < initial.size() && sooner(initial[next], sunk.top()));
  };
  bool any = false;
  while (!is_empty() && status_.ok()) {
    Candidate top;
    if (first()) {
      hint(initial, next, [](const Candidate& c) { return Pair{c.a, c.b}; });
      top = initial[next++];
    } else {
      top = sunk.top();
      sunk.pop();
    }
    const GroupId a = s_.survivor(top.a), b = s_.survivor(top.b);
    if (a == b || RefusedAsTheyAre(a, b)) continue;
    const bool changed = IsSince(top.at, a) || IsSince(top.at, b);
    if (changed) {
      const int64_t now = Gain({a, b});
      if (now < top.gain && !is_empty() && now < (first() ? initial[next] : sunk.top()).gain) {
        sunk.push({now, a, b, changes_});
        continue;
      }
    }
    if (!changed || PassesOutline(pass, {a, b})) any |= TryPassed(pass, {a, b});
  }
  return any;
}

SegmentationLog Merger::Log(absl::Span<const GroupId> numbers) {
  refusals_.ForEach([&](GroupId a, GroupId b, const Decision& decision) {
    if (!s_.alive(a) || !s_.alive(b)) return;
    const auto [from, to] = std::minmax(numbers[a.index()], numbers[b.index()]);
    log_.borders.push_back({from, to, decision});
  });
  std::sort(log_.borders.begin(), log_.borders.end(),
            [](const BorderReason& x, const BorderReason& y) {
              return std::pair(x.from, x.to) < std::pair(y.from, y.to);
            });
  return std::move(log_);
}

}  // namespace seam
