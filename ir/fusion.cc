// The read side of a Fusion: what is derived from its flat arrays on demand.
#include "ir/fusion.h"

#include "absl/strings/str_cat.h"

namespace seam {

SymInt TensorType::numel() const {
  SymInt product = 1;
  for (const IterDomain& axis : domain) product = product * axis.extent;
  return product;
}

std::string ShapeToString(absl::Span<const SymInt> sizes) {
  std::string text = "[";
  for (size_t i = 0; i < sizes.size(); ++i) {
    absl::StrAppend(&text, i == 0 ? "" : ", ", sizes[i].ToString());
  }
  text += ']';
  return text;
}

std::string TensorType::ToString() const {
  SymVector sizes;
  for (const IterDomain& axis : domain) sizes.push_back(axis.extent);
  return absl::StrCat(DTypeName(dtype), ShapeToString(sizes));
}

uint32_t AttributesOf(OpKind op) {
  switch (op) {
    case OpKind::Reshape:
    case OpKind::Expand:
    case OpKind::Full:
      return kAttrSizes;
    case OpKind::Slice:
      return kAttrStart | kAttrStop | kAttrStep;
    case OpKind::Pad:
      return kAttrStart | kAttrStop | kAttrValue;
    case OpKind::Constant:
      return kAttrDType | kAttrValue;
    case OpKind::Size:
      return kAttrSizes | kAttrDType;
    case OpKind::Iota:
      return kAttrAxes | kAttrSizes | kAttrDType;
    case OpKind::Squeeze:
    case OpKind::Permute:
    case OpKind::Flip:
    case OpKind::Cat:
    case OpKind::Gather:
    case OpKind::IndexSelect:
      return kAttrAxes;
    default:
      break;
  }
  switch (ClassOf(op)) {
    case OpClass::Cast:
      return kAttrDType;
    case OpClass::Random:
      return kAttrSizes | kAttrDType;
    case OpClass::Reduction:
    case OpClass::Welford:
    case OpClass::Broadcast:
      return kAttrAxes;
    default:
      return 0;
  }
}

TensorType Fusion::type(ValId v) const {
  TensorType type;
  type.dtype = dtype(v);
  absl::Span<const IterDomain> axes = domain(v);
  type.domain.assign(axes.begin(), axes.end());
  return type;
}

SymVector Fusion::strides(ValId v) const {
  const Val& val = vals_[v.index()];
  if (val.strides_begin < 0) return ContiguousStrides(domain(v));
  auto begin = strides_.begin() + val.strides_begin;
  return SymVector(begin, begin + val.rank);
}

const Attributes& Fusion::attributes(ExprId e) const {
  static const Attributes& none = *new Attributes();
  int32_t index = exprs_[e.index()].attributes;
  return index < 0 ? none : attributes_[index];
}

// Counts, then fills: two passes over the operands. An expression that reads a value twice counts
// once.
void Fusion::IndexUses() {
  const auto for_each_use = [&](auto&& visit) {
    for (uint32_t i = 0; i < num_exprs(); ++i) {
      for (ValId v : operands(ExprId(i))) visit(v, ExprId(i));
    }
  };
  std::vector<ExprId> last(num_vals());
  uses_begin_.assign(num_vals() + 1, 0);
  for_each_use([&](ValId v, ExprId e) {
    if (last[v.index()] == e) return;
    last[v.index()] = e;
    ++uses_begin_[v.index() + 1];
  });
  for (uint32_t v = 0; v < num_vals(); ++v) uses_begin_[v + 1] += uses_begin_[v];
  uses_.resize(uses_begin_.back());
  std::vector<uint32_t> next(uses_begin_.begin(), uses_begin_.end() - 1);
  last.assign(num_vals(), ExprId());
  for_each_use([&](ValId v, ExprId e) {
    if (last[v.index()] == e) return;
    last[v.index()] = e;
    uses_[next[v.index()]++] = e;
  });
}

namespace {

template <typename T>
int64_t HeapBytes(const std::vector<T>& v) {
  return static_cast<int64_t>(v.capacity() * sizeof(T));
}

template <typename T>
int64_t HeapBytes(const absl::InlinedVector<T, 4>& v) {
  return v.capacity() > 4 ? static_cast<int64_t>(v.capacity() * sizeof(T)) : 0;
}

int64_t HeapBytes(const std::string& s) {
  return s.capacity() > std::string().capacity() ? static_cast<int64_t>(s.capacity() + 1) : 0;
}

}  // namespace

int64_t Fusion::MemoryBytes() const {
  int64_t bytes = static_cast<int64_t>(sizeof(Fusion)) + HeapBytes(name_) + HeapBytes(vals_) +
                  HeapBytes(exprs_) + HeapBytes(domains_) + HeapBytes(strides_) +
                  HeapBytes(operands_) + HeapBytes(attributes_) + HeapBytes(names_) +
                  HeapBytes(inputs_) + HeapBytes(outputs_) + HeapBytes(uses_) +
                  HeapBytes(uses_begin_) + HeapBytes(constraints_);
  for (const std::string& name : names_) bytes += HeapBytes(name);
  for (const Guard& guard : constraints_) bytes += HeapBytes(guard.reason);
  for (const Attributes& a : attributes_) {
    bytes += HeapBytes(a.axes) + HeapBytes(a.sizes) + HeapBytes(a.start) + HeapBytes(a.stop) +
             HeapBytes(a.step);
  }
  return bytes;
}

SymVector ContiguousStrides(absl::Span<const IterDomain> domain) {
  SymVector strides(domain.size(), SymInt(1));
  for (size_t i = domain.size(); i-- > 1;) strides[i - 1] = strides[i] * domain[i].extent;
  return strides;
}

}  // namespace seam
