// Shared elements of strided tensors, held against all elements of small ones.
#include "ir/footprint.h"

#include <cstdint>
#include <random>
#include <set>
#include <vector>

#include "gtest/gtest.h"

namespace seam {
namespace {

// Offsets of all elements, those of one place several times.
std::vector<int64_t> Places(const std::vector<int64_t>& sizes,
                            const std::vector<int64_t>& strides) {
  std::vector<int64_t> places = {0};
  for (size_t axis = 0; axis < sizes.size(); ++axis) {
    std::vector<int64_t> next;
    for (int64_t place : places) {
      for (int64_t i = 0; i < sizes[axis]; ++i) next.push_back(place + i * strides[axis]);
    }
    places = std::move(next);
  }
  return places;
}

TEST(Footprint, BytesAndGaps) {
  EXPECT_EQ(Footprint().bytes(), 0);
  EXPECT_EQ(Footprint(4, {}, {}).bytes(), 4);
  EXPECT_EQ(Footprint(4, {3, 0}, {9, 9}).bytes(), 0);
  EXPECT_EQ(Footprint(4, {3, 1, 5}, {5, 999, 1}).bytes(), 60);
  EXPECT_FALSE(Footprint(4, {3, 1, 5}, {5, 999, 1}).has_gaps());
  EXPECT_FALSE(Footprint(4, {3, 5}, {1, 3}).has_gaps());
  EXPECT_FALSE(Footprint(4, {3, 5}, {0, 1}).has_gaps());
  EXPECT_TRUE(Footprint(4, {3, 5}, {6, 1}).has_gaps());
  EXPECT_TRUE(Footprint(1, {3}, {2}).has_gaps());
  EXPECT_EQ(Footprint(2, {3, 5}, {6, 1}).bytes(), 34);
}

TEST(Footprint, ColumnsOfOneBuffer) {
  const Footprint columns(4, {4, 8}, {24, 1});
  EXPECT_FALSE(columns.Shares(columns, 8 * 4));
  EXPECT_FALSE(columns.Shares(columns, -8 * 4));
  EXPECT_TRUE(columns.Shares(columns, 7 * 4));
  EXPECT_TRUE(columns.Shares(columns, 0));
  EXPECT_FALSE(columns.Shares(columns, 16 * 4));
  EXPECT_TRUE(columns.Shares(columns, 17 * 4));
  EXPECT_TRUE(columns.Shares(Footprint(2, {4, 2}, {48, 1}), 7 * 4));
  EXPECT_FALSE(columns.Shares(Footprint(2, {4, 2}, {48, 1}), 8 * 4));
  const Footprint odd(1, {1000}, {2});
  EXPECT_FALSE(odd.Shares(odd, 1));
  EXPECT_TRUE(odd.Shares(odd, 2));
}

TEST(Footprint, LargeTensors) {
  const int64_t rows = int64_t{1} << 30;
  const Footprint half(2, {rows, 512}, {1024, 1});
  EXPECT_FALSE(half.Shares(half, 1024));
  EXPECT_TRUE(half.Shares(half, 1022));
  // Every third row of one, every second of the other.
  const Footprint third(2, {rows / 3, 512}, {3 * 1024, 1});
  const Footprint second(2, {rows / 2, 512}, {2 * 1024, 1});
  EXPECT_TRUE(third.Shares(second, 2 * 1024));
  EXPECT_FALSE(second.Shares(second, 2 * 1024));
}

TEST(Footprint, AsAllElementsSay) {
  std::mt19937 random(1);
  int shared = 0;
  const int kCases = 20000;
  for (int i = 0; i < kCases; ++i) {
    std::vector<int64_t> sizes[2], strides[2];
    std::set<int64_t> bytes[2];
    std::vector<Footprint> footprints;
    for (int t = 0; t < 2; ++t) {
      const int rank = static_cast<int>(random() % 4);
      for (int axis = 0; axis < rank; ++axis) {
        sizes[t].push_back(static_cast<int64_t>(random() % 6));
        strides[t].push_back(static_cast<int64_t>(random() % 24));
      }
      const int64_t element = int64_t{1} << random() % 3;
      footprints.emplace_back(element, sizes[t], strides[t]);
      const std::vector<int64_t> places = Places(sizes[t], strides[t]);
      for (int64_t place : places) {
        for (int64_t b = 0; b < element; ++b) bytes[t].insert(place * element + b);
      }
      ASSERT_EQ(footprints[t].bytes(), bytes[t].empty() ? 0 : *bytes[t].rbegin() + 1);
      ASSERT_EQ(footprints[t].has_gaps(),
                static_cast<int64_t>(bytes[t].size()) < footprints[t].bytes());
      ASSERT_EQ(ElementsOverlap(sizes[t], strides[t]),
                std::set<int64_t>(places.begin(), places.end()).size() < places.size());
    }
    const int64_t distance = static_cast<int64_t>(random() % 200) - 100;
    bool expected = false;
    for (int64_t b : bytes[1]) expected |= bytes[0].contains(b + distance);
    ASSERT_EQ(footprints[0].Shares(footprints[1], distance), expected) << i;
    shared += expected;
  }
  EXPECT_GT(shared, kCases / 10);
}

}  // namespace
}  // namespace seam
