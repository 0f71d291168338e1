// The pass `narrow`: values cross between the final groups in fewer bits, where that is exact or
// the caller permits it (segmenter/crossing_types.h has the rules). A group rounds what it writes
// and widens what it reads; segmenter/extract.h puts these casts into its Fusion.
#include <numeric>
#include <optional>
#include <vector>

#include "segmenter/passes.h"

namespace seam {
namespace {

class Narrower {
 public:
  Narrower(SegmentedFusion& s, const CrossingTypes& types)
      : s_(s), f_(s.fusion()), types_(types), root_(f_.num_vals()), is_copied_(f_.num_exprs()) {}

  void Run() {
    struct Crossing {
      ValId val;
      DType rounded_to;
    };
    std::vector<Crossing> crossing;
    for (GroupId g : s_.groups()) {
      for (ExprId e : s_.copies(g)) is_copied_[e.index()] = true;
    }
    for (GroupId g : s_.groups()) {
      for (BufferId b : s_.buffers(g)) {
        const ValId v = s_.buffer(b).val;
        crossing.push_back({v, ReadersRoundTo(v)});
      }
    }
    TieViews();
    // What lies in the same memory has one type: its own, unless all agree on another.
    std::vector<std::optional<DType>> agreed(f_.num_vals());
    for (ValId v : f_.inputs()) agreed[Root(v)] = f_.dtype(v);
    for (const Crossing& c : crossing) {
      std::optional<DType>& type = agreed[Root(c.val)];
      const DType wanted = types_.TypeFor(c.val, c.rounded_to);
      type = !type.has_value() || *type == wanted ? wanted : f_.dtype(c.val);
    }
    for (const Crossing& c : crossing) {
      const DType type = *agreed[Root(c.val)];
      s_.set_buffer_type(s_.buffer_of(c.val), type,
                         !types_.Holds(c.val, type) && type != c.rounded_to);
    }
  }

 private:
  uint32_t Root(ValId v) {
    uint32_t i = v.index();
    while (root_[i] != i) i = root_[i] = root_[root_[i]];
    return i;
  }

  // A group of views hands memory on, and a segment_set copies it: what they write has the type of
  // what they read.
  void TieViews() {
    std::iota(root_.begin(), root_.end(), 0);
    for (GroupId g : s_.groups()) {
      const bool barrier = f_.info(s_.first_expr(g)).op_class == OpClass::Barrier;
      if (s_.scheduler(g) != SchedulerKind::kAlias && !barrier) continue;
      for (ExprId e : s_.all_exprs(g)) {
        if (HandsOn(f_, e)) root_[Root(f_.result(e))] = Root(f_.operands(e)[0]);
      }
    }
  }

  // The type to which all readers in other groups round `v` first; its own if there is none.
  DType ReadersRoundTo(ValId v) const {
    const DType own = f_.dtype(v);
    const GroupId home = s_.home(f_.definition(v));
    std::optional<DType> to;
    for (ExprId e : f_.uses(v)) {
      // A copy may be in any group.
      const bool elsewhere = s_.home(e).valid() && (s_.home(e) != home || is_copied_[e.index()]);
      for (int i = 0; elsewhere && i < static_cast<int>(f_.operands(e).size()); ++i) {
        if (f_.operands(e)[i] != v) continue;
        const DType here = types_.RoundedBy(e, i);
        if (here == own || (to.has_value() && *to != here)) return own;
        to = here;
      }
    }
    return to.value_or(own);
  }

  SegmentedFusion& s_;
  const Fusion& f_;
  const CrossingTypes& types_;
  std::vector<uint32_t> root_;  // Per value: union-find of those in the same memory.
  std::vector<bool> is_copied_;
};

}  // namespace

void NarrowEdges(SegmentedFusion& segmented, const CrossingTypes& types) {
  segmented.set_narrowing(types.narrowing());
  if (types.narrowing() != Narrowing::kOff) Narrower(segmented, types).Run();
}

}  // namespace seam
