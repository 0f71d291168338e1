// Tuning on the simulator with a timer that makes its figures up: what is tried, what wins, what is
// kept, what the report says.
#include "runtime/tune.h"

#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ir/text/parser.h"
#include "scheduler/alternatives.h"

namespace seam {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr char kNorm[] = R"(fusion norm {
  symbol M in [1, 1048576]
  symbol N in [1, 4096]
  input x: f32[M, N]
  y = x / sum(x * x, axes=[1], keepdims=true)
  output y
})";

class TuneTest : public ::testing::Test {
 protected:
  TuneTest() {
    std::string path = ::testing::TempDir() + "/seam_tune_XXXXXX";
    const char* made = mkdtemp(path.data());
    root_ = made != nullptr ? made : "";
    store_ = std::make_unique<TunedSchedules>(root_, int64_t{1} << 20);
    options_.store = store_.get();
    options_.timer = [this](const Executable&, absl::Span<const SymbolValue> symbols) {
      symbols_.assign(symbols.begin(), symbols.end());
      return CallTimer([this](const Executable& call, int) -> absl::StatusOr<double> {
        return Time((*call.CompileFor(symbols_))[0].schedule);
      });
    };
    options_.clock = [this] { return clock_ += clock_step_; };
  }
  ~TuneTest() override {
    std::error_code ignored;
    std::filesystem::remove_all(root_, ignored);
  }

  // Microseconds by schedule.
  absl::StatusOr<double> Time(const std::string& schedule) {
    if (first_.empty()) first_ = schedule;
    if (schedule == fails_) return absl::InternalError("the clock is gone");
    timed_.insert(schedule);
    if (schedule == best_) return best_us_;
    return schedule == first_ ? 20 : 30;
  }

  absl::StatusOr<Executable> Make(const std::string& text) const {
    CompileOptions options;
    options.backend = BackendKind::kSimulator;
    options.tuned = store_.get();
    return Compile(*ParseFusion(text), options);
  }
  absl::StatusOr<TuneResult> TuneIt(const std::string& text,
                                    const std::vector<SymbolValue>& symbols) {
    const absl::StatusOr<Executable> executable = Make(text);
    if (!executable.ok()) return executable.status();
    return Tune(*executable, symbols, options_);
  }
  // The schedule lines that are tried for kNorm, the heuristic's first.
  static std::vector<std::string> Candidates(int64_t m, int64_t n) {
    const Fusion group = *ParseFusion(kNorm);
    ScheduleContext context;
    context.sizes = {m, n};
    context.device = Devices()[0];
    const Schedule chosen = *FindScheduler(SchedulerKind::kReduction)->choose(group, context);
    std::vector<std::string> lines = {chosen.ToString()};
    const std::vector<Schedule> others = *Alternatives(group, chosen, context);
    for (const Schedule& s : others) lines.push_back(s.ToString());
    return lines;
  }

  std::string root_;
  std::unique_ptr<TunedSchedules> store_;
  TuneOptions options_;
  std::vector<SymbolValue> symbols_;
  std::string first_, best_, fails_;
  double best_us_ = 10;
  double clock_ = 100, clock_step_ = 0;
  std::set<std::string> timed_;
};

TEST_F(TuneTest, FindsKeepsAndTellsTheFastest) {
  const std::vector<std::string> lines = Candidates(12, 64);
  ASSERT_GT(lines.size(), 10u);
  best_ = lines[7];
  fails_ = lines[5];
  const absl::StatusOr<TuneResult> result = TuneIt(kNorm, {{"M", 12}, {"N", 64}});
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_EQ(result->groups.size(), 1u);
  const TunedGroup& g = result->groups[0];
  EXPECT_EQ(g.heuristic, lines[0]);
  EXPECT_EQ(g.best, lines[7]);
  EXPECT_EQ(g.heuristic_us, 20);
  EXPECT_EQ(g.best_us, 10);
  EXPECT_EQ(g.ratio(), 2);
  EXPECT_EQ(g.tried, static_cast<int>(lines.size()) - 2);
  ASSERT_EQ(g.timed.size(), g.tried);
  EXPECT_EQ(g.timed[0].schedule, lines[7]);
  EXPECT_EQ(g.timed[0].us, 10);
  EXPECT_EQ(g.failed, 1);
  EXPECT_EQ(g.note, absl::StrCat(lines[5], ": the clock is gone"));
  EXPECT_EQ(g.spilled + g.wrong + g.untried, 0);
  EXPECT_EQ(timed_.size(), lines.size() - 1);

  const std::string text = TuneText(*result);
  EXPECT_THAT(text, StartsWith("norm on h200, M = 12, N = 64: tuned in 0.0 s\n"));
  EXPECT_THAT(text,
              HasSubstr("reduction: 20.00 us by the heuristic, 10.00 us by the best (2.00 times)"));
  EXPECT_THAT(text, HasSubstr(absl::StrCat("  best       ", lines[7], "\n")));
  EXPECT_THAT(text, HasSubstr("0 with spills, 1 that do not compile or run, 0 with wrong results"));
  EXPECT_THAT(text, HasSubstr(absl::StrCat("kept in ", root_)));
  const std::string json = TuneJson(*result);
  EXPECT_THAT(json, HasSubstr("\"ratio\": 2.0"));
  EXPECT_THAT(json, HasSubstr("\"sizes\": {\n    \"M\": 12,"));
  EXPECT_THAT(json, HasSubstr(absl::StrCat("\"best\": \"", lines[7], "\"")));

  // Who compiles the graph from now on has it.
  const absl::StatusOr<Executable> tuned = Make(kNorm);
  ASSERT_TRUE(tuned.ok()) << tuned.status();
  const std::vector<SymbolValue> symbols = {{"M", 12}, {"N", 64}};
  const GroupReport report = (*tuned->CompileFor(symbols))[0];
  EXPECT_EQ(report.schedule, lines[7]);
  EXPECT_THAT(report.origin, HasSubstr("(2.00 times)"));
}

TEST_F(TuneTest, KeepsTheHeuristicsWhereNothingGainsAHundredth) {
  const std::vector<std::string> lines = Candidates(12, 64);
  best_ = lines[3];
  best_us_ = 19.9;
  const absl::StatusOr<TuneResult> result = TuneIt(kNorm, {{"M", 12}, {"N", 64}});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->groups[0].best, lines[0]);
  EXPECT_EQ(result->groups[0].ratio(), 1);
  EXPECT_THAT(TuneText(*result), HasSubstr("  best       the same\n"));
  const GroupReport report = (*Make(kNorm)->CompileFor({{"M", 12}, {"N", 64}}))[0];
  EXPECT_EQ(report.schedule, lines[0]);
  EXPECT_THAT(report.origin, HasSubstr("(1.00 times)")) << "it need not be tuned again";
}

TEST_F(TuneTest, StopsInTimeAndSaysWhatIsLeft) {
  const std::vector<std::string> lines = Candidates(12, 64);
  clock_step_ = 1;  // A second from one look to the next.
  options_.seconds = 12;
  const absl::StatusOr<TuneResult> result = TuneIt(kNorm, {{"M", 12}, {"N", 64}});
  ASSERT_TRUE(result.ok()) << result.status();
  const TunedGroup& g = result->groups[0];
  EXPECT_GT(g.tried, 0);
  EXPECT_GT(g.untried, 0);
  EXPECT_EQ(g.tried + g.untried, static_cast<int>(lines.size()) - 1);
  EXPECT_EQ(g.heuristic_us, 20);
  EXPECT_THAT(TuneText(*result), HasSubstr(absl::StrCat("; ", g.untried, " untried")));

  options_.seconds = 0;
  const absl::StatusOr<TuneResult> none = TuneIt(kNorm, {{"M", 12}, {"N", 65}});
  ASSERT_TRUE(none.ok()) << none.status();
  EXPECT_EQ(none->groups[0].tried, 0);
  EXPECT_EQ(none->groups[0].best, none->groups[0].heuristic);
}

TEST_F(TuneTest, ChecksFewerRowsThanItTimes) {
  options_.checked_values = 4096;
  const absl::StatusOr<TuneResult> result = TuneIt(kNorm, {{"M", 100001}, {"N", 64}});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_GT(result->groups[0].tried, 10) << result->groups[0].note;
  EXPECT_EQ(symbols_[0].value, 100001);
  EXPECT_EQ(result->groups[0].wrong + result->groups[0].failed, 0) << result->groups[0].note;

  // Down to one row, of a number that no sixteen are left of.
  options_.checked_values = 60;
  const absl::StatusOr<TuneResult> few = TuneIt(kNorm, {{"M", 24}, {"N", 64}});
  ASSERT_TRUE(few.ok()) << few.status();
  EXPECT_GT(few->groups[0].tried, 10) << few->groups[0].note;
  EXPECT_EQ(few->groups[0].wrong + few->groups[0].failed, 0) << few->groups[0].note;
  options_.checked_values = 4096;

  // Extents without symbols stay as they are.
  const absl::StatusOr<TuneResult> fixed =
      TuneIt(absl::StrReplaceAll(kNorm, {{"f32[M, N]", "f32[3000, 7]"}}), {{"M", 1}, {"N", 1}});
  ASSERT_TRUE(fixed.ok()) << fixed.status();
  EXPECT_THAT(fixed->groups[0].note, StartsWith("not tuned: it has too many values"));
  EXPECT_THAT(TuneText(*fixed), HasSubstr("reduction: not tuned: it has too many values"));
  EXPECT_THAT(TuneText(*fixed), Not(HasSubstr("by the heuristic")));
}

TEST_F(TuneTest, TunesSumsOfEverythingPointsAndIslands) {
  options_.checked_values = 1000;
  for (const char* body : {"y = sum(x, axes=[0, 1])\n", "y = exp(x) * 2.0\n",
                           "y = exp(x)\n  z = sin(b)\n  output z\n"}) {
    first_.clear();
    const absl::StatusOr<TuneResult> result =
        TuneIt(absl::StrCat("fusion f {\n  symbol M in [1, 4096]\n  symbol N in [1, 4096]\n"
                            "  input x: f32[M, N]\n  input b: f32[N]\n  ",
                            body, "  output y\n}"),
               {{"M", 301}, {"N", 264}});
    ASSERT_TRUE(result.ok()) << result.status();
    ASSERT_EQ(result->groups.size(), 1u);
    const TunedGroup& g = result->groups[0];
    EXPECT_GT(g.tried, 3) << body << g.note;
    EXPECT_EQ(g.failed + g.wrong, 0) << body << g.note;
    EXPECT_EQ(g.best_us, 20) << body;
  }
}

TEST_F(TuneTest, TunesEqualGroupsOnce) {
  constexpr char kTwo[] = R"(fusion two {
  input a: f32[9, 40]
  input w: f32[40]
  y = w / sum(a * a, axes=[1], keepdims=true)
  b = segment_set(y)
  z = w / sum(b * b, axes=[1], keepdims=true)
  output y
  output z
})";
  const absl::StatusOr<TuneResult> result = TuneIt(kTwo, {});
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_EQ(result->groups.size(), 3u);  // With what lies between them.
  EXPECT_GT(result->groups[0].tried, 0);
  EXPECT_EQ(result->groups[2].same_as, 0);
  EXPECT_EQ(result->groups[2].tried, 0);
  EXPECT_THAT(TuneText(*result), HasSubstr("the same as group "));
  EXPECT_THAT(TuneJson(*result), HasSubstr("\"same_as\": "));
}

TEST_F(TuneTest, GivesItsCandidatesToThoseWhoTimeThem) {
  const std::vector<SymbolValue> symbols = {{"M", 12}, {"N", 64}};
  const Executable executable = *Make(kNorm);
  const absl::StatusOr<std::vector<Schedule>> schedules = CandidateSchedules(executable, symbols);
  ASSERT_TRUE(schedules.ok()) << schedules.status();
  const std::vector<std::string> lines = Candidates(12, 64);
  ASSERT_EQ(schedules->size(), lines.size());
  const absl::StatusOr<std::vector<absl::StatusOr<Executable>>> compiled =
      CompileSchedules(executable, symbols, *schedules);
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  ASSERT_EQ(compiled->size(), lines.size());
  for (size_t i = 0; i < lines.size(); ++i) {
    ASSERT_TRUE((*compiled)[i].ok()) << (*compiled)[i].status();
    EXPECT_EQ((*(*compiled)[i]->CompileFor(symbols))[0].schedule, lines[i]);
  }
  Schedule another = (*schedules)[0];
  another.kind = SchedulerKind::kPointwise;
  const auto others = CompileSchedules(executable, symbols, {Schedule{}, another});
  ASSERT_TRUE(others.ok()) << others.status();
  for (const auto& other : *others)
    EXPECT_THAT(other.status().message(), HasSubstr("expected one of reduction"));

  const Executable two = *Make(R"(fusion two {
    symbol M in [1, 1048576]
    symbol N in [1, 4096]
    input x: f32[M, N]
    y = x / sum(x * x, axes=[1], keepdims=true)
    z = y / amax(abs(y), axes=[0], keepdims=true)
    output z
  })");
  const absl::Status status = CandidateSchedules(two, symbols).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("two: 2 groups"));
}

TEST_F(TuneTest, NeedsATimer) {
  options_.timer = nullptr;
  EXPECT_TRUE(absl::IsUnavailable(TuneIt(kNorm, {{"M", 2}, {"N", 8}}).status()));
  CompileOptions reference;
  reference.backend = BackendKind::kReference;
  const absl::StatusOr<Executable> executable = Compile(*ParseFusion(kNorm), reference);
  ASSERT_TRUE(executable.ok()) << executable.status();
  EXPECT_TRUE(absl::IsInvalidArgument(Tune(*executable, {}, options_).status()));
}

}  // namespace
}  // namespace seam
