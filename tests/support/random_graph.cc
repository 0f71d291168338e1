// Extents, inputs and outputs of random graphs, and what their steps share.
#include "tests/support/random_graph.h"

#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ir/status.h"
#include "tests/support/graph_generator.h"

namespace seam::testing {

GraphGenerator::GraphGenerator(uint64_t seed, const RandomGraphOptions& options)
    : dice_(seed),
      options_(options),
      max_elements_(options.max_elements),
      b_(absl::StrCat("random_", seed)) {}

absl::StatusOr<RandomGraph> GraphGenerator::Run() {
  int steps = options_.min_exprs + dice_.Below(options_.max_exprs - options_.min_exprs + 1);
  if (dice_.Chance(0.03)) {  // Few long rows and many short ones take schedules of their own.
    max_elements_ *= 20;
    steps = std::min(steps, 4);
  }
  MakeExtents();
  for (int inputs = 1 + dice_.Below(3); inputs > 0; --inputs) AddInput();
  for (int i = 0; i < steps && b_.status().ok(); ++i) Step();
  AddOutputs();
  SEAM_ASSIGN_OR_RETURN(Fusion fusion, b_.Finish());
  return RandomGraph{std::move(fusion), std::move(sizes_[0]), std::move(sizes_[1])};
}

void GraphGenerator::Step() {
  if (options_.square && dice_.Chance(0.15)) return AxesThatMeet();
  const int kind = dice_.Below(100);
  if (kind < 36) return Elementwise();
  if (kind < 41) return Cast();
  if (kind < 55) return Reduce();
  if (kind < 63) return Composite();
  if (kind < 84) return View();
  if (kind < 88) return Factory();
  if (kind < 93) return Lookup();
  if (kind < 95) return Barrier();
  if (kind < 97) return AddInput();
  return options_.library ? Product() : Elementwise();
}

// --- Extents ---

int64_t GraphGenerator::AnySize() {
  static const std::vector<int64_t> common = {2,  3,  4,  5,   6,   7,   8,   9,  12,
                                              15, 16, 17, 24,  31,  32,  33,  40, 63,
                                              64, 65, 96, 100, 127, 128, 130, 257};
  static const std::vector<int64_t> large = {512,  1000, 1024, 1025,  2048,
                                             2050, 4096, 4099, 16384, 20000};
  if (dice_.Chance(0.04)) return 0;
  if (dice_.Chance(0.08)) return 1;
  return dice_.Chance(max_elements_ > options_.max_elements ? 0.5 : 0.06) ? dice_.Of(large)
                                                                          : dice_.Of(common);
}

GraphGenerator::Extent GraphGenerator::NewSymbol(const std::string& name,
                                                 std::array<int64_t, kNumSizes> values,
                                                 int64_t lo) {
  for (int k = 0; k < kNumSizes; ++k) sizes_[k][name] = values[k];
  return {b_.Symbol(name, lo, 1 << 20), values};
}

void GraphGenerator::MakeExtents() {
  const int n = options_.square ? 1 : 2 + dice_.Below(3);
  for (int i = 0; i < n; ++i) {
    if (!dice_.Chance(options_.symbolic)) {
      extents_.push_back(Extent::Constant(AnySize()));
      continue;
    }
    const std::string name = absl::StrCat("S", i);
    const int64_t value = AnySize();
    // The other size is often of another order of magnitude, or leaves another remainder.
    const int64_t other =
        dice_.Chance(0.5) ? AnySize() : std::max<int64_t>(0, value + dice_.Below(5) - 2);
    const int64_t lowest = std::min(value, other);
    // Multiples of a constant can be split, or read in whole vectors.
    const int64_t factor = dice_.Chance(0.2) ? dice_.Of<int64_t>({2, 3, 4, 8}) : 1;
    if (factor > 1) {
      const auto down = [&](int64_t size) { return size / factor; };
      extents_.push_back(
          NewSymbol(name, {down(value), down(other)}, lowest < factor ? 0 : dice_.Below(2)) *
          Extent::Constant(factor));
    } else {
      extents_.push_back(
          NewSymbol(name, {value, other}, lowest == 0 ? 0 : dice_.Below(lowest == 1 ? 2 : 3)));
      if (dice_.Chance(0.1))
        extents_.push_back(extents_.back() + Extent::Constant(1 + dice_.Below(3)));
    }
  }
}

GraphGenerator::Extent GraphGenerator::Evaluate(SymInt extent) const {
  Extent result{extent, {}};
  for (int k = 0; k < kNumSizes; ++k) {
    result.values[k] = seam::Evaluate(extent, [&](const SymNode* symbol) -> std::optional<int64_t> {
                         return sizes_[k].at(std::string(symbol->name));
                       }).value_or(0);
  }
  return result;
}

bool GraphGenerator::Fits(const Shape& shape) const {
  for (int k = 0; k < kNumSizes; ++k) {
    int64_t n = 1;
    for (const Extent& e : shape) n *= std::max<int64_t>(e.values[k], 1);
    if (n > max_elements_) return false;
  }
  return shape.size() <= 6;
}

SymVector GraphGenerator::Syms(const Shape& shape) {
  SymVector s;
  for (const Extent& e : shape) s.push_back(e.extent);
  return s;
}

bool GraphGenerator::SameShape(const Shape& a, const Shape& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Extent& x, const Extent& y) { return x.extent.is_same(y.extent); });
}

DType GraphGenerator::AnyDType() {
  // f32 as often as all the others.
  return dice_.Chance(0.5) ? DType::F32 : static_cast<DType>(dice_.Below(kNumDTypes));
}

DType GraphGenerator::AnyFloat() {
  return dice_.Chance(0.5)
             ? DType::F32
             : dice_.Of<DType>({DType::F64, DType::F16, DType::BF16, DType::F8E4M3, DType::F8E5M2});
}

// --- Inputs and outputs ---

// Strides that leave no two elements of a written tensor in one place: dense in another order,
// sometimes with gaps; of a tensor that is only read also repetitions.
std::optional<SymVector> GraphGenerator::AnyStrides(const Shape& shape, bool written) {
  if (shape.empty() || !dice_.Chance(0.25)) return std::nullopt;
  std::vector<size_t> order(shape.size());
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[dice_.Below(static_cast<int>(order.size()))], order.back());
  SymVector strides(shape.size(), SymInt(0));
  Extent stride = Extent::Constant(dice_.Chance(0.15) ? 2 : 1);
  for (size_t k = order.size(); k-- > 0;) {
    const Extent& extent = shape[order[k]];
    if (!written && dice_.Chance(0.06)) continue;  // Stride 0.
    strides[order[k]] = stride.extent;
    const Extent least{
        Max(extent.extent, 1),
        {std::max<int64_t>(extent.values[0], 1), std::max<int64_t>(extent.values[1], 1)}};
    stride = stride * least;
    if (dice_.Chance(0.2)) stride = stride + Extent::Constant(dice_.Chance(0.5) ? 3 : 8);
    if (!written && dice_.Chance(0.1)) {
      // What the caller's memory has: a symbol of its own.
      const std::string name = absl::StrCat("L", sizes_[0].size());
      stride = NewSymbol(name,
                         {stride.values[0] + dice_.Below(9), stride.values[1] + dice_.Below(9)}, 0);
    }
  }
  return strides;
}

ValId GraphGenerator::NewInput(DType dtype, const Shape& shape, bool strided) {
  std::optional<SymVector> strides;
  if (strided) strides = AnyStrides(shape, /*written=*/false);
  inputs_.push_back(b_.Input(absl::StrCat("in", inputs_.size()), dtype, Syms(shape), strides));
  if (strides && std::find(strides->begin(), strides->end(), SymInt(0)) != strides->end()) {
    repeating_.push_back(inputs_.back());
  }
  return inputs_.back();
}

void GraphGenerator::AddInput() {
  Shape shape;
  const int rank = dice_.Below(8) == 0 ? 0 : 1 + dice_.Below(4);
  for (int d = 0; d < rank; ++d) {
    shape.push_back(dice_.Chance(0.05) ? Extent::Constant(1) : dice_.Of(extents_));
    if (!Fits(shape)) shape.pop_back();
  }
  Add(NewInput(AnyDType(), shape, /*strided=*/true));
}

void GraphGenerator::AddOutputs() {
  const int n = static_cast<int>(values_.size());
  const int outputs = 1 + dice_.Below(4);
  // An input whose elements share places cannot be returned.
  const auto repeats = [&](ValId v) {
    return std::find(repeating_.begin(), repeating_.end(), v) != repeating_.end();
  };
  std::vector<Value> chosen;
  for (int i = n; chosen.empty() && i-- > 0;) {
    if (!repeats(values_[i].id)) chosen.push_back(values_[i]);
  }
  for (int i = 1; i < outputs; ++i) {
    const Value v = Pick();
    const auto same = [&](const Value& other) { return other.id == v.id; };
    if (std::none_of(chosen.begin(), chosen.end(), same) && !repeats(v.id)) chosen.push_back(v);
  }
  for (const Value& v : chosen) {
    const bool input = std::find(inputs_.begin(), inputs_.end(), v.id) != inputs_.end();
    b_.Output(v.id, input ? std::nullopt : AnyStrides(v.shape, /*written=*/true));
  }
}

// --- Values ---

GraphGenerator::Value GraphGenerator::Add(ValId id) {
  Value value{id, {}};
  for (int d = 0; d < b_.rank(id); ++d) value.shape.push_back(Evaluate(b_.extent(id, d)));
  if (id.valid()) values_.push_back(value);
  return value;
}

GraphGenerator::Value GraphGenerator::Pick() {
  const int n = static_cast<int>(values_.size());
  return dice_.Chance(0.5) ? values_[n - 1 - dice_.Below(std::min(n, 3))] : values_[dice_.Below(n)];
}

GraphGenerator::Value GraphGenerator::PickRanked() {
  Value value = Pick();
  for (int attempt = 0; attempt < 4 && value.shape.empty(); ++attempt) value = Pick();
  return value;
}

ValId GraphGenerator::Scalar(double value, DType dtype) {
  if (IsFloat(dtype)) return b_.Constant(value, dtype);
  return b_.IntConstant(
      dtype == DType::Bool ? value > 0 : static_cast<int64_t>(std::max(value, 0.0)), dtype);
}

ValId GraphGenerator::Partner(const Value& like, DType dtype) {
  if (dice_.Chance(0.12)) return Scalar(dice_.Below(7) - 2.5, dtype);
  if (dice_.Chance(0.04) && dtype != DType::Bool && DTypeBytes(dtype) >= 4) {
    return b_.Size(dice_.Of(extents_).extent, dtype);
  }
  std::vector<ValId> fitting;
  for (const Value& v : values_) {
    if (SameShape(v.shape, like.shape) || v.shape.empty()) fitting.push_back(v.id);
  }
  if (fitting.empty()) return Scalar(2, dtype);
  return b_.Cast(dice_.Of(fitting), dtype);
}

ValId GraphGenerator::SameShaped(const Value& like, DType dtype) {
  std::vector<ValId> fitting;  // `like` at least.
  for (const Value& v : values_) {
    if (SameShape(v.shape, like.shape)) fitting.push_back(v.id);
  }
  return b_.Cast(dice_.Of(fitting), dtype);
}

ValId GraphGenerator::Parameter(DType dtype, const Shape& shape) {
  for (const Value& v : values_) {
    if (SameShape(v.shape, shape) && dice_.Chance(0.5)) return b_.Cast(v.id, dtype);
  }
  return Add(NewInput(dtype, shape, /*strided=*/false)).id;
}

// The broadcast of a smaller value over `like`, if there is one.
std::optional<ValId> GraphGenerator::BroadcastPartner(const Value& like, DType dtype) {
  for (int attempt = 0; attempt < 4; ++attempt) {
    const Value v = dice_.Of(values_);
    if (v.shape.empty() || v.shape.size() >= like.shape.size()) continue;
    AxisVector axes;
    size_t d = 0;
    for (size_t i = 0; i < like.shape.size(); ++i) {
      const bool skips =
          options_.square && like.shape.size() - i > v.shape.size() - d && dice_.Chance(0.5);
      if (d < v.shape.size() && !skips && v.shape[d].extent.is_same(like.shape[i].extent)) {
        ++d;
      } else {
        axes.push_back(static_cast<int32_t>(i));
      }
    }
    if (d == v.shape.size()) return b_.Cast(b_.Broadcast(v.id, axes), dtype);
  }
  return std::nullopt;
}

absl::StatusOr<RandomGraph> MakeRandomGraph(uint64_t seed, const RandomGraphOptions& options) {
  return GraphGenerator(seed, options).Run();
}

}  // namespace seam::testing
