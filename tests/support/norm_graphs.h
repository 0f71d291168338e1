// Normalizations as text, for tests of their kernels.
#pragma once

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace seam::testing {

// A backward pass: `extra` is read in the last pass only, `mean` once a row. `more`: lines of its
// own, with outputs.
inline std::string NormBackward(const std::string& dtype, const std::string& more = "") {
  return absl::StrCat(R"(fusion backward {
  symbol M
  symbol N
  input grad: )",
                      dtype, R"([M, N]
  input x: )",
                      dtype, R"([M, N]
  input extra: )",
                      dtype, R"([M, N]
  input gamma: f32[N]
  input mean: f32[M]
  g = cast(grad, dtype=f32)
  xhat = cast(x, dtype=f32) - mean[:, None]
  n = size(sizes=[N], dtype=f32)
  a = sum(g * gamma * xhat, axes=[1]) / n
  dx = cast(g - a[:, None] * xhat + cast(extra, dtype=f32), dtype=)",
                      dtype, R"()
  dgamma = sum(g * xhat, axes=[0])
  output dx
  output dgamma
)",
                      more, "}");
}

inline constexpr char kSoftmax[] = R"(fusion softmax {
  symbol M
  symbol N
  input x: DTYPE[M, N]
  y = softmax(x, axis=1)
  output y
})";

inline constexpr char kLayerNorm[] = R"(fusion layer_norm {
  symbol M
  symbol N
  input x: bf16[M, N]
  input w: bf16[N]
  input b: bf16[N]
  y, mean, rstd = layer_norm(x, w, b, axes=[1])
  output y
})";

inline std::string LayerNormBackward(bool bias) {
  return absl::StrCat(R"(fusion layer_norm_backward {
  symbol M
  symbol N
  input grad: bf16[M, N]
  input x: bf16[M, N]
  input w: bf16[N]
  input mean: f32[M]
  input rstd: f32[M]
  dx, dw, db = layer_norm_backward(grad, x, mean, rstd, w, axes=[1])
  output dx
  output dw
)",
                      bias ? "  output db\n}" : "}");
}

inline std::string OfGroups(const std::string& text, const std::string& dtype, int groups,
                            bool last) {
  return absl::StrReplaceAll(text, {{"DTYPE", dtype},
                                    {"GROUPS", absl::StrCat(groups)},
                                    {"ORDER", last ? " order [0, 2, 1]" : ""}});
}

// Of N images with P pixels, `groups` of K channels, which lie last or, else, in front of the
// pixels.
inline std::string GroupNorm(const std::string& dtype, int groups, bool last = true) {
  return OfGroups(R"(fusion group_norm {
  symbol N in [1, 4096]
  symbol K in [1, 4096]
  symbol P in [1, 65536]
  input x: DTYPE[N, GROUPS*K, P]ORDER
  input w: f32[GROUPS*K]
  input b: f32[GROUPS*K]
  y, mean, rstd = group_norm(x, w, b, groups=GROUPS)
  output yORDER
  output mean
  output rstd
})",
                  dtype, groups, last);
}

inline std::string GroupNormBackward(const std::string& dtype, int groups, bool last = true) {
  return OfGroups(R"(fusion group_norm_backward {
  symbol N in [1, 4096]
  symbol K in [1, 4096]
  symbol P in [1, 65536]
  input grad: DTYPE[N, GROUPS*K, P]ORDER
  input x: DTYPE[N, GROUPS*K, P]ORDER
  input mean: f32[N, GROUPS]
  input rstd: f32[N, GROUPS]
  input weight: f32[GROUPS*K]
  dx, dweight, dbias = group_norm_backward(grad, x, mean, rstd, weight, groups=GROUPS)
  output dxORDER
  output dweight
  output dbias
})",
                  dtype, groups, last);
}

}  // namespace seam::testing
