// Calls of the text form: arguments, attributes by keyword, literals that take their neighbours'
// type.
#include <algorithm>
#include <limits>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ir/text/parser_impl.h"

namespace seam::text {

std::vector<AttributeName> AttributeNames(OpKind op) {
  const bool is_pad = op == OpKind::Pad;
  const AttributeName all[] = {
      {kAttrAxes, "axes"},
      {kAttrSizes, "sizes"},
      {kAttrStart, is_pad ? "before" : "start"},
      {kAttrStop, is_pad ? "after" : "stop"},
      {kAttrStep, "step"},
      {kAttrValue, "value"},
      {kAttrDType, "dtype"},
  };
  std::vector<AttributeName> names;
  for (const AttributeName& name : all) {
    // The value of a constant is its operand in the text.
    if (name.field == kAttrValue && op == OpKind::Constant) continue;
    if (AttributesOf(op) & name.field) names.push_back(name);
  }
  return names;
}

KeywordArgument Parser::ParseKeyword() {
  KeywordArgument keyword;
  keyword.name = token_;
  Advance();
  Expect("=", "after the name of an attribute");
  if (token_.Is("[")) {
    keyword.kind = KeywordArgument::Kind::kList;
    keyword.list = ParseExtentList();
  } else if (keyword.name.text == "dtype") {
    keyword.kind = KeywordArgument::Kind::kDType;
    keyword.dtype = ParseDTypeName().value_or(DType::F32);
  } else {
    keyword.operand = ParseExpression(0);
  }
  return keyword;
}

namespace {

// What names of other languages are written as here.
struct Elsewhere {
  absl::string_view name, here;
};
constexpr Elsewhere kElsewhere[] = {
    {"arange", "iota(sizes=[...], axis=0, dtype=i64)"},
    {"astype", "cast(a, dtype=f32)"},
    {"bernoulli", "random_uniform(seed, offset, sizes=[...], dtype=f32) < p"},
    {"chunk", "slices, as in a[0:N] and a[N:2*N]"},
    {"clamp_max", "minimum(a, b)"},
    {"clamp_min", "maximum(a, b)"},
    {"clip", "clamp(a, 0.0, 1.0)"},
    {"concat", "cat(a, b, axis=0)"},
    {"concatenate", "cat(a, b, axis=0)"},
    {"dot", "sum(a * b, axes=[0])"},
    {"elu", "where(a > 0.0, a, exp(a) - 1.0)"},
    {"embedding", "index_select(table, indices, axis=0)"},
    {"equal", "a == b"},
    {"flatten", "reshape(a, sizes=[...])"},
    {"full_like", "full(value, sizes=[...])"},
    {"greater", "a > b"},
    {"greater_equal", "a >= b"},
    {"hardswish", "a * clamp(a + 3.0, 0.0, 6.0) / 6.0"},
    {"less", "a < b"},
    {"less_equal", "a <= b"},
    {"log_sigmoid", "-softplus(-a)"},
    {"logsigmoid", "-softplus(-a)"},
    {"logsumexp", "m + log(sum(exp(a - m), axes=[0])) with m = amax(a, axes=[0])"},
    {"masked_fill", "where(mask, value, a)"},
    {"max", "maximum(a, b) or, along axes, amax(a, axes=[0])"},
    {"min", "minimum(a, b) or, along axes, amin(a, axes=[0])"},
    {"movedim", "permute(a, axes=[1, 0])"},
    {"nan_to_num", "where(a != a, 0.0, a)"},
    {"norm", "sqrt(sum(a * a, axes=[0]))"},
    {"not_equal", "a != b"},
    {"one_hot", "i[:, None] == iota(sizes=[...], axis=0, dtype=i64)"},
    {"ones", "full(1.0, sizes=[...])"},
    {"ones_like", "full(1.0, sizes=[...])"},
    {"outer", "a[:, None] * b[None, :]"},
    {"power", "pow(a, b)"},
    {"rand", "random_uniform(seed, offset, sizes=[...], dtype=f32)"},
    {"randn", "random_normal(seed, offset, sizes=[...], dtype=f32)"},
    {"relu6", "clamp(a, 0.0, 6.0)"},
    {"repeat", "cat(a, a, axis=0) or, along a new axis, expand(a[None], sizes=[...])"},
    {"roll", "cat(a[n:], a[:n], axis=0), which rolls by -n"},
    {"split", "slices, as in a[0:N] and a[N:2*N]"},
    {"stack", "cat(a[None], b[None], axis=0)"},
    {"std", "sqrt(variance(a, axes=[0]))"},
    {"swapaxes", "permute(a, axes=[1, 0])"},
    {"take", "index_select(a, indices, axis=0)"},
    {"take_along_axis", "gather(a, indices, axis=0)"},
    {"tile", "cat(a, a, axis=0) or, along a new axis, expand(a[None], sizes=[...])"},
    {"transpose", "permute(a, axes=[1, 0])"},
    {"tril", "where(row >= column, a, 0.0) with iota for rows and columns"},
    {"triu", "where(row <= column, a, 0.0) with iota for rows and columns"},
    {"unsqueeze", "a[None]"},
    {"var", "variance(a, axes=[0])"},
    {"view", "reshape(a, sizes=[...])"},
    {"zeros", "full(0.0, sizes=[...])"},
    {"zeros_like", "full(0.0, sizes=[...])"},
};

// Operations that no name or formula here stands for.
constexpr absl::string_view kNowhere[] = {
    "argsort",     "bincount",    "conv2d", "cumprod", "cumsum",   "einsum",
    "histc",       "index_add",   "median", "nonzero", "quantile", "scatter",
    "scatter_add", "segment_sum", "sort",   "topk",    "unique"};

// Names of attributes elsewhere, and here.
constexpr Elsewhere kAttributesElsewhere[] = {{"dim", "axis"},         {"dims", "axes"},
                                              {"keepdim", "keepdims"}, {"shape", "sizes"},
                                              {"size", "sizes"},       {"ddof", "correction"}};

}  // namespace

void Parser::FailUnknownOperation(const Token& name) {
  std::vector<absl::string_view> names = CompositeNames();
  for (const OpInfo& info : AllOps()) names.push_back(info.name);
  std::string hint = DidYouMean(name.text, names);
  for (const Elsewhere& other : kElsewhere)
    if (other.name == name.text) hint = absl::StrCat("; write ", other.here);
  if (absl::c_linear_search(kNowhere, name.text)) hint = ", and there is none like it";
  Fail(name, absl::StrCat("found unknown operation ", Quoted(name.text), hint));
}

Operand Parser::ParseCall() {
  Call call;
  call.name = token_;
  const std::optional<OpKind> op = FindOp(call.name.text);
  if (!op && !absl::c_linear_search(CompositeNames(), call.name.text)) {
    FailUnknownOperation(call.name);
    return Operand();
  }
  Advance();
  Expect("(", "before the operands");
  while (ok() && !token_.Is(")")) {
    if (token_.kind == TokenKind::kName && next_.Is("=")) {
      for (const KeywordArgument& earlier : call.keywords) {
        if (earlier.name.text == token_.text) {
          Fail(token_, absl::StrCat("found a second ", Quoted(token_.text), ", expected one"));
        }
      }
      if (call.keywords.size() > 32) Fail(token_, "found more than 32 keywords in a call");
      call.keywords.push_back(ParseKeyword());
    } else {
      if (!call.keywords.empty()) FailFound("a keyword: operands come first");
      if (token_.Is("["))
        FailFound("an operand: lists have names, as in axes=[1, 0] or sizes=[M, N]");
      call.operands.push_back(ParseExpression(0));
    }
    if (!Accept(",")) break;
  }
  Expect(")", absl::StrCat("or ',' in the call of ", call.name.text));
  if (!ok()) return Operand();

  return op ? CallOp(*op, call) : CallComposite(std::move(call));
}

const KeywordArgument* Parser::FindKeyword(const Call& call, absl::string_view name) const {
  for (const KeywordArgument& keyword : call.keywords) {
    if (keyword.name.text == name) return &keyword;
  }
  return nullptr;
}

void Parser::CheckKeywords(const Call& call, const std::vector<absl::string_view>& known) {
  for (const KeywordArgument& keyword : call.keywords) {
    if (std::count(known.begin(), known.end(), keyword.name.text) > 0) continue;
    const std::string expected = known.empty() ? "none" : absl::StrJoin(known, ", ");
    std::string hint = DidYouMean(keyword.name.text, known);
    for (const Elsewhere& other : kAttributesElsewhere) {
      if (other.name == keyword.name.text && absl::c_linear_search(known, other.here))
        hint = absl::StrCat("; write ", other.here);
    }
    Fail(keyword.name, absl::StrCat("found unknown attribute ", Quoted(keyword.name.text), " of ",
                                    call.name.text, ", expected ", expected, hint));
    return;
  }
}

AxisVector Parser::ToAxes(const KeywordArgument& keyword) {
  AxisVector axes;
  for (SymInt extent : ToSizes(keyword)) {
    std::optional<int64_t> axis = extent.maybe_int();
    if (!axis.has_value() || *axis < -kMaxRank || *axis >= kMaxRank) {
      Fail(keyword.name,
           absl::StrCat("found axis ", extent.ToString(), ", expected an integer from ", -kMaxRank,
                        " to ", kMaxRank - 1));
      break;
    }
    axes.push_back(static_cast<int32_t>(*axis));
  }
  return axes;
}

SymVector Parser::ToSizes(const KeywordArgument& keyword) {
  if (keyword.kind == KeywordArgument::Kind::kList) {
    return SymVector(keyword.list.begin(), keyword.list.end());
  }
  if (keyword.kind != KeywordArgument::Kind::kOperand ||
      keyword.operand.kind != Operand::Kind::kLiteral) {
    FailKeyword(keyword, "a list such as [0, 1]");
    return SymVector();
  }
  return SymVector{SymInt(ToInteger(keyword).value_or(0))};
}

const Literal* Parser::ToLiteral(const KeywordArgument& keyword, absl::string_view expected) {
  if (keyword.kind == KeywordArgument::Kind::kOperand &&
      keyword.operand.kind == Operand::Kind::kLiteral) {
    return &keyword.operand.literal;
  }
  FailKeyword(keyword, expected);
  return nullptr;
}

void Parser::FailKeyword(const KeywordArgument& keyword, absl::string_view expected) {
  const bool is_literal = keyword.kind == KeywordArgument::Kind::kOperand &&
                          keyword.operand.kind == Operand::Kind::kLiteral;
  const std::string found = is_literal ? Describe(keyword.operand.token)
                            : keyword.kind == KeywordArgument::Kind::kList  ? "a list"
                            : keyword.kind == KeywordArgument::Kind::kDType ? "an element type"
                                                                            : "a value";
  Fail(keyword.name,
       absl::StrCat("found ", found, " for ", Quoted(keyword.name.text), ", expected ", expected));
}

std::optional<int32_t> Parser::ToInteger(const KeywordArgument& keyword) {
  constexpr absl::string_view kExpected = "an integer of 32 bits";
  const Literal* literal = ToLiteral(keyword, kExpected);
  if (literal == nullptr) return std::nullopt;
  if (literal->kind != Literal::Kind::kInteger ||
      literal->magnitude > std::numeric_limits<int32_t>::max()) {
    FailKeyword(keyword, kExpected);
    return std::nullopt;
  }
  const auto magnitude = static_cast<int32_t>(literal->magnitude);
  return literal->is_negative ? -magnitude : magnitude;
}

double Parser::ToNumber(const KeywordArgument& keyword) {
  const Literal* literal = ToLiteral(keyword, "a number");
  if (literal == nullptr) return 0;
  std::optional<Scalar> value = Convert(*literal, DType::F64, keyword.operand.token);
  return value.has_value() ? value->f : 0;
}

bool Parser::ToBool(const KeywordArgument& keyword) {
  const Literal* literal = ToLiteral(keyword, "true or false");
  if (literal == nullptr) return false;
  if (literal->kind != Literal::Kind::kBool) FailKeyword(keyword, "true or false");
  return literal->magnitude != 0;
}

DType Parser::ToDType(const KeywordArgument& keyword) {
  if (keyword.kind != KeywordArgument::Kind::kDType) FailKeyword(keyword, "an element type");
  return keyword.dtype;
}

Operand Parser::Results(const Token& at, std::vector<ValId> results) {
  if (results.size() == 1) return ValueOperand(results[0], at);
  Operand operand;
  operand.kind = Operand::Kind::kResults;
  operand.token = at;
  results_ = std::move(results);
  return operand;
}

std::vector<ValId> Parser::OperandValues(OpKind op, const Token& at,
                                         const std::vector<Operand>& operands) {
  const OpInfo& info = GetOpInfo(op);
  if (info.num_operands >= 0 && static_cast<size_t>(info.num_operands) != operands.size()) {
    Fail(at,
         absl::StrCat("found ", operands.size(), operands.size() == 1 ? " operand" : " operands",
                      " of ", info.name, ", expected ", info.num_operands));
    return {};
  }
  // The condition of `where` and the index of an indexing operation have types of their own.
  std::optional<DType> dtype;
  if (info.type_rule == TypeRule::kRandom) dtype = DType::I64;
  const size_t first = info.type_rule == TypeRule::kWhere ? 1 : 0;
  const size_t last = info.type_rule == TypeRule::kIndexed ? 1 : operands.size();
  for (size_t i = first; i < last && !dtype.has_value(); ++i) {
    if (operands[i].value.valid()) dtype = builder_.dtype(operands[i].value);
  }
  // A float needs no type where nothing else could give one.
  if (op == OpKind::Where || op == OpKind::Full) {
    for (size_t i = first; i < last && !dtype.has_value(); ++i) {
      if (operands[i].literal.kind == Literal::Kind::kFloat) dtype = DType::F32;
    }
  }
  std::vector<ValId> values;
  values.reserve(operands.size());
  bool ranks_differ = false;
  int rank = 0;
  for (size_t i = 0; i < operands.size() && ok(); ++i) {
    values.push_back(ToValue(operands[i], i < first || i >= last ? std::nullopt : dtype));
    const int own = builder_.rank(values.back());
    ranks_differ = ranks_differ || (own != 0 && rank != 0 && own != rank);
    rank = std::max(rank, own);
  }
  if (!ok()) return {};
  if (ranks_differ && info.op_class == OpClass::Elementwise) {
    builder_.SetLocation(at.location);
    values = builder_.AlignRanks(values);
    CheckBuilder(at);
  }
  return values;
}

// `reduced`, the reduction of `operand` over `axes`, with these axes put back with extent 1.
ValId Parser::KeepDims(ValId reduced, ValId operand, const AxisVector& axes) {
  const int rank = builder_.rank(operand);
  AxisVector positions;
  for (int32_t axis : axes) positions.push_back(axis < 0 ? axis + rank : axis);
  for (int axis = 0; axis < rank && axes.empty(); ++axis) positions.push_back(axis);
  std::sort(positions.begin(), positions.end());
  return builder_.Broadcast(reduced, std::move(positions));
}

// The value of `pad`'s new elements.
void Parser::ToFillValue(const KeywordArgument& keyword, DType dtype, Attributes& attributes) {
  const Literal* literal = ToLiteral(keyword, "a literal");
  if (literal == nullptr) return;
  std::optional<Scalar> value = Convert(*literal, dtype, keyword.operand.token);
  if (!value.has_value()) return;
  if (IsFloat(dtype)) {
    attributes.value = value->f;
  } else {
    attributes.int_value = value->i;
  }
}

Operand Parser::CallOp(OpKind op, const Call& call) {
  std::vector<AttributeName> names = AttributeNames(op);
  std::vector<absl::string_view> known;
  for (const AttributeName& name : names) known.push_back(name.name);
  const bool has_axes = (AttributesOf(op) & kAttrAxes) != 0;
  if (has_axes) known.push_back("axis");
  if (IsReduction(ClassOf(op))) known.push_back("keepdims");
  if (op == OpKind::Full) known.push_back("dtype");  // Of a literal.
  CheckKeywords(call, known);
  if (!ok()) return Operand();

  if (std::optional<Operand> literal = Fold(op, call.name, call.operands)) return *literal;
  const KeywordArgument* dtype = FindKeyword(call, "dtype");
  const bool of_literal =
      call.operands.size() == 1 && call.operands[0].kind == Operand::Kind::kLiteral;
  if (op == OpKind::Constant || (op == OpKind::Cast && of_literal && dtype != nullptr)) {
    if (!of_literal || dtype == nullptr) {
      Fail(call.name, "expected a literal and its type, as in constant(1.5, dtype=f32)");
      return Operand();
    }
    const DType type = ToDType(*dtype);
    if (!ok()) return Operand();
    return ValueOperand(Constant(call.operands[0].literal, type, call.operands[0].token),
                        call.name);
  }

  std::vector<Operand> operands = call.operands;
  if (op == OpKind::Full && dtype != nullptr && operands.size() == 1) {
    const DType type = ToDType(*dtype);
    operands[0].value = ToValue(operands[0], type);
    if (ok() && builder_.dtype(operands[0].value) != type) {
      Fail(dtype->name,
           absl::StrCat("found dtype=", DTypeName(type), " for a value of ",
                        DTypeName(builder_.dtype(operands[0].value)), ", expected a cast"));
    }
  }
  std::vector<ValId> values = OperandValues(op, call.name, operands);
  if (!ok()) return Operand();
  Attributes attributes;
  for (const AttributeName& name : names) {
    const KeywordArgument* keyword = FindKeyword(call, name.name);
    if (name.field == kAttrAxes) {
      const KeywordArgument* axis = FindKeyword(call, "axis");
      if (axis != nullptr && keyword != nullptr)
        Fail(axis->name, "found axis beside axes, expected one");
      if (keyword == nullptr) keyword = axis;
    }
    if (keyword == nullptr) {
      // No axes of a reduction means all of them, no step 1, no fill value 0.
      const bool is_optional = name.field == kAttrStep || name.field == kAttrValue ||
                               (name.field == kAttrAxes && IsReduction(ClassOf(op)));
      if (!is_optional) {
        Fail(call.name, absl::StrCat("found no ", name.name, " for ", call.name.text, ", expected ",
                                     name.name, "=..."));
      }
      continue;
    }
    switch (name.field) {
      case kAttrAxes:
        attributes.axes = ToAxes(*keyword);
        break;
      case kAttrSizes:
        attributes.sizes = ToSizes(*keyword);
        break;
      case kAttrStart:
        attributes.start = ToSizes(*keyword);
        break;
      case kAttrStop:
        attributes.stop = ToSizes(*keyword);
        break;
      case kAttrStep:
        attributes.step = ToSizes(*keyword);
        break;
      case kAttrDType:
        attributes.dtype = ToDType(*keyword);
        break;
      case kAttrValue:
        ToFillValue(*keyword, builder_.dtype(values[0]), attributes);
        break;
    }
  }
  if (!ok()) return Operand();
  const KeywordArgument* keepdims = FindKeyword(call, "keepdims");
  const bool keeps_dims = keepdims != nullptr && ToBool(*keepdims);
  AxisVector axes = attributes.axes;
  builder_.SetLocation(call.name.location);
  ValId first = builder_.Op(op, values, std::move(attributes));
  std::vector<ValId> results;
  for (int i = 0; i < GetOpInfo(op).num_results; ++i) {
    results.push_back(FusionBuilder::ResultOf(first, i));
  }
  if (keeps_dims) {
    for (ValId& result : results) result = KeepDims(result, values[0], axes);
  }
  CheckBuilder(call.name);
  return Results(call.name, std::move(results));
}

}  // namespace seam::text
