// In what types values cross between groups, and why.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "segmenter/dump.h"
#include "segmenter/traffic.h"

namespace seam {

std::string ExplainCrossings(const SegmentedFusion& segmented, const SizeHints& sizes) {
  const Fusion& f = segmented.fusion();
  const Narrowing narrowing = segmented.narrowing();
  const CrossingTypes types =
      CrossingTypes::Find(f, segmented.facts(), segmented.computed(), narrowing);
  const std::vector<int64_t> saved = SavedByNarrowing(segmented, sizes);
  const bool permits = narrowing == Narrowing::kF16 || narrowing == Narrowing::kBF16;
  std::string out;
  for (GroupId g : segmented.groups()) {
    for (ValId v : segmented.outputs(g)) {
      const BufferId b = segmented.buffer_of(v);
      const std::string narrowed = DescribeNarrowing(segmented, v);
      const bool wide = permits && segmented.readers(b).size() > 0 && IsFloat(f.dtype(v));
      if (narrowed.empty() && !wide) continue;
      std::vector<GroupId> readers;
      for (EdgeId e : segmented.readers(b)) readers.push_back(segmented.edge(e).to);
      std::sort(readers.begin(), readers.end());
      absl::StrAppend(&out, "  ", f.name(v), ": ", StoredType(segmented, v), ", g", g.index(),
                      " to ", absl::StrJoin(readers, ", ", [](std::string* text, GroupId to) {
                        absl::StrAppend(text, "g", to.index());
                      }));
      if (!narrowed.empty()) {
        absl::StrAppend(&out, "; ", FormatBytes(saved[v.index()]), " saved, ", narrowed, "\n");
        continue;
      }
      const WideReason reason = types.wide_reason(v);
      absl::StrAppend(&out, "; not as ", NarrowingName(narrowing), ": ",
                      reason == WideReason::kNone ? "a view of it is not, and shares its memory"
                                                  : WideReasonSentence(reason),
                      "\n");
    }
  }
  return out.empty() ? out : absl::StrCat("\nin what types values cross\n", out);
}

}  // namespace seam
