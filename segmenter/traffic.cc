#include "segmenter/traffic.h"

#include <algorithm>
#include <cmath>

#include "absl/container/btree_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace seam {
namespace {

int64_t SaturatingAdd(int64_t a, int64_t b) {
  int64_t sum;
  return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

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
    if (segmented.fusion().is_output(ValId(v)) && !facts.is_free_to_return[v]) return true;
  }
  return false;
}

int64_t ReadBytes(const Fusion& f, const SizeHints& sizes, ExprId e, int i) {
  const bool partial =
      f.op(e) == OpKind::Slice || f.op(e) == OpKind::Gather || f.op(e) == OpKind::IndexSelect;
  const ValId v = f.operands(e)[i];
  return partial && i == 0 ? sizes.BytesAs(f.result(e), sizes.type(v)) : sizes.Bytes(v);
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

GroupTraffic TrafficOf(const SegmentedFusion& segmented, const SizeHints& sizes, GroupId g) {
  GroupTraffic traffic;
  if (!Launches(segmented, g)) return traffic;
  const Fusion& f = segmented.fusion();
  absl::btree_map<ValId, int64_t> reads;
  for (ExprId e : segmented.all_exprs(g)) {
    for (size_t i = 0; i < f.operands(e).size(); ++i) {
      const ValId v = f.operands(e)[i];
      if (f.definition(v).valid() && segmented.computes(g, f.definition(v))) continue;
      int64_t& bytes = reads[v];
      bytes = SaturatingAdd(bytes, ReadBytes(f, sizes, e, static_cast<int>(i)));
    }
  }
  for (const auto& [v, bytes] : reads) {
    const DType stored = segmented.buffer(segmented.buffer_of(v)).dtype;
    traffic.reads.emplace_back(
        v, std::min(bytes, sizes.Bytes(v)) / DTypeBytes(sizes.type(v)) * DTypeBytes(stored));
  }
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
