// Expressions of the text form: literals, infix operators by precedence, indexing.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "ir/op_semantics.h"
#include "ir/scalar.h"
#include "ir/text/parser.h"
#include "ir/text/parser_impl.h"
#include "ir/text/printer.h"

namespace seam::text {
namespace {

// Precedences as in Python; ** binds tighter than all of these, then the unary operators.
struct Infix {
  absl::string_view text;
  int precedence;
  OpKind op;
  OpKind bool_op;  // What it means between bools; the same as `op` where it means nothing else.
};
constexpr int kComparison = 1;
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr Infix kInfix[] = {
    {"==", kComparison, OpKind::Eq, OpKind::Eq},
    {"!=", kComparison, OpKind::Ne, OpKind::Ne},
    {"<", kComparison, OpKind::Lt, OpKind::Lt},
    {"<=", kComparison, OpKind::Le, OpKind::Le},
    {">", kComparison, OpKind::Gt, OpKind::Gt},
    {">=", kComparison, OpKind::Ge, OpKind::Ge},
    {"|", 2, OpKind::BitwiseOr, OpKind::LogicalOr},
    {"^", 3, OpKind::BitwiseXor, OpKind::LogicalXor},
    {"&", 4, OpKind::BitwiseAnd, OpKind::LogicalAnd},
    {"<<", 5, OpKind::ShiftLeft, OpKind::ShiftLeft},
    {">>", 5, OpKind::ShiftRight, OpKind::ShiftRight},
    {"+", 6, OpKind::Add, OpKind::Add},
    {"-", 6, OpKind::Sub, OpKind::Sub},
    {"*", 7, OpKind::Mul, OpKind::Mul},
    {"/", 7, OpKind::Div, OpKind::Div},
    {"//", 7, OpKind::FloorDivide, OpKind::FloorDivide},
    {"%", 7, OpKind::Remainder, OpKind::Remainder},
    {"@", 7, OpKind::Matmul, OpKind::Matmul},
};

const Infix* FindInfix(const Token& token) {
  if (token.kind != TokenKind::kPunctuation) return nullptr;
  for (const Infix& infix : kInfix) {
    if (infix.text == token.text) return &infix;
  }
  return nullptr;
}

bool EndsIndex(const Token& token) { return token.Is(",") || token.Is("]"); }

}  // namespace

bool IsReservedWord(absl::string_view name) {
  return name == "true" || name == "false" || name == "inf" || name == "nan" || name == "_";
}

absl::string_view WordHint(absl::string_view word) {
  if (word == "and") return "; write (a) & (b) for a and b";
  if (word == "or") return "; write (a) | (b) for a or b";
  if (word == "not") return "; write ~a for not a";
  if (word == "if") return "; write where(c, a, b) for a if c else b";
  if (word == "True") return "; write true";
  if (word == "False") return "; write false";
  if (word == "None") return ", which stands for a new axis, as in a[:, None]";
  return "";
}

DType WidestOf(Literal::Kind kind) {
  return kind == Literal::Kind::kBool      ? DType::Bool
         : kind == Literal::Kind::kInteger ? DType::I64
                                           : DType::F64;
}

std::optional<DType> Parser::TypeOf(const Operand& operand) const {
  if (operand.value.valid()) return builder_.dtype(operand.value);
  if (operand.kind != Operand::Kind::kLiteral) return std::nullopt;
  return WidestOf(operand.literal.kind);
}

Operand Parser::ValueOperand(ValId value, const Token& at) const {
  Operand operand;
  operand.kind = Operand::Kind::kValue;
  operand.value = value;
  operand.token = at;
  return operand;
}

Operand Parser::FindValue(const Token& name) {
  auto it = values_.find(name.text);
  if (it != values_.end()) return ValueOperand(it->second.value, name);
  if (name.kind != TokenKind::kName) {
    FailFound("the name of a value");
    return Operand();
  }
  // Is it the target of a later definition?
  int brackets = 0;
  bool before_equals = true;
  Lexer ahead = lexer_;
  for (Token token = ahead.Next(); token.kind != TokenKind::kEnd; token = ahead.Next()) {
    if (token.kind == TokenKind::kNewline) {
      before_equals = true;
    } else if (token.kind == TokenKind::kName) {
      if (before_equals && brackets == 0 && token.text == name.text) {
        Fail(name, absl::StrCat("found ", Quoted(name.text), " before its definition on line ",
                                token.location.line));
        return Operand();
      }
    } else if (token.Is("=")) {
      before_equals = false;
    } else {
      brackets += token.Is("[") || token.Is("(") ? 1 : token.Is("]") || token.Is(")") ? -1 : 0;
    }
  }
  std::string hint;
  if (builder_.env().Find(name.text).has_value()) {
    hint = absl::StrCat(
        ", which is a symbol: symbols stand for extents, in types and attributes; its value is "
        "size(sizes=[",
        name.text, "], dtype=f32)");
  } else {
    std::vector<absl::string_view> names;
    names.reserve(values_.size());
    for (const auto& [known, definition] : values_) names.push_back(known);
    std::sort(names.begin(), names.end());
    hint = std::string(WordHint(name.text));
    if (ParseDType(name.text)) hint = absl::StrCat("; types have names, as in dtype=", name.text);
    if (hint.empty()) hint = DidYouMean(name.text, names);
  }
  Fail(name, absl::StrCat("found unknown value ", Quoted(name.text), hint));
  return Operand();
}

void Parser::Nest(const Token& at) {
  if (++depth_ <= kMaxTextNesting) return;
  Fail(at, absl::StrCat("found an expression nested more than ", kMaxTextNesting,
                        " levels deep, which is the limit"));
}

Operand Parser::ParseExpression(int min_precedence) {
  Nest(token_);
  Operand left = ParseUnary();
  bool is_comparison = false;
  while (ok()) {
    const Infix* infix = FindInfix(token_);
    if (infix == nullptr || infix->precedence < min_precedence) break;
    Token at = token_;
    if (infix->precedence == kComparison) {
      if (is_comparison) {
        Fail(at, absl::StrCat("found a second comparison ", Quoted(at.text),
                              ", expected parentheses: comparisons do not chain"));
        break;
      }
      is_comparison = true;
    }
    Advance();
    Operand right = ParseExpression(infix->precedence + 1);
    if (!ok()) break;
    const std::optional<DType> a = TypeOf(left), b = TypeOf(right);
    const bool is_bool = a == DType::Bool || b == DType::Bool;
    if (infix->op != infix->bool_op && a.has_value() && b.has_value() &&
        (IsFloat(*a) || IsFloat(*b) || (is_bool && a != b))) {
      Fail(at,
           absl::StrCat("found ", Quoted(at.text), " of ", DTypeName(*a), " and ", DTypeName(*b),
                        ", expected integers or bool; it binds tighter than comparisons: "
                        "write (a < b) ",
                        at.text, " (c < d)"));
      break;
    }
    left = Apply(is_bool ? infix->bool_op : infix->op, at, {left, right});
  }
  --depth_;
  return left;
}

Operand Parser::ParseUnary() {
  Token at = token_;
  if (!at.Is("-") && !at.Is("~") && !at.Is("+")) return ParsePower();
  if (at.Is("-") && (next_.kind == TokenKind::kInteger || next_.kind == TokenKind::kFloat ||
                     next_.IsName("inf"))) {
    Operand literal = ParseLiteral();
    if (token_.Is("**")) FailFound("parentheses: is it (-a) ** b or -(a ** b)?");
    return literal;
  }
  Advance();
  Nest(at);
  Operand operand = ParseUnary();
  --depth_;
  if (!ok() || at.Is("+")) return operand;
  if (at.Is("-")) return Apply(OpKind::Neg, at, {operand});
  return Apply(TypeOf(operand) == DType::Bool ? OpKind::LogicalNot : OpKind::BitwiseNot, at,
               {operand});
}

Operand Parser::ParsePower() {
  Operand base = ParsePostfix();
  Token at = token_;
  if (!ok() || !Accept("**")) return base;
  Nest(at);
  Operand exponent = ParseUnary();
  --depth_;
  if (!ok()) return base;
  return Apply(OpKind::Pow, at, {base, exponent});
}

Operand Parser::ParsePostfix() {
  Operand operand = ParsePrimary();
  while (ok() && token_.Is("[")) operand = ParseIndex(operand);
  return operand;
}

Operand Parser::ParsePrimary() {
  if (token_.kind == TokenKind::kInteger || token_.kind == TokenKind::kFloat) {
    return ParseLiteral();
  }
  if (token_.kind == TokenKind::kName) {
    if (next_.Is("(")) return ParseCall();
    if (IsReservedWord(token_.text) && token_.text != "_") return ParseLiteral();
    Operand operand = FindValue(token_);
    if (ok()) Advance();
    return operand;
  }
  Token at = token_;
  if (Accept("(")) {
    Operand operand = ParseExpression(0);
    Expect(")", absl::StrCat("for the '(' on line ", at.location.line));
    if (operand.kind == Operand::Kind::kLiteral) operand.token = Since(at, operand.token.kind);
    return operand;
  }
  FailFound("a value");
  return Operand();
}

// A number, perhaps with a minus, true, false, inf or nan; with a type behind it, `1.5: f16`, a
// constant.
Operand Parser::ParseLiteral() {
  Operand operand;
  operand.kind = Operand::Kind::kLiteral;
  operand.token = token_;
  Literal& literal = operand.literal;
  literal.is_negative = token_.Is("-");
  if (literal.is_negative) {
    Advance();
    const size_t length = token_.offset + token_.text.size() - operand.token.offset;
    operand.token.kind = token_.kind;
    operand.token.text = source_.text.substr(operand.token.offset, length);
  }
  const char* begin = token_.text.data();
  const char* end = begin + token_.text.size();
  if (token_.kind == TokenKind::kInteger) {
    bool is_hex = token_.text.size() > 2 && (token_.text[1] == 'x' || token_.text[1] == 'X');
    auto parsed = std::from_chars(begin + 2 * is_hex, end, literal.magnitude, is_hex ? 16 : 10);
    if (parsed.ec != std::errc()) FailFound("an integer below 2^64");
  } else if (token_.kind == TokenKind::kFloat) {
    literal.kind = Literal::Kind::kFloat;
    auto parsed = std::from_chars(begin, end, literal.value);
    if (parsed.ec == std::errc::result_out_of_range) {
      // Too large or too small: strtod tells which.
      literal.value = std::strtod(std::string(begin, end).c_str(), nullptr);
      if (std::isinf(literal.value)) FailFound("a number within f64 or inf");
    }
  } else if (token_.text == "true" || token_.text == "false") {
    literal.kind = Literal::Kind::kBool;
    literal.magnitude = token_.text == "true";
  } else {
    literal.kind = Literal::Kind::kFloat;
    literal.value = token_.text == "inf" ? kInfinity : std::numeric_limits<double>::quiet_NaN();
  }
  if (literal.is_negative) literal.value = -literal.value;
  if (!ok()) return operand;
  Advance();
  if (token_.Is(":") && next_.kind == TokenKind::kName) {
    Advance();
    std::optional<DType> dtype = ParseDTypeName();
    if (dtype.has_value())
      return ValueOperand(Constant(literal, *dtype, operand.token), operand.token);
  }
  return operand;
}

ValId Parser::Constant(const Literal& literal, DType dtype, const Token& at) {
  std::optional<Scalar> value = Convert(literal, dtype, at);
  if (!value.has_value()) return ValId();
  builder_.SetLocation(at.location);
  ValId constant =
      IsFloat(dtype) ? builder_.Constant(value->f, dtype) : builder_.IntConstant(value->i, dtype);
  CheckBuilder(at);
  return constant;
}

std::optional<Scalar> Parser::Convert(const Literal& literal, DType dtype, const Token& at) {
  auto fail = [&](absl::string_view expected) {
    Fail(at,
         absl::StrCat("found ", Describe(at), " for ", DTypeName(dtype), ", expected ", expected));
    return std::nullopt;
  };
  if (dtype == DType::Bool || literal.kind == Literal::Kind::kBool) {
    if (dtype != DType::Bool) return fail("a number");
    if (literal.kind != Literal::Kind::kBool) return fail("true or false");
    return IntScalar(static_cast<int64_t>(literal.magnitude));
  }
  if (IsFloat(dtype)) {
    double number = literal.value;
    if (literal.kind == Literal::Kind::kInteger) {
      number = static_cast<double>(literal.magnitude);
      if (literal.is_negative) number = -number;
    }
    // A number beyond the largest value: what it would round to if there were larger ones.
    const double largest = MaxFinite(dtype), unit = UlpOf(dtype, largest);
    const bool has_infinity = std::isinf(RoundToDType(dtype, kInfinity));
    if (std::isinf(number) ? !has_infinity
                           : std::nearbyint(std::fabs(number) / unit) * unit > largest) {
      return fail(absl::StrCat("a number that rounds to at most ", PrintFloat(largest, dtype),
                               has_infinity ? ", or inf" : ""));
    }
    return FloatScalar(RoundOnce(dtype, number));
  }
  if (literal.kind == Literal::Kind::kFloat) return fail("an integer");
  const auto largest = static_cast<uint64_t>(MaxInteger(dtype));
  const uint64_t smallest = IsSigned(dtype) ? largest + 1 : 0;  // Its magnitude.
  if (literal.magnitude > (literal.is_negative ? smallest : largest)) {
    return fail(absl::StrCat("an integer from ", MinInteger(dtype), " to ", MaxInteger(dtype)));
  }
  return IntScalar(static_cast<int64_t>(literal.is_negative ? uint64_t{0} - literal.magnitude
                                                            : literal.magnitude));
}

ValId Parser::ToValue(const Operand& operand, std::optional<DType> dtype) {
  if (operand.value.valid()) return operand.value;
  switch (operand.kind) {
    case Operand::Kind::kLiteral:
      if (operand.literal.kind == Literal::Kind::kBool && !dtype.has_value()) dtype = DType::Bool;
      if (dtype.has_value()) return Constant(operand.literal, *dtype, operand.token);
      Fail(operand.token,
           absl::StrCat("found ", Describe(operand.token),
                        " where no value gives it a type, expected one behind it, as in ",
                        operand.literal.kind == Literal::Kind::kInteger ? "1: i32" : "1.5: f32"));
      return ValId();
    case Operand::Kind::kResults:
      Fail(operand.token,
           absl::StrCat("found an operation of ", results_.size(),
                        " results inside an expression, expected a line of its own: ",
                        "a, b, ... = ", operand.token.text, "(...)"));
      return ValId();
    default:
      return ValId();
  }
}

Token Parser::Since(const Token& first, TokenKind kind) const {
  Token token = first;
  token.kind = kind;
  token.text = source_.text.substr(first.offset, end_ - first.offset);
  return token;
}

namespace {

// Whether the operation's value of these integers is beyond i64, where they are not themselves.
bool Overflows(OpKind op, const std::vector<Operand>& operands) {
  using Wide = __int128;
  std::vector<Wide> values;
  for (const Operand& o : operands) {
    const auto magnitude = static_cast<Wide>(o.literal.magnitude);
    if (magnitude > Wide{1} << 63) return false;
    values.push_back(o.literal.is_negative ? -magnitude : magnitude);
  }
  const auto beyond = [](Wide value) { return value < INT64_MIN || value > INT64_MAX; };
  switch (op) {
    case OpKind::Add:
      return beyond(values[0] + values[1]);
    case OpKind::Sub:
      return beyond(values[0] - values[1]);
    case OpKind::Mul:
      return beyond(values[0] * values[1]);
    case OpKind::Neg:
      return beyond(-values[0]);
    case OpKind::Abs:
      return beyond(values[0] < 0 ? -values[0] : values[0]);
    case OpKind::Square:
      return beyond(values[0] * values[0]);
    case OpKind::FloorDivide:
      return values[0] == INT64_MIN && values[1] == -1;
    case OpKind::ShiftLeft:
      return values[0] != 0 && values[1] >= 0 &&
             (values[1] > 63 || beyond(values[0] * (Wide{1} << static_cast<int>(values[1]))));
    default:
      return false;
  }
}

}  // namespace

// In the element types that hold what literals do: f64, i64, bool. An integer goes with a float,
// and becomes one under `/` and under what takes no integers.
std::optional<Operand> Parser::Fold(OpKind op, const Token& first,
                                    const std::vector<Operand>& operands) {
  const OpInfo& info = GetOpInfo(op);
  if (info.op_class != OpClass::Elementwise ||
      operands.size() != static_cast<size_t>(info.num_operands)) {
    return std::nullopt;
  }
  const size_t begin = info.type_rule == TypeRule::kWhere ? 1 : 0;  // Of what is of one type.
  Literal::Kind kind = Literal::Kind::kBool;
  for (size_t i = 0; i < operands.size(); ++i) {
    if (operands[i].kind != Operand::Kind::kLiteral) return std::nullopt;
    if (i >= begin) kind = std::max(kind, operands[i].literal.kind);
  }
  std::vector<DType> types(operands.size());
  const auto compute = [&](DType dtype) -> absl::StatusOr<Operand> {
    for (size_t i = 0; i < types.size(); ++i) types[i] = i < begin ? DType::Bool : dtype;
    absl::StatusOr<DType> out = InferDType(op, types);
    if (!out.ok()) return out.status();
    std::vector<Scalar> values;
    std::vector<const Scalar*> arguments;
    values.reserve(operands.size());
    for (size_t i = 0; i < operands.size(); ++i) {
      values.push_back(
          Convert(operands[i].literal, types[i], operands[i].token).value_or(IntScalar(0)));
      arguments.push_back(&values[i]);
    }
    Scalar value;
    EvalElementwise(op, dtype, *out, arguments.data(), &value, 1);
    Operand result;
    result.kind = Operand::Kind::kLiteral;
    Literal& literal = result.literal;
    if (IsFloat(*out)) {
      literal.kind = Literal::Kind::kFloat;
      literal.value = value.f;
    } else {
      literal.kind = *out == DType::Bool ? Literal::Kind::kBool : Literal::Kind::kInteger;
      literal.is_negative = value.i < 0;
      const auto bits = static_cast<uint64_t>(value.i);
      literal.magnitude = literal.is_negative ? uint64_t{0} - bits : bits;
    }
    result.token = Since(first, *out == DType::Bool ? TokenKind::kName : TokenKind::kFloat);
    return result;
  };
  absl::StatusOr<Operand> result = compute(kind == Literal::Kind::kBool      ? DType::Bool
                                           : kind == Literal::Kind::kInteger ? DType::I64
                                                                             : DType::F64);
  if (kind == Literal::Kind::kInteger) {
    const auto divides = {OpKind::FloorDivide, OpKind::Remainder, OpKind::Fmod};
    if (absl::c_linear_search(divides, op) && operands[1].literal.magnitude == 0)
      Fail(first, absl::StrCat("found ", Describe(result->token), ", a division by zero"));
    if (op == OpKind::Div || !result.ok()) {
      result = compute(DType::F64);
    } else if (Overflows(op, operands)) {
      Fail(first, absl::StrCat("found ", Describe(result->token), ", whose value is beyond i64"));
    }
  }
  if (!result.ok()) Fail(first, result.status().message());
  return ok() ? *result : Operand();
}

Operand Parser::Apply(OpKind op, const Token& at, std::vector<Operand> operands) {
  const Token& first = operands[0].token.offset < at.offset ? operands[0].token : at;
  if (std::optional<Operand> literal = Fold(op, first, operands)) return *literal;
  std::vector<ValId> values = OperandValues(op, at, operands);
  if (!ok()) return Operand();
  builder_.SetLocation(at.location);
  ValId value = builder_.Op(op, values);
  CheckBuilder(at);
  return ValueOperand(value, at);
}

// x[:, None, 1:N:2, ...]: a slice of the axes that are not whole, then an axis of extent 1 at each
// None. Axes without an index are whole; `...` stands for as many as there are left.
Operand Parser::ParseIndex(Operand base) {
  enum class Kind { kSlice, kNone, kEllipsis };
  struct Item {
    Kind kind = Kind::kSlice;
    std::optional<SymInt> start, stop, step;
  };
  const Token at = token_;
  const ValId value = ToValue(base, std::nullopt);
  Expect("[", "before an index");
  std::vector<Item> items;
  int rank = builder_.rank(value), num_slices = 0, num_new = 0;
  bool has_ellipsis = false;
  while (ok()) {
    Item& item = items.emplace_back();
    const Token first = token_;
    if (token_.IsName("None")) {
      item.kind = Kind::kNone;
      ++num_new;
      Advance();
    } else if (Accept("...")) {
      item.kind = Kind::kEllipsis;
      if (has_ellipsis) Fail(first, "found a second '...', expected at most one in an index");
      has_ellipsis = true;
    } else {
      if (!token_.Is(":")) item.start = ParseExtent();
      if (ok() && !token_.Is(":")) {
        Fail(first, absl::StrCat(
                        "found index ", Quoted(first.text),
                        " without ':', expected a range: ", "i:i+1, and squeeze to drop the axis"));
      }
      Expect(":", "in the range of an index");
      if (!EndsIndex(token_) && !token_.Is(":")) item.stop = ParseExtent();
      if (Accept(":") && !EndsIndex(token_)) item.step = ParseExtent();
      ++num_slices;
    }
    if (num_slices > rank || num_new > kMaxRank) {
      Fail(first, absl::StrCat("found more indices than the ", rank, " axes of ",
                               builder_.type(value).ToString()));
    }
    if (!Accept(",") || token_.Is("]")) break;
  }
  Expect("]", "or ',' in an index");
  if (!ok()) return base;
  if (!has_ellipsis) items.push_back(Item{Kind::kEllipsis, {}, {}, {}});

  Attributes slice;
  AxisVector new_axes;
  bool is_whole = true;
  int position = 0;  // In the result.
  auto add_axis = [&](const Item& item) {
    const SymInt extent = builder_.extent(value, static_cast<int>(slice.start.size()));
    // Clamped at once: the slice would count what is still negative from the end again.
    auto from_end = [&](SymInt index) {
      if (!ProvablyLt(index, 0)) return index;
      return ProvablyLt(index + extent, 0) ? SymInt(0) : index + extent;
    };
    slice.start.push_back(from_end(item.start.value_or(0)));
    slice.stop.push_back(from_end(item.stop.value_or(extent)));
    slice.step.push_back(item.step.value_or(1));
    is_whole = is_whole && slice.start.back() == 0 && slice.stop.back() == extent &&
               slice.step.back() == 1;
    ++position;
  };
  for (const Item& item : items) {
    if (item.kind == Kind::kNone) {
      new_axes.push_back(position++);
    } else if (item.kind == Kind::kSlice) {
      add_axis(item);
    } else {
      for (int i = num_slices; i < rank; ++i) add_axis(Item());
    }
  }
  builder_.SetLocation(at.location);
  ValId result = value;
  if (!is_whole) result = builder_.Op(OpKind::Slice, {result}, std::move(slice));
  if (!new_axes.empty()) result = builder_.Broadcast(result, std::move(new_axes));
  CheckBuilder(at);
  return ValueOperand(result, at);
}

}  // namespace seam::text
