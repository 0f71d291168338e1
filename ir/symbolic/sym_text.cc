// The text of symbolic expressions. Operators and their precedence are Python's, with && and || for
// its `and` and `or`, and functions min, max, select.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "ir/status.h"
#include "ir/symbolic/sym_int.h"

namespace seam {
namespace {

// From the loosest binding to the tightest.
enum Level { kOr, kAnd, kComparison, kSum, kProduct, kAtom };

Level LevelOf(SymKind kind) {
  switch (kind) {
    case SymKind::Or:
      return kOr;
    case SymKind::And:
      return kAnd;
    case SymKind::Eq:
    case SymKind::Ne:
    case SymKind::Lt:
    case SymKind::Le:
      return kComparison;
    case SymKind::Add:
      return kSum;
    case SymKind::Mul:
    case SymKind::FloorDiv:
    case SymKind::Mod:
      return kProduct;
    default:
      return kAtom;
  }
}

void Append(std::string* text, SymInt e, Level level);

void AppendList(std::string* text, absl::Span<const SymInt> list, absl::string_view separator,
                Level level) {
  for (size_t i = 0; i < list.size(); ++i) {
    if (i > 0) absl::StrAppend(text, separator);
    Append(text, list[i], level);
  }
}

struct Term {
  size_t index;  // Of the child.
  std::string text;
};

// The children of a commutative operation as text, in an order that does not depend on what else
// the environment has seen: symbols as they were declared, then the rest by its text, then
// constants.
std::vector<Term> OrderedTerms(absl::Span<const SymInt> children, Level level) {
  std::vector<Term> terms(children.size());
  for (size_t i = 0; i < children.size(); ++i) {
    terms[i].index = i;
    Append(&terms[i].text, children[i], level);
  }
  const auto rank = [&](const Term& term) -> uint64_t {
    const SymInt e = children[term.index];
    if (e.is_constant()) return UINT64_MAX;
    return e.node()->kind == SymKind::Symbol ? e.node()->id : UINT64_MAX - 1;
  };
  std::sort(terms.begin(), terms.end(), [&](const Term& a, const Term& b) {
    const uint64_t x = rank(a), y = rank(b);
    return x != y ? x < y : a.text < b.text;
  });
  return terms;
}

void AppendOrdered(std::string* text, absl::Span<const SymInt> list, absl::string_view separator,
                   Level level) {
  bool is_first = true;
  for (const Term& term : OrderedTerms(list, level)) {
    absl::StrAppend(text, is_first ? "" : separator, term.text);
    is_first = false;
  }
}

void AppendSum(std::string* text, const SymNode& n) {
  bool is_first = true;
  for (const Term& term : OrderedTerms(n.children, kProduct)) {
    const int64_t k = n.coefficients[term.index];
    const SymKind kind = n.children[term.index].node()->kind;
    Level level = k == 1 || kind == SymKind::Mul ? kProduct : kAtom;
    if (is_first) {
      if (k == -1) absl::StrAppend(text, "-");
      if (k != 1 && k != -1) absl::StrAppend(text, k, "*");
    } else {
      absl::StrAppend(text, k < 0 ? " - " : " + ");
      if (k == -1) level = kProduct;
      if (k != 1 && k != -1) absl::StrAppend(text, absl::StrCat(k).substr(k < 0 ? 1 : 0), "*");
    }
    const bool parentheses = level == kAtom && LevelOf(kind) == kProduct;
    absl::StrAppend(text, parentheses ? "(" : "", term.text, parentheses ? ")" : "");
    is_first = false;
  }
  if (n.constant != 0) {
    absl::StrAppend(text, n.constant < 0 ? " - " : " + ",
                    absl::StrCat(n.constant).substr(n.constant < 0 ? 1 : 0));
  }
}

void Append(std::string* text, SymInt e, Level level) {
  if (!e.is_valid()) return absl::StrAppend(text, "<invalid>");
  if (const auto v = e.maybe_int()) {
    if (*v < 0 && level == kAtom) return absl::StrAppend(text, "(", *v, ")");
    return absl::StrAppend(text, *v);
  }
  const SymNode& n = *e.node();
  const bool parentheses = LevelOf(n.kind) < level;
  if (parentheses) absl::StrAppend(text, "(");
  switch (n.kind) {
    case SymKind::Symbol:
      absl::StrAppend(text, n.name);
      break;
    case SymKind::Add:
      AppendSum(text, n);
      break;
    case SymKind::Mul:
      AppendOrdered(text, n.children, "*", kAtom);
      break;
    case SymKind::FloorDiv:
      AppendList(text, n.children, "//", kAtom);
      break;
    case SymKind::Mod:
      AppendList(text, n.children, "%", kAtom);
      break;
    case SymKind::Min:
    case SymKind::Max:
      absl::StrAppend(text, n.kind == SymKind::Min ? "min(" : "max(");
      AppendOrdered(text, n.children, ", ", kOr);
      absl::StrAppend(text, ")");
      break;
    case SymKind::Select:
      absl::StrAppend(text, "select(");
      AppendList(text, n.children, ", ", kOr);
      absl::StrAppend(text, ")");
      break;
    case SymKind::Eq:
      AppendOrdered(text, n.children, " == ", kSum);
      break;
    case SymKind::Ne:
      AppendOrdered(text, n.children, " != ", kSum);
      break;
    case SymKind::Lt:
      AppendList(text, n.children, " < ", kSum);
      break;
    case SymKind::Le:
      AppendList(text, n.children, " <= ", kSum);
      break;
    case SymKind::And:
      AppendOrdered(text, n.children, " && ", kComparison);
      break;
    case SymKind::Or:
      AppendOrdered(text, n.children, " || ", kAnd);
      break;
    case SymKind::Constant:
    case SymKind::Not:
      break;
  }
  if (parentheses) absl::StrAppend(text, ")");
}

// Operands and parentheses inside one another; what an ordinary stack bears.
constexpr int kMaxNesting = 256;

struct Operator {
  absl::string_view text;
  Level level;
  SymInt (*apply)(SymInt, SymInt);
};

// Where one is the start of another, the longer comes first.
constexpr Operator kOperators[] = {
    {"||", kOr, SymOr},
    {"&&", kAnd, SymAnd},
    {"==", kComparison, SymEq},
    {"!=", kComparison, SymNe},
    {"<=", kComparison, SymLe},
    {">=", kComparison, SymGe},
    {"<", kComparison, SymLt},
    {">", kComparison, SymGt},
    {"+", kSum, [](SymInt a, SymInt b) { return a + b; }},
    {"-", kSum, [](SymInt a, SymInt b) { return a - b; }},
    {"*", kProduct, [](SymInt a, SymInt b) { return a * b; }},
    {"//", kProduct, FloorDiv},
    {"%", kProduct, Mod},
};

class Parser {
 public:
  Parser(absl::string_view text, const ShapeEnv& env) : text_(text), env_(env) {}

  // Behind the expression; after an error, where that is.
  size_t position() const { return at_; }

  // An expression whose operators bind at least as tightly as `level`.
  absl::StatusOr<SymInt> Expression(Level level) {
    if (++depth_ > kMaxNesting) return Error("parentheses nested too deep");
    absl::StatusOr<SymInt> left = Operand();
    bool compared = false;
    while (left.ok()) {
      const size_t before = at_;
      SkipSpace();
      const Operator* op = NextOperator();
      if (op == nullptr || op->level < level) {
        at_ = before;
        break;
      }
      if (op->level == kComparison && compared) {
        left = Error("a comparison of a comparison needs parentheses");
        break;
      }
      compared = op->level == kComparison;
      at_ += op->text.size();
      const size_t operator_at = at_;
      absl::StatusOr<SymInt> right = Expression(static_cast<Level>(op->level + 1));
      left = right.ok() ? Checked(op->apply(*left, *right), operator_at) : right;
    }
    --depth_;
    return left;
  }

 private:
  absl::Status Error(absl::string_view what, std::optional<size_t> at = std::nullopt) {
    at_ = at.value_or(at_);
    return absl::InvalidArgumentError(absl::StrCat("symbolic expression, byte ", at_, ": ", what));
  }

  absl::StatusOr<SymInt> Checked(SymInt e, size_t at) {
    if (e.is_valid()) return e;
    return Error("overflow, division by zero, or an expression that is too large", at);
  }

  void SkipSpace() {
    while (at_ < text_.size() && absl::ascii_isspace(text_[at_])) ++at_;
  }

  bool Take(char c) {
    SkipSpace();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  const Operator* NextOperator() const {
    for (const Operator& op : kOperators) {
      if (text_.substr(at_, op.text.size()) == op.text) return &op;
    }
    return nullptr;
  }

  absl::StatusOr<SymInt> Operand() {
    bool negative = false;
    while (Take('-')) negative = !negative;
    SkipSpace();
    const size_t start = at_;
    if (at_ < text_.size() && absl::ascii_isdigit(text_[at_])) {
      while (at_ < text_.size() && absl::ascii_isdigit(text_[at_])) ++at_;
      int64_t value;
      if (!absl::SimpleAtoi(absl::StrCat(negative ? "-" : "", text_.substr(start, at_ - start)),
                            &value)) {
        return Error("the integer does not fit 64 bits", start);
      }
      return SymInt(value);
    }
    absl::StatusOr<SymInt> value = Primary();
    return value.ok() && negative ? Checked(-*value, start) : value;
  }

  absl::StatusOr<SymInt> Primary() {
    const size_t start = at_;
    if (Take('(')) {
      absl::StatusOr<SymInt> inner = Expression(kOr);
      if (inner.ok() && !Take(')')) return Error("expected ')'");
      return inner;
    }
    while (at_ < text_.size() &&
           (absl::ascii_isalnum(text_[at_]) || text_[at_] == '_' || text_[at_] == '.')) {
      ++at_;
    }
    const absl::string_view name = text_.substr(start, at_ - start);
    if (name.empty()) return Error("expected an integer, a name or '('");
    if (name == "min" || name == "max" || name == "select") return Call(name, start);
    if (const std::optional<SymInt> symbol = env_.Find(name)) return *symbol;
    return Error(absl::StrCat("unknown symbol \"", name, "\""), start);
  }

  absl::StatusOr<SymInt> Call(absl::string_view name, size_t start) {
    if (!Take('(')) return Error("expected '('");
    std::vector<SymInt> arguments;
    do {
      SEAM_ASSIGN_OR_RETURN(const SymInt argument, Expression(kOr));
      arguments.push_back(argument);
    } while (Take(','));
    if (!Take(')')) return Error("expected ')'");
    if (name == "select") {
      if (arguments.size() != 3) return Error("select takes 3 arguments", start);
      return Checked(SymSelect(arguments[0], arguments[1], arguments[2]), start);
    }
    SymInt value = arguments[0];
    for (const SymInt argument : arguments) {
      value = name == "min" ? Min(value, argument) : Max(value, argument);
    }
    return Checked(value, start);
  }

  absl::string_view text_;
  const ShapeEnv& env_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

std::string SymInt::ToString() const {
  std::string text;
  Append(&text, *this, kOr);
  return text;
}

absl::StatusOr<SymInt> ParseSymInt(absl::string_view* text, const ShapeEnv& env) {
  Parser parser(*text, env);
  absl::StatusOr<SymInt> e = parser.Expression(kOr);
  text->remove_prefix(parser.position());
  return e;
}

}  // namespace seam
