#include "segmenter/window.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "absl/container/flat_hash_set.h"

namespace seam {
namespace {

constexpr int kMaxWindowUnits = 48;
constexpr int kMaxGroupExprs = 256;
constexpr int kMaxReaders = 16;  // Of one value, that count as neighbours of each other.
constexpr int kMaxSearchedEdges = 512;
// Of all passes together, for each expression of the graph and at least.
constexpr int64_t kWindowWork = 4, kUnitWork = 2;  // Of making a model.
constexpr int64_t kWorkPerExpr = 1, kLeastWork = 1 << 19;

// The units of a group, or `most` + 1 if there are more: groups are large, windows are small.
int NumUnits(const SegmentedFusion& s, const Units& units, GroupId g, int most) {
  int n = 0;
  s.AllExprs(g, [&](ExprId e) { return (n += units.is_unit[e.index()]) <= most; });
  return n;
}

std::vector<GroupId> NeighboursOf(const SegmentedFusion& s, GroupId g) {
  std::vector<GroupId> list;
  const auto add_readers = [&](BufferId b) {
    if (s.readers(b).size() > kMaxReaders || s.facts().weightless[s.buffer(b).val.index()]) return;
    for (EdgeId e : s.readers(b)) list.push_back(s.edge(e).to);
  };
  for (EdgeId e : s.in_edges(g)) {
    if (s.edge(e).kind != EdgeKind::kData) continue;
    if (s.edge(e).from.valid()) list.push_back(s.edge(e).from);
    add_readers(s.edge(e).buffer);
  }
  for (BufferId b : s.buffers(g)) add_readers(b);
  std::sort(list.begin(), list.end());
  list.erase(std::unique(list.begin(), list.end()), list.end());
  return list;
}

// Groups outside on paths from one of `inside` to another. False if finding them takes too long.
bool FindBetween(const SegmentedFusion& s, const std::vector<GroupId>& inside,
                 std::vector<GroupId>* between) {
  between->clear();
  absl::flat_hash_set<GroupId> members(inside.begin(), inside.end()), ahead;
  const GroupId last = *std::max_element(inside.begin(), inside.end(),
                                         [&](GroupId a, GroupId b) { return s.Precedes(a, b); });
  int edges = 0;
  std::vector<GroupId> todo = inside;
  while (!todo.empty()) {
    const GroupId g = todo.back();
    todo.pop_back();
    for (EdgeId e : s.out_edges(g)) {
      if (++edges > kMaxSearchedEdges) return false;
      const GroupId to = s.edge(e).to;
      if (!s.Precedes(to, last) || members.contains(to) || !ahead.insert(to).second) continue;
      todo.push_back(to);
    }
  }
  todo = inside;
  absl::flat_hash_set<GroupId> found;
  while (!todo.empty()) {
    const GroupId g = todo.back();
    todo.pop_back();
    for (EdgeId e : s.in_edges(g)) {
      if (++edges > kMaxSearchedEdges) return false;
      const GroupId from = s.edge(e).from;
      if (!from.valid() || !ahead.contains(from) || !found.insert(from).second) continue;
      between->push_back(from);
      todo.push_back(from);
    }
  }
  return true;
}

// Cuts the groups of the window anew.
void ApplyCut(const char* pass, Merger& merger, const Window& window, CutModel& model,
              const Cut& cut, int64_t gain_bytes, std::vector<GroupId>* changed) {
  std::vector<std::vector<GroupId>> pieces(cut.size());
  std::vector<GroupId> made;
  const Cut sorted = model.Sorted(cut);
  std::vector<GroupId> members;
  for (size_t i = 0; i < window.groups.size(); ++i) {
    if (std::find(cut.begin(), cut.end(), model.groups()[i]) == cut.end()) {
      members.push_back(window.groups[i]);
    }
  }
  MergeTrial trial = merger.TrialOf(pass, members, gain_bytes);
  for (size_t i = 0; i < window.groups.size(); ++i) {
    std::vector<GroupPart> parts;
    std::vector<size_t> blocks;
    absl::flat_hash_set<ExprId> placed;
    for (UnitMask m = model.groups()[i]; m != 0; m &= m - 1) {
      placed.insert(model.expr(__builtin_ctzll(m)));
    }
    for (size_t b = 0; b < sorted.size(); ++b) {
      const UnitMask units = sorted[b] & model.groups()[i];
      if (units == 0) continue;
      GroupPart& part = parts.emplace_back();
      blocks.push_back(b);
      for (UnitMask m = units; m != 0; m &= m - 1) {
        part.own.push_back(model.expr(__builtin_ctzll(m)));
      }
      for (ExprId e : model.Exprs(units)) {
        if (std::find(part.own.begin(), part.own.end(), e) != part.own.end()) continue;
        // The first that takes a cheap expression along is its home, if the group was.
        const bool own = merger.segmented().home(e) == window.groups[i] && placed.insert(e).second;
        (own ? part.own : part.copies).push_back(e);
      }
    }
    std::vector<GroupId> ids = {window.groups[i]};
    if (parts.size() > 1) ids = merger.Replace(window.groups[i], parts);
    for (size_t p = 0; p < ids.size(); ++p) pieces[blocks[p]].push_back(ids[p]);
  }
  for (size_t b = 0; b < sorted.size() && merger.status().ok(); ++b) {
    const SchedulerKind scheduler = model.PriceOf(sorted[b]).scheduler;
    GroupId g = pieces[b].front();
    if (pieces[b].size() > 1) g = merger.MergeKnown(pieces[b], scheduler);
    merger.segmented().set_scheduler(g, scheduler);
    changed->push_back(g);
    if (std::find(model.groups().begin(), model.groups().end(), sorted[b]) == model.groups().end())
      made.push_back(g);
  }
  merger.RecordCut(std::move(trial), made);
}

}  // namespace

Window WindowAround(SegmentedFusion& s, const Units& units, GroupId centre) {
  const auto joins = [&](GroupId g) {
    const GroupSummary outline = s.Outline({g});
    return !outline.library && !outline.barrier && s.num_exprs(g) <= kMaxGroupExprs;
  };
  Window window;
  if (!joins(centre)) return window;
  absl::flat_hash_set<GroupId> seen = {centre};
  std::deque<GroupId> queue = {centre};
  int num_units = 0;
  while (!queue.empty() && num_units < kMaxWindowUnits) {
    const GroupId g = queue.front();
    queue.pop_front();
    const int more = NumUnits(s, units, g, kMaxWindowUnits - num_units);
    if (num_units + more > kMaxWindowUnits) continue;
    num_units += more;
    window.groups.push_back(g);
    for (GroupId next : NeighboursOf(s, g)) {
      if (seen.insert(next).second && joins(next)) queue.push_back(next);
    }
  }
  if (window.groups.size() < 2) return window;
  while (!FindBetween(s, window.groups, &window.between) ||
         num_units + static_cast<int>(window.between.size()) > CutModel::kMaxUnits) {
    window.groups.resize((window.groups.size() + 1) / 2);
    num_units = 0;
    for (GroupId g : window.groups) num_units += NumUnits(s, units, g, kMaxWindowUnits);
    if (window.groups.size() < 2) break;
  }
  return window;
}

Refinement::Refinement(Units units_of_groups, uint32_t num_exprs)
    : units(std::move(units_of_groups)), work(kWorkPerExpr * num_exprs + kLeastWork) {}

bool ImproveWindows(const char* pass, int effort, Merger& merger, Refinement& refinement,
                    ImproveCut improve) {
  SegmentedFusion& s = merger.segmented();
  const std::vector<GroupId> groups = s.groups();
  std::deque<GroupId> queue(groups.begin(), groups.end());
  absl::flat_hash_set<GroupId> waiting(groups.begin(), groups.end());
  bool any = false;
  while (!queue.empty() && refinement.work > 0 && merger.status().ok()) {
    const GroupId g = queue.front();
    queue.pop_front();
    waiting.erase(g);
    if (!s.alive(g)) continue;
    const Window window = WindowAround(s, refinement.units, g);
    refinement.work -= kWindowWork;
    if (window.groups.size() < 2) continue;
    CutModel model(s, refinement.units, merger.sizes(), merger.guard(), window.groups,
                   window.between);
    if (model.has_borrowed_copies()) continue;
    const UnitMask focus = model.groups()[0];
    refinement.work -= kUnitWork * model.num_units();
    const uint64_t fingerprint = model.Fingerprint(focus, pass, effort);
    if (refinement.known.contains(fingerprint)) continue;
    const Cut cut = improve(model, model.groups(), focus);
    refinement.work -= model.num_priced_exprs();
    if (cut.empty()) {
      refinement.known.insert(fingerprint);
      continue;
    }
    any = true;
    std::vector<GroupId> changed;
    ApplyCut(pass, merger, window, model, cut, model.BytesOf(model.groups()) - model.BytesOf(cut),
             &changed);
    for (GroupId c : changed) {
      if (waiting.insert(c).second) queue.push_back(c);
    }
  }
  return any;
}

}  // namespace seam
