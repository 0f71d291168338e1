#include "scheduler/reduction_uneven.h"

#include <algorithm>
#include <cmath>

#include "scheduler/reduction_share.h"

namespace seam::reduction {
namespace {

// Gives a row these threads, in CTAs of at least 128, as many of them an SM as leave a thread so
// many registers.
void FillSm(int threads, int vectors, int words, Schedule& s) {
  GiveThreads(threads, vectors, s);
  s.row_warps = std::max(1, 4 / s.warps_per_row);
  s.min_ctas_per_sm = std::max(1, 65536 / (s.threads() * words));
}

}  // namespace

bool ShareUnevenly(int64_t vectors, Schedule& s) {
  constexpr int64_t kLeastVectors = 64, kWarpVectors = 192, kMostVectors = 2048;
  constexpr int kMostThreads = 480, kLarge = 416, kMostCtas = 16, kMostOfLarge = 5;
  constexpr int kFewWords = 42, kWords = 51, kWarpWords = 64, kManyOfWarpWords = 80;
  constexpr int kFewVectors = 5;
  if (vectors <= kLeastVectors || vectors > kMostVectors) return false;
  if (vectors <= kWarpVectors) {
    const int64_t whole = CeilDivide(vectors, 32), half = CeilDivide(vectors, 16);
    const bool halves = half <= kFewVectors && half * 16 < whole * 32;
    const int each = static_cast<int>(halves ? half : whole);
    FillSm(halves ? 16 : 32, each, each > kFewVectors ? kManyOfWarpWords : kWarpWords, s);
    return true;
  }
  const auto ctas = [&](int each) {
    const int threads = ThreadsFor(vectors, each);
    const int words = each == 3 ? kFewWords : kWords;
    return std::min(kMostCtas, 65536 / (threads * words));
  };
  const bool in_threes = ThreadsFor(vectors, 3) <= kMostThreads && ctas(3) > ctas(4);
  const int each = in_threes ? 3 : ThreadsFor(vectors, 4) > kLarge ? kMostOfLarge : 4;
  GiveThreads(ThreadsFor(vectors, each), each, s);
  s.row_warps = 1;
  s.min_ctas_per_sm = ctas(each);
  return true;
}

void ShareUnevenlyShifted(int64_t vectors, Schedule& s) {
  constexpr int64_t kLeastVectors = 128, kWarpVectors = 224, kTwoWarpsLeast = 256,
                    kTwoWarpsMost = 320, kSevensLeast = 384, kSevensMost = 416;
  constexpr int kWords = 51, kTwoWarpsWords = 64, kMostVectors = 5, kSevens = 7, kShortCtas = 8;
  if (vectors > kLeastVectors && vectors <= kWarpVectors) {
    const int each = static_cast<int>(CeilDivide(vectors, 32));
    return FillSm(32, each, 16 * (each - 2), s);  // 48, 64, 80: what does not spill.
  }
  const bool in_sevens = vectors > kSevensLeast && vectors <= kSevensMost;
  if (in_sevens || (vectors > kTwoWarpsLeast && vectors <= kTwoWarpsMost)) {
    return FillSm(64, in_sevens ? kSevens : kMostVectors, kTwoWarpsWords, s);
  }
  if (vectors <= kLeastVectors) {
    // A warp, or the half or quarter of one that leaves fewer of its vectors unused.
    int lanes = 32;
    const auto places = [&](int of) { return CeilDivide(vectors, of) * of; };
    for (const int fewer : {16, 8}) {
      if (CeilDivide(vectors, fewer) <= kMostVectors && places(fewer) < places(lanes))
        lanes = fewer;
    }
    GiveThreads(lanes, static_cast<int>(CeilDivide(vectors, lanes)), s);
    s.row_warps = 4;
    s.min_ctas_per_sm = kShortCtas;
    return;
  }
  if (s.registers != 4) return;
  // Five vectors a thread of six warps spill where as many CTAs share an SM; six do not.
  const bool in_sixes = ThreadsFor(vectors, 5) == 192;
  const int each = in_sixes ? 6 : 5;
  Schedule fewer = s;
  FillSm(std::max(32, ThreadsFor(vectors, each)), each, in_sixes ? kTwoWarpsWords : kWords, fewer);
  const auto rows_at_once = [](const Schedule& t) { return t.min_ctas_per_sm * t.row_warps; };
  const int64_t threads = int64_t{s.lanes_per_row} * s.warps_per_row;
  if (rows_at_once(fewer) > rows_at_once(s) || threads * 4 * 3 > vectors * 4) s = fewer;
}

void ShareWideShifted(const SizedGroup& sized, const KeptRows& rows, Schedule& s) {
  // Vectors, and registers beside those of the row that do not spill.
  static constexpr VectorShare kShares[] = {{3, 24}, {4, 24}, {5, 36}, {6, 32}, {8, 36}};
  constexpr double kEnoughBytes = 85000, kMissing = 0.3, kIdle = 0.1, kOfTwoCtas = 0.965,
                   kOfThreads = 6e-5, kWeightedBytes = 45000, kBareBytes = 70000;
  constexpr int kFewThreads = 700, kManyThreads = 1280, kMostThreads = 768, kEnoughCtas = 3;
  const double weights = rows.AlikeWords();
  if (weights > 0 && weights < 2 * kManyWeights) return;
  const DeviceInfo& device = sized.context.device;
  const int64_t vectors = VectorsOf(sized, s);
  const auto row_bytes =
      static_cast<double>(sized.columns * sized.widest_bytes * sized.large_inputs);
  const auto under_way = [&](const Schedule& t) {
    return t.min_ctas_per_sm * t.row_warps * row_bytes;
  };
  const auto score = [&](const Schedule& t) {
    const int threads = t.threads() * t.min_ctas_per_sm;
    const double used = static_cast<double>(vectors) / (t.threads() / t.row_warps * t.registers);
    return std::pow(std::min(1.0, under_way(t) / kEnoughBytes), kMissing) * std::pow(used, kIdle) *
           (1 - kOfThreads * std::max(0, threads - kFewThreads)) *
           (weights > 0 && t.min_ctas_per_sm < kEnoughCtas ? kOfTwoCtas : 1);
  };
  const bool several = s.min_ctas_per_sm >= kEnoughCtas;
  const bool large = s.min_ctas_per_sm * s.threads() > kManyThreads;
  if (weights > 0 ? several && under_way(s) >= kWeightedBytes
                  : several || (under_way(s) >= kBareBytes && !large)) {
    return;
  }
  double best = score(s);
  for (const VectorShare& share : kShares) {
    Schedule t = s;
    const int threads = ThreadsFor(vectors, share.vectors);
    if (threads < 32 || threads > kMostThreads) continue;
    GiveThreads(threads, share.vectors, t);
    t.row_warps = std::max(1, 4 / t.warps_per_row);
    const double words = rows.Words(share.vectors, t) + rows.KeptWords(t) + share.words;
    t.min_ctas_per_sm = static_cast<int>(std::min<double>(
        device.registers_per_sm / (t.threads() * words), device.max_threads_per_sm / t.threads()));
    if (t.min_ctas_per_sm < 1 || score(t) <= best) continue;
    best = score(t);
    s = t;
  }
}

void ShareShortShifted(int64_t vectors, double weights, Schedule& s) {
  constexpr int64_t kLeastVectors = 128, kMostVectors = 160;
  constexpr int64_t kFiveWarpsOfTwo = 256;
  constexpr int kVectors = 5, kWords = 80, kWordsOfThree = 40, kWordsOfFour = 56;
  if (vectors <= kLeastVectors) return;
  if (vectors <= kMostVectors) {
    FillSm(32, kVectors, kWords, s);
  } else if (weights > 0 && s.registers == 2) {
    FillSm(ThreadsFor(vectors, 3), 3, kWordsOfThree, s);
  } else if (weights == 0 && s.registers == 2 && vectors > kFiveWarpsOfTwo) {
    FillSm(ThreadsFor(vectors, 4), 4, kWordsOfFour, s);
  }
}

void RaiseCtas(const DeviceInfo& device, double held, double weights, Schedule& s) {
  constexpr int kFewVectors = 3, kFour = 4, kFewCtas = 3, kWordsOfVector = 4, kWordsOfFour = 48;
  const bool few_ctas = s.registers == kFour && weights == 0 && s.min_ctas_per_sm <= kFewCtas;
  if (s.registers > kFewVectors && !few_ctas) return;
  const double words =
      few_ctas ? kWordsOfFour : held + kFewestFreeWords + kWordsOfVector * s.registers;
  const int fit = static_cast<int>(device.registers_per_sm / (s.threads() * words));
  s.min_ctas_per_sm =
      std::max(s.min_ctas_per_sm, std::min(fit, device.max_threads_per_sm / s.threads()));
}

}  // namespace seam::reduction
