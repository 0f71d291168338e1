// The operation table as an array, and the type rules.
#include "ir/ops.h"

#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"

namespace seam {
namespace {

constexpr OpInfo kOps[] = {
#define SEAM_FLOAT(kind, name, arity, ulps, cuda, reference, doc)                        \
  {OpKind::kind, name, OpClass::Elementwise, arity, 1, TypeRule::kSameFloat, ulps, cuda, \
   nullptr,      doc},
#define SEAM_NUMERIC(kind, name, arity, ulps, cuda, cuda_int, reference, reference_int, doc) \
  {OpKind::kind, name, OpClass::Elementwise, arity, 1, TypeRule::kSameNumeric, ulps, cuda,   \
   cuda_int,     doc},
#define SEAM_INTEGER(kind, name, arity, rule, cuda_int, reference_int, doc) \
  {OpKind::kind, name, OpClass::Elementwise, arity, 1, TypeRule::rule, 0, nullptr, cuda_int, doc},
#define SEAM_COMPARE(kind, name, expression, doc)                  \
  {OpKind::kind,       name, OpClass::Elementwise, 2,           1, \
   TypeRule::kCompare, 0,    #expression,          #expression, doc},
#define SEAM_PREDICATE(kind, name, cuda, reference, doc) \
  {OpKind::kind, name, OpClass::Elementwise, 1, 1, TypeRule::kPredicate, 0, cuda, nullptr, doc},
#define SEAM_LOGICAL(kind, name, arity, expression, doc)                               \
  {OpKind::kind, name, OpClass::Elementwise, arity, 1, TypeRule::kLogical, 0, nullptr, \
   #expression,  doc},
#define SEAM_MOVE(kind, name, arity, rule, expression, doc)    \
  {OpKind::kind,   name, OpClass::Elementwise, arity,       1, \
   TypeRule::rule, 0,    #expression,          #expression, doc},
#define SEAM_OP(kind, name, op_class, operands, results, rule, ulps, doc) \
  {OpKind::kind,   name, OpClass::op_class, operands, results,            \
   TypeRule::rule, ulps, nullptr,           nullptr,  doc},
#include "ir/ops.def"
};
static_assert(sizeof(kOps) / sizeof(kOps[0]) == kNumOps);

// The values of an operand, or of a set of operands that must agree, a rule admits.
bool RuleTakes(TypeRule rule, DType dtype) {
  switch (rule) {
    case TypeRule::kSameFloat:
    case TypeRule::kPredicate:
    case TypeRule::kRandom:
      return IsFloat(dtype);
    case TypeRule::kSameNumeric:
    case TypeRule::kIndexOfNumeric:
      return IsFloat(dtype) || IsInteger(dtype);
    case TypeRule::kSameInteger:
      return IsInteger(dtype);
    case TypeRule::kSameIntegerOrBool:
      return !IsFloat(dtype);
    case TypeRule::kLogical:
      return dtype == DType::Bool;
    case TypeRule::kStatistics:
      return dtype == DType::F32 || dtype == DType::F64;
    case TypeRule::kSameAny:
    case TypeRule::kTotal:
    case TypeRule::kCompare:
    case TypeRule::kWhere:
    case TypeRule::kIndexed:
    case TypeRule::kDeclared:
      return true;
  }
  return false;
}

absl::string_view RuleNoun(TypeRule rule) {
  switch (rule) {
    case TypeRule::kSameFloat:
    case TypeRule::kPredicate:
    case TypeRule::kRandom:
      return "floats";
    case TypeRule::kSameNumeric:
    case TypeRule::kIndexOfNumeric:
      return "floats and integers";
    case TypeRule::kSameInteger:
      return "integers";
    case TypeRule::kSameIntegerOrBool:
      return "integers and bool";
    case TypeRule::kLogical:
      return "bool";
    case TypeRule::kStatistics:
      return "f32 and f64";
    default:
      return "any dtype";
  }
}

}  // namespace

absl::string_view OpClassName(OpClass op_class) {
  static constexpr const char* kNames[] = {"elementwise", "cast",          "reduction", "welford",
                                           "broadcast",   "view",          "factory",   "random",
                                           "indexing",    "concat",        "library",   "template",
                                           "update",      "communication", "barrier"};
  return kNames[static_cast<int>(op_class)];
}

const OpInfo& GetOpInfo(OpKind kind) { return kOps[static_cast<int>(kind)]; }

std::optional<OpKind> FindOp(absl::string_view name) {
  static const auto& index = *[] {
    auto* map = new absl::flat_hash_map<absl::string_view, OpKind>;
    for (const OpInfo& op : kOps) map->emplace(op.name, op.kind);
    return map;
  }();
  const auto it = index.find(name);
  if (it == index.end()) return std::nullopt;
  return it->second;
}

absl::Span<const OpInfo> AllOps() { return kOps; }

bool TakesDType(OpKind kind, DType dtype) { return RuleTakes(GetOpInfo(kind).type_rule, dtype); }

absl::StatusOr<DType> InferDType(OpKind kind, absl::Span<const DType> operands) {
  const OpInfo& op = GetOpInfo(kind);
  if (op.num_operands < 0 ? operands.empty()
                          : static_cast<int>(operands.size()) != op.num_operands) {
    return absl::InvalidArgumentError(absl::StrCat(
        op.name, ": ", operands.size(), " operand", operands.size() == 1 ? "" : "s", " given, ",
        op.num_operands < 0 ? "one or more" : absl::StrCat(op.num_operands), " expected"));
  }
  const auto expect = [&](size_t i, bool ok, absl::string_view wanted) {
    if (ok) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(op.name, ": operand ", i + 1, " is ",
                                                   DTypeName(operands[i]), ", expected ", wanted));
  };
  // Operands from `first` on must agree and be of a dtype that the rule takes.
  const auto same = [&](size_t first) -> absl::StatusOr<DType> {
    if (!RuleTakes(op.type_rule, operands[first])) {
      return absl::InvalidArgumentError(absl::StrCat(op.name, ": takes ", RuleNoun(op.type_rule),
                                                     ", operand ", first + 1, " is ",
                                                     DTypeName(operands[first])));
    }
    for (size_t i = first + 1; i < operands.size(); ++i) {
      if (operands[i] != operands[first]) {
        return absl::InvalidArgumentError(absl::StrCat(
            op.name, ": operand ", first + 1, " is ", DTypeName(operands[first]), " but operand ",
            i + 1, " is ", DTypeName(operands[i]), "; cast one of them"));
      }
    }
    return operands[first];
  };
  switch (op.type_rule) {
    case TypeRule::kSameFloat:
    case TypeRule::kSameNumeric:
    case TypeRule::kSameInteger:
    case TypeRule::kSameIntegerOrBool:
    case TypeRule::kSameAny:
    case TypeRule::kLogical:
    case TypeRule::kStatistics:
      return same(0);
    case TypeRule::kCompare:
    case TypeRule::kPredicate: {
      const absl::StatusOr<DType> common = same(0);
      if (!common.ok()) return common;
      return DType::Bool;
    }
    case TypeRule::kTotal:
      return IsFloat(operands[0]) ? operands[0] : DType::I64;
    case TypeRule::kIndexOfNumeric: {
      const absl::StatusOr<DType> common = same(0);
      if (!common.ok()) return common;
      return DType::I64;
    }
    case TypeRule::kWhere: {
      const absl::Status condition = expect(0, operands[0] == DType::Bool, "bool");
      if (!condition.ok()) return condition;
      return same(1);
    }
    case TypeRule::kIndexed: {
      const absl::Status index = expect(1, IsInteger(operands[1]), "an integer");
      if (!index.ok()) return index;
      return operands[0];
    }
    case TypeRule::kDeclared:
    case TypeRule::kRandom:
      break;
  }
  return absl::InvalidArgumentError(
      absl::StrCat(op.name, ": the result's dtype does not follow from the operands'"));
}

}  // namespace seam
