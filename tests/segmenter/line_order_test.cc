// The segmentation of a graph does not depend on the order in which its lines are written.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "ir/fusion_builder.h"
#include "ir/text/parser.h"
#include "ir/text/printer.h"
#include "scheduler/scheduler.h"
#include "segmenter/segment.h"
#include "tests/segmenter/random_fusion.h"
#include "tests/segmenter/rule_guard.h"
#include "tests/support/reduction_graph.h"
#include "tests/support/sanitized.h"
#include "tests/support/shuffled_fusion.h"

namespace seam {
namespace {

template <typename Ids>
std::string Names(const Fusion& f, const Ids& ids) {
  std::vector<std::string> names;
  for (const auto id : ids) {
    if constexpr (std::is_same_v<decltype(id), const ExprId>) {
      names.emplace_back(f.name(f.result(id)));
    } else {
      names.emplace_back(f.name(id));
    }
  }
  std::sort(names.begin(), names.end());
  return absl::StrJoin(names, " ");
}

// The groups in the order of their numbers, with everything that is to be the same.
std::string Described(const Segmentation& s) {
  const Fusion& f = s.segmented.fusion();
  std::string text;
  for (GroupId g : s.segmented.groups()) {
    absl::StrAppend(&text, "g", g.index(), " ", SchedulerName(s.segmented.scheduler(g)), ": ",
                    Names(f, s.segmented.exprs(g)), "; copies ", Names(f, s.segmented.copies(g)),
                    "; reads ", Names(f, s.segmented.inputs(g)), "; writes");
    std::vector<std::string> outputs;
    for (ValId v : s.segmented.outputs(g)) {
      const Buffer& buffer = s.segmented.buffer(s.segmented.buffer_of(v));
      outputs.push_back(
          absl::StrCat(" ", std::string(f.name(v)), "[", absl::StrJoin(buffer.order, ","), "]"));
    }
    std::sort(outputs.begin(), outputs.end());
    absl::StrAppend(&text, absl::StrJoin(outputs, ""), "\n");
  }
  for (const BorderReason& border : s.log.borders) {
    absl::StrAppend(&text, "g", border.from.index(), " | g", border.to.index(), " ",
                    ReasonName(border.decision.reason), " ", Names(f, border.decision.about), "\n");
  }
  return text;
}

// What the cut is apart from names: of each group, how many expressions of which operations.
std::string Shape(const Segmentation& s) {
  const Fusion& f = s.segmented.fusion();
  std::vector<std::string> groups;
  for (GroupId g : s.segmented.groups()) {
    std::vector<std::string> ops;
    for (ExprId e : s.segmented.all_exprs(g)) ops.emplace_back(OpName(f.op(e)));
    std::sort(ops.begin(), ops.end());
    groups.push_back(absl::StrCat(SchedulerName(s.segmented.scheduler(g)), ": ",
                                  absl::StrJoin(ops, " "), "; ", s.segmented.inputs(g).size(),
                                  " read, ", s.segmented.outputs(g).size(), " written\n"));
  }
  std::sort(groups.begin(), groups.end());
  return absl::StrJoin(groups, "");
}

// The graph and a copy of all its expressions, which reads the same inputs: nothing but ties.
Fusion Doubled(const Fusion& f) {
  absl::flat_hash_set<std::string> computed;
  for (uint32_t v = 0; v < f.num_vals(); ++v) {
    if (!f.is_input(ValId(v))) computed.emplace(f.name(ValId(v)));
  }
  std::string text;
  const std::string written = PrintFusion(f);
  for (absl::string_view line : absl::StrSplit(written, '\n', absl::SkipEmpty())) {
    absl::StrAppend(&text, line, "\n");
    std::string copy, word;
    for (char c : absl::StrCat(std::string(line), "\n")) {
      if (std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.') {
        word += c;
        continue;
      }
      absl::StrAppend(&copy, word, computed.contains(word) ? "_copy" : "");
      word.clear();
      copy += c;
    }
    if (copy != absl::StrCat(std::string(line), "\n")) text += copy;
  }
  absl::StatusOr<Fusion> doubled = ParseFusion(text);
  if (!doubled.ok()) ADD_FAILURE() << doubled.status() << "\n" << text;
  return *std::move(doubled);
}

// With `rename`, under other names as well: where hashes do not tell what is not alike, names do.
void Check(const Fusion& f, const SchedulabilityGuard& guard, int shuffles, testing::Dice& dice,
           bool rename = true) {
  const absl::StatusOr<Segmentation> cut = SegmentWithLog(f, guard);
  ASSERT_TRUE(cut.ok()) << cut.status();
  const std::string described = Described(*cut), shape = Shape(*cut);
  for (int i = 0; i < shuffles; ++i) {
    const absl::StatusOr<Fusion> other = testing::Shuffled(f, dice, /*rename=*/false);
    ASSERT_TRUE(other.ok()) << other.status();
    const absl::StatusOr<Segmentation> other_cut = SegmentWithLog(*other, guard);
    ASSERT_TRUE(other_cut.ok()) << other_cut.status();
    ASSERT_EQ(Described(*other_cut), described) << PrintFusion(f) << PrintFusion(*other);
    if (!rename) continue;
    const absl::StatusOr<Fusion> renamed = testing::Shuffled(f, dice, /*rename=*/true);
    ASSERT_TRUE(renamed.ok()) << renamed.status();
    const absl::StatusOr<Segmentation> renamed_cut = SegmentWithLog(*renamed, guard);
    ASSERT_TRUE(renamed_cut.ok()) << renamed_cut.status();
    ASSERT_EQ(Shape(*renamed_cut), shape) << PrintFusion(f) << PrintFusion(*renamed);
  }
}

TEST(LineOrderTest, NamedGraphsAndExamples) {
  testing::Dice dice(1);
  int graphs = 0;
  testing::Part part;
  for (const char* folder : {"/tests/graphs", "/examples"}) {
    const std::filesystem::path root(absl::StrCat(SEAM_SOURCE_DIR, folder));
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
      if (entry.path().extension() != ".seam" || !part.TakesNext()) continue;
      const absl::StatusOr<Fusion> f = LoadFusion(entry.path().string());
      ASSERT_TRUE(f.ok()) << f.status();
      SCOPED_TRACE(entry.path().string());
      Check(*f, RealGuard(), 2, dice);
      Check(Doubled(*f), RealGuard(), 1, dice);
      ++graphs;
    }
  }
  EXPECT_GT(graphs, 60 / testing::kPart);
}

TEST(LineOrderTest, RandomGraphs) {
  testing::Dice dice(2);
#ifdef SEAM_SANITIZE
  constexpr uint32_t kSeeds = 4;  // Each is cut many times over, slowly here.
#else
  constexpr uint32_t kSeeds = 80;
#endif
  for (uint32_t seed = 0; seed < kSeeds; ++seed) {
    const int size = 3 + static_cast<int>(seed * 7 % 38);
    const absl::StatusOr<Fusion> any = RandomFusion(seed, size).Make();
    ASSERT_TRUE(any.ok()) << any.status();
    const absl::StatusOr<Fusion> reductions = ReductionGraph(seed, size).Make();
    ASSERT_TRUE(reductions.ok()) << reductions.status();
    for (const Fusion* f : {&*any, &*reductions}) {
      SCOPED_TRACE(seed);
      Check(*f, RuleGuard(), 1, dice);
      Check(*f, RealGuard(), 2, dice);
      Check(Doubled(*f), RealGuard(), 1, dice, /*rename=*/false);
    }
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace seam
