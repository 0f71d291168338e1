// Segmentations that come back from files, and files that are refused.
#include "segmenter/load_segmentation.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "ir/text/parser.h"
#include "ir/text/printer.h"
#include "scheduler/scheduler.h"
#include "segmenter/dump.h"
#include "segmenter/verify.h"
#include "tests/segmenter/random_fusion.h"
#include "tests/segmenter/rule_guard.h"

namespace seam {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kExamples[] = {"adamw",
                                     "batch_norm_train",
                                     "cross_entropy",
                                     "group_norm_nhwc",
                                     "instance_norm",
                                     "layer_norm",
                                     "layer_norm_backward",
                                     "residual_dropout_layer_norm",
                                     "rms_norm",
                                     "rope",
                                     "softmax",
                                     "swiglu"};

Fusion Example(const std::string& name) {
  return *LoadFusion(absl::StrCat(SEAM_SOURCE_DIR "/examples/", name, ".seam"));
}

std::string Dump(const SegmentedFusion& s, const SegmentationLog& log, const SymbolSizes& sizes) {
  const SizeHints hints = *SizeHints::Create(s.fusion(), sizes);
  return *DumpJson(s, {&hints, &log});
}

std::string TextOf(const SegmentedFusion& s, const SegmentationLog& log, const SymbolSizes& sizes) {
  const SizeHints hints = *SizeHints::Create(s.fusion(), sizes);
  return *DumpText(s, {&hints, &log});
}

std::string DumpOf(const Fusion& f, const SchedulabilityGuard& guard,
                   const SymbolSizes& sizes = {}) {
  SegmentOptions options;
  options.sizes = sizes;
  const Segmentation s = *SegmentWithLog(f, guard, options);
  return Dump(s.segmented, s.log, sizes);
}

void ExpectRoundTrip(const Fusion& f, const std::string& dump) {
  const absl::StatusOr<LoadedSegmentation> loaded = LoadSegmentation(f, dump);
  ASSERT_TRUE(loaded.ok()) << loaded.status() << "\n" << dump;
  EXPECT_TRUE(VerifySegmentation(loaded->segmented).ok());
  EXPECT_EQ(Dump(loaded->segmented, loaded->log, loaded->sizes), dump);
  const std::string text = TextOf(loaded->segmented, loaded->log, loaded->sizes);
  const absl::StatusOr<LoadedSegmentation> of_text = LoadSegmentation(f, text);
  ASSERT_TRUE(of_text.ok()) << of_text.status() << "\n" << text;
  EXPECT_EQ(TextOf(of_text->segmented, of_text->log, of_text->sizes), text);
  EXPECT_EQ(Dump(of_text->segmented, of_text->log, of_text->sizes), dump);
}

// x -> s -> y -> z, three groups by the rule: two reductions of everything, each used everywhere.
constexpr char kThreeGroups[] = R"(fusion f {
  symbol M in [1, 4096]
  input x: f16[M, 64]
  xf = cast(x, dtype=f32)
  s = sum(xf)
  y = xf / s
  average, m2, count = welford(y)
  z = y - average
  dead = exp(z)
  output z
})";

class LoadTest : public testing::Test {
 protected:
  LoadTest() : fusion_(*ParseFusion(kThreeGroups)) {
    json_ = Json::parse(DumpOf(fusion_, CostlyArithmeticGuard(), {{"M", 8}}));
  }
  std::string Error(const std::string& text) const {
    const absl::StatusOr<LoadedSegmentation> loaded = LoadSegmentation(fusion_, text);
    if (loaded.ok()) return "accepted";
    EXPECT_EQ(loaded.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(loaded.status().message());
  }
  std::string JsonError(const Json& json) const { return Error(json.dump()); }

  Fusion fusion_;
  Json json_;
};

TEST_F(LoadTest, RoundTripOfTheExamples) {
  for (const char* name : kExamples) {
    SCOPED_TRACE(name);
    const Fusion f = Example(name);
    ExpectRoundTrip(f, DumpOf(f, RealGuard()));
    const LoadedSegmentation loaded = *LoadSegmentation(f, DumpOf(f, RealGuard()));
    EXPECT_TRUE(CheckSchedulable(loaded.segmented, RealGuard()).ok());
  }
}

// `seam segment --device` writes the schedules behind.
TEST_F(LoadTest, SchedulesBehindTheText) {
  const LoadedSegmentation loaded = *LoadSegmentation(fusion_, json_.dump());
  const std::string text = TextOf(loaded.segmented, loaded.log, loaded.sizes);
  EXPECT_EQ(Error(text + "\nschedules for h100:\n  group 0: reduction inner\n"), "accepted");
}

TEST_F(LoadTest, RoundTripOfRandomGraphs) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    const Fusion f = *RandomFusion(seed + 700000, 1 + seed % 40).Make();
    ExpectRoundTrip(f, DumpOf(f, MoodyGuard(seed)));
  }
}

TEST_F(LoadTest, WhatIslandsShareIsWhatALoadedFileHas) {
  // Both updates have the cast of one number, each its own, until they are one group.
  const Fusion f = *ParseFusion(R"(fusion clip {
    input z: f16[4096]
    input x: f32[64, 32]
    input y: f32[77]
    n = sum(z, axes=[0])
    c = cast(n, dtype=f32)
    a = x * c
    b = y * c
    output a
    output b
  })");
  const std::string dump = DumpOf(f, RealGuard());
  const LoadedSegmentation loaded = *LoadSegmentation(f, dump);
  EXPECT_TRUE(CheckSchedulable(loaded.segmented, RealGuard()).ok())
      << CheckSchedulable(loaded.segmented, RealGuard()) << dump;
}

TEST_F(LoadTest, SizesLayoutsAndReasonsComeBack) {
  const LoadedSegmentation loaded = *LoadSegmentation(fusion_, json_.dump());
  EXPECT_EQ(loaded.sizes, (SymbolSizes{{"M", 8}}));
  ASSERT_EQ(loaded.log.borders.size(), json_["borders"].size());
  EXPECT_EQ(loaded.log.borders[0].decision.reason, ReasonCode::kGridBarrier);
  const Fusion f = *ParseFusion(
      "fusion f {\n input x: f32[8, 4, 16] strides[64, 1, 4]\n y = exp(x)\n b = "
      "segment_set(y)\n z = exp(b)\n output z\n}");
  const std::string dump = DumpOf(f, RuleGuard());
  EXPECT_TRUE(absl::StrContains(dump, "\"layout\": [\n        0,\n        2,\n        1\n"))
      << dump;
  ExpectRoundTrip(f, dump);
}

TEST_F(LoadTest, OrderConstraintsComeBack) {
  const Fusion f = *ParseFusion(
      "fusion f {\n input x: f32[8]\n a = exp(x)\n b = sin(x)\n output a\n output b\n}");
  Partition p;
  p.num_groups = 2;
  p.home = {GroupId(0), GroupId(1)};
  p.order = {{ExprId(0), ExprId(1), f.inputs()[0]}};
  SegmentedFusion s =
      *SegmentedFusion::Create(f, std::make_shared<const AxisMap>(AxisMap::Build(f)), p);
  for (uint32_t g : {0u, 1u}) s.set_scheduler(GroupId(g), SchedulerKind::kPointwise);
  const std::string dump = Dump(s, {}, {});
  EXPECT_TRUE(absl::StrContains(dump, "\"kind\": \"order\""));
  ExpectRoundTrip(f, dump);
}

// Printed, a graph has its inputs in front of its expressions, which numbers its values anew.
TEST_F(LoadTest, ACutOfAGraphThatWasPrinted) {
  const Fusion f = *ParseFusion(R"(fusion f {
    input x: f32[64, 64]
    y = exp(x)
    b = segment_set(y)
    input w: f32[64]
    z = b * w
    output z
  })");
  const Fusion printed = *ParseFusion(PrintFusion(f));
  const std::string dump = DumpOf(f, RuleGuard());
  const auto loaded = LoadSegmentation(printed, dump);
  ASSERT_TRUE(loaded.ok()) << loaded.status() << dump;
  // A set is all that it is: what a group does not read is still an error.
  const std::string other = absl::StrReplaceAll(dump, {{"\"w\"\n", "\"x\"\n"}});
  ASSERT_NE(other, dump);
  EXPECT_FALSE(LoadSegmentation(printed, other).ok());
}

TEST_F(LoadTest, WhatIsLeftOutIsWorkedOut) {
  Json small = {{"fusion", "f"}, {"symbols", {{"M", 8}}}, {"groups", Json::array()}};
  for (const Json& group : json_["groups"]) {
    small["groups"].push_back({{"scheduler", group["scheduler"]},
                               {"exprs", group["exprs"]},
                               {"copies", group["copies"]}});
  }
  const LoadedSegmentation loaded = *LoadSegmentation(fusion_, small.dump());
  Json expected = json_;
  expected["borders"] = Json::array();
  EXPECT_EQ(Dump(loaded.segmented, loaded.log, loaded.sizes), expected.dump(2) + "\n");
}

TEST_F(LoadTest, EmptyGraph) {
  const Fusion f = *ParseFusion("fusion f {\n input x: f32[8]\n output x\n}");
  ExpectRoundTrip(f, DumpOf(f, RuleGuard()));
}

TEST_F(LoadTest, NotJson) {
  EXPECT_EQ(Error(std::string()), "line 1, column 1: the file ends in the middle");
  EXPECT_EQ(Error("{\"fusion\": \"f\",\n  groups: []}"), "line 2, column 3: this is not JSON");
  EXPECT_EQ(Error("{} {}"), "line 1, column 4: this is not JSON");
  EXPECT_EQ(Error("{\"a\": 1, \"a\": 2}"), "an object has the key \"a\" twice");
  EXPECT_EQ(Error("{\"a\": 1e999}"), "a number does not fit into 64 bits");
  EXPECT_EQ(Error(std::string("{\"fusion\": \"\xff\"}")), "line 1, column 13: this is not JSON");
  EXPECT_EQ(Error(absl::StrCat("{\"a\":", std::string(200000, '['))),
            "line 1, column 200006: the file ends in the middle");
  const auto nested = [](int depth) {
    return absl::StrCat(R"({"a":)", std::string(depth, '['), std::string(depth, ']'), "}");
  };
  EXPECT_EQ(Error(nested(64)), "fusion: is missing");
  EXPECT_EQ(Error(nested(65)), "something lies in more than 64 arrays and objects");
  EXPECT_EQ(Error(nested(200000)), "something lies in more than 64 arrays and objects");
}

TEST_F(LoadTest, CutOffAnywhere) {
  const std::string text = json_.dump(2);
  for (size_t length = 0; length < text.size(); length += 3) {
    EXPECT_TRUE(absl::EndsWith(Error(text.substr(0, length)), "the file ends in the middle"));
  }
}

// Each edit of the file, and what is said to it.
TEST_F(LoadTest, Contradictions) {
  ASSERT_EQ(json_["groups"].size(), 3u);
  const auto expect = [&](const char* pointer, const Json& value, const std::string& error) {
    Json json = json_;
    json[Json::json_pointer(pointer)] = value;
    EXPECT_EQ(JsonError(json), error) << pointer;
  };
  expect("/fusion", "g", "fusion: this is a segmentation of `g`, the graph is `f`");
  expect("/fusion", 7, "fusion: found 7, expected a string");
  expect("/symbols/M", 5000, "symbols: symbol M = 5000 is not in 1..4096");
  expect("/symbols/K", 5, "symbols: the graph has no symbol K; it has M");
  expect("/symbols/M", 1.5, "symbols.M: found 1.5, expected an integer of 64 bits");
  expect("/symbols/M", 18446744073709551615ull,
         "symbols.M: found 18446744073709551615, expected an integer of 64 bits");
  expect("/kernels", 4, "kernels: found 4, by the graph and the groups it is 3");
  expect("/groups", Json::object(), "groups: found {}, expected an array");
  expect("/groups/1", "g1", "groups[1]: found \"g1\", expected an object");
  expect("/groups/1/id", 0, "groups[1].id: group 0 is listed twice");
  expect("/groups/1/id", -1, "groups[1].id: found -1, the next group is 1");
  expect("/groups/1/scheduler", "warp", "groups[1].scheduler: there is no scheduler `warp`");
  expect("/groups/1/exprs/0", "nix", "groups[1].exprs[0]: the graph has no value `nix`");
  expect("/groups/1/exprs/0", "x",
         "groups[1].exprs[0]: `x` is an input of the graph; no group computes it");
  expect("/groups/1/exprs/0", "m2",
         "groups[1].exprs[0]: an expression goes by the name of its first result, that of `m2` by "
         "`average`");
  expect("/groups/1/exprs/0", "dead", "groups: none of them computes `y` (copies apart)");
  expect("/groups/1/exprs/0", "s", "groups[1].exprs[0]: `s` is in group 0 already");
  expect("/groups/1/exprs/0", 3, "groups[1].exprs[0]: found 3, expected a string");
  expect("/groups/0/exprs", Json::array({"xf", "xf"}), "groups[0].exprs[1]: `xf` is listed twice");
  expect("/groups/0/exprs", Json::array({"xf"}),
         "groups: none of them computes `s` (copies apart)");
  expect("/groups/0/copies", Json::array({"s"}),
         "groups: expression `s` is copied into group 0, which has it, or is dead code");
  expect("/groups/0/inputs", Json::array({"x", "s"}),
         "groups[0].inputs: found [\"x\",\"s\"], by the graph and the groups it is [\"x\"]");
  expect("/groups/0/outputs", Json::array(),
         "groups[0].outputs: found [], by the graph and the groups it is [\"s\"]");
  expect("/groups/0/bytes", 1e300,
         "groups[0].bytes: found 1e+300, by the graph and the groups it is 1028");
  expect("/groups/0/text/0", "xf = exp(x)",
         "groups[0].text: found [\"xf = exp(x)\",\"s = sum(xf, axes=[0, 1])\"], by the graph and "
         "the groups it is [\"xf = cast(x, dtype=f32)\",\"s = sum(xf, axes=[0, 1])\"]");
  expect("/groups/0/colour", "red", "groups[0].colour: nothing of that name belongs here");
  expect("/edges/0/to", 7, "edges[0].to: there is no group 7");
  expect("/edges/0/from", 4294967296, "edges[0].from: there is no group 4294967296");
  expect("/edges/0/from", "g0", "edges[0].from: found \"g0\", expected an integer of 64 bits");
  expect("/edges/0/from", 2, "edges: they form a cycle, group 1 in it or behind it");
  expect("/edges/0/val", "y", "edges[0].val: found \"y\", by the graph and the groups it is \"s\"");
  expect("/edges/0", nullptr, "edges[0]: found null, expected an object");
  expect("/order", Json::array({{{"before", "s"}, {"after", "x"}, {"val", "x"}}}),
         "order[0].after: `x` is an input of the graph; no group computes it");
  expect("/borders/0/to", 0, "borders[0]: a border is between an earlier group and a later one");
  expect("/borders/0/reason", "ok", "borders[0].reason: there is no reason `ok`");
  expect("/borders/0/about", Json::array({"nix"}),
         "borders[0].about[0]: the graph has no value `nix`");
  Json json = json_;
  json["groups"].push_back(json["groups"][2]);
  EXPECT_EQ(JsonError(json), "groups[3].id: group 2 is listed twice");
  json = json_;
  json["edges"].push_back(json["edges"][0]);
  EXPECT_EQ(JsonError(json),
            absl::StrCat("edges: the file has ", json["edges"].size(),
                         ", by the graph and the groups there are ", json_["edges"].size()));
  json = json_;
  json.erase("groups");
  EXPECT_EQ(JsonError(json), "groups: is missing");
}

TEST_F(LoadTest, TextThatContradicts) {
  const LoadedSegmentation loaded = *LoadSegmentation(fusion_, json_.dump());
  const std::string text = TextOf(loaded.segmented, loaded.log, loaded.sizes);
  const auto expect = [&](const char* from, const char* to, const std::string& error) {
    ASSERT_TRUE(absl::StrContains(text, from)) << text;
    EXPECT_EQ(Error(absl::StrReplaceAll(text, {{from, to}})), error);
  };
  expect("f: 3", "g: 3", "line 1: this is a segmentation of `g`, the graph is `f`");
  expect("M = 8", "M = eight", "line 1: found `eight`, expected a size, as M = 8");
  expect(
      "f: 3 kernels", "f: 4 kernels",
      "line 1: found `f: 4 kernels, 8.0 KiB of device memory traffic at M = 8`, by the graph and "
      "the groups it is `f: 3 kernels, 8.0 KiB of device memory traffic at M = 8`");
  expect("g1  ", "g0  ", "line 9: group 0 is listed twice");
  expect("g1  ", "g5  ",
         "line 9: found `g5  reduction, 3 expressions, 3.0 KiB`, expected the group g1");
  expect("g1  reduction", "g1  warp", "line 9: there is no scheduler `warp`");
  expect("       z = ", "       y = ", "line 21: `y` is in group 1 already");
  expect("  out  z", "  exit z",
         "line 22: found `  exit z: f32[M, 64]  2.0 KiB, to the caller`, expected an expression");
  expect("  out  s: f32[]  4 B", "  out  s: f32[]  5 B",
         "line 7: found `  out  s: f32[]  5 B, to g1`, by the graph and the groups it is `  "
         "out  s: f32[]  4 B, to g1`");
  expect("g0 | g1", "g0 | g9", "line 25: there is no group `9`");
  EXPECT_EQ(Error(text + "more"), "line 27: found `more`, expected a border, as g0 | g1  no-gain");
}

TEST_F(LoadTest, GroupsInACycleOrInTheWrongOrder) {
  const auto error = [&](const Json& groups) {
    return JsonError(Json{{"fusion", "f"}, {"groups", groups}});
  };
  const auto group = [](const Json& exprs) {
    return Json{{"scheduler", "reduction"}, {"exprs", exprs}};
  };
  EXPECT_TRUE(absl::StrContains(
      error(Json::array({group({"xf", "s", "average"}), group({"y", "z"})})), "in a cycle"));
  EXPECT_EQ(error(Json::array({group({"y", "average", "z"}), group({"xf", "s"})})),
            "groups: group 0 needs `xf` of group 1, which comes later; they are listed in an order "
            "in which they can run");
}

TEST_F(LoadTest, ASchedulerThatDoesNotTakeItsGroup) {
  json_ = Json::parse(DumpOf(fusion_, RealGuard()));
  EXPECT_TRUE(
      CheckSchedulable(LoadSegmentation(fusion_, json_.dump())->segmented, RealGuard()).ok());
  json_["groups"][0]["scheduler"] = "pointwise";
  const LoadedSegmentation other = *LoadSegmentation(fusion_, json_.dump());
  EXPECT_EQ(CheckSchedulable(other.segmented, RealGuard()).message(),
            "group 0 is no plan of the scheduler pointwise: the scheduler reduction takes it");
  const Fusion across = *ParseFusion(R"(fusion f {
    symbol M
    input x: f32[M, 64]
    s = sum(x, axes=[0])
    y = x - s[None]
    z = y / sum(y, axes=[1])[:, None]
    output z
  })");
  Json exprs = Json::array();
  for (uint32_t e = 0; e < across.num_exprs(); ++e)
    exprs.push_back(across.name(across.result(ExprId(e))));
  const Json one = {{"fusion", "f"}, {"groups", {{{"scheduler", "reduction"}, {"exprs", exprs}}}}};
  const LoadedSegmentation all = *LoadSegmentation(across, one.dump());
  EXPECT_TRUE(absl::StartsWith(CheckSchedulable(all.segmented, RealGuard()).message(),
                               "group 0 is no plan of the scheduler reduction: reduction refuses: "
                               "grid-barrier"))
      << CheckSchedulable(all.segmented, RealGuard());
}

// Whatever a file holds, the answer is an error with a place, or a segmentation that verifies.
TEST_F(LoadTest, MutatedFiles) {
  std::mt19937 rng(3);
  const auto below = [&](size_t n) { return static_cast<size_t>(rng() % n); };
  int accepted = 0, refused = 0;
  for (const char* name : {"layer_norm_backward", "adamw", "cross_entropy"}) {
    const Fusion f = Example(name);
    const std::string dump = DumpOf(f, RealGuard());
    for (int round = 0; round < 700; ++round) {
      std::string text = dump;
      for (size_t edits = 1 + below(3); edits > 0; --edits) {
        const size_t at = below(text.size());
        std::vector<std::string> lines = absl::StrSplit(text, '\n');
        const size_t line = below(lines.size());
        switch (below(6)) {
          case 0:  // A flipped bit.
            text[at] = static_cast<char>(text[at] ^ (1 << below(8)));
            break;
          case 1:  // A line less, or twice.
            if (below(2) == 0) {
              lines.erase(lines.begin() + static_cast<long>(line));
            } else {
              lines.insert(lines.begin() + static_cast<long>(line), lines[line]);
            }
            text = absl::StrJoin(lines, "\n");
            break;
          case 2:  // Two lines change places.
            std::swap(lines[line], lines[below(lines.size())]);
            text = absl::StrJoin(lines, "\n");
            break;
          case 3: {  // Another number.
            constexpr const char* kNumbers[] = {
                "-1",  "0",    "1", "7", "4294967296", "1e308", "1e309", "9223372036854775808",
                "0.5", "null", "[]"};
            const size_t digit = text.find_first_of("0123456789", at);
            if (digit != std::string::npos) text.replace(digit, 1, kNumbers[below(11)]);
            break;
          }
          case 4:
            text.resize(at);
            break;
          case 5:
            text.insert(at, text.substr(below(text.size()), below(200)));
            break;
        }
        if (text.empty()) break;
      }
      const absl::StatusOr<LoadedSegmentation> loaded = LoadSegmentation(f, text);
      if (loaded.ok()) {
        ++accepted;
        EXPECT_TRUE(VerifySegmentation(loaded->segmented).ok());
      } else {
        ++refused;
        EXPECT_EQ(loaded.status().code(), absl::StatusCode::kInvalidArgument) << loaded.status();
        EXPECT_FALSE(loaded.status().message().empty());
      }
    }
  }
  EXPECT_GT(refused, 1000);
  EXPECT_GT(accepted, 0);
}

}  // namespace
}  // namespace seam
