// The recursive-descent parser, shared by the files that hold its parts: statements (parser.cc),
// expressions (parse_expression.cc), calls (parse_call.cc), composites (parse_composite.cc).
//
// Errors stick: the first one is kept, from then on every token is the end of the file, so that
// loops end and the caller checks once. Thread-safety: none.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "ir/fusion_builder.h"
#include "ir/scalar.h"
#include "ir/text/lexer.h"

namespace seam::text {

// A number, true or false without a type of its own; it takes that of its neighbours.
struct Literal {
  enum class Kind : uint8_t { kBool, kInteger, kFloat };
  Kind kind = Kind::kInteger;
  bool is_negative = false;
  uint64_t magnitude = 0;  // Of an integer; 0 or 1 for a bool.
  double value = 0;        // Of a float, sign included.
};

DType WidestOf(Literal::Kind kind);  // f64, i64 or bool.

// What an expression stands for before it has to be one value.
struct Operand {
  enum class Kind : uint8_t { kNone, kValue, kLiteral, kResults };
  Kind kind = Kind::kNone;
  ValId value;  // Of kResults: the result that stands for all; invalid where none does.
  Literal literal;
  Token token;  // Where it begins, for errors.
};

// One `name=value` of a call; which member is set follows from what is written.
struct KeywordArgument {
  enum class Kind : uint8_t { kList, kDType, kOperand };
  Kind kind = Kind::kOperand;
  Token name;
  std::vector<SymInt> list;
  DType dtype = DType::F32;
  Operand operand;
};

struct Call {
  Token name;
  std::vector<Operand> operands;
  std::vector<KeywordArgument> keywords;
};

struct AttributeName {
  AttributeField field;
  absl::string_view name;
};
// The keywords of `op`, in the order in which they are printed.
std::vector<AttributeName> AttributeNames(OpKind op);

// Words that stand for themselves where a value could be, and the placeholder `_`: they are no
// names.
bool IsReservedWord(absl::string_view name);

// What to write for a word of Python's that is none of this language, "; write ..."; or nothing.
absl::string_view WordHint(absl::string_view word);

// The names of the composites, for suggestions.
std::vector<absl::string_view> CompositeNames();

class Parser {
 public:
  explicit Parser(const TextSource& source);
  absl::StatusOr<Fusion> Run();

 private:
  struct Annotation {
    DType dtype = DType::F32;
    SymVector sizes;
    Token token;
  };
  struct Target {
    Token name;
    std::optional<Annotation> type;
  };
  struct Definition {
    ValId value;
    int32_t line = 0;
  };

  // --- Tokens and errors (parser.cc) ---
  bool ok() const { return lexer_.status().ok(); }
  void Advance();
  bool Accept(absl::string_view punctuation);
  void Expect(absl::string_view punctuation, absl::string_view where);
  void Fail(const Token& at, absl::string_view message);
  void FailFound(absl::string_view expected);  // "found <token_>, expected <expected>"
  // Passes the builder's error on, as one of the expression at `at`.
  void CheckBuilder(const Token& at);
  void SkipNewlines();

  // --- Statements (parser.cc) ---
  void ParseStatement();
  void ParseSymbol();
  void ParseInput();
  void ParseOutput();
  void ParseDefinition();
  void Define(const Target& target, ValId value);
  void CheckType(const Target& target, ValId value);
  void CheckNewName(const Token& name);

  // --- Types and extents (parse_extent.cc) ---
  std::optional<DType> ParseDTypeName();
  Annotation ParseType();
  SymInt ParseExtent();
  std::vector<SymInt> ParseExtentList();
  SymInt FindSymbol(const Token& name);
  std::optional<int64_t> ParseConstantExtent(absl::string_view what);
  std::optional<SymVector> ParseStrides(absl::string_view name, absl::Span<const SymInt> sizes);

  // --- Expressions (parse_expression.cc) ---
  void Nest(const Token& at);  // One level deeper; an error at the limit.
  Operand ParseExpression(int min_precedence);
  Operand ParseUnary();
  Operand ParsePower();
  Operand ParsePostfix();
  Operand ParsePrimary();
  Operand ParseLiteral();
  Operand ParseIndex(Operand base);
  Operand FindValue(const Token& name);
  Operand Apply(OpKind op, const Token& at, std::vector<Operand> operands);
  // The text from `first` to where the parser is, as one token for errors.
  Token Since(const Token& first, TokenKind kind) const;
  // The literal that an elementwise operation makes of literals; none of other operands. `first` is
  // where the expression begins.
  std::optional<Operand> Fold(OpKind op, const Token& first, const std::vector<Operand>& operands);
  Operand ValueOperand(ValId value, const Token& at) const;
  // Of a literal, the widest type of its kind; none of several results.
  std::optional<DType> TypeOf(const Operand& operand) const;
  // The operand as a value: a literal becomes a constant of `dtype`, and is an error where there is
  // none.
  ValId ToValue(const Operand& operand, std::optional<DType> dtype);
  ValId Constant(const Literal& literal, DType dtype, const Token& at);
  // The literal as a value of `dtype`; an error where it is none or too large.
  std::optional<Scalar> Convert(const Literal& literal, DType dtype, const Token& at);

  // --- Calls (parse_call.cc) ---
  Operand ParseCall();
  KeywordArgument ParseKeyword();
  Operand CallOp(OpKind op, const Call& call);
  // The values of the operands of `op`: literals typed, ranks of elementwise operands aligned.
  std::vector<ValId> OperandValues(OpKind op, const Token& at,
                                   const std::vector<Operand>& operands);
  void FailUnknownOperation(const Token& name);
  const KeywordArgument* FindKeyword(const Call& call, absl::string_view name) const;
  void CheckKeywords(const Call& call, const std::vector<absl::string_view>& known);
  AxisVector ToAxes(const KeywordArgument& keyword);
  SymVector ToSizes(const KeywordArgument& keyword);
  // The keyword's literal; an error that expects `expected` where it is none.
  const Literal* ToLiteral(const KeywordArgument& keyword, absl::string_view expected);
  std::optional<int32_t> ToInteger(const KeywordArgument& keyword);
  double ToNumber(const KeywordArgument& keyword);
  bool ToBool(const KeywordArgument& keyword);
  DType ToDType(const KeywordArgument& keyword);
  void FailKeyword(const KeywordArgument& keyword, absl::string_view expected);
  void ToFillValue(const KeywordArgument& keyword, DType dtype, Attributes& attributes);
  Operand Results(const Token& at, std::vector<ValId> results);
  ValId KeepDims(ValId reduced, ValId operand, const AxisVector& axes);

  // --- Composites (parse_composite.cc) ---
  Operand CallComposite(Call call);  // `call` names a composite.

  TextSource source_;
  Lexer lexer_;
  Token token_, next_;
  size_t end_ = 0;  // Of the token before token_.
  FusionBuilder builder_;
  absl::flat_hash_map<absl::string_view, Definition> values_;
  std::vector<bool> is_named_;  // By value.
  std::vector<ValId> results_;  // Of the last operand of kind kResults.
  int depth_ = 0;
};

}  // namespace seam::text
