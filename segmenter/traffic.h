// Device memory traffic of a segmentation at given sizes.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "segmenter/segmented_fusion.h"
#include "segmenter/sizes.h"

namespace seam {

// Every input is read once and every output written once. Of an input that a group reads only
// through slices and look-ups, as much as these return, at most all. A group that launches nothing
// moves nothing.
struct GroupTraffic {
  std::vector<std::pair<ValId, int64_t>> reads, writes;  // By value, in bytes.
  int64_t bytes() const;
};
// What a buffer takes in memory, in the type in which its value crosses.
int64_t StoredBytes(const SegmentedFusion& segmented, const SizeHints& sizes, ValId v);
// "f32[M, N]", or "f32[M, N] as bf16" for one that crosses narrower.
std::string StoredType(const SegmentedFusion& segmented, ValId v);
// "exact", or "off by at most 2^-8 of itself + 2^-134" for one that is rounded; empty for a value
// that crosses in its own type.
std::string DescribeNarrowing(const SegmentedFusion& segmented, ValId v);
// Per value: the traffic that its crossing in a narrower type saves, written and read. Linear.
std::vector<int64_t> SavedByNarrowing(const SegmentedFusion& segmented, const SizeHints& sizes);
// Whether an expression reads of its operand `i` only as much as it returns: a slice, what is
// looked up.
bool ReadsInPart(const Fusion& fusion, ExprId e, int i);
// What an expression reads of its operand `i` alone.
int64_t ReadBytes(const Fusion& fusion, const SizeHints& sizes, ExprId e, int i);
// What the reading group of a data edge reads of its value.
int64_t ReadBytes(const SegmentedFusion& segmented, const SizeHints& sizes, EdgeId e);
// All that a group reads and writes, in the types in which `sizes` counts values, before the
// buffers have theirs. Linear in the expressions that read what others wrote.
int64_t MovedBytes(const SegmentedFusion& segmented, const SizeHints& sizes, GroupId g);
// As MovedBytes, in the types of the buffers.
GroupTraffic TrafficOf(const SegmentedFusion& segmented, const SizeHints& sizes, GroupId g);

// Groups that launch a kernel or a library call: all but those of the alias scheduler, and of
// these the ones whose views others cannot read as they are.
bool Launches(const SegmentedFusion& segmented, GroupId g);

struct SegmentationTotals {
  int kernels = 0;
  int64_t bytes = 0;
};
SegmentationTotals TotalsOf(const SegmentedFusion& segmented, const SizeHints& sizes);

std::string FormatBytes(int64_t bytes);  // "1.5 MiB".

}  // namespace seam
