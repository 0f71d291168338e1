// The operations of Seam: what the table in ir/ops.def says, as data.
//
// Passes ask an operation's class, never its name. Semantics of every operation (NaN, infinity,
// signed zero, overflow, division by zero, rounding) are stated in the table's header; their
// evaluation on the host is ir/op_semantics.h, their CUDA spelling runtime/codegen/prelude.h.
//
// Thread-safety: immutable after static initialisation.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ir/dtype.h"

namespace seam {

enum class OpKind : uint8_t {
#define SEAM_FLOAT(kind, ...) kind,
#define SEAM_NUMERIC(kind, ...) kind,
#define SEAM_INTEGER(kind, ...) kind,
#define SEAM_COMPARE(kind, ...) kind,
#define SEAM_PREDICATE(kind, ...) kind,
#define SEAM_LOGICAL(kind, ...) kind,
#define SEAM_MOVE(kind, ...) kind,
#define SEAM_OP(kind, ...) kind,
#include "ir/ops.def"
};

inline constexpr int kNumOps = 0
#define SEAM_FLOAT(...) +1
#define SEAM_NUMERIC(...) +1
#define SEAM_INTEGER(...) +1
#define SEAM_COMPARE(...) +1
#define SEAM_PREDICATE(...) +1
#define SEAM_LOGICAL(...) +1
#define SEAM_MOVE(...) +1
#define SEAM_OP(...) +1
#include "ir/ops.def"
    ;

enum class OpClass : uint8_t {
  Elementwise,
  Cast,
  Reduction,
  Welford,
  Broadcast,
  View,
  Factory,
  Random,
  Indexing,
  Concat,
  Library,
  Template,
  Update,
  Communication,
  Barrier,
};
absl::string_view OpClassName(OpClass op_class);
inline bool IsReduction(OpClass c) { return c == OpClass::Reduction || c == OpClass::Welford; }

// Which operand dtypes an operation takes and what it returns. No operation promotes: operands that
// must agree and do not are an error.
enum class TypeRule : uint8_t {
  kSameFloat,          // T.. -> T, T a float
  kSameNumeric,        // T.. -> T, T a float or an integer
  kSameInteger,        // T.. -> T, T an integer
  kSameIntegerOrBool,  // T.. -> T, T an integer or bool
  kSameAny,            // T.. -> T
  kCompare,            // T, T -> bool, any T
  kPredicate,          // T -> bool, T a float
  kLogical,            // bool.. -> bool
  kWhere,              // bool, T, T -> T
  kTotal,              // T -> T, T a float; an integer or bool -> i64
  kIndexOfNumeric,     // T -> i64, T a float or an integer
  kStatistics,         // T -> T, T, T; T is f32 or f64
  kIndexed,            // T, integer -> T
  kDeclared,           // The expression declares its result's dtype.
  kRandom,             // i64 seed, i64 offset -> a declared float
};

struct OpInfo {
  OpKind kind;
  const char* name;  // In the text form.
  OpClass op_class;
  int num_operands;  // -1: one or more.
  int num_results;
  TypeRule type_rule;
  // Largest error of the emitted CUDA against the exact result of the operation on its (already
  // rounded) operands, in units of the last place of f32 for dtypes computed in f32 (before
  // rounding to a narrower dtype), of f64 for f64. 0: bit for bit the reference's result.
  // Reductions carry 0; their error comes from the order of summation, see ir/reference/envelope.h.
  double max_ulps;
  // CUDA text with `a`, `b`, `c` for the operands and `@` for the suffix of float functions and
  // literals
  // ("f" for f32, nothing for f64); in `cuda_integer`, `width` stands for the dtype's width in
  // bits. Null where the operation has none.
  const char* cuda_float;
  const char* cuda_integer;
  const char* doc;
};

const OpInfo& GetOpInfo(OpKind kind);
std::optional<OpKind> FindOp(absl::string_view name);
absl::Span<const OpInfo> AllOps();  // In the order of OpKind.

inline absl::string_view OpName(OpKind kind) { return GetOpInfo(kind).name; }
inline OpClass ClassOf(OpKind kind) { return GetOpInfo(kind).op_class; }

// The dtype of the operation's results (all results have the same one) for these operand dtypes, in
// operand order. Errors: InvalidArgument for a wrong count, for a dtype the operation does not
// take, or for operands that must agree and do not (naming both); also for kDeclared and kRandom,
// whose result no operand fixes.
absl::StatusOr<DType> InferDType(OpKind kind, absl::Span<const DType> operands);

// Whether the operation's data operands may have dtype `dtype`. (For `where` that is the chosen
// operands' dtype, for indexing operations the source's, for kRandom and kDeclared the result's.)
bool TakesDType(OpKind kind, DType dtype);

}  // namespace seam
