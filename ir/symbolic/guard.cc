#include "ir/symbolic/guard.h"

#include <algorithm>

#include "absl/algorithm/container.h"
#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "ir/status.h"

namespace seam {
namespace {

// A condition as difference >= 0, == 0 or != 0.
SymInt Difference(SymInt condition) {
  const SymNode& n = *condition.node();
  const SymInt d = n.children[1] - n.children[0];
  return n.kind == SymKind::Lt ? d - 1 : d;
}

bool IsOrder(SymInt e) { return IsKind(e, SymKind::Lt) || IsKind(e, SymKind::Le); }
bool IsNonNegative(SymInt e) { return ProvablyGe(e, 0); }

// y % c == 0 implies y % d == 0 where d divides c.
bool ImpliesDivisibility(SymInt a, SymInt b) {
  const auto mod_of = [](SymInt e) -> const SymNode* {
    const SymNode& n = *e.node();
    return n.children[1].is_same(0) && IsKind(n.children[0], SymKind::Mod) ? n.children[0].node()
                                                                           : nullptr;
  };
  const SymNode* x = mod_of(a);
  const SymNode* y = mod_of(b);
  return x != nullptr && y != nullptr && x->children[0].is_same(y->children[0]) &&
         Mod(x->children[1], y->children[1]).is_same(0);
}

bool ImpliesLeaf(SymInt a, SymInt b) {
  if (a.is_same(b)) return true;
  if (IsOrder(a)) {
    const SymInt d = Difference(a);
    if (IsOrder(b)) return IsNonNegative(Difference(b) - d);
    if (IsKind(b, SymKind::Ne)) {
      const SymInt e = Difference(b);
      return IsNonNegative(e - d - 1) || IsNonNegative(-e - d - 1);
    }
  }
  if (IsKind(a, SymKind::Eq)) {
    const SymInt d = Difference(a);
    if (IsOrder(b)) return IsNonNegative(Difference(b) - d) || IsNonNegative(Difference(b) + d);
    if (IsKind(b, SymKind::Ne)) {
      const SymInt e = Difference(b);
      return Decide(SymNe(e, d)) == true || Decide(SymNe(e, -d)) == true;
    }
    if (IsKind(b, SymKind::Eq)) return ImpliesDivisibility(a, b);
  }
  return false;
}

}  // namespace

bool Implies(SymInt a, SymInt b) {
  if (!a.is_valid() || !b.is_valid()) return false;
  if (Decide(a) == false || Decide(b) == true) return true;
  if (Decide(a) == true || Decide(b) == false || a.env() != b.env()) return false;
  const auto children = [](SymInt e) { return e.node()->children; };
  if (a.is_same(b)) return true;
  if (IsKind(b, SymKind::And)) {
    return absl::c_all_of(children(b), [&](SymInt c) { return Implies(a, c); });
  }
  if (IsKind(a, SymKind::Or)) {
    return absl::c_all_of(children(a), [&](SymInt c) { return Implies(c, b); });
  }
  if (IsKind(a, SymKind::And)) {
    return absl::c_any_of(children(a), [&](SymInt c) { return Implies(c, b); });
  }
  if (IsKind(b, SymKind::Or)) {
    return absl::c_any_of(children(b), [&](SymInt c) { return Implies(a, c); });
  }
  return ImpliesLeaf(a, b);
}

absl::Status GuardSet::Add(SymInt condition, absl::string_view reason) {
  condition = SymNe(condition, 0);
  if (!condition.is_valid()) {
    return absl::InvalidArgumentError(
        absl::StrCat("guard \"", reason, "\": the condition is invalid"));
  }
  if (const auto decided = Decide(condition)) {
    if (*decided) return absl::OkStatus();
    return absl::FailedPreconditionError(absl::StrCat("guard \"", reason, "\" never holds"));
  }
  if (IsKind(condition, SymKind::And)) {
    for (const SymInt c : condition.node()->children) SEAM_RETURN_IF_ERROR(Add(c, reason));
    return absl::OkStatus();
  }
  for (const Guard& g : guards_) {
    if (Implies(g.condition, condition)) return absl::OkStatus();
    if (Implies(g.condition, SymNot(condition))) {
      return absl::FailedPreconditionError(
          absl::StrCat("guard \"", reason, "\": ", condition.ToString(), " contradicts ",
                       g.condition.ToString(), " (", g.reason, ")"));
    }
  }
  guards_.erase(std::remove_if(guards_.begin(), guards_.end(),
                               [&](const Guard& g) { return Implies(condition, g.condition); }),
                guards_.end());
  guards_.push_back({condition, std::string(reason)});
  return absl::OkStatus();
}

std::string GuardSet::ToString() const {
  std::string text;
  for (const Guard& g : guards_)
    absl::StrAppend(&text, g.condition.ToString(), "  # ", g.reason, "\n");
  return text;
}

absl::StatusOr<GuardProgram> GuardProgram::Compile(const GuardSet& guards,
                                                   absl::Span<const SymNode* const> inputs) {
  std::vector<SymInt> conditions;
  for (const Guard& g : guards.guards()) conditions.push_back(g.condition);
  GuardProgram p;
  SEAM_ASSIGN_OR_RETURN(p.program_, SymProgram::Compile(conditions, inputs));
  return p;
}

int GuardProgram::Check(const int64_t* inputs) const {
  if (!program_.CheckInputs(inputs).ok()) return kInputOutOfRange;
  absl::InlinedVector<int64_t, 32> holds(program_.num_outputs(), 0);
  // A failure leaves its output and the later ones at 0.
  program_.RunChecked(inputs, holds.data()).IgnoreError();
  const auto first = std::find(holds.begin(), holds.end(), 0);
  return first == holds.end() ? kAllHold : static_cast<int>(first - holds.begin());
}

}  // namespace seam
