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
constexpr int kMaxEdgesAround = 512;
// Of all passes together, for each expression of the graph and at least.
constexpr int64_t kWindowWork = 4, kUnitWork = 2;  // Of making a model.
constexpr int64_t kWorkPerExpr = 1, kLeastWork = 1 << 19;

// Groups that a CutModel is made of.
struct Window {
  std::vector<GroupId> groups;   // The first is the one that it is around.
  std::vector<GroupId> between;  // On paths that leave `groups` and return.
};

// Finds one window after the other. Groups that change in between have to be named.
class WindowFinder {
 public:
  WindowFinder(SegmentedFusion& segmented, const Units& units) : s_(segmented), units_(units) {}

  Window Around(GroupId centre);
  void NoteChange(GroupId g) {
    if (g.index() < notes_.size()) notes_[g.index()].num_units = kUnknown;
  }

 private:
  static constexpr int kUnknown = -1;
  // On a group. A number of a search says that it was met there.
  struct Note {
    uint32_t seen = 0, inside = 0, ahead = 0, between = 0;
    int num_units = kUnknown;
  };

  Note& note(GroupId g) { return notes_[g.index()]; }
  // Whether the search meets `g` for the first time.
  bool IsNew(uint32_t Note::*met, GroupId g) {
    return std::exchange(note(g).*met, search_) != search_;
  }
  bool CanJoin(GroupId g) const;
  int NumUnits(GroupId g);
  void AddNeighbours(GroupId g, std::deque<GroupId>& queue);
  bool FindBetween(const std::vector<GroupId>& inside, std::vector<GroupId>* between);

  SegmentedFusion& s_;
  const Units& units_;
  std::vector<Note> notes_;  // Per group.
  uint32_t search_ = 0;      // The number of the last search.
};

bool WindowFinder::CanJoin(GroupId g) const {
  const GroupSummary outline = s_.Outline({g});
  return !outline.library && !outline.barrier && s_.num_exprs(g) <= kMaxGroupExprs;
}

// At most kMaxWindowUnits + 1: groups are large, windows are small.
int WindowFinder::NumUnits(GroupId g) {
  int& n = note(g).num_units;
  if (n == kUnknown) {
    n = 0;
    s_.AllExprs(g, [&](ExprId e) { return (n += units_.is_unit[e.index()]) <= kMaxWindowUnits; });
  }
  return n;
}

// Those that this search has not met yet, by their ids.
void WindowFinder::AddNeighbours(GroupId g, std::deque<GroupId>& queue) {
  std::vector<GroupId> list;
  const auto add = [&](GroupId next) {
    if (IsNew(&Note::seen, next)) list.push_back(next);
  };
  const auto add_readers = [&](BufferId b) {
    if (s_.readers(b).size() > kMaxReaders || s_.facts().weightless[s_.buffer(b).val.index()])
      return;
    for (EdgeId e : s_.readers(b)) add(s_.edge(e).to);
  };
  for (EdgeId e : s_.in_edges(g)) {
    if (s_.edge(e).kind() != EdgeKind::kData) continue;
    if (s_.edge(e).from.valid()) add(s_.edge(e).from);
    add_readers(s_.edge(e).buffer);
  }
  for (BufferId b : s_.buffers(g)) add_readers(b);
  std::sort(list.begin(), list.end());
  for (GroupId next : list) {
    if (CanJoin(next)) queue.push_back(next);
  }
}

// Groups outside on paths from one of `inside` to another. False if finding them takes too long.
bool WindowFinder::FindBetween(const std::vector<GroupId>& inside, std::vector<GroupId>* between) {
  ++search_;
  between->clear();
  for (GroupId g : inside) note(g).inside = search_;
  const GroupId last = *std::max_element(inside.begin(), inside.end(),
                                         [&](GroupId a, GroupId b) { return s_.Precedes(a, b); });
  int edges = 0;
  std::vector<GroupId> todo = inside;
  while (!todo.empty()) {
    const GroupId g = todo.back();
    todo.pop_back();
    for (EdgeId e : s_.out_edges(g)) {
      if (++edges > kMaxEdgesAround) return false;
      const GroupId to = s_.edge(e).to;
      if (!s_.Precedes(to, last) || note(to).inside == search_ || !IsNew(&Note::ahead, to))
        continue;
      todo.push_back(to);
    }
  }
  todo = inside;
  while (!todo.empty()) {
    const GroupId g = todo.back();
    todo.pop_back();
    for (EdgeId e : s_.in_edges(g)) {
      if (++edges > kMaxEdgesAround) return false;
      const GroupId from = s_.edge(e).from;
      if (!from.valid() || note(from).ahead != search_ || !IsNew(&Note::between, from)) continue;
      between->push_back(from);
      todo.push_back(from);
    }
  }
  return true;
}

// Groups are added by their distance as long as there is room. Those that share no kernel (library
// calls, barriers) are left out. Bounded by a constant number of edges.
Window WindowFinder::Around(GroupId centre) {
  Window window;
  if (!CanJoin(centre)) return window;
  ++search_;
  notes_.resize(s_.group_limit());
  note(centre).seen = search_;
  std::deque<GroupId> queue = {centre};
  int num_units = 0;
  while (!queue.empty() && num_units < kMaxWindowUnits) {
    const GroupId g = queue.front();
    queue.pop_front();
    const int more = NumUnits(g);
    if (num_units + more > kMaxWindowUnits) continue;
    num_units += more;
    window.groups.push_back(g);
    AddNeighbours(g, queue);
  }
  if (window.groups.size() < 2) return window;
  while (!FindBetween(window.groups, &window.between) ||
         num_units + static_cast<int>(window.between.size()) > CutModel::kMaxUnits) {
    window.groups.resize((window.groups.size() + 1) / 2);
    num_units = 0;
    for (GroupId g : window.groups) num_units += NumUnits(g);
    if (window.groups.size() < 2) break;
  }
  return window;
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

Refinement::Refinement(Units units_of_groups, uint32_t num_exprs)
    : units(std::move(units_of_groups)), work(kWorkPerExpr * num_exprs + kLeastWork) {}

bool ImproveWindows(const char* pass, int effort, Merger& merger, Refinement& refinement,
                    ImproveCut improve) {
  SegmentedFusion& s = merger.segmented();
  const std::vector<GroupId> groups = s.groups();
  std::deque<GroupId> queue(groups.begin(), groups.end());
  absl::flat_hash_set<GroupId> waiting(groups.begin(), groups.end());
  WindowFinder finder(s, refinement.units);
  bool any = false;
  while (!queue.empty() && refinement.work > 0 && merger.status().ok()) {
    const GroupId g = queue.front();
    queue.pop_front();
    waiting.erase(g);
    if (!s.alive(g)) continue;
    const Window window = finder.Around(g);
    refinement.work -= kWindowWork;
    if (window.groups.size() < 2) continue;
    CutModel model(s, refinement.units, merger.sizes(), merger.guard(), refinement.judgements,
                   window.groups, window.between);
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
    for (GroupId c : window.groups) finder.NoteChange(c);
    for (GroupId c : changed) {
      finder.NoteChange(c);
      if (waiting.insert(c).second) queue.push_back(c);
    }
  }
  return any;
}

}  // namespace seam
