// Many kernels at once, with and without the cache.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/cuda/compiler.h"

namespace seam::cuda {
namespace {

namespace fs = std::filesystem;

CompileRequest Scale(int factor) {
  CompileRequest request;
  request.name = absl::StrCat("scale_", factor);
  request.source =
      absl::StrCat("extern \"C\" __global__ void k(int* p) { p[threadIdx.x] *= ", factor, "; }\n");
  request.arch = "sm_90a";
  request.entry = "k";
  return request;
}

class CompileAllTest : public ::testing::Test {
 protected:
  CompileAllTest() {
    std::string path = ::testing::TempDir() + "/seam_compile_all_XXXXXX";
    const char* made = mkdtemp(path.data());
    root_ = made != nullptr ? made : "";
    EXPECT_FALSE(root_.empty());
  }
  ~CompileAllTest() override {
    std::error_code ignored;
    fs::remove_all(root_, ignored);
  }
  std::string root_;
};

TEST_F(CompileAllTest, NothingIsNothing) {
  EXPECT_TRUE(CompileAll({}, nullptr, 0).empty());
  EXPECT_TRUE(CompileAll({}, nullptr, 8).empty());
}

TEST_F(CompileAllTest, EachRequestGetsItsKernelAtAnyThreadCount) {
  const std::vector<CompileRequest> requests = {Scale(2), Scale(3), Scale(5), Scale(7), Scale(11)};
  std::vector<std::string> cubins;
  for (const CompileRequest& request : requests) {
    const absl::StatusOr<CompiledKernel> kernel = CompileAll({request}, nullptr, 1)[0];
    ASSERT_TRUE(kernel.ok()) << kernel.status();
    cubins.push_back(kernel->cubin);
  }
  EXPECT_NE(cubins[0], cubins[1]);
  for (int threads : {-1, 0, 1, 2, 3, 64}) {
    const auto results = CompileAll(requests, nullptr, threads);
    ASSERT_EQ(results.size(), requests.size());
    for (size_t i = 0; i < results.size(); ++i) {
      ASSERT_TRUE(results[i].ok()) << results[i].status();
      EXPECT_EQ(results[i]->cubin, cubins[i]);
    }
  }
}

TEST_F(CompileAllTest, CompilesEqualRequestsOnce) {
  CubinCache cache(root_, 1 << 30);
  CompileRequest renamed = Scale(2);
  renamed.name = "renamed";
  const std::vector<CompileRequest> requests = {Scale(2), Scale(3), Scale(2), renamed};
  std::vector<std::pair<int, int>> told;
  const auto results =
      CompileAll(requests, &cache, 2, [&](int done, int total) { told.emplace_back(done, total); });
  for (const auto& result : results) ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(results[0]->cubin, results[2]->cubin);
  EXPECT_EQ(results[0]->cubin, results[3]->cubin);
  EXPECT_NE(results[0]->cubin, results[1]->cubin);
  ASSERT_EQ(told.size(), 2u);
  EXPECT_TRUE(told[0] == std::make_pair(1, 4) || told[0] == std::make_pair(3, 4));
  EXPECT_EQ(told[1], std::make_pair(4, 4));
  EXPECT_EQ(std::distance(fs::directory_iterator(root_), {}), 2);
}

TEST_F(CompileAllTest, OneFailureStopsNoOther) {
  CubinCache cache(root_, 1 << 30);
  CompileRequest broken = Scale(2);
  broken.source = "extern \"C\" __global__ void k(int* p) { *p = nothing; }";
  CompileRequest unknown = Scale(2);
  unknown.arch = "sm_1";
  const auto results = CompileAll({Scale(2), broken, unknown, Scale(3), broken}, &cache, 2);
  EXPECT_TRUE(results[0].ok());
  EXPECT_EQ(results[1].status().code(), absl::StatusCode::kInternal);
  EXPECT_EQ(results[2].status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(results[3].ok());
  EXPECT_EQ(results[4].status(), results[1].status());
  EXPECT_EQ(std::distance(fs::directory_iterator(root_), {}), 2) << "failures are not kept";
}

TEST_F(CompileAllTest, TakesFromTheCacheWhatIsWhole) {
  const std::vector<CompileRequest> requests = {Scale(2), Scale(3)};
  CubinCache cache(root_, 1 << 30);
  const auto first = CompileAll(requests, &cache, 1);
  ASSERT_TRUE(first[0].ok() && first[1].ok());
  EXPECT_FALSE(first[0]->from_cache);
  auto second = CompileAll(requests, &cache, 1);
  ASSERT_TRUE(second[0].ok() && second[1].ok());
  EXPECT_TRUE(second[0]->from_cache && second[1]->from_cache);
  EXPECT_EQ(second[0]->cubin, first[0]->cubin);
  EXPECT_EQ(second[0]->registers, first[0]->registers);

  for (const auto& entry : fs::directory_iterator(root_)) {
    fs::resize_file(entry.path(), fs::file_size(entry.path()) - 1);
  }
  const auto third = CompileAll(requests, &cache, 1);
  ASSERT_TRUE(third[0].ok() && third[1].ok());
  EXPECT_FALSE(third[0]->from_cache);
  EXPECT_EQ(third[0]->cubin, first[0]->cubin);
  EXPECT_TRUE(CompileAll(requests, &cache, 1)[0]->from_cache) << "the broken file was overwritten";
}

TEST_F(CompileAllTest, CompilesWhereTheCacheCannotWrite) {
  std::ofstream(root_ + "/file") << "";
  CubinCache cache(root_ + "/file/cache", 1 << 30);
  for (int i = 0; i < 2; ++i) {
    const auto results = CompileAll({Scale(2)}, &cache, 1);
    ASSERT_TRUE(results[0].ok()) << results[0].status();
    EXPECT_FALSE(results[0]->from_cache);
  }
  EXPECT_FALSE(cache.warning().empty());
}

}  // namespace
}  // namespace seam::cuda
