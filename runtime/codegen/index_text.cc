#include "runtime/codegen/index_text.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace seam {
namespace {

using Wide = __int128;

bool Fits32(Wide value) { return value >= INT32_MIN && value <= INT32_MAX; }
bool Fits32(SymRange range) { return Fits32(range.lo) && Fits32(range.hi); }

Wide LargestMagnitude(SymRange range) {
  return std::max(static_cast<Wide>(range.hi), -static_cast<Wide>(range.lo));
}

std::string ConstantText(int64_t value, bool wide) {
  const char* suffix = wide ? "LL" : "";
  if (value == INT64_MIN || (!wide && value == INT32_MIN)) {
    return absl::StrCat("(", value + 1, suffix, " - 1)");
  }
  return value < 0 ? absl::StrCat("(", value, suffix, ")") : absl::StrCat(value, suffix);
}

// The children of a commutative operation in an order that does not depend on the environment's
// history, as that by node ids does: the same kernel must give the same text.
std::vector<size_t> OrderByText(const SymNode* node) {
  std::vector<std::pair<std::string, size_t>> keys;
  for (size_t i = 0; i < node->children.size(); ++i)
    keys.emplace_back(node->children[i].ToString(), i);
  std::sort(keys.begin(), keys.end());
  std::vector<size_t> order;
  for (const auto& [text, i] : keys) order.push_back(i);
  return order;
}

bool IsPowerOfTwo(int64_t value) { return value > 0 && (value & (value - 1)) == 0; }

}  // namespace

std::vector<std::string> IndexText::Exit() {
  std::vector<std::string> lines = std::move(scopes_.back().lines);
  scopes_.pop_back();
  for (std::string& line : lines) line.insert(0, "  ");
  return lines;
}

void IndexText::Lines(std::vector<std::string> lines) {
  for (std::string& line : lines) Line(std::move(line));
}

bool IndexText::IsWide(SymInt e) const { return !index32_ && !Fits32(RangeOf(e)); }

absl::string_view IndexText::TypeOf(SymInt e) const { return IsWide(e) ? "long long" : "int"; }

void IndexText::Bind(SymInt symbol, std::string name) {
  variables_[symbol.node()] = {std::move(name), static_cast<int>(scopes_.size()) - 1, ""};
}

void IndexText::BindOnUse(SymInt symbol, std::string name, std::string definition) {
  variables_[symbol.node()] = {std::move(name), 0, std::move(definition)};
}

std::string IndexText::In(const Text& text, Precedence context) {
  return text.precedence > context ? absl::StrCat("(", text.text, ")") : text.text;
}

IndexText::Text IndexText::Named(Text text) {
  if (text.precedence == kAtom || inline_only_) return text;
  Scope& home = scopes_[text.home];
  std::string& name = home.named[text.text];
  if (name.empty()) {
    name = names_->Unique(text.boolean ? "b" : "i");
    home.lines.push_back(absl::StrCat("const ",
                                      text.boolean ? "bool"
                                      : text.wide  ? "long long"
                                                   : "int",
                                      " ", name, " = ", text.text, ";"));
  }
  text.text = name;
  text.precedence = kAtom;
  return text;
}

IndexText::Text IndexText::Hoisted(Text text) {
  const bool inner = text.home + 1 == static_cast<int>(scopes_.size());
  return inner ? text : Named(std::move(text));
}

IndexText::Text IndexText::Build(SymInt e) {
  if (const std::optional<int64_t> value = e.maybe_int()) {
    const bool wide = !index32_ && !Fits32(*value);
    return {ConstantText(*value, wide), kAtom, wide, 0, false};
  }
  const SymNode* node = e.node();
  switch (node->kind) {
    case SymKind::Symbol: {
      Variable& variable = variables_.at(node);
      if (!variable.definition.empty()) {
        scopes_[0].lines.push_back(
            absl::StrCat("const ", TypeOf(e), " ", variable.name, " = ", variable.definition, ";"));
        variable.definition.clear();
      }
      return {variable.name, kAtom, IsWide(e), variable.home, false};
    }
    case SymKind::Add:
      return BuildAdd(node);
    case SymKind::Mul:
      return BuildProduct(node);
    case SymKind::FloorDiv:
    case SymKind::Mod:
      return Named(BuildDivision(node));
    case SymKind::Min:
    case SymKind::Max:
      return Named(BuildExtremum(node));
    case SymKind::Select:
      return Named(BuildSelect(node));
    default:
      return Hoisted(BuildLogic(node));
  }
}

// The terms of one home after the other, outermost first, each partial sum a value of its home; the
// constant last, so that neighbours share everything else.
IndexText::Text IndexText::BuildAdd(const SymNode* node) {
  struct Term {
    Text text;
    int64_t coefficient;
    Wide magnitude;
  };
  std::vector<Term> terms;
  for (const size_t i : OrderByText(node)) {
    Text text = Build(node->children[i]);
    if (node->children[i].node()->kind == SymKind::Mul) text = Hoisted(std::move(text));
    const Wide magnitude = LargestMagnitude(RangeOf(node->children[i]));
    terms.push_back({std::move(text), node->coefficients[i], magnitude});
  }
  std::stable_sort(terms.begin(), terms.end(),
                   [](const Term& a, const Term& b) { return a.text.home < b.text.home; });

  Text sum;
  Wide magnitude = 0;  // Bound of every partial sum.
  const Wide limit = INT32_MAX;
  bool empty = true;
  for (size_t begin = 0; begin < terms.size();) {
    size_t end = begin;
    while (end < terms.size() && terms[end].text.home == terms[begin].text.home) ++end;
    const bool last = end == terms.size();
    const int64_t constant = last ? node->constant : 0;
    for (size_t i = begin; i < end; ++i) {
      const Wide factor = terms[i].coefficient < 0 ? -static_cast<Wide>(terms[i].coefficient)
                                                   : static_cast<Wide>(terms[i].coefficient);
      magnitude = terms[i].magnitude > limit || factor > limit
                      ? limit + 1
                      : std::min(limit + 1, magnitude + factor * terms[i].magnitude);
    }
    const Wide with_constant = magnitude + (constant < 0 ? -static_cast<Wide>(constant) : constant);
    const bool wide = !index32_ && with_constant > limit;

    // Pieces with their signs. In a wide sum the first piece must be wide, so that all additions
    // are.
    struct Piece {
      bool minus;
      std::string text;
      bool wide;
    };
    std::vector<Piece> pieces;
    if (!empty) pieces.push_back({false, In(sum, kSum), sum.wide});
    for (size_t i = begin; i < end; ++i) {
      const Term& term = terms[i];
      const bool minus = term.coefficient < 0 && term.coefficient != INT64_MIN;
      const int64_t factor = minus ? -term.coefficient : term.coefficient;
      if (factor == 1) {
        // After a minus or in front of a product, a product needs no parentheses; a sum does.
        pieces.push_back({minus, In(term.text, kProduct), term.text.wide});
      } else {
        const bool wide_factor = wide && !term.text.wide;
        pieces.push_back({minus,
                          absl::StrCat(ConstantText(factor, wide_factor || !Fits32(factor)), " * ",
                                       In(term.text, kAtom)),
                          wide});
      }
    }
    if (constant != 0) {
      const bool minus = constant < 0 && constant != INT64_MIN;
      const bool wide_constant = !index32_ && !Fits32(constant);
      pieces.push_back(
          {minus, ConstantText(minus ? -constant : constant, wide_constant), wide_constant});
    }
    std::stable_sort(pieces.begin(), pieces.end(), [wide](const Piece& a, const Piece& b) {
      const auto rank = [wide](const Piece& p) {
        return (wide && !p.wide ? 2 : 0) + (p.minus ? 1 : 0);
      };
      return rank(a) < rank(b);
    });
    std::string text;
    for (const Piece& piece : pieces) {
      if (text.empty()) {
        absl::StrAppend(&text, piece.minus ? "-" : "", wide && !piece.wide ? "(long long)" : "",
                        wide && !piece.wide && piece.text.find(' ') != std::string::npos
                            ? absl::StrCat("(", piece.text, ")")
                            : piece.text);
      } else {
        absl::StrAppend(&text, piece.minus ? " - " : " + ", piece.text);
      }
    }
    const bool trivial =
        pieces.size() == 1 && !pieces[0].minus && pieces[0].text.find(' ') == std::string::npos;
    sum = {std::move(text),
           trivial                                  ? kAtom
           : pieces.size() == 1 && !pieces[0].minus ? kProduct
                                                    : kSum,
           wide, begin < terms.size() ? std::max(sum.home, terms[begin].text.home) : sum.home,
           false};
    // A lone `4 * i` is cheaper than the register that would keep it.
    if (!last && sum.precedence == kSum) sum = Named(std::move(sum));
    empty = false;
    begin = end;
  }
  return sum;
}

IndexText::Text IndexText::BuildProduct(const SymNode* node) {
  std::vector<Text> factors;
  Wide magnitude = 1;
  for (const size_t i : OrderByText(node)) {
    const SymInt child = node->children[i];
    factors.push_back(Build(child));
    const Wide other = LargestMagnitude(RangeOf(child));
    magnitude =
        other > INT32_MAX ? Wide{INT32_MAX} + 1 : std::min(Wide{INT32_MAX} + 1, magnitude * other);
  }
  const bool wide = !index32_ && magnitude > INT32_MAX;
  std::stable_sort(factors.begin(), factors.end(), [](const Text& a, const Text& b) {
    return std::make_pair(!a.wide, a.home) < std::make_pair(!b.wide, b.home);
  });
  Text product{"", kProduct, wide, 0, false};
  for (const Text& factor : factors) {
    const bool cast = product.text.empty() && wide && !factor.wide;
    absl::StrAppend(&product.text, product.text.empty() ? "" : " * ", cast ? "(long long)" : "",
                    In(factor, kAtom));
    product.home = std::max(product.home, factor.home);
  }
  return product;
}

IndexText::Text IndexText::BuildDivision(const SymNode* node) {
  const SymInt numerator = node->children[0], divisor = node->children[1];
  const Text a = Build(numerator), b = Build(divisor);
  const bool is_mod = node->kind == SymKind::Mod;
  const bool wide = a.wide || b.wide;
  Text result{"", kProduct, wide && IsWide(SymInt::FromNode(node)), std::max(a.home, b.home),
              false};
  const std::optional<int64_t> constant = divisor.maybe_int();
  const bool positive = RangeOf(numerator).lo >= 0 && RangeOf(divisor).lo >= 0;
  if (positive && inline_only_) {  // Constants once loops are unrolled.
    result.text = absl::StrCat(In(a, kAtom), is_mod ? " % " : " / ", In(b, kAtom));
  } else if (positive) {
    const char* cast = wide ? "(unsigned long long)" : "(unsigned)";
    const std::string by =
        constant ? absl::StrCat(*constant, wide ? "ULL" : "u") : absl::StrCat(cast, In(b, kAtom));
    result.text = absl::StrCat(cast, In(a, kAtom), is_mod ? " % " : " / ", by);
    // Unsigned values leave at once: a difference of two must be able to be negative.
    result.text = absl::StrCat(result.wide ? "(long long)(" : "(int)(", result.text, ")");
  } else if (constant && IsPowerOfTwo(*constant)) {
    int shift = 0;
    while (int64_t{1} << shift < *constant) ++shift;
    result.text =
        is_mod ? absl::StrCat("(", In(a, kAtom), " & ", ConstantText(*constant - 1, wide), ")")
               : absl::StrCat("(", In(a, kAtom), " >> ", shift, ")");
  } else {
    const char* type = wide ? "(long long)" : "(int)";
    result.text = absl::StrCat(is_mod ? "seam_remainder(" : "seam_floor_divide(", type,
                               In(a, kAtom), ", ", type, In(b, kAtom), ")");
  }
  return result;
}

IndexText::Text IndexText::BuildSelect(const SymNode* node) {
  const Text condition = Build(node->children[0]), a = Build(node->children[1]),
             b = Build(node->children[2]);
  return {absl::StrCat(In(condition, kOr), " ? ", In(a, kSum), " : ", In(b, kSum)), kTernary,
          a.wide || b.wide, std::max({condition.home, a.home, b.home}), false};
}

// Over names: `a < b ? a : b`, folded from the left.
IndexText::Text IndexText::BuildExtremum(const SymNode* node) {
  std::optional<Text> best;
  for (const size_t i : OrderByText(node)) {
    const Text part = Named(Build(node->children[i]));
    if (!best) {
      best = part;
      continue;
    }
    const Text so_far = Named(*std::move(best));
    const std::string a = In(so_far, kAtom), b = In(part, kAtom);
    best = Text{absl::StrCat(a, node->kind == SymKind::Min ? " < " : " > ", b, " ? ", a, " : ", b),
                kTernary, so_far.wide || part.wide, std::max(so_far.home, part.home), false};
  }
  return *best;
}

IndexText::Text IndexText::BuildLogic(const SymNode* node) {
  const char* symbol = "";
  Precedence precedence = kComparison;
  switch (node->kind) {
    case SymKind::Eq:
      symbol = " == ";
      break;
    case SymKind::Ne:
      symbol = " != ";
      break;
    case SymKind::Lt:
      symbol = " < ";
      break;
    case SymKind::Le:
      symbol = " <= ";
      break;
    case SymKind::And:
      symbol = " && ";
      precedence = kAnd;
      break;
    default:
      symbol = " || ";
      precedence = kOr;
      break;
  }
  const bool ordered = node->kind == SymKind::Lt || node->kind == SymKind::Le;
  Text result{"", precedence, false, 0, true};
  for (const size_t i : ordered ? std::vector<size_t>{0, 1} : OrderByText(node)) {
    const Text part = Build(node->children[i]);
    // Comparisons inside And need no parentheses, nor Ands inside Or: but they read better with
    // them.
    const Precedence context = precedence == kComparison ? kSum : kComparison;
    absl::StrAppend(&result.text, result.text.empty() ? "" : symbol, In(part, context));
    result.home = std::max(result.home, part.home);
  }
  return result;
}

std::string IndexText::Name(SymInt e) {
  Text text = Build(e);
  return Named(std::move(text)).text;
}

std::string IndexText::Condition(SymInt e) { return Build(e).text; }

std::string IndexText::Slot(SymInt e) {
  inline_only_ = true;
  Text text = Build(e);
  inline_only_ = false;
  return text.text;
}

}  // namespace seam
