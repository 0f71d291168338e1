// The device functions as text, each with its name, so that a kernel carries only those it calls.
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "runtime/codegen/identifiers.h"
#include "runtime/codegen/prelude.h"

namespace seam {
namespace {

struct DeviceFunction {
  const char* name;  // All overloads together.
  const char* text;
};

// The smaller or larger of two words' elements, two in each.
#define SEAM_EXTREMUM_OF_PAIRS(OP, TYPE)                                                   \
  {                                                                                        \
    "seam_" OP "_pair_" TYPE, "__device__ __forceinline__ unsigned seam_" OP "_pair_" TYPE \
                              "(unsigned a, unsigned b) {\n"                               \
                              "#if __CUDA_ARCH__ >= 800\n"                                 \
                              "  unsigned r;\n"                                            \
                              "  asm(\"" OP ".NaN." TYPE                                   \
                              "x2 %0, %1, %2;\" : \"=r\"(r) : \"r\"(a), \"r\"(b));\n"      \
                              "  return r;\n"                                              \
                              "#else\n"                                                    \
                              "  return seam_" TYPE "_pair(seam_" OP "(seam_" TYPE         \
                              "_value((unsigned short)a), "                                \
                              "seam_" TYPE                                                 \
                              "_value((unsigned short)b)),\n"                              \
                              "                       seam_" OP "(seam_" TYPE              \
                              "_value((unsigned short)(a >> 16)), "                        \
                              "seam_" TYPE                                                 \
                              "_value((unsigned short)(b >> 16))));\n"                     \
                              "#endif\n"                                                   \
                              "}\n"                                                        \
  }

// Callees come before their callers.
constexpr DeviceFunction kFunctions[] = {
    {"seam_infinity", R"(
__device__ __forceinline__ float seam_infinity() { return __int_as_float(0x7f800000); }
)"},

    // Conversions between f32 and storage. Rounding is to nearest even with subnormals.
    {"seam_f16_bits", R"(
__device__ __forceinline__ unsigned short seam_f16_bits(float x) {
  unsigned short r;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(r) : "f"(x));
  return r;
}
)"},
    {"seam_f16_value", R"(
__device__ __forceinline__ float seam_f16_value(unsigned short x) {
  float r;
  asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(x));
  return r;
}
)"},
    {"seam_round_f16", R"(
__device__ __forceinline__ float seam_round_f16(float x) { return seam_f16_value(seam_f16_bits(x)); }
)"},
    {"seam_f16_pair", R"(
__device__ __forceinline__ unsigned seam_f16_pair(float first, float second) {
#if __CUDA_ARCH__ >= 800
  unsigned r;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(second), "f"(first));
  return r;
#else
  return seam_f16_bits(first) | (unsigned)seam_f16_bits(second) << 16;
#endif
}
)"},
    // As the upper one of a pair, which a faster unit converts than a single one, and where it
    // stays.
    {"seam_round_bf16", R"(
__device__ __forceinline__ float seam_round_bf16(float x) {
#if __CUDA_ARCH__ >= 800
  unsigned r;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(x), "f"(0.0f));
  return __uint_as_float(r);
#else
  unsigned bits = __float_as_uint(x);
  bits += 0x7fff + (bits >> 16 & 1);
  return x != x ? x : __uint_as_float(bits & 0xffff0000u);
#endif
}
)"},
    // A rounded value's upper half is its bf16 pattern; a NaN made by rounding has its quiet bit
    // there.
    {"seam_bf16_bits", R"(
__device__ __forceinline__ unsigned short seam_bf16_bits(float rounded) {
  return (unsigned short)(__float_as_uint(rounded) >> 16);
}
)"},
    {"seam_bf16_value", R"(
__device__ __forceinline__ float seam_bf16_value(unsigned short x) {
  return __uint_as_float((unsigned)x << 16);
}
)"},
    {"seam_bf16_pair", R"(
__device__ __forceinline__ unsigned seam_bf16_pair(float first, float second) {
  return __byte_perm(__float_as_uint(first), __float_as_uint(second), 0x7632);
}
)"},
    // f32 to 8 bits without the hardware's conversion: `MANTISSA` stored bits, exponent bias
    // `BIAS`.
    {"seam_f8_bits_soft", R"(
template <int MANTISSA, int BIAS, unsigned MAX>
__device__ __forceinline__ unsigned char seam_f8_bits_soft(float x) {
  const unsigned bits = __float_as_uint(x), sign = bits >> 24 & 0x80;
  unsigned magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return 0x7f;
  if (magnitude < (unsigned)(128 - BIAS) << 23) {
    const float shift = __uint_as_float((unsigned)(151 - BIAS - MANTISSA) << 23);
    return sign | (__float_as_uint(__uint_as_float(magnitude) + shift) & 0x7f);
  }
  magnitude += (1u << (22 - MANTISSA)) - 1 + (magnitude >> (23 - MANTISSA) & 1);
  magnitude = (magnitude - ((unsigned)(127 - BIAS) << 23)) >> (23 - MANTISSA);
  return sign | (magnitude < MAX ? magnitude : MAX);
}
)"},
    {"seam_f8e4m3_pair", R"(
__device__ __forceinline__ unsigned seam_f8e4m3_pair(float first, float second) {
#if __CUDA_ARCH__ >= 890
  unsigned short r;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(r) : "f"(second), "f"(first));
  return r;
#else
  return seam_f8_bits_soft<3, 7, 0x7e>(first) | seam_f8_bits_soft<3, 7, 0x7e>(second) << 8;
#endif
}
)"},
    {"seam_f8e4m3_bits", R"(
__device__ __forceinline__ unsigned char seam_f8e4m3_bits(float x) {
  return (unsigned char)seam_f8e4m3_pair(x, 0.0f);
}
)"},
    // The pattern, moved to f32's fields, is the value times 2^-120.
    {"seam_f8e4m3_value", R"(
__device__ __forceinline__ float seam_f8e4m3_value(unsigned char x) {
#if __CUDA_ARCH__ >= 890
  unsigned r;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(r) : "h"((unsigned short)x));
  return seam_f16_value((unsigned short)r);
#else
  const float magnitude = (x & 0x7f) == 0x7f ? __int_as_float(0x7fffffff)
                                             : __uint_as_float((x & 0x7fu) << 20) * 0x1p120f;
  return x & 0x80 ? -magnitude : magnitude;
#endif
}
)"},
    {"seam_round_f8e4m3", R"(
__device__ __forceinline__ float seam_round_f8e4m3(float x) {
  return seam_f8e4m3_value(seam_f8e4m3_bits(x));
}
)"},
    // The hardware saturates infinity too; ours stays.
    {"seam_f8e5m2_bits", R"(
__device__ __forceinline__ unsigned char seam_f8e5m2_bits(float x) {
#if __CUDA_ARCH__ >= 890
  unsigned short r;
  asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(r) : "f"(0.0f), "f"(x));
#else
  unsigned char r = seam_f8_bits_soft<2, 15, 0x7b>(x);
#endif
  return (unsigned char)(fabsf(x) == seam_infinity() ? r + 1 : r);
}
)"},
    {"seam_f8e5m2_pair", R"(
__device__ __forceinline__ unsigned seam_f8e5m2_pair(float first, float second) {
  return seam_f8e5m2_bits(first) | seam_f8e5m2_bits(second) << 8;
}
)"},
    // The upper half of an f16.
    {"seam_f8e5m2_value", R"(
__device__ __forceinline__ float seam_f8e5m2_value(unsigned char x) {
  return seam_f16_value((unsigned short)(x << 8));
}
)"},
    {"seam_round_f8e5m2", R"(
__device__ __forceinline__ float seam_round_f8e5m2(float x) {
  return seam_f8e5m2_value(seam_f8e5m2_bits(x));
}
)"},

    // Float to integer: truncates, saturates (as the instructions do), NaN gives 0.
    {"seam_to_i32", R"(
__device__ __forceinline__ int seam_to_i32(float x) { return x != x ? 0 : __float2int_rz(x); }
__device__ __forceinline__ int seam_to_i32(double x) { return x != x ? 0 : __double2int_rz(x); }
)"},
    {"seam_to_i64", R"(
__device__ __forceinline__ long long seam_to_i64(float x) { return x != x ? 0 : __float2ll_rz(x); }
__device__ __forceinline__ long long seam_to_i64(double x) { return x != x ? 0 : __double2ll_rz(x); }
)"},

    // Integers: wrap, and divide by zero to zero.
    {"seam_add", R"(
__device__ __forceinline__ int seam_add(int a, int b) { return (int)((unsigned)a + (unsigned)b); }
__device__ __forceinline__ long long seam_add(long long a, long long b) {
  return (long long)((unsigned long long)a + (unsigned long long)b);
}
)"},
    {"seam_sub", R"(
__device__ __forceinline__ int seam_sub(int a, int b) { return (int)((unsigned)a - (unsigned)b); }
__device__ __forceinline__ long long seam_sub(long long a, long long b) {
  return (long long)((unsigned long long)a - (unsigned long long)b);
}
)"},
    {"seam_mul", R"(
__device__ __forceinline__ int seam_mul(int a, int b) { return (int)((unsigned)a * (unsigned)b); }
__device__ __forceinline__ long long seam_mul(long long a, long long b) {
  return (long long)((unsigned long long)a * (unsigned long long)b);
}
)"},
    {"seam_neg", R"(
template <typename T>
__device__ __forceinline__ T seam_neg(T a) { return seam_sub((T)0, a); }
)"},
    {"seam_abs", R"(
template <typename T>
__device__ __forceinline__ T seam_abs(T a) { return a < 0 ? seam_neg(a) : a; }
)"},
    {"seam_div", R"(
template <typename T>
__device__ __forceinline__ T seam_div(T a, T b) {
  return b == 0 ? 0 : b == -1 ? seam_neg(a) : a / b;
}
)"},
    // Many quotients by the same b. For b and a in these ranges, where nothing under- or overflows,
    // and r rounded to nearest, q is corrected to the quotient rounded to nearest (Brisebarre,
    // Muller, Raina: Accelerating correctly rounded floating-point division when the divisor is
    // known in advance, 2004). The compiler makes r once for all.
    {"seam_divides", R"(
__device__ __forceinline__ bool seam_divides(float b) {  // 2^-26 <= b < 2^26
  return __float_as_uint(b) - 0x32800000u < 0x1a000000u;
}
)"},
    {"seam_quotient", R"(
__device__ __forceinline__ float seam_quotient(float a, float b, bool& exact) {
  const unsigned bits = __float_as_uint(a);
  exact &= (2u * bits - 0x1b000000u < 0xc8000000u) | (2u * bits == 0);  // 2^-100 <= |a| < 2^100, 0
  const float r = 1.0f / b;
  const float q = a * r;
  return fmaf(-fmaf(q, b, -a), r, q);  // Of zeros, too, as b > 0.
}
)"},
    // The same by b of either sign, as (-a) / (-b) where it is negative.
    {"seam_divides_signed", R"(
__device__ __forceinline__ bool seam_divides_signed(float b) { return seam_divides(fabsf(b)); }
)"},
    {"seam_quotient_signed", R"(
__device__ __forceinline__ float seam_quotient_signed(float a, float b, bool& exact) {
  const unsigned sign = __float_as_uint(b) & 0x80000000u;
  return seam_quotient(__uint_as_float(__float_as_uint(a) ^ sign), fabsf(b), exact);
}
)"},
    {"seam_fmod", R"(
template <typename T>
__device__ __forceinline__ T seam_fmod(T a, T b) { return b == 0 || b == -1 ? 0 : a % b; }
)"},
    {"seam_remainder", R"(
__device__ __forceinline__ int seam_remainder(int a, int b) {
  const int r = seam_fmod(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
__device__ __forceinline__ long long seam_remainder(long long a, long long b) {
  const long long r = seam_fmod(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
__device__ __forceinline__ float seam_remainder(float a, float b) {
  const float r = fmodf(a, b);
  return r == 0 ? copysignf(0.0f, b) : (r < 0) != (b < 0) ? r + b : r;
}
__device__ __forceinline__ double seam_remainder(double a, double b) {
  const double r = fmod(a, b);
  return r == 0 ? copysign(0.0, b) : (r < 0) != (b < 0) ? r + b : r;
}
)"},
    {"seam_floor_divide", R"(
template <typename T>
__device__ __forceinline__ T seam_floor_divide_integer(T a, T b) {
  return seam_sub(seam_div(a, b), (T)(seam_fmod(a, b) != 0 && (a < 0) != (b < 0)));
}
template <typename T>
__device__ __forceinline__ T seam_floor_divide_float(T a, T b, T r) {
  if (b == 0) return a / b;
  T quotient = (a - r) / b;
  if (r != 0 && (r < 0) != (b < 0)) quotient -= 1;
  if (quotient == 0) return a / b * 0;
  const T below = floor(quotient);
  return quotient - below > (T)0.5 ? below + 1 : below;
}
__device__ __forceinline__ int seam_floor_divide(int a, int b) {
  return seam_floor_divide_integer(a, b);
}
__device__ __forceinline__ long long seam_floor_divide(long long a, long long b) {
  return seam_floor_divide_integer(a, b);
}
__device__ __forceinline__ float seam_floor_divide(float a, float b) {
  return seam_floor_divide_float(a, b, fmodf(a, b));
}
__device__ __forceinline__ double seam_floor_divide(double a, double b) {
  return seam_floor_divide_float(a, b, fmod(a, b));
}
)"},
    {"seam_clamp", R"(
template <typename T>
__device__ __forceinline__ T seam_clamp(T a, T low, T high) {
  const T raised = a > low ? a : low;
  return raised < high ? raised : high;
}
)"},
    {"seam_shift_left", R"(
__device__ __forceinline__ int seam_shift_left(int a, int b) {
  return (unsigned)b > 31 ? 0 : (int)((unsigned)a << b);
}
__device__ __forceinline__ long long seam_shift_left(long long a, long long b) {
  return (unsigned long long)b > 63 ? 0 : (long long)((unsigned long long)a << b);
}
)"},
    {"seam_shift_right", R"(
__device__ __forceinline__ int seam_shift_right(int a, int b) { return a >> ((unsigned)b > 31 ? 31 : b); }
__device__ __forceinline__ long long seam_shift_right(long long a, long long b) {
  return a >> ((unsigned long long)b > 63 ? 63 : b);
}
)"},
    {"seam_popcount", R"(
__device__ __forceinline__ int seam_popcount(int a, int width) {
  return __popc((unsigned)a << (32 - width));
}
__device__ __forceinline__ long long seam_popcount(long long a, int) { return __popcll(a); }
)"},
    {"seam_clz", R"(
__device__ __forceinline__ int seam_clz(int a, int width) {
  return a < 0 ? 0 : __clz(a) - (32 - width);
}
__device__ __forceinline__ long long seam_clz(long long a, int) { return __clzll(a); }
)"},

    // Floats.
    // NaN if either is; equal values differ in the sign of zero alone, which or and and combine.
    {"seam_min", R"(
__device__ __forceinline__ float seam_min(float a, float b) {
#if __CUDA_ARCH__ >= 800
  float r;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
  return r;
#else
  if (a == b) return __int_as_float(__float_as_int(a) | __float_as_int(b));
  return a < b || a != a ? a : b;
#endif
}
__device__ __forceinline__ double seam_min(double a, double b) {
  if (a == b) return __longlong_as_double(__double_as_longlong(a) | __double_as_longlong(b));
  return a < b || a != a ? a : b;
}
)"},
    {"seam_max", R"(
__device__ __forceinline__ float seam_max(float a, float b) {
#if __CUDA_ARCH__ >= 800
  float r;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
  return r;
#else
  if (a == b) return __int_as_float(__float_as_int(a) & __float_as_int(b));
  return a > b || a != a ? a : b;
#endif
}
__device__ __forceinline__ double seam_max(double a, double b) {
  if (a == b) return __longlong_as_double(__double_as_longlong(a) & __double_as_longlong(b));
  return a > b || a != a ? a : b;
}
)"},
    SEAM_EXTREMUM_OF_PAIRS("min", "f16"),
    SEAM_EXTREMUM_OF_PAIRS("min", "bf16"),
    SEAM_EXTREMUM_OF_PAIRS("max", "f16"),
    SEAM_EXTREMUM_OF_PAIRS("max", "bf16"),
    {"seam_fmin", R"(
template <typename T>
__device__ __forceinline__ T seam_fmin(T a, T b) { return a != a ? b : b != b ? a : seam_min(a, b); }
)"},
    {"seam_fmax", R"(
template <typename T>
__device__ __forceinline__ T seam_fmax(T a, T b) { return a != a ? b : b != b ? a : seam_max(a, b); }
)"},
    {"seam_sign", R"(
template <typename T>
__device__ __forceinline__ T seam_sign(T a) { return a > 0 ? (T)1 : a < 0 ? (T)-1 : a; }
)"},
    {"seam_heaviside", R"(
template <typename T>
__device__ __forceinline__ T seam_heaviside(T a, T b) {
  return a != a ? a : a < 0 ? (T)0 : a > 0 ? (T)1 : b;
}
)"},
    // 1 / (1 + e^-a), with the exponential of a negative number so that it neither overflows nor
    // loses small results. The machine's reciprocal, of 1 to 2, is off by a unit of the last place.
    {"seam_sigmoid", R"(
__device__ __forceinline__ float seam_sigmoid(float a) {
  const float t = expf(-fabsf(a));
#if __CUDA_ARCH__ >= 800
  float part;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(part) : "f"(1.0f + t));
#else
  const float part = 1.0f / (1.0f + t);
#endif
  return a >= 0 ? part : t * part;
}
__device__ __forceinline__ double seam_sigmoid(double a) {
  const double t = exp(-fabs(a));
  return (a >= 0 ? 1.0 : t) / (1.0 + t);
}
)"},
    {"seam_logit", R"(
__device__ __forceinline__ float seam_logit(float a) {
  return a > 0.25f && a < 0.75f ? log1pf((2.0f * a - 1.0f) / (1.0f - a)) : logf(a / (1.0f - a));
}
__device__ __forceinline__ double seam_logit(double a) {
  return a > 0.25 && a < 0.75 ? log1p((2.0 * a - 1.0) / (1.0 - a)) : log(a / (1.0 - a));
}
)"},

    // Random numbers.
    {"seam_philox", R"(
struct seam_lanes { unsigned x[4]; };
__device__ __forceinline__ seam_lanes seam_philox(unsigned long long block, unsigned long long offset,
                                                  unsigned long long seed) {
  unsigned c0 = (unsigned)block, c1 = (unsigned)(block >> 32);
  unsigned c2 = (unsigned)offset, c3 = (unsigned)(offset >> 32);
  unsigned k0 = (unsigned)seed, k1 = (unsigned)(seed >> 32);
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    // One multiplication for both halves of a product.
    const unsigned long long p0 = 0xD2511F53ull * c0, p1 = 0xCD9E8D57ull * c2;
    c0 = (unsigned)(p1 >> 32) ^ c1 ^ k0;
    c2 = (unsigned)(p0 >> 32) ^ c3 ^ k1;
    c1 = (unsigned)p1;
    c3 = (unsigned)p0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {{c0, c1, c2, c3}};
}
)"},
    // DIGITS: of the dtype's significand.
    {"seam_uniform", R"(
template <int DIGITS>
__device__ __forceinline__ float seam_uniform(long long seed, long long offset, long long index) {
  const unsigned long long i = (unsigned long long)index;
  const seam_lanes r = seam_philox(i / 4, offset, seed);
  const int lane = (int)(i % 4);
  const unsigned bits = lane == 0 ? r.x[0] : lane == 1 ? r.x[1] : lane == 2 ? r.x[2] : r.x[3];
  return (float)(bits >> (32 - DIGITS)) * (1.0f / (1 << DIGITS));
}
)"},
    {"seam_uniform_f64", R"(
__device__ __forceinline__ double seam_uniform_f64(long long seed, long long offset, long long index) {
  const unsigned long long i = (unsigned long long)index;
  const seam_lanes r = seam_philox(i / 2, offset, seed);
  const unsigned low = i % 2 ? r.x[2] : r.x[0], high = i % 2 ? r.x[3] : r.x[1];
  return (double)(((unsigned long long)high << 32 | low) >> 11) * 0x1p-53;
}
)"},
    {"seam_normal", R"(
__device__ __forceinline__ float seam_normal(long long seed, long long offset, long long index) {
  const unsigned long long i = (unsigned long long)index;
  const seam_lanes r = seam_philox(i / 4, offset, seed);
  const unsigned first = i & 2 ? r.x[2] : r.x[0], second = i & 2 ? r.x[3] : r.x[1];
  const float u = (float)((first >> 8) + 1) * 0x1p-24f;
  const float turns = (float)(second >> 8) * 0x1p-23f;
  return sqrtf(-2.0f * logf(u)) * (i & 1 ? sinpif(turns) : cospif(turns));
}
)"},
    // A counter of arrivals that needs no reset: those of one barrier add up to 2^31, so that the
    // last one flips the top bit, for which the others wait, and leaves the rest as it was.
    {"seam_grid_barrier", R"(
__device__ __forceinline__ void seam_grid_barrier(unsigned* arrivals) {
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    const unsigned before = atomicAdd(arrivals, blockIdx.x == 0 ? 0x80000001u - gridDim.x : 1u);
    while (((before ^ *(volatile unsigned*)arrivals) & 0x80000000u) == 0) {}
    __threadfence();
  }
  __syncthreads();
}
)"},
    // CTAs start once those of the previous launch in the stream have ended, before all can read
    // what they wrote. Sooner, by griddepcontrol.launch_dependents, some SMs get more of them than
    // others.
    {"seam_await_predecessor", R"(
__device__ __forceinline__ void seam_await_predecessor() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
)"},
    // Barriers that others store to are open by then: seam_open_barriers has a fence.
    {"seam_cluster_barrier", R"(
__device__ __forceinline__ void seam_cluster_barrier() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;\n barrier.cluster.wait.aligned;" ::: "memory");
}
)"},
    {"seam_cluster_sync", R"(
__device__ __forceinline__ void seam_cluster_sync() {
  asm volatile("barrier.cluster.arrive.aligned;\n barrier.cluster.wait.aligned;" ::: "memory");
}
)"},
    // What comes behind it stays there.
    {"seam_pause", R"(
__device__ __forceinline__ void seam_pause(int cycles) {
  const long long begin = clock64();
  while (clock64() - begin < cycles) {}
  asm volatile("" ::: "memory");
}
)"},
    // To the same place in another CTA of the cluster, whose barrier counts the bytes.
    {"seam_remote_store", R"(
__device__ __forceinline__ unsigned seam_in_cta(const void* at, int cta) {
  unsigned there;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"((unsigned)__cvta_generic_to_shared(at)), "r"(cta));
  return there;
}
template <typename T>
__device__ __forceinline__ void seam_remote_store(T* to, T value, unsigned long long* barrier, int cta) {
  if constexpr (sizeof(T) == 8) {
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.b64 [%0], %1, [%2];"
                 :: "r"(seam_in_cta(to, cta)), "l"(*(const long long*)&value), "r"(seam_in_cta(barrier, cta)) : "memory");
  } else {
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];"
                 :: "r"(seam_in_cta(to, cta)), "r"(*(const int*)&value), "r"(seam_in_cta(barrier, cta)) : "memory");
  }
}
)"},
    {"seam_await_stores", R"(
__device__ __forceinline__ void seam_await_stores(unsigned long long* barrier, unsigned bytes, int parity) {
  const unsigned arrived = (unsigned)__cvta_generic_to_shared(barrier);
  if (threadIdx.x == 0)
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(arrived), "r"(bytes) : "memory");
  unsigned done;
  do {
    asm volatile("{\n .reg .pred p;\n mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n selp.u32 %0, 1, 0, p;\n}"
                 : "=r"(done) : "r"(arrived), "r"(parity) : "memory");
  } while (!done);
}
)"},
    // Not for longer than the others may need: they might not have begun. The count is 0 again
    // behind the last ticket.
    {"seam_await_tickets", R"(
__device__ __forceinline__ void seam_await_tickets(const unsigned* taken, unsigned count) {
  for (int i = 0; i < 64; ++i) {
    const unsigned now = *(const volatile unsigned*)taken;
    if (now == 0 || now >= count) return;
  }
}
)"},
    {"seam_bits", R"(
__device__ __forceinline__ unsigned seam_bits(float x) { return __float_as_uint(x); }
__device__ __forceinline__ unsigned seam_bits(double x) { return (unsigned)__double2loint(x); }
__device__ __forceinline__ unsigned seam_bits(long long x) { return (unsigned)x; }
__device__ __forceinline__ unsigned seam_bits(int x) { return (unsigned)x; }
__device__ __forceinline__ unsigned seam_bits(bool x) { return x ? 1u : 0u; }
)"},
    // Something that asks for these bits; a sleep of no time does nothing.
    {"seam_await_loaded", R"(
__device__ __forceinline__ void seam_await_loaded(unsigned bits) {
#if __CUDA_ARCH__ >= 700
  asm volatile("{\n .reg .pred p;\n setp.eq.u32 p, %0, 0x7fc12345;\n @p nanosleep.u32 0;\n}" :: "r"(bits));
#endif
}
)"},
    // Copies that a machine without them makes by the thread that starts them; waiting is a
    // barrier.
    {"seam_open_barriers", R"(
__device__ __forceinline__ void seam_open_barriers(unsigned long long* barriers, int count, int arrivals) {
#if __CUDA_ARCH__ >= 900
  if (threadIdx.x == 0) {
    for (int i = 0; i < count; ++i) {
      asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"((unsigned)__cvta_generic_to_shared(barriers + i)),
                   "r"(arrivals) : "memory");
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }
  __syncthreads();
#endif
}
)"},
    // e^a within a part in 10^5, as the square of its root, which is an ordinary number where e^a
    // is a subnormal one: the machine's exponential alone would lose these or take two instructions
    // more.
    {"seam_loose_exp", R"(
__device__ __forceinline__ float seam_loose_exp(float a) {
  float root;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(root) : "f"(a * 0.72134752044448170f));
  return root * root;
}
)"},
    // 1 / (1 + e^-a) within a part in 10^5, small results included.
    {"seam_loose_sigmoid", R"(
__device__ __forceinline__ float seam_loose_sigmoid(float a) {
  const float t = seam_loose_exp(-fabsf(a));
  float whole;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(whole) : "f"(1.0f + t));
  return a >= 0 ? whole : t * whole;
}
)"},
    // erf(a) to a few units of the last place of 1: 1 - 2^(t p(t)), where t = |a|, up to 4, beyond
    // which it is 1. p has the least error of 2^(t p(t)) against erfc(t), 1.6e-8, of all of degree
    // 7, by reweighted least squares; in f32, with the machine's exponential, it is below 3e-7.
    {"seam_loose_erf", R"(
__device__ __forceinline__ float seam_loose_erf(float a) {
  const float t = fminf(fabsf(a), 4.0f);
  float p = -0x1.7c7de0p-15f;
  p = fmaf(p, t, 0x1.d3250ep-12f);
  p = fmaf(p, t, -0x1.8671f2p-10f);
  p = fmaf(p, t, -0x1.962394p-11f);
  p = fmaf(p, t, 0x1.cee898p-6f);
  p = fmaf(p, t, -0x1.301722p-3f);
  p = fmaf(p, t, -0x1.d63aacp-1f);
  p = fmaf(p, t, -0x1.a0be9ep+0f);
  float rest;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(rest) : "f"(t * p));
  return a != a ? a : copysignf(1.0f - rest, a);
}
)"},
    // 2^a as a term of a sum that is 1 or more: what is below 2^-126 is 0.
    {"seam_term_exp2", R"(
__device__ __forceinline__ float seam_term_exp2(float a) {
  float term;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(term) : "f"(a));
  return term;
}
)"},
    {"seam_bulk_copy", R"(
__device__ __forceinline__ void seam_bulk_copy(void* to, const void* from, unsigned bytes, unsigned long long* barrier) {
#if __CUDA_ARCH__ >= 900
  const unsigned arrived = (unsigned)__cvta_generic_to_shared(barrier);
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(arrived), "r"(bytes) : "memory");
  if (bytes == 0) return;
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
               :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(__cvta_generic_to_global(from)), "r"(bytes), "r"(arrived)
               : "memory");
#else
  for (unsigned i = 0; i < bytes / 16; ++i) ((uint4*)to)[i] = ((const uint4*)from)[i];
#endif
}
)"},
    {"seam_await_copies", R"(
__device__ __forceinline__ void seam_await_copies(unsigned long long* barrier, int parity) {
#if __CUDA_ARCH__ >= 900
  unsigned done;
  do {
    asm volatile("{\n .reg .pred p;\n mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n selp.u32 %0, 1, 0, p;\n}"
                 : "=r"(done) : "r"((unsigned)__cvta_generic_to_shared(barrier)), "r"(parity) : "memory");
  } while (!done);
#else
  __syncthreads();
#endif
}
)"},
    // A piece of 4, 8 or 16 bytes, which no register holds meanwhile; loaded at once by a machine
    // that cannot. Those of 16 bytes go past the L1 cache.
    {"seam_async_load", R"(
template <typename T>
__device__ __forceinline__ void seam_async_load(T* to, const T* from) {
#if __CUDA_ARCH__ >= 800
  const unsigned there = (unsigned)__cvta_generic_to_shared(to);
  const unsigned long long here = __cvta_generic_to_global(from);
  if constexpr (sizeof(T) == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(there), "l"(here) : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" :: "r"(there), "l"(here), "n"(sizeof(T)) : "memory");
  }
#else
  *to = *from;
#endif
}
)"},
    {"seam_await_loads", R"(
__device__ __forceinline__ void seam_await_loads() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}
)"},
    {"seam_normal_f64", R"(
__device__ __forceinline__ double seam_normal_f64(long long seed, long long offset, long long index) {
  const unsigned long long i = (unsigned long long)index;
  const seam_lanes r = seam_philox(i / 2, offset, seed);
  const double u = (double)((((unsigned long long)r.x[1] << 32 | r.x[0]) >> 11) + 1) * 0x1p-53;
  const double turns = (double)(((unsigned long long)r.x[3] << 32 | r.x[2]) >> 11) * 0x1p-52;
  return sqrt(-2.0 * log(u)) * (i & 1 ? sinpi(turns) : cospi(turns));
}
)"},
};

// The words of `text` that are prelude names' prefix, each reported once a place.
template <typename Visit>
void ForEachSeamWord(absl::string_view text, Visit visit) {
  for (size_t at = text.find("seam_"); at != absl::string_view::npos; at = text.find("seam_", at)) {
    size_t end = at;
    while (end < text.size() && IsWordChar(text[end])) ++end;
    if (at == 0 || !IsWordChar(text[at - 1])) visit(text.substr(at, end - at));
    at = end;
  }
}

}  // namespace

std::string PreludeFor(absl::string_view kernel_text) {
  std::set<absl::string_view> wanted;
  ForEachSeamWord(kernel_text, [&](absl::string_view word) { wanted.insert(word); });
  // From the last to the first, so that callers name their callees before these are looked at.
  std::vector<const DeviceFunction*> used;
  for (auto function = std::rbegin(kFunctions); function != std::rend(kFunctions); ++function) {
    if (wanted.count(function->name) == 0) continue;
    used.push_back(&*function);
    ForEachSeamWord(function->text, [&](absl::string_view word) { wanted.insert(word); });
  }
  std::string result;
  for (auto function = used.rbegin(); function != used.rend(); ++function) {
    absl::StrAppend(&result, absl::StripAsciiWhitespace((*function)->text), "\n");
  }
  return result;
}

}  // namespace seam
