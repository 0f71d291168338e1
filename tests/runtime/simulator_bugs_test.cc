// The simulator against bugs planted into sample kernels, one at a time.
#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/kernel_mutator.h"
#include "tests/support/sample_kernels.h"
#include "tests/support/simulated.h"

namespace seam::testing {
namespace {

using kernel::Kernel;
using simulator::SimBuffer;
using simulator::Simulate;

// A bug counts as found if the simulator reports it or the results differ.
struct Hunt {
  int planted = 0, reported = 0, wrong = 0;
  std::vector<std::string> missed;
};

Hunt HuntBugs(const Kernel& k, std::vector<std::vector<int64_t>> sizes,
              const std::function<std::vector<SimTensor>(const std::vector<int64_t>&)>& make) {
  Hunt hunt;
  for (const Mutation mutation : {Mutation::RemoveBarrier, Mutation::ShiftIndex,
                                  Mutation::DropPredicate, Mutation::ChangeShuffleMask}) {
    for (int i = 0;; ++i) {
      const std::optional<Kernel> mutant = Mutate(k, mutation, i);
      if (!mutant) break;
      ++hunt.planted;
      bool reported = false, wrong = false;
      for (const std::vector<int64_t>& size : sizes) {
        std::vector<SimTensor> good = make(size), bad = make(size);
        std::vector<SimBuffer> good_buffers, bad_buffers;
        for (SimTensor& t : good) good_buffers.push_back(t.buffer());
        for (SimTensor& t : bad) bad_buffers.push_back(t.buffer());
        const absl::Status reference =
            Simulate(k, good_buffers, size, {.require_all_written = true});
        EXPECT_TRUE(reference.ok()) << reference;
        reported |= !Simulate(*mutant, bad_buffers, size, {.require_all_written = true}).ok();
        for (size_t t = 0; t < good.size(); ++t) wrong |= good[t].values() != bad[t].values();
      }
      hunt.reported += reported;
      hunt.wrong += !reported && wrong;
      if (!reported && !wrong) hunt.missed.push_back(PrintKernel(*mutant));
    }
  }
  return hunt;
}

TEST(PlantedBugTest, RowSum) {
  const Hunt hunt = HuntBugs(
      RowSumKernel(DType::F32, 4), {{3, 1000}, {2, 4}}, [](const std::vector<int64_t>& size) {
        return std::vector<SimTensor>{SimTensor(DType::F32, Ramp(size[0] * size[1])),
                                      SimTensor(DType::F32, std::vector<double>(size[0]))};
      });
  EXPECT_GE(hunt.planted, 15);
  EXPECT_TRUE(hunt.missed.empty())
      << hunt.missed.size() << " missed of " << hunt.planted << ", the first:\n"
      << hunt.missed[0];
}

TEST(PlantedBugTest, VectorCopy) {
  const Hunt hunt = HuntBugs(
      VectorCopyKernel(DType::BF16, 8), {{1003}, {2048}}, [](const std::vector<int64_t>& size) {
        return std::vector<SimTensor>{SimTensor(DType::BF16, Ramp(size[0])),
                                      SimTensor(DType::BF16, std::vector<double>(size[0]))};
      });
  EXPECT_EQ(hunt.planted, 7);
  EXPECT_EQ(hunt.reported, 7);
}

TEST(PlantedBugTest, LoadsAhead) {
  const Hunt hunt = HuntBugs(
      LoadsAheadKernel(DType::F32, 4, 2), {{1028}, {4}}, [](const std::vector<int64_t>& size) {
        return std::vector<SimTensor>{SimTensor(DType::F32, Ramp(size[0])),
                                      SimTensor(DType::F32, std::vector<double>(size[0]))};
      });
  EXPECT_EQ(hunt.planted, 9);  // A wait; four indices and predicates.
  EXPECT_TRUE(hunt.missed.empty()) << hunt.missed[0];
}

TEST(PlantedBugTest, ColumnSum) {
  const Hunt hunt = HuntBugs(ColumnSumKernel(), {{9, 45}}, [](const std::vector<int64_t>& size) {
    return std::vector<SimTensor>{SimTensor(DType::F32, Ramp(size[0] * size[1])),
                                  SimTensor(DType::F32, std::vector<double>(size[1]))};
  });
  EXPECT_EQ(hunt.planted, 7);
  EXPECT_TRUE(hunt.missed.empty()) << hunt.missed[0];
}

}  // namespace
}  // namespace seam::testing
