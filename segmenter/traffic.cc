#include "segmenter/traffic.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace seam {
namespace {

int64_t Sum(const std::vector<std::pair<ValId, int64_t>>& list) {
  int64_t sum = 0;
  for (const auto& [v, bytes] : list) sum = SaturatingAdd(sum, bytes);
  return sum;
}

}  // namespace

int64_t GroupTraffic::bytes() const { return SaturatingAdd(Sum(reads), Sum(writes)); }

bool Launches(const SegmentedFusion& segmented, GroupId g) {
  if (segmented.scheduler(g) != SchedulerKind::kAlias) return true;
  const ValueFacts& facts = segmented.facts();
  for (BufferId b : segmented.buffers(g)) {
    const uint32_t v = segmented.buffer(b).val.index();
    if (segmented.readers(b).size() > 0 && !facts.is_free_to_read[v]) return true;
    if (segmented.is_result(ValId(v)) && !facts.is_free_to_return[v]) return true;
  }
  return false;
}

bool ReadsInPart(const Fusion& f, ExprId e, int i) {
  return i == 0 && (f.op(e) == OpKind::Slice || f.info(e).op_class == OpClass::Indexing);
}

int64_t ReadBytes(const Fusion& f, const SizeHints& sizes, ExprId e, int i) {
  const ValId v = f.operands(e)[i];
  return ReadsInPart(f, e, i) ? sizes.BytesAs(f.result(e), sizes.type(v)) : sizes.Bytes(v);
}

int64_t StoredBytes(const SegmentedFusion& segmented, const SizeHints& sizes, ValId v) {
  const BufferId b = segmented.buffer_of(v);
  return b.valid() ? sizes.BytesAs(v, segmented.buffer(b).dtype) : sizes.Bytes(v);
}

std::string StoredType(const SegmentedFusion& segmented, ValId v) {
  const Fusion& f = segmented.fusion();
  const BufferId b = segmented.buffer_of(v);
  const bool narrow = b.valid() && segmented.buffer(b).dtype != f.dtype(v);
  return absl::StrCat(f.type(v).ToString(),
                      narrow ? absl::StrCat(" as ", DTypeName(segmented.buffer(b).dtype)) : "");
}

std::string DescribeNarrowing(const SegmentedFusion& segmented, ValId v) {
  const BufferId b = segmented.buffer_of(v);
  if (!b.valid() || segmented.buffer(b).dtype == segmented.fusion().dtype(v)) return "";
  if (!segmented.buffer(b).rounds) return "exact";
  const RoundingError error = RoundingErrorOf(segmented.buffer(b).dtype);
  return absl::StrFormat("off by at most 2^%d of itself + 2^%d", std::ilogb(error.relative),
                         std::ilogb(error.absolute));
}

std::vector<int64_t> SavedByNarrowing(const SegmentedFusion& segmented, const SizeHints& sizes) {
  const Fusion& f = segmented.fusion();
  std::vector<int64_t> saved(f.num_vals());
  for (GroupId g : segmented.groups()) {
    const GroupTraffic traffic = TrafficOf(segmented, sizes, g);
    for (const auto* list : {&traffic.reads, &traffic.writes}) {
      for (const auto& [v, bytes] : *list) {
        const int stored = DTypeBytes(segmented.buffer(segmented.buffer_of(v)).dtype);
        saved[v.index()] =
            SaturatingAdd(saved[v.index()], bytes / stored * (DTypeBytes(f.dtype(v)) - stored));
      }
    }
  }
  return saved;
}

int64_t ReadBytes(const SegmentedFusion& segmented, const SizeHints& sizes, EdgeId e) {
  int64_t bytes = 0;
  segmented.ForEachRead(e, [&](ExprId reader, int i) {
    bytes = SaturatingAdd(bytes, ReadBytes(segmented.fusion(), sizes, reader, i));
  });
  return std::min(bytes, sizes.Bytes(segmented.edge(e).val));
}

int64_t MovedBytes(const SegmentedFusion& segmented, const SizeHints& sizes, GroupId g) {
  int64_t bytes = 0;
  if (!Launches(segmented, g)) return bytes;
  for (EdgeId e : segmented.in_edges(g)) {
    if (segmented.edge(e).kind() == EdgeKind::kData)
      bytes = SaturatingAdd(bytes, ReadBytes(segmented, sizes, e));
  }
  for (BufferId b : segmented.buffers(g))
    bytes = SaturatingAdd(bytes, sizes.Bytes(segmented.buffer(b).val));
  return bytes;
}

GroupTraffic TrafficOf(const SegmentedFusion& segmented, const SizeHints& sizes, GroupId g) {
  GroupTraffic traffic;
  if (!Launches(segmented, g)) return traffic;
  for (EdgeId e : segmented.in_edges(g)) {
    if (segmented.edge(e).kind() != EdgeKind::kData) continue;
    const ValId v = segmented.edge(e).val;
    const DType stored = segmented.buffer(segmented.edge(e).buffer).dtype;
    traffic.reads.emplace_back(
        v, ReadBytes(segmented, sizes, e) / DTypeBytes(sizes.type(v)) * DTypeBytes(stored));
  }
  std::sort(traffic.reads.begin(), traffic.reads.end());
  for (ValId v : segmented.outputs(g))
    traffic.writes.emplace_back(v, StoredBytes(segmented, sizes, v));
  return traffic;
}

SegmentationTotals TotalsOf(const SegmentedFusion& segmented, const SizeHints& sizes) {
  SegmentationTotals totals;
  for (GroupId g : segmented.groups()) {
    totals.kernels += Launches(segmented, g) ? 1 : 0;
    totals.bytes = SaturatingAdd(totals.bytes, TrafficOf(segmented, sizes, g).bytes());
  }
  return totals;
}

std::string FormatBytes(int64_t bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024) return absl::StrFormat("%d B", bytes);
  double value = static_cast<double>(bytes);
  int unit = 0;
  for (; value >= 1023.95 && unit < 6; ++unit) value /= 1024;
  return absl::StrFormat("%.1f %s", value, kUnits[unit]);
}

}  // namespace seam
