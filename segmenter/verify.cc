#include "segmenter/verify.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ir/beside.h"
#include "ir/status.h"

namespace seam {
namespace {

class Verifier {
 public:
  explicit Verifier(const SegmentedFusion& s) : s_(s), f_(s.fusion()), groups_(s.groups()) {}

  absl::Status Run() {
    auto summaries = Beside(f_.num_exprs(), [this] { return CheckSummaries(); });
    SEAM_RETURN_IF_ERROR(CheckHomes());
    SEAM_RETURN_IF_ERROR(CheckInputs());
    SEAM_RETURN_IF_ERROR(CheckOutputs());
    SEAM_RETURN_IF_ERROR(CheckEdgesAndBuffers());
    SEAM_RETURN_IF_ERROR(CheckTypes());
    SEAM_RETURN_IF_ERROR(CheckOrder());
    return summaries.get();
  }

 private:
  absl::Status Broken(GroupId g, absl::string_view what) const {
    return absl::InternalError(absl::StrCat("group ", g.index(), ": ", what));
  }
  std::string Name(ValId v) const { return absl::StrCat("`", f_.name(v), "`"); }
  std::string Names(const std::vector<ValId>& vals) const {
    return absl::StrCat(
        "[",
        absl::StrJoin(vals, ", ",
                      [&](std::string* out, ValId v) { absl::StrAppend(out, f_.name(v)); }),
        "]");
  }

  // Values cross in their own types or in narrower floats; the caller's and a library's in their
  // own. Groups of views and a segment_set write what they read.
  absl::Status CheckTypes() {
    for (GroupId g : groups_) {
      const OpClass c = f_.info(s_.first_expr(g)).op_class;
      const bool library = c == OpClass::Library;
      const bool moves = s_.scheduler(g) == SchedulerKind::kAlias || c == OpClass::Barrier;
      for (ValId v : s_.outputs(g)) {
        const DType type = s_.buffer(s_.buffer_of(v)).dtype, own = f_.dtype(v);
        const bool may = s_.narrowing() != Narrowing::kOff && !f_.is_output(v) && !library;
        if (type != own &&
            (!may || !IsFloat(own) || !IsFloat(type) || DTypeBytes(type) >= DTypeBytes(own))) {
          return Broken(g, absl::StrCat(Name(v), " crosses as ", DTypeName(type)));
        }
        if (!moves) continue;
        ValId from = v;
        for (ExprId e; (e = f_.definition(from)).valid() && s_.computes(g, e) && HandsOn(f_, e);)
          from = f_.operands(e)[0];
        if (s_.buffer_of(from).valid() && s_.buffer(s_.buffer_of(from)).dtype != type)
          return Broken(g, absl::StrCat(Name(v), " and ", Name(from), " differ in type"));
      }
      for (ValId v : s_.inputs(g)) {
        if (library && s_.buffer(s_.buffer_of(v)).dtype != f_.dtype(v))
          return Broken(g, absl::StrCat(Name(v), " is read in another type"));
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckHomes() {
    if (groups_.size() != s_.num_groups()) {
      return absl::InternalError(
          absl::StrCat(groups_.size(), " groups in order, ", s_.num_groups(), " counted"));
    }
    size_t listed = 0;
    for (GroupId g : groups_) {
      const std::vector<ExprId> exprs = s_.exprs(g), copies = s_.copies(g);
      if (exprs.empty()) return Broken(g, "has no expressions of its own");
      if (s_.first_expr(g) != exprs.front()) return Broken(g, "does not know its first expression");
      listed += exprs.size();
      for (ExprId e : exprs) {
        if (s_.home(e) != g)
          return Broken(g, absl::StrCat("lists ", Name(f_.result(e)), " of another home"));
      }
      for (ExprId e : copies) {
        if (s_.home(e) == g || !s_.home(e).valid()) {
          return Broken(g,
                        absl::StrCat("copies ", Name(f_.result(e)), ", which is its own or dead"));
        }
      }
      if (static_cast<size_t>(s_.num_exprs(g)) != exprs.size() + copies.size()) {
        return Broken(g, "counts its expressions wrongly");
      }
    }
    size_t homes = 0;
    std::vector<bool> is_needed(f_.num_vals());  // By the caller, or by an expression with a home.
    for (ValId v : f_.outputs()) is_needed[v.index()] = true;
    is_end_.assign(f_.num_exprs(), false);
    for (uint32_t i = f_.num_exprs(); i-- > 0;) {
      const ExprId e(i);
      const GroupId g = s_.home(e);
      bool needed = false;
      for (int r = 0; r < f_.num_results(e); ++r) needed |= is_needed[f_.result(e, r).index()];
      if (g.valid() ? !s_.alive(g) : needed) {
        return absl::InternalError(absl::StrCat("expression ", Name(f_.result(e)), " has no home"));
      }
      if (!g.valid()) continue;
      ++homes;
      is_end_[i] = !needed;
      for (ValId v : f_.operands(e)) is_needed[v.index()] = true;
    }
    if (homes == listed) return absl::OkStatus();
    return absl::InternalError(
        absl::StrCat(homes, " expressions have homes, ", listed, " are listed"));
  }

  // A group reads what its expressions read and none of them computes.
  absl::Status CheckInputs() {
    std::vector<uint32_t> computed(f_.num_vals()), seen(f_.num_vals());
    num_readers_.assign(f_.num_vals(), 0);
    uint32_t round = 0;
    for (GroupId g : groups_) {
      ++round;
      const std::vector<ExprId> exprs = s_.all_exprs(g);
      for (ExprId e : exprs) {
        for (int r = 0; r < f_.num_results(e); ++r) computed[f_.result(e, r).index()] = round;
      }
      std::vector<ValId> expected;
      for (ExprId e : exprs) {
        for (ValId v : f_.operands(e)) {
          if (computed[v.index()] == round || seen[v.index()] == round) continue;
          seen[v.index()] = round;
          expected.push_back(v);
        }
      }
      std::sort(expected.begin(), expected.end());
      const std::vector<ValId> inputs = s_.inputs(g);
      if (inputs != expected) {
        return Broken(g, absl::StrCat("inputs are ", Names(inputs), ", its expressions need ",
                                      Names(expected)));
      }
      for (ValId v : inputs) {
        ++num_readers_[v.index()];
        if (f_.definition(v).valid() && s_.home(f_.definition(v)) == g) {
          return Broken(g, absl::StrCat("reads ", Name(v), ", which it computes"));
        }
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckOutputs() {
    for (GroupId g : groups_) {
      std::vector<ValId> expected;
      for (ExprId e : s_.exprs(g)) {
        for (int r = 0; r < f_.num_results(e); ++r) {
          const ValId v = f_.result(e, r);
          if (f_.is_output(v) || num_readers_[v.index()] > 0 || (r == 0 && is_end_[e.index()]))
            expected.push_back(v);
        }
      }
      const std::vector<ValId> outputs = s_.outputs(g);
      if (outputs != expected) {
        return Broken(
            g, absl::StrCat("outputs are ", Names(outputs), ", others need ", Names(expected)));
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckEdgesAndBuffers() {
    std::set<std::pair<GroupId, GroupId>> order_pairs;
    for (const OrderConstraint& c : s_.order_constraints()) {
      if (s_.home(c.before) != s_.home(c.after)) {
        order_pairs.emplace(s_.home(c.before), s_.home(c.after));
      }
    }
    size_t in = 0, out = 0, order = 0, alive = 0, from_groups = 0;
    for (GroupId g : groups_) {
      for (EdgeId e : s_.in_edges(g)) {
        ++in;
        const SegmentedEdge& x = s_.edge(e);
        if (x.to != g)
          return Broken(g, absl::StrCat("lists an edge of ", Name(x.val), " that leads elsewhere"));
        if (x.kind() == EdgeKind::kOrder) {
          ++order;
          if (order_pairs.count({x.from, x.to}) == 0)
            return Broken(g, "has an order edge without a reason");
          continue;
        }
        const ExprId definition = f_.definition(x.val);
        const GroupId from = definition.valid() ? s_.home(definition) : GroupId();
        if (x.from != from || s_.data_edge(g, x.val) != e) {
          return Broken(g,
                        absl::StrCat("its edge of ", Name(x.val), " comes from the wrong group"));
        }
        const BufferId b = s_.buffer_of(x.val);
        if (!b.valid() || x.buffer != b || s_.buffer(b).val != x.val || s_.buffer(b).from != from) {
          return Broken(g, absl::StrCat("its edge of ", Name(x.val), " has the wrong buffer"));
        }
      }
      for (EdgeId e : s_.out_edges(g)) {
        ++out;
        if (s_.edge(e).from != g) return Broken(g, "lists an edge that comes from elsewhere");
      }
    }
    for (uint32_t e = 0; e < s_.edge_limit(); ++e) {
      if (!s_.edge_alive(EdgeId(e))) continue;
      ++alive;
      from_groups += s_.edge(EdgeId(e)).from.valid();
    }
    if (in != alive || out != from_groups || order != order_pairs.size()) {
      return absl::InternalError(absl::StrCat(alive, " edges, ", in, " listed at their readers, ",
                                              out, " of ", from_groups, " at their groups, ", order,
                                              " of ", order_pairs.size(), " for order"));
    }
    for (uint32_t v = 0; v < f_.num_vals(); ++v) {
      const BufferId b = s_.buffer_of(ValId(v));
      const uint32_t readers = b.valid() ? s_.readers(b).size() : 0;
      if (readers != num_readers_[v]) {
        return absl::InternalError(absl::StrCat("value ", Name(ValId(v)), ": ", readers, " edges, ",
                                                num_readers_[v], " groups read it"));
      }
    }
    return absl::OkStatus();
  }

  // The lists' order is topological, which also says that there is no cycle.
  absl::Status CheckOrder() {
    for (size_t i = 0; i + 1 < groups_.size(); ++i) {
      if (!s_.Precedes(groups_[i], groups_[i + 1]))
        return Broken(groups_[i], "has a label out of order");
    }
    for (GroupId g : groups_) {
      for (EdgeId e : s_.out_edges(g)) {
        if (!s_.Precedes(g, s_.edge(e).to)) {
          return Broken(g, absl::StrCat("comes after group ", s_.edge(e).to.index(),
                                        ", which depends on it"));
        }
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckSummaries() const {
    for (GroupId g : groups_) {
      const GroupSummary kept = s_.summary(g);
      const GroupSummary fresh = Summarize(f_, s_.axes(), s_.facts(), s_.all_exprs(g));
      if (kept == fresh) continue;
      std::string fields;
      const auto compare = [&](bool same, absl::string_view field) {
        if (!same) absl::StrAppend(&fields, " ", field);
      };
      compare(kept.spaces == fresh.spaces, "spaces");
      compare(kept.held == fresh.held, "held");
      compare(kept.kept == fresh.kept, "kept");
      compare(kept.num_exprs == fresh.num_exprs, "num_exprs");
      compare(kept.num_reductions == fresh.num_reductions && kept.reductions == fresh.reductions,
              "reductions");
      compare(kept.views_only == fresh.views_only, "views_only");
      compare(kept.moves == fresh.moves && kept.turns == fresh.turns, "moves");
      compare(kept.library == fresh.library && kept.barrier == fresh.barrier, "class");
      compare(kept.connected == fresh.connected, "connected");
      compare(kept.recompute_factor == fresh.recompute_factor, "recompute_factor");
      return Broken(g, absl::StrCat("its summary is not that of its expressions:", fields));
    }
    return absl::OkStatus();
  }

  const SegmentedFusion& s_;
  const Fusion& f_;
  const std::vector<GroupId> groups_;
  std::vector<bool> is_end_;           // Per expression: it has a home, and nobody needs it.
  std::vector<uint32_t> num_readers_;  // Per value: groups that read it.
};

}  // namespace

absl::Status VerifySegmentation(const SegmentedFusion& segmented) {
  return Verifier(segmented).Run();
}

}  // namespace seam
