// Writes what the reference makes of every operation of the table, for tests/ir/numpy_check.py to
// judge.
//
// The format, on standard output: for each case one line of JSON, then the elements of its operands
// and its results, 8 bytes each (doubles for float dtypes, int64 otherwise), in row-major order.
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ir/fusion_builder.h"
#include "ir/reference/interpreter.h"
#include "tests/support/host_tensors.h"
#include "tests/support/op_samples.h"

namespace seam {
namespace {

using testing::Random;

std::string TypeText(DType dtype, absl::Span<const int64_t> shape) {
  return absl::StrCat("{\"dtype\": \"", DTypeName(dtype), "\", \"shape\": [",
                      absl::StrJoin(shape, ", "), "]}");
}

void WriteElements(absl::Span<const Scalar> elements) {
  std::fwrite(elements.data(), sizeof(Scalar), elements.size(), stdout);
}

void WriteHeader(absl::string_view op, absl::string_view attributes,
                 absl::Span<const std::string> operands, absl::Span<const std::string> results) {
  const std::string line = absl::StrCat("{\"op\": \"", op, "\", \"attributes\": {", attributes,
                                        "}, \"operands\": [", absl::StrJoin(operands, ", "),
                                        "], \"results\": [", absl::StrJoin(results, ", "), "]}\n");
  std::fwrite(line.data(), 1, line.size(), stdout);
}

void DumpElementwise() {
  for (const testing::OpSample& sample : testing::AllOpSamples()) {
    std::vector<std::string> operands;
    const int64_t n = static_cast<int64_t>(sample.operands[0].size());
    for (DType dtype : sample.operand_dtypes) operands.push_back(TypeText(dtype, {n}));
    WriteHeader(OpName(sample.kind), "", operands, {TypeText(sample.out, {n})});
    for (const auto& operand : sample.operands) WriteElements(operand);
    WriteElements(sample.Reference());
  }
}

std::string AttributeText(OpKind op, const Attributes& attributes) {
  const auto list = [](const SymVector& values) {
    return absl::StrCat(
        "[",
        absl::StrJoin(values, ", ",
                      [](std::string* s, SymInt e) { absl::StrAppend(s, e.ToString()); }),
        "]");
  };
  const uint32_t fields = AttributesOf(op);
  std::vector<std::string> parts;
  if (fields & kAttrAxes) {
    parts.push_back(absl::StrCat("\"axes\": [", absl::StrJoin(attributes.axes, ", "), "]"));
  }
  if (fields & kAttrSizes) parts.push_back(absl::StrCat("\"sizes\": ", list(attributes.sizes)));
  if (fields & kAttrStart) parts.push_back(absl::StrCat("\"start\": ", list(attributes.start)));
  if (fields & kAttrStop) parts.push_back(absl::StrCat("\"stop\": ", list(attributes.stop)));
  if (fields & kAttrStep) parts.push_back(absl::StrCat("\"step\": ", list(attributes.step)));
  if (fields & kAttrValue) {
    parts.push_back(
        absl::StrCat("\"value\": ", attributes.value, ", \"int_value\": ", attributes.int_value));
  }
  return absl::StrJoin(parts, ", ");
}

// Interprets the graph of this one expression on these operands and writes the case. The process
// fails if the graph is refused, which this program's cases are not.
void DumpExpression(OpKind op, const Attributes& attributes,
                    const std::vector<HostTensor>& operands) {
  FusionBuilder b("case");
  std::vector<ValId> vals;
  for (const HostTensor& operand : operands) {
    vals.push_back(b.Input(absl::StrCat("x", vals.size()), operand.dtype,
                           SymVector(operand.shape.begin(), operand.shape.end())));
  }
  const ValId first = b.Op(op, vals, attributes);
  for (int r = 0; r < GetOpInfo(op).num_results; ++r) b.Output(FusionBuilder::ResultOf(first, r));
  const auto fusion = b.Finish();
  const auto results = fusion.ok() ? Interpret(*fusion, {}, operands) : fusion.status();
  if (!results.ok()) {
    std::fprintf(stderr, "%s\n", results.status().ToString().c_str());
    std::exit(1);
  }
  std::vector<std::string> operand_types, result_types;
  for (const HostTensor& t : operands) operand_types.push_back(TypeText(t.dtype, t.shape));
  for (const HostTensor& t : *results) result_types.push_back(TypeText(t.dtype, t.shape));
  WriteHeader(OpName(op), AttributeText(op, fusion->attributes(ExprId(0))), operand_types,
              result_types);
  for (const HostTensor& t : operands) WriteElements(t.ToScalars());
  for (const HostTensor& t : *results) WriteElements(t.ToScalars());
}

// Random elements with NaN, infinities, zeros of both signs and ties among them.
HostTensor WithSpecialValues(DType dtype, std::vector<int64_t> shape, uint64_t seed) {
  HostTensor tensor = Random(dtype, shape, seed);
  if (!IsFloat(dtype)) return tensor;
  std::vector<Scalar> elements = tensor.ToScalars();
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const double special[] = {kInf, -kInf, 0.0, -0.0, std::numeric_limits<double>::quiet_NaN()};
  for (size_t i = 0; i < elements.size(); i += 7) {
    elements[i].f = RoundToDType(dtype, special[i / 7 * 3 % 11 % 5]);
  }
  tensor.FromScalars(elements);
  return tensor;
}

void DumpReductions() {
  const std::vector<int64_t> shape = {5, 6, 7};
  for (OpKind op : {OpKind::Sum, OpKind::Prod, OpKind::Max, OpKind::Min, OpKind::Any, OpKind::All,
                    OpKind::ArgMax, OpKind::ArgMin, OpKind::Welford}) {
    for (int d = 0; d < kNumDTypes; ++d) {
      const DType dtype = static_cast<DType>(d);
      if (!TakesDType(op, dtype)) continue;
      const bool one_axis = op == OpKind::ArgMax || op == OpKind::ArgMin;
      for (const AxisVector& axes :
           {AxisVector{0}, AxisVector{1}, AxisVector{2}, AxisVector{0, 2}, AxisVector{0, 1, 2}}) {
        if (one_axis && axes.size() > 1) continue;
        Attributes attributes;
        attributes.axes = axes;
        DumpExpression(op, attributes, {Random(dtype, shape, 1)});
        DumpExpression(op, attributes, {WithSpecialValues(dtype, shape, 2)});
      }
    }
  }
}

void DumpDataMovement() {
  for (int d = 0; d < kNumDTypes; ++d) {
    const DType dtype = static_cast<DType>(d);
    const HostTensor x = WithSpecialValues(dtype, {4, 1, 6}, 3);
    const Attributes none;
    Attributes outer;
    outer.axes = {0, 2};
    DumpExpression(OpKind::Broadcast, outer, {x});
    DumpExpression(OpKind::Flip, outer, {x});
    Attributes order;
    order.axes = {2, 0, 1};
    DumpExpression(OpKind::Permute, order, {x});
    Attributes middle;
    middle.axes = {1};
    DumpExpression(OpKind::Squeeze, middle, {x});
    Attributes shape;
    shape.sizes = {3, 8};
    DumpExpression(OpKind::Reshape, shape, {x});
    DumpExpression(OpKind::Full, shape, {Random(dtype, {}, 7)});
    Attributes expanded;
    expanded.sizes = {4, 5, 6};
    DumpExpression(OpKind::Expand, expanded, {x});
    Attributes range;
    range.start = {1, 0, 0};
    range.stop = {4, 1, 6};
    range.step = {2, 1, 4};
    DumpExpression(OpKind::Slice, range, {x});
    Attributes margins;
    margins.start = {0, 2, 1};
    margins.stop = {3, 0, 0};
    margins.value = IsFloat(dtype) ? 1.5 : 0;
    margins.int_value = IsFloat(dtype) ? 0 : 1;
    DumpExpression(OpKind::Pad, margins, {x});
    Attributes last;
    last.axes = {2};
    DumpExpression(OpKind::Cat, last, {x, Random(dtype, {4, 1, 3}, 4), x});
    HostTensor index = HostTensor::Make(DType::I64, {4, 1, 9}).value();
    FillRandomIntegers(index, 5, -8, 8);
    DumpExpression(OpKind::Gather, last, {x, index});
    HostTensor positions = HostTensor::Make(DType::I32, {9}).value();
    FillRandomIntegers(positions, 6, -8, 8);
    DumpExpression(OpKind::IndexSelect, last, {x, positions});
    DumpExpression(OpKind::SegmentSet, none, {x});
    if (IsFloat(dtype)) {
      DumpExpression(OpKind::Matmul, none,
                     {Random(dtype, {2, 3, 9}, 8), Random(dtype, {2, 9, 5}, 9)});
    }
    Attributes literal;
    literal.dtype = dtype;
    literal.value = IsFloat(dtype) ? 0.1 : 0;
    literal.int_value = IsFloat(dtype) ? 0 : 1;
    DumpExpression(OpKind::Constant, literal, {});
    if (dtype == DType::Bool) continue;
    Attributes size;
    size.dtype = dtype;
    size.sizes = {300};
    DumpExpression(OpKind::Size, size, {});
    Attributes iota;
    iota.dtype = dtype;
    iota.sizes = {3, 300};
    iota.axes = {1};
    DumpExpression(OpKind::Iota, iota, {});
  }
}

void DumpRandom() {
  for (OpKind op : {OpKind::RandomUniform, OpKind::RandomNormal}) {
    for (DType dtype :
         {DType::F64, DType::F32, DType::F16, DType::BF16, DType::F8E4M3, DType::F8E5M2}) {
      for (int64_t seed : {int64_t{0}, int64_t{-1}, int64_t{0x123456789abcdef}}) {
        HostTensor key = HostTensor::Make(DType::I64, {}).value(), offset = key;
        key.set({}, IntScalar(seed));
        offset.set({}, IntScalar(seed / 3 + 5));
        Attributes a;
        a.dtype = dtype;
        a.sizes = {7, 31};
        DumpExpression(op, a, {key, offset});
      }
    }
  }
}

}  // namespace
}  // namespace seam

int main() {
  seam::DumpElementwise();
  seam::DumpReductions();
  seam::DumpDataMovement();
  seam::DumpRandom();
  return std::fflush(stdout) == 0 ? 0 : 1;
}
