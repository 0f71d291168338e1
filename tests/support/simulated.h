// Memory for the simulator, and one thread's statements: for tests of the simulator itself.
#pragma once

#include <string>
#include <vector>

#include "runtime/simulator/simulator.h"
#include "tests/support/sample_kernels.h"

namespace seam::testing {

// Memory of `values` as elements of `dtype`, aligned to 64 bytes.
struct SimTensor {
  SimTensor(DType d, std::vector<double> values)
      : dtype(d), count(static_cast<int64_t>(values.size())) {
    lines.resize(values.size() * DTypeBytes(d) / 64 + 1);
    for (size_t i = 0; i < values.size(); ++i) {
      const Scalar s = IsFloat(d) ? FloatScalar(RoundToDType(d, values[i]))
                                  : IntScalar(static_cast<int64_t>(values[i]));
      StoreScalar(d, s, data() + i * DTypeBytes(d));
    }
  }
  char* data() { return lines[0].bytes; }
  double at(int64_t i) {
    const Scalar s = LoadScalar(dtype, data() + i * DTypeBytes(dtype));
    return IsFloat(dtype) ? s.f : static_cast<double>(s.i);
  }
  std::vector<double> values() {
    std::vector<double> v;
    for (int64_t i = 0; i < count; ++i) v.push_back(at(i));
    return v;
  }
  simulator::SimBuffer buffer(uint8_t* initialized = nullptr) {
    return {data(), count, dtype, false, initialized};
  }
  DType dtype;
  int64_t count;
  struct alignas(64) Line {
    char bytes[64] = {};
  };
  std::vector<Line> lines;
};

inline std::vector<double> Ramp(int64_t n) {
  std::vector<double> v(n);
  for (int64_t i = 0; i < n; ++i) v[i] = static_cast<double>((i * 7 + 3) % 17) - 8;
  return v;
}

inline std::string Message(const absl::Status& status) { return std::string(status.message()); }

// One thread of interest: `body` computes fragment `f` of `dtype`, which thread t stores to out[t].
struct Probe {
  explicit Probe(DType dtype, int64_t threads = 32) : d("probe", static_cast<int>(threads)) {
    out = d.Buffer("out", dtype, threads, true);
    f = d.Fragment("f", dtype);
  }
  absl::Status Run(std::vector<double>* result, simulator::SimOptions options = {}) {
    Emit(&d.k.body, kernel::Store{f, 0, 1, kernel::Space::Global, out, d.thread});
    SimTensor y(d.k.buffers[out].dtype, std::vector<double>(d.k.threads));
    std::vector<simulator::SimBuffer> buffers = {y.buffer()};
    for (SimTensor& t : inputs) buffers.push_back(t.buffer());
    const absl::Status status = simulator::Simulate(d.k, buffers, parameters, options);
    *result = y.values();
    return status;
  }
  KernelDraft d;
  int out, f;
  std::vector<SimTensor> inputs;
  std::vector<int64_t> parameters;
};

}  // namespace seam::testing
