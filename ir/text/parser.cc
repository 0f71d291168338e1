// Statements of the text form, and what all parts of the parser share: tokens, errors, names.
#include "ir/text/parser.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ir/text/parser_impl.h"
#include "ir/text/printer.h"

namespace seam {
namespace text {

Parser::Parser(const TextSource& source) : source_(source), lexer_(source), builder_("") {
  token_ = lexer_.Next();
  next_ = lexer_.Next();
}

void Parser::Advance() {
  end_ = token_.offset + token_.text.size();
  token_ = next_;
  next_ = lexer_.Next();
}

bool Parser::Accept(absl::string_view punctuation) {
  if (!token_.Is(punctuation)) return false;
  Advance();
  return true;
}

void Parser::Expect(absl::string_view punctuation, absl::string_view where) {
  if (!Accept(punctuation)) FailFound(absl::StrCat("'", punctuation, "' ", where));
}

void Parser::Fail(const Token& at, absl::string_view message) {
  lexer_.Fail(at.offset, message);
  token_ = next_ = Token{TokenKind::kEnd, {}, token_.offset, token_.location};
}

void Parser::FailFound(absl::string_view expected) {
  Fail(token_, absl::StrCat("found ", Describe(token_), ", expected ", expected,
                            token_.kind == TokenKind::kName ? WordHint(token_.text) : ""));
}

void Parser::CheckBuilder(const Token& at) {
  if (!builder_.status().ok()) Fail(at, builder_.status().message());
}

void Parser::SkipNewlines() {
  while (token_.kind == TokenKind::kNewline) Advance();
}

absl::StatusOr<Fusion> Parser::Run() {
  SkipNewlines();
  if (token_.IsName("fusion")) {
    Advance();
  } else {
    FailFound("'fusion NAME {'");
  }
  if (token_.kind != TokenKind::kName) FailFound("the name of the fusion");
  builder_ = FusionBuilder(token_.text);
  Advance();
  Expect("{", "before the statements of the fusion");
  while (true) {
    SkipNewlines();
    if (token_.kind == TokenKind::kEnd || token_.Is("}")) break;
    ParseStatement();
    if (token_.kind != TokenKind::kNewline && !token_.Is("}")) FailFound("the end of the line");
  }
  Token end = token_;
  Expect("}", "at the end of the fusion");
  SkipNewlines();
  if (token_.kind != TokenKind::kEnd) FailFound("the end of the file");
  if (!ok()) return lexer_.status();
  absl::StatusOr<Fusion> fusion = builder_.Finish();
  if (!fusion.ok()) return ErrorAt(source_, end.offset, fusion.status().message());
  return fusion;
}

// A word that begins a statement is one only before another name, so that it can name a value, too.
void Parser::ParseStatement() {
  if (token_.kind != TokenKind::kName) {
    return FailFound("symbol, input, output or a definition 'name = ...'");
  }
  if (next_.kind != TokenKind::kName) return ParseDefinition();
  if (token_.text == "symbol") return ParseSymbol();
  if (token_.text == "input") return ParseInput();
  if (token_.text == "output") return ParseOutput();
  std::string hint = DidYouMean(token_.text, {"symbol", "input", "output"});
  FailFound(absl::StrCat("symbol, input, output or a definition 'name = ...'", hint));
}

void Parser::ParseSymbol() {
  Advance();
  Token name = token_;
  Advance();
  int64_t lo = 0, hi = kMaxExtent;
  if (token_.IsName("in")) {
    Advance();
    Expect("[", "before the range of the symbol");
    Token first = token_;
    auto parsed_lo = ParseConstantExtent("smallest value");
    Expect(",", "between the limits of the range");
    auto parsed_hi = ParseConstantExtent("largest value");
    Expect("]", "after the range of the symbol");
    if (!ok()) return;
    lo = *parsed_lo;
    hi = *parsed_hi;
    if (lo < 0 || hi > kMaxExtent || lo > hi) {
      return Fail(first, absl::StrCat("found the range [", lo, ", ", hi,
                                      "], expected 0 <= smallest", " <= largest <= 2^48"));
    }
  }
  if (!ok()) return;
  if (builder_.env().Find(name.text).has_value()) {
    return Fail(name,
                absl::StrCat("found a second symbol ", Quoted(name.text), ", expected a new name"));
  }
  builder_.Symbol(name.text, lo, hi);
  CheckBuilder(name);
}

void Parser::CheckNewName(const Token& name) {
  if (IsReservedWord(name.text)) {
    return Fail(name,
                absl::StrCat("found the reserved word ", Quoted(name.text), ", expected a name"));
  }
  auto it = values_.find(name.text);
  if (it != values_.end()) {
    Fail(name,
         absl::StrCat("found a second definition of ", Quoted(name.text),
                      ", which is defined on line ", it->second.line, ", expected a new name"));
  }
}

void Parser::ParseInput() {
  Advance();
  Token name = token_;
  CheckNewName(name);
  Advance();
  Expect(":", "and the type of the input");
  Annotation type = ParseType();
  std::optional<SymVector> strides = ParseStrides(name.text, type.sizes);
  if (!ok()) return;
  ValId value = builder_.Input(name.text, type.dtype, type.sizes, std::move(strides));
  CheckBuilder(name);
  if (!ok()) return;
  is_named_.resize(builder_.num_vals(), false);
  is_named_[value.index()] = true;
  values_[name.text] = Definition{value, name.location.line};
}

void Parser::ParseOutput() {
  Advance();
  Token name = token_;
  ValId value = FindValue(name).value;
  Advance();
  if (!ok()) return;
  SymVector sizes;
  for (int axis = 0; axis < builder_.rank(value); ++axis) {
    sizes.push_back(builder_.extent(value, axis));
  }
  // An output has the name that is written: under a second name of its value it is a view of that.
  if (builder_.Find(name.text) != value) {
    builder_.SetLocation(name.location);
    value = builder_.Reshape(value, sizes);
    builder_.SetName(value, name.text);
    CheckBuilder(name);
    if (!ok()) return;
    is_named_.resize(builder_.num_vals(), false);
    is_named_[value.index()] = true;
    values_[name.text].value = value;
  }
  std::optional<SymVector> strides = ParseStrides(name.text, sizes);
  if (!ok()) return;
  builder_.Output(value, std::move(strides));
  CheckBuilder(name);
}

void Parser::ParseDefinition() {
  std::vector<Target> targets;
  do {
    Target& target = targets.emplace_back();
    target.name = token_;
    if (token_.kind != TokenKind::kName) FailFound("the name of a result");
    Advance();
    if (Accept(":")) target.type = ParseType();
  } while (Accept(","));
  if (!token_.Is("=")) {
    return FailFound(targets.back().type.has_value() ? "'=' or ','" : "'=', ':' or ','");
  }
  Advance();
  Operand operand = ParseExpression(0);
  if (!ok()) return;

  // One name for a composite of several results names the first.
  const bool is_one =
      operand.kind != Operand::Kind::kResults || (operand.value.valid() && targets.size() == 1);
  const size_t num_results = is_one ? 1 : results_.size();
  if (num_results != targets.size()) {
    return Fail(targets[0].name,
                absl::StrCat("found ", targets.size(), targets.size() == 1 ? " name" : " names",
                             ", expected ", num_results, ", one for each result"));
  }
  if (!is_one) {
    for (size_t i = 0; i < num_results && ok(); ++i) Define(targets[i], results_[i]);
    return;
  }
  std::optional<DType> dtype;
  if (targets[0].type.has_value()) dtype = targets[0].type->dtype;
  ValId value = ToValue(operand, dtype);
  if (ok()) Define(targets[0], value);
}

void Parser::CheckType(const Target& target, ValId value) {
  const Annotation& type = *target.type;
  bool same = type.dtype == builder_.dtype(value) &&
              static_cast<int>(type.sizes.size()) == builder_.rank(value);
  for (size_t axis = 0; same && axis < type.sizes.size(); ++axis) {
    SymInt extent = builder_.extent(value, static_cast<int>(axis));
    same = extent == type.sizes[axis] || ProvablyEqual(extent, type.sizes[axis]);
  }
  if (same) return;
  TensorType written;
  written.dtype = type.dtype;
  for (SymInt extent : type.sizes) written.domain.push_back(IterDomain{extent});
  Fail(type.token, absl::StrCat("found ", written.ToString(), " for ", Quoted(target.name.text),
                                ", expected ", builder_.type(value).ToString()));
}

// A value has the name of its first definition; a further one, `y = x`, is only a name in the text
// unless it is an output.
void Parser::Define(const Target& target, ValId value) {
  if (target.type.has_value()) CheckType(target, value);
  if (!ok() || target.name.text == "_") return;
  CheckNewName(target.name);
  if (!ok()) return;
  is_named_.resize(builder_.num_vals(), false);
  if (!is_named_[value.index()]) {
    is_named_[value.index()] = true;
    builder_.SetName(value, target.name.text);
    CheckBuilder(target.name);
  }
  values_[target.name.text] = Definition{value, target.name.location.line};
}

}  // namespace text

absl::StatusOr<Fusion> ParseFusion(absl::string_view text, const ParseOptions& options) {
  if (text.size() > static_cast<size_t>(kMaxTextBytes)) {
    return absl::InvalidArgumentError(absl::StrCat(options.file_name, ":1:1: found a text of ",
                                                   text.size(), " bytes, expected at most ",
                                                   kMaxTextBytes, " (256 MiB)"));
  }
  text::Parser parser(text::TextSource{text, options.file_name});
  return parser.Run();
}

}  // namespace seam
