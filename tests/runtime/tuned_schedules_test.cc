// Tuned schedules on disk: what is kept, for what, and that no damaged or foreign file is believed;
// Executables that use them.
#include "runtime/tuned_schedules.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ir/reference/envelope.h"
#include "ir/text/parser.h"
#include "runtime/executable.h"
#include "scheduler/alternatives.h"

namespace seam {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr int64_t kPlenty = int64_t{1} << 30;
constexpr SchedulerKind kReduction = SchedulerKind::kReduction;

constexpr char kNorm[] = R"(fusion norm {
  symbol M in [1, 4096]
  symbol N in [1, 4096]
  input x: f32[M, N]
  input w: f32[N]
  y = x * w / sum(x * x, axes=[1], keepdims=true)
  output y
})";

class TunedSchedulesTest : public ::testing::Test {
 protected:
  TunedSchedulesTest() : group_(*ParseFusion(kNorm)) {
    std::string path = ::testing::TempDir() + "/seam_tuned_XXXXXX";
    const char* made = mkdtemp(path.data());
    root_ = made != nullptr ? made : "";
    EXPECT_FALSE(root_.empty());
  }
  ~TunedSchedulesTest() override {
    std::error_code ignored;
    fs::remove_all(root_, ignored);
  }

  static ScheduleContext Context(int64_t m = 12, int64_t n = 64) {
    ScheduleContext context;
    context.sizes = {m, n};
    context.device = Devices()[0];
    return context;
  }
  // One that the heuristic does not choose.
  TunedSchedule Another(const ScheduleContext& context) const {
    const Schedule chosen = *FindScheduler(kReduction)->choose(group_, context);
    TunedSchedule tuned;
    tuned.schedule = Alternatives(group_, chosen, context)->front();
    tuned.us = 10;
    tuned.heuristic_us = 12.5;
    tuned.tried = 17;
    return tuned;
  }

  std::string root_;
  Fusion group_;
};

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}
void WriteFile(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

TEST_F(TunedSchedulesTest, GivesBackWhatWasStored) {
  const ScheduleContext context = Context();
  TunedSchedules store(root_ + "/deeper/still", kPlenty);
  EXPECT_TRUE(absl::IsNotFound(store.Find(group_, kReduction, context).status()));
  TunedSchedule tuned = Another(context);
  for (const bool replaced : {false, true}) {
    if (replaced) tuned.schedule.islands = {tuned.schedule, Schedule(tuned.schedule)};
    tuned.schedule.facts = {{"N", 4}, {"M", 1, int64_t{1} << 40}};
    store.Store(group_, context, tuned);
    // Another process would be another object.
    TunedSchedules other(root_ + "/deeper/still", kPlenty);
    const absl::StatusOr<TunedSchedule> found = other.Find(group_, kReduction, context);
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_EQ(found->schedule, tuned.schedule);
    EXPECT_EQ(found->us, 10);
    EXPECT_EQ(found->heuristic_us, 12.5);
    EXPECT_EQ(found->tried, 17);
  }
  // For people.
  const std::string text = ReadFile(store.FilePath(group_, kReduction, context));
  EXPECT_THAT(text, HasSubstr(tuned.schedule.ToString()));
  EXPECT_THAT(text, HasSubstr("\"M\": 12"));
  EXPECT_EQ(store.warning(), "");
}

TEST_F(TunedSchedulesTest, IsForOneStructureSizeAlignmentAndDevice) {
  const ScheduleContext context = Context();
  TunedSchedules store(root_, kPlenty);
  store.Store(group_, context, Another(context));
  EXPECT_TRUE(store.Find(group_, kReduction, context).ok());
  const auto missing = [&](const Fusion& group, const ScheduleContext& c, SchedulerKind kind) {
    return absl::IsNotFound(store.Find(group, kind, c).status());
  };
  EXPECT_TRUE(missing(group_, Context(13), kReduction));
  EXPECT_TRUE(missing(group_, Context(12, 65), kReduction));
  EXPECT_TRUE(missing(group_, context, SchedulerKind::kPointwise));
  ScheduleContext other = context;
  other.alignment_bytes = 8;
  EXPECT_TRUE(missing(group_, other, kReduction));
  other = context;
  other.device.sms = 78;
  EXPECT_TRUE(missing(group_, other, kReduction));
  other = context;
  other.device = *FindDevice("sm_80");
  EXPECT_TRUE(missing(group_, other, kReduction));

  // Names of values and of the graph are none of the structure; types, constants, axes are.
  const auto edited = [&](const char* from, const char* to) {
    return *ParseFusion(absl::StrReplaceAll(kNorm, {{from, to}}));
  };
  EXPECT_TRUE(store.Find(edited("fusion norm", "fusion g7"), kReduction, context).ok());
  EXPECT_TRUE(store.Find(edited("w", "weight"), kReduction, context).ok());
  EXPECT_TRUE(missing(edited("f32[N]", "f32[N] strides [2]"), context, kReduction));
  EXPECT_TRUE(missing(edited("x * x", "x * x * 2.0"), context, kReduction));
  EXPECT_TRUE(missing(edited("sum(", "amax("), context, kReduction));
  EXPECT_FALSE(store.FilePath(edited("x * x", "x * x * 2.0"), kReduction, context) ==
               store.FilePath(edited("x * x", "x * x * 3.0"), kReduction, context));
  EXPECT_FALSE(store.FilePath(edited("x * x", "maximum(x, inf)"), kReduction, context) ==
               store.FilePath(edited("x * x", "maximum(x, -inf)"), kReduction, context));
}

TEST_F(TunedSchedulesTest, BelievesNoDamagedFile) {
  const ScheduleContext context = Context();
  TunedSchedules store(root_, kPlenty);
  const TunedSchedule tuned = Another(context);
  store.Store(group_, context, tuned);
  const std::string path = store.FilePath(group_, kReduction, context);
  const std::string whole = ReadFile(path);
  const auto find = [&](const std::string& text) {
    WriteFile(path, text);
    return store.Find(group_, kReduction, context);
  };
  ASSERT_TRUE(find(whole).ok());
  for (size_t length = 0; length + 2 < whole.size(); length += 13) {
    EXPECT_TRUE(absl::IsDataLoss(find(whole.substr(0, length)).status())) << length;
  }
  // Whitespace may change; nothing else.
  for (size_t bit = 0; bit < whole.size() * 8; bit += 29) {
    std::string altered = whole;
    altered[bit / 8] = static_cast<char>(altered[bit / 8] ^ (1 << (bit % 8)));
    const absl::StatusOr<TunedSchedule> found = find(altered);
    if (!found.ok()) continue;
    EXPECT_EQ(found->schedule, tuned.schedule) << bit;
  }
  EXPECT_THAT(find("{}").status().message(), HasSubstr("has no seam_tuned_schedule"));
  EXPECT_THAT(find("[1, 2").status().message(), HasSubstr("no JSON object"));
  EXPECT_THAT(find(std::string(100000, '[')).status().message(), HasSubstr("no JSON object"));
  const std::string nested =
      absl::StrCat(R"({"for":)", std::string(200000, '['), std::string(200000, ']'), "}");
  EXPECT_THAT(find(nested).status().message(), HasSubstr("lies in more than 64"));
  EXPECT_THAT(find(absl::StrReplaceAll(whole, {{"\"registers\": ", "\"registers\": 1"}}))
                  .status()
                  .message(),
              HasSubstr("checksum"));
  const std::string format = absl::StrCat("tuned_schedule\": ", kTunedFormat);
  ASSERT_THAT(whole, HasSubstr(format));
  EXPECT_THAT(
      find(absl::StrReplaceAll(whole, {{format, "tuned_schedule\": 99"}})).status().message(),
      HasSubstr("format 99"));
  // A whole one in another's place.
  store.Store(group_, Context(13), Another(Context(13)));
  EXPECT_THAT(find(ReadFile(store.FilePath(group_, kReduction, Context(13)))).status().message(),
              HasSubstr("another group, other sizes or another device"));
  store.Store(group_, context, tuned);
  EXPECT_TRUE(store.Find(group_, kReduction, context).ok()) << "a damaged file is overwritten";
}

TEST_F(TunedSchedulesTest, ManyWritersLeaveOneWholeFile) {
  const ScheduleContext context = Context();
  const Schedule chosen = *FindScheduler(kReduction)->choose(group_, context);
  const std::vector<Schedule> schedules = *Alternatives(group_, chosen, context);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      TunedSchedules store(root_, kPlenty);
      for (size_t i = 0; i < 20; ++i) {
        TunedSchedule tuned;
        tuned.schedule = schedules[(t + i) % schedules.size()];
        store.Store(group_, context, tuned);
        const absl::StatusOr<TunedSchedule> found = store.Find(group_, kReduction, context);
        EXPECT_TRUE(found.ok()) << found.status();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(std::distance(fs::directory_iterator(root_), {}), 1);
}

TEST_F(TunedSchedulesTest, KeepsToItsSizeAndToItsOwnFiles) {
  const TunedSchedule tuned = Another(Context());
  WriteFile(root_ + "/0123456789abcdef0123456789abcdef.cubin", std::string(100000, 'x'));
  constexpr int64_t kCapacity = 20000;
  TunedSchedules store(root_, kCapacity);
  for (int64_t m = 1; m <= 60; ++m) store.Store(group_, Context(m), tuned);
  int64_t bytes = 0;
  for (const auto& entry : fs::directory_iterator(root_)) {
    if (entry.path().extension() == ".json") bytes += static_cast<int64_t>(entry.file_size());
  }
  EXPECT_LE(bytes, kCapacity);
  EXPECT_GT(bytes, kCapacity / 2);
  EXPECT_TRUE(store.Find(group_, kReduction, Context(60)).ok());
  EXPECT_TRUE(absl::IsNotFound(store.Find(group_, kReduction, Context(1)).status()));
  EXPECT_TRUE(fs::exists(root_ + "/0123456789abcdef0123456789abcdef.cubin"));

  TunedSchedules nowhere("", kPlenty);
  nowhere.Store(group_, Context(), tuned);
  EXPECT_TRUE(absl::IsNotFound(nowhere.Find(group_, kReduction, Context()).status()));
  TunedSchedules impossible("/proc/seam", kPlenty);
  impossible.Store(group_, Context(), tuned);
  EXPECT_THAT(impossible.warning(), StartsWith("Tuned schedules are not kept in /proc/seam"));
}

// --- Executables ---

class TunedExecutables : public TunedSchedulesTest {
 protected:
  static constexpr int64_t kRows = 12, kColumns = 64;

  // The whole graph is one group: what the runtime makes of it has the same structure.
  absl::StatusOr<GroupReport> Report(CompileOptions options) {
    options.backend = BackendKind::kSimulator;
    absl::StatusOr<Executable> executable = Compile(*ParseFusion(kNorm), options);
    if (!executable.ok()) return executable.status();
    const std::vector<SymbolValue> symbols = {{"M", kRows}, {"N", kColumns}};
    std::vector<HostTensor> inputs = {*HostTensor::Make(DType::F32, {kRows, kColumns}),
                                      *HostTensor::Make(DType::F32, {kColumns})};
    FillRandom(inputs[0], 1);
    FillRandom(inputs[1], 2);
    const absl::StatusOr<std::vector<HostTensor>> outputs = executable->RunOnHost(inputs);
    if (!outputs.ok()) return outputs.status();
    const std::vector<Envelope> envelopes = *MakeEnvelopes(executable->fusion(), {}, inputs);
    const absl::Status within = CheckWithin(envelopes[0], (*outputs)[0]);
    if (!within.ok()) return within;
    return (*executable->CompileFor(symbols))[0];
  }
};

TEST_F(TunedExecutables, UseWhatIsStoredForTheseSizes) {
  TunedSchedules store(root_, kPlenty);
  CompileOptions options;
  options.tuned = &store;
  const absl::StatusOr<GroupReport> before = Report(options);
  ASSERT_TRUE(before.ok()) << before.status();
  EXPECT_EQ(before->origin, "chosen by the heuristic: nothing is tuned for these sizes");
  EXPECT_THAT(before->kernels[0].kernel_text, HasSubstr("chosen by the heuristic"));

  const TunedSchedule tuned = Another(Context(kRows, kColumns));
  store.Store(group_, Context(kRows, kColumns), tuned);
  const absl::StatusOr<GroupReport> after = Report(options);
  ASSERT_TRUE(after.ok()) << after.status();
  EXPECT_NE(after->schedule, before->schedule);
  EXPECT_EQ(after->schedule, tuned.schedule.ToString());
  const char* const origin =
      "tuned for M = 12, N = 64: 10.00 us, the heuristic's schedule 12.50 us (1.25 times)";
  EXPECT_EQ(after->origin, origin);
  EXPECT_THAT(after->kernels[0].kernel_text, HasSubstr(origin));

  options.use_tuned = false;
  const absl::StatusOr<GroupReport> off = Report(options);
  ASSERT_TRUE(off.ok()) << off.status();
  EXPECT_EQ(off->schedule, before->schedule);
  EXPECT_EQ(off->origin, "chosen by the heuristic: tuned schedules are switched off");
}

TEST_F(TunedExecutables, TakeTheHeuristicsScheduleWhereTheStoredOneDoesNotFit) {
  const ScheduleContext context = Context(kRows, kColumns);
  const Schedule chosen = *FindScheduler(kReduction)->choose(group_, context);
  const auto with = [&](auto edit) {
    TunedSchedules store(root_, kPlenty);
    TunedSchedule tuned;
    tuned.schedule = chosen;
    edit(tuned.schedule);
    store.Store(group_, context, tuned);
    CompileOptions options;
    options.tuned = &store;
    const absl::StatusOr<GroupReport> report = Report(options);
    EXPECT_TRUE(report.ok()) << report.status();
    if (!report.ok()) return std::string();
    EXPECT_EQ(report->schedule, chosen.ToString());
    EXPECT_THAT(report->origin, StartsWith("chosen by the heuristic: what is stored in "));
    return report->origin;
  };
  EXPECT_THAT(with([](Schedule& s) { s.lanes_per_row = 3; }), HasSubstr("lanes_per_row"));
  EXPECT_THAT(with([](Schedule& s) { s.facts = {{"Q", 1, 7}}; }), HasSubstr("no symbol of it"));
  EXPECT_THAT(with([](Schedule& s) { s.facts = {{"N", 128}}; }), HasSubstr("does not serve"));
  EXPECT_THAT(with([](Schedule& s) {
                s.registers = s.vector = s.lanes_per_row = s.warps_per_row = 1;
                s.persistent = true;
              }),
              HasSubstr("does not serve"));
  EXPECT_THAT(with([](Schedule& s) {
                s.persistent = true;
                s.grid = 2;
                s.stages = 16;
                s.registers = 64;
                s.chan_welford = false;
              }),
              HasSubstr("shared memory"));
  TunedSchedules store(root_, kPlenty);
  WriteFile(store.FilePath(group_, kReduction, context), "{\"seam\": ");
  CompileOptions options;
  options.tuned = &store;
  const absl::StatusOr<GroupReport> damaged = Report(options);
  ASSERT_TRUE(damaged.ok()) << damaged.status();
  EXPECT_EQ(damaged->schedule, chosen.ToString());
  EXPECT_THAT(damaged->origin, HasSubstr("it is no JSON object"));

  fs::remove(store.FilePath(group_, kReduction, context));
  fs::create_directory(store.FilePath(group_, kReduction, context));
  const absl::StatusOr<GroupReport> unreadable = Report(options);
  ASSERT_TRUE(unreadable.ok()) << unreadable.status();
  EXPECT_EQ(unreadable->schedule, chosen.ToString());
  EXPECT_THAT(unreadable->origin, HasSubstr("is not used, as it cannot be read: it is no file"));
}

TEST_F(TunedExecutables, ReadTheUsersOwnByDefault) {
  setenv("SEAM_CACHE_DIR", root_.c_str(), 1);
  const TunedSchedule tuned = Another(Context(kRows, kColumns));
  TunedSchedules::FromEnvironment()->Store(group_, Context(kRows, kColumns), tuned);
  const absl::StatusOr<GroupReport> report = Report({});
  unsetenv("SEAM_CACHE_DIR");
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->schedule, tuned.schedule.ToString());
}

}  // namespace
}  // namespace seam
