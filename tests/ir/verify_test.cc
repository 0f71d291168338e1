// Every invariant of a Fusion, broken on purpose and found by name.
#include "ir/verify.h"

#include <functional>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ir/fusion_builder.h"

namespace seam {

// Writes to a Fusion's arrays.
struct FusionTestAccess {
  static auto& env(Fusion& f) { return f.env_; }
  static auto& vals(Fusion& f) { return f.vals_; }
  static auto& exprs(Fusion& f) { return f.exprs_; }
  static auto& domains(Fusion& f) { return f.domains_; }
  static auto& strides(Fusion& f) { return f.strides_; }
  static auto& operands(Fusion& f) { return f.operands_; }
  static auto& attributes(Fusion& f) { return f.attributes_; }
  static auto& names(Fusion& f) { return f.names_; }
  static auto& inputs(Fusion& f) { return f.inputs_; }
  static auto& outputs(Fusion& f) { return f.outputs_; }
  static auto& uses(Fusion& f) { return f.uses_; }
  static auto& uses_begin(Fusion& f) { return f.uses_begin_; }
  static auto& constraints(Fusion& f) { return f.constraints_; }
};

namespace {

using Access = FusionTestAccess;
using ::testing::HasSubstr;

// Values: x 0, y 1, t0 2 (add), t1 3 (amax over axis 1), t2 4 (broadcast), t3..t5 5 to 7 (welford),
// t6 8 (reshape). Expressions: add 0, amax 1, broadcast 2, welford 3, reshape 4.
Fusion Sample() {
  FusionBuilder b("sample");
  const SymInt m = b.Symbol("M"), n = b.Symbol("N");
  const ValId x = b.Input("x", DType::F32, {m, n}, SymVector{n, 1});
  const ValId y = b.Input("y", DType::F32, {m, n});
  const ValId sum = b.Add(x, y);
  b.Output(b.Broadcast(b.Reduce(OpKind::Max, sum, {1}), {1}), SymVector{1, 1});
  b.Welford(sum, {0});
  b.Output(b.Reshape(sum, {m, 4, FloorDiv(n, 4)}));
  return b.Finish().value();
}

TEST(Verify, AcceptsWhatTheBuilderBuilds) {
  const Fusion f = Sample();
  EXPECT_TRUE(Verify(f).ok()) << Verify(f);
}

struct Corruption {
  const char* name;
  std::function<void(Fusion&)> corrupt;
  const char* message;
};

class VerifyFinds : public ::testing::TestWithParam<Corruption> {};

TEST_P(VerifyFinds, TheBrokenInvariant) {
  Fusion f = Sample();
  GetParam().corrupt(f);
  const absl::Status status = Verify(f);
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()), HasSubstr(GetParam().message));
}

SymInt Foreign() {
  static ShapeEnv& env = *new ShapeEnv();
  static const SymInt symbol = env.NewSymbol("Z", 0, 100).value();
  return symbol;
}

const Corruption kCorruptions[] = {
    {"NoEnvironment", [](Fusion& f) { Access::env(f) = nullptr; }, "no ShapeEnv"},
    {"OtherEnvironment",
     [](Fusion& f) {
       static std::vector<std::shared_ptr<ShapeEnv>>& kept =
           *new std::vector<std::shared_ptr<ShapeEnv>>;
       kept.push_back(Access::env(f));  // The extents still point into it.
       Access::env(f) = std::make_shared<ShapeEnv>();
     },
     "belongs to another ShapeEnv"},
    {"ForeignExtent", [](Fusion& f) { Access::domains(f)[0].extent = Foreign(); },
     "value 0: Z belongs to another ShapeEnv"},
    {"ForeignStride", [](Fusion& f) { Access::strides(f)[0] = Foreign(); }, "another ShapeEnv"},
    {"ForeignAttribute", [](Fusion& f) { Access::attributes(f).back().sizes[0] = Foreign(); },
     "another ShapeEnv"},
    {"ForeignConstraint", [](Fusion& f) { Access::constraints(f)[0].condition = Foreign(); },
     "another ShapeEnv"},
    {"InvalidExtent", [](Fusion& f) { Access::domains(f)[0].extent = SymInt::Invalid(); },
     "value 0: an invalid extent"},
    {"NegativeStride", [](Fusion& f) { Access::strides(f)[1] = -1; }, "negative stride"},
    {"NegativeExtent",
     [](Fusion& f) {
       for (IterDomain& axis : Access::domains(f)) axis.extent = -3;
     },
     "extent -3 is not in 0..2^48"},
    {"RankBeyondDomains", [](Fusion& f) { Access::vals(f)[8].rank = 16; },
     "domain is out of range"},
    {"RankAboveLimit", [](Fusion& f) { Access::vals(f)[0].rank = 17; }, "domain is out of range"},
    {"DomainBeyondArray", [](Fusion& f) { Access::vals(f)[0].domain_begin = 1u << 31; },
     "domain is out of range"},
    {"StridesBeyondArray", [](Fusion& f) { Access::vals(f)[0].strides_begin = 99; },
     "strides are out of range"},
    {"StridesOnIntermediate", [](Fusion& f) { Access::vals(f)[2].strides_begin = 0; },
     "strides on a value that is neither"},
    {"NoSuchDType", [](Fusion& f) { Access::vals(f)[0].dtype = static_cast<DType>(99); },
     "no such dtype"},
    {"NameBeyondArray", [](Fusion& f) { Access::vals(f)[0].name = 1000; }, "name is out of range"},
    {"EmptyName", [](Fusion& f) { Access::names(f)[0].clear(); }, "has no name"},
    {"SameName", [](Fusion& f) { Access::vals(f)[1].name = Access::vals(f)[0].name; },
     "two values are named x"},
    {"InputNotListed", [](Fusion& f) { Access::inputs(f).pop_back(); },
     "neither input nor computed"},
    {"InputListedTwice", [](Fusion& f) { Access::inputs(f).push_back(ValId(0)); },
     "input x is listed twice"},
    {"InputIsComputed", [](Fusion& f) { Access::inputs(f).push_back(ValId(2)); },
     "input t0 is computed"},
    {"InputIsNoValue", [](Fusion& f) { Access::inputs(f).push_back(ValId(99)); },
     "an input is no value"},
    {"OutputIsNoValue", [](Fusion& f) { Access::outputs(f).push_back(ValId()); },
     "an output is no value"},
    {"OutputNotMarked", [](Fusion& f) { Access::outputs(f).push_back(ValId(2)); },
     "output t0 is not marked"},
    {"OutputNotListed", [](Fusion& f) { Access::outputs(f).pop_back(); }, "is not listed"},
    {"OutputListedTwice", [](Fusion& f) { Access::outputs(f).push_back(Access::outputs(f)[0]); },
     "is listed twice"},
    {"NoSuchOperation", [](Fusion& f) { Access::exprs(f)[0].op = static_cast<OpKind>(255); },
     "expression 0: no such operation"},
    {"OperandsBeyondArray", [](Fusion& f) { Access::exprs(f)[0].operands_begin = 4000000000u; },
     "operands are out of range"},
    {"OperandIsNoValue", [](Fusion& f) { Access::operands(f)[0] = ValId(99); },
     "expression 0 (add): an operand is no value"},
    {"OperandDefinedLater", [](Fusion& f) { Access::operands(f)[0] = ValId(8); },
     "operand t6 is defined after its use"},
    {"OperandIsOwnResult", [](Fusion& f) { Access::operands(f)[0] = ValId(2); },
     "operand t0 is defined after its use"},
    {"ResultsBeyondArray", [](Fusion& f) { Access::exprs(f)[4].first_result = ValId(9); },
     "results are out of range"},
    {"WrongNumberOfResults", [](Fusion& f) { Access::exprs(f)[3].num_results = 2; },
     "results are out of range"},
    {"ResultOfAnother", [](Fusion& f) { Access::exprs(f)[1].first_result = ValId(2); },
     "expression 1 (amax): its result t0 is defined elsewhere"},
    {"DefinitionDisagrees", [](Fusion& f) { Access::vals(f)[2].definition = ExprId(1); },
     "its result t0 is defined elsewhere"},
    {"AttributesMissing", [](Fusion& f) { Access::exprs(f)[1].attributes = -1; },
     "it has no attributes"},
    {"AttributesTooMany", [](Fusion& f) { Access::exprs(f)[0].attributes = 0; },
     "it has attributes"},
    {"AttributesBeyondArray", [](Fusion& f) { Access::exprs(f)[1].attributes = 99; },
     "attributes are out of range"},
    {"AttributesNotNormal", [](Fusion& f) { Access::attributes(f)[0].axes[0] = -1; },
     "not in normal form"},
    {"AttributesIllegal", [](Fusion& f) { Access::attributes(f)[0].axes[0] = 7; },
     "amax: axis 7 is not in"},
    {"ResultDType", [](Fusion& f) { Access::vals(f)[2].dtype = DType::F64; },
     "its result t0 is f64[M, N], inferred is f32[M, N]"},
    {"ResultExtent",
     [](Fusion& f) { Access::domains(f)[Access::vals(f)[2].domain_begin].extent = 5; },
     "its result t0 is f32[5, N], inferred is f32[M, N]"},
    {"ResultRank", [](Fusion& f) { Access::vals(f)[3].rank = 0; }, "its result t1 is f32[]"},
    {"ConstraintMissing", [](Fusion& f) { Access::constraints(f).clear(); }, "1 <= N is missing"},
    {"ConstraintTwice",
     [](Fusion& f) { Access::constraints(f).push_back(Access::constraints(f)[0]); },
     "is listed twice"},
    {"UseMissing",
     [](Fusion& f) {
       Access::uses(f).pop_back();
       Access::uses_begin(f).back() = static_cast<uint32_t>(Access::uses(f).size());
     },
     "uses"},
    {"UseOfAnother", [](Fusion& f) { Access::uses(f)[0] = ExprId(3); },
     "the uses of x lack expression 0 (add)"},
    {"UseTooMany",
     [](Fusion& f) {
       Access::uses(f).push_back(ExprId(4));
       ++Access::uses_begin(f).back();
     },
     "the uses of t6 list an expression that does not read it"},
    {"UseIndexTooShort", [](Fusion& f) { Access::uses_begin(f).pop_back(); },
     "index of uses has the wrong size"},
    {"UseIndexDescends", [](Fusion& f) { Access::uses_begin(f)[1] = 1000; }, "does not ascend"},
};

INSTANTIATE_TEST_SUITE_P(All, VerifyFinds, ::testing::ValuesIn(kCorruptions),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(Verify, FindsAValueThatItsExpressionDoesNotName) {
  Fusion f = Sample();
  // A ninth value claims to be a second result of the reshape.
  Access::vals(f).push_back(Access::vals(f)[8]);
  Access::vals(f).back().name = static_cast<uint32_t>(Access::names(f).size());
  Access::vals(f).back().is_output = false;
  Access::names(f).push_back("extra");
  EXPECT_THAT(std::string(Verify(f).message()),
              HasSubstr("extra is no result of expression 4 (reshape)"));
  Access::vals(f).back().definition = ExprId(77);
  EXPECT_THAT(std::string(Verify(f).message()), HasSubstr("extra is defined by no expression"));
}

}  // namespace
}  // namespace seam
