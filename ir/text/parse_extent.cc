// Types, extents and strides of the text form.
#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "ir/text/parser_impl.h"

namespace seam::text {
namespace {

bool EndsExtent(const Token& token) {
  return token.kind == TokenKind::kEnd || token.kind == TokenKind::kNewline || token.Is(",") ||
         token.Is("]") || token.Is(")") || token.Is(":") || token.Is("}");
}

}  // namespace

std::optional<DType> Parser::ParseDTypeName() {
  std::optional<DType> dtype;
  if (token_.kind == TokenKind::kName) dtype = ParseDType(token_.text);
  if (!dtype.has_value()) {
    std::vector<absl::string_view> names;
    for (int i = 0; i < kNumDTypes; ++i) names.push_back(DTypeName(static_cast<DType>(i)));
    FailFound(absl::StrCat("an element type such as f32", DidYouMean(token_.text, names)));
    return std::nullopt;
  }
  Advance();
  return dtype;
}

Parser::Annotation Parser::ParseType() {
  Annotation type;
  type.token = token_;
  std::optional<DType> dtype = ParseDTypeName();
  if (!dtype.has_value()) return type;
  type.dtype = *dtype;
  if (!Accept("[")) return type;
  while (ok() && !token_.Is("]")) {
    Token at = token_;
    SymInt extent = ParseExtent();
    if (!ok()) break;
    if (ProvablyLt(extent, 0) || ProvablyLt(kMaxExtent, extent)) {
      Fail(at, absl::StrCat("found extent ", extent.ToString(), ", expected one from 0 to 2^48"));
    }
    type.sizes.push_back(extent);
    if (type.sizes.size() > kMaxRank) {
      Fail(at, absl::StrCat("found more than ", kMaxRank, " axes, which is the limit"));
    }
    if (!Accept(",")) break;
  }
  Expect("]", "or ',' after an extent");
  return type;
}

SymInt Parser::FindSymbol(const Token& name) {
  std::optional<SymInt> symbol = builder_.env().Find(name.text);
  if (symbol.has_value()) return *symbol;
  std::vector<const SymNode*> symbols = builder_.env().symbols();
  std::vector<absl::string_view> names;
  for (const SymNode* node : symbols) names.push_back(node->name);
  std::string message = absl::StrCat("found unknown symbol ", Quoted(name.text));
  std::string hint = DidYouMean(name.text, names);
  if (hint.empty()) {
    absl::StrAppend(&message, ", expected an integer or a declared symbol (symbol ", name.text,
                    " in [lo, hi])");
  }
  Fail(name, message + hint);
  return SymInt::Invalid();
}

// An integer or a symbol, or else the tokens up to the end of the extent, read by ParseSymInt.
SymInt Parser::ParseExtent() {
  if (EndsExtent(token_)) {
    FailFound("an extent");
    return SymInt::Invalid();
  }
  const Token first = token_;
  if (EndsExtent(next_) && first.kind == TokenKind::kName) {
    SymInt symbol = FindSymbol(first);
    if (ok()) Advance();
    return symbol;
  }
  std::string text;
  std::vector<std::pair<size_t, Token>> tokens;  // With their places in `text`.
  for (int open = 0; ok() && (open > 0 || !EndsExtent(token_)); Advance()) {
    if (token_.kind == TokenKind::kEnd || token_.Is("]") || token_.Is("}")) break;
    if (token_.kind == TokenKind::kFloat) FailFound("an integer");
    if (token_.kind == TokenKind::kInteger) {
      int64_t value;
      if (!absl::SimpleAtoi(token_.text, &value)) FailFound("an integer below 2^63");
    }
    if (token_.kind == TokenKind::kName && !next_.Is("(")) FindSymbol(token_);
    open += token_.Is("(") ? 1 : token_.Is(")") ? -1 : 0;
    tokens.emplace_back(text.size(), token_);
    absl::StrAppend(&text, token_.text, " ");
  }
  if (!ok()) return SymInt::Invalid();
  absl::string_view rest = text;
  absl::StatusOr<SymInt> extent = ParseSymInt(&rest, builder_.env());
  while (!rest.empty() && rest[0] == ' ') rest.remove_prefix(1);
  if (!extent.ok() || !rest.empty()) {
    // ParseSymInt leaves off where it cannot go on.
    size_t place = text.size() - rest.size();
    const Token* at = &token_;
    for (const auto& [begin, token] : tokens) {
      if (begin >= place) {
        at = &token;
        break;
      }
    }
    Fail(*at, absl::StrCat("found ", Describe(*at), " in an extent",
                           extent.ok() ? ", expected an operator, ',' or ']'" : ": ",
                           extent.ok() ? "" : extent.status().message()));
    return SymInt::Invalid();
  }
  if (!extent->is_valid()) {
    Fail(first,
         absl::StrCat("found extent ", Quoted(text), ", which overflows 64 bits, divides by ",
                      "zero or is too large an expression"));
  }
  return *extent;
}

std::vector<SymInt> Parser::ParseExtentList() {
  std::vector<SymInt> list;
  Expect("[", "before a list");
  while (ok() && !token_.Is("]")) {
    list.push_back(ParseExtent());
    if (!Accept(",")) break;
  }
  Expect("]", "or ',' in a list");
  return list;
}

std::optional<int64_t> Parser::ParseConstantExtent(absl::string_view what) {
  Token at = token_;
  SymInt extent = ParseExtent();
  if (!ok()) return std::nullopt;
  std::optional<int64_t> value = extent.maybe_int();
  if (!value.has_value()) {
    Fail(at, absl::StrCat("found ", extent.ToString(), " as ", what, ", expected an integer"));
  }
  return value;
}

// `strides [S, 1]` in elements, where `?` is a fresh symbol; or `order [1, 0]`: dense, the axes
// from the one with the largest stride to the one with the smallest.
std::optional<SymVector> Parser::ParseStrides(absl::string_view name,
                                              absl::Span<const SymInt> sizes) {
  if (token_.IsName("order")) {
    Token at = token_;
    Advance();
    std::vector<SymInt> order = ParseExtentList();
    if (!ok()) return std::nullopt;
    std::vector<int64_t> axes;
    for (SymInt axis : order) axes.push_back(axis.maybe_int().value_or(-1));
    std::vector<int64_t> sorted = axes;
    std::sort(sorted.begin(), sorted.end());
    bool is_permutation = sorted.size() == sizes.size();
    for (size_t i = 0; i < sorted.size(); ++i) {
      is_permutation = is_permutation && sorted[i] == static_cast<int64_t>(i);
    }
    if (!is_permutation) {
      Fail(at,
           absl::StrCat("found an order that is not a permutation of the ", sizes.size(), " axes"));
      return std::nullopt;
    }
    SymVector strides(sizes.size(), SymInt(1));
    for (size_t i = axes.size(); i-- > 1;) {
      strides[axes[i - 1]] = strides[axes[i]] * sizes[axes[i]];
    }
    return strides;
  }
  if (!token_.IsName("strides")) return std::nullopt;
  Advance();
  SymVector strides;
  Expect("[", "before the strides");
  while (ok() && !token_.Is("]")) {
    if (token_.Is("?")) {
      std::string symbol = absl::StrCat(name, "_stride", strides.size());
      strides.push_back(builder_.env().FreshSymbol(symbol, 0, kMaxExtent));
      Advance();
    } else {
      strides.push_back(ParseExtent());
    }
    if (strides.size() > sizes.size()) break;
    if (!Accept(",")) break;
  }
  if (strides.size() != sizes.size()) {
    Fail(token_, absl::StrCat("found ", strides.size() > sizes.size() ? "more than " : "",
                              std::min(strides.size(), sizes.size()), " strides, expected ",
                              sizes.size(), ", one for each axis"));
  }
  Expect("]", "or ',' after a stride");
  return strides;
}

}  // namespace seam::text
