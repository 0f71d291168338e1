// Refusals against a plain map of pairs, over random additions, merges and departures of groups
// with few refusals and with many.
#include "segmenter/refusals.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <utility>
#include <vector>

namespace seam {
namespace {

constexpr ReasonCode kReasons[] = {ReasonCode::kUnconnected, ReasonCode::kSlower,
                                   ReasonCode::kUnsupported, ReasonCode::kGridBarrier};

// What Refusals says it does, without lists.
class Model {
 public:
  using Pair = std::pair<uint32_t, uint32_t>;
  using Known = std::pair<ReasonCode, int>;  // And when.

  static Pair Of(uint32_t a, uint32_t b) { return {std::min(a, b), std::max(a, b)}; }
  void Add(uint32_t a, uint32_t b, Known known) { pairs_[Of(a, b)] = known; }
  void Inherit(uint32_t from, uint32_t to) {
    for (const auto& [partner, known] : Take(from)) {
      if (partner == to) continue;
      const auto [it, is_new] = pairs_.try_emplace(Of(to, partner), known);
      if (!is_new && IsPermanent(known.first)) it->second = known;
    }
  }
  void Forget(uint32_t g) { Take(g); }
  const std::map<Pair, Known>& pairs() const { return pairs_; }

 private:
  std::vector<std::pair<uint32_t, Known>> Take(uint32_t g) {
    std::vector<std::pair<uint32_t, Known>> taken;
    std::erase_if(pairs_, [&](const auto& entry) {
      const auto& [pair, known] = entry;
      if (pair.first != g && pair.second != g) return false;
      taken.emplace_back(pair.first == g ? pair.second : pair.first, known);
      return true;
    });
    return taken;
  }
  std::map<Pair, Known> pairs_;
};

void ExpectSame(const Refusals& refusals, const Model& model, uint32_t groups) {
  for (uint32_t a = 0; a < groups; ++a) {
    for (uint32_t b = 0; b < groups; ++b) {
      if (a == b) continue;
      const Refusal* found = refusals.Find(GroupId(a), GroupId(b));
      const auto it = model.pairs().find(Model::Of(a, b));
      ASSERT_EQ(found != nullptr, it != model.pairs().end()) << a << " and " << b;
      if (found == nullptr) continue;
      EXPECT_EQ(found->reason, it->second.first) << a << " and " << b;
      EXPECT_EQ(found->at, it->second.second) << a << " and " << b;
    }
  }
  std::map<Model::Pair, ReasonCode> told;
  refusals.ForEach([&](GroupId a, GroupId b, const Decision& decision) {
    EXPECT_TRUE(told.emplace(Model::Of(a.index(), b.index()), decision.reason).second);
  });
  ASSERT_EQ(told.size(), model.pairs().size());
  for (const auto& [pair, reason] : told) EXPECT_EQ(reason, model.pairs().at(pair).first);
}

TEST(Refusals, AsAMapOfPairs) {
  for (uint32_t seed = 0; seed < 40; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&](size_t n) { return static_cast<uint32_t>(random() % n); };
    const uint32_t groups = 3 + below(12);
    Refusals refusals;
    Model model;
    std::vector<uint32_t> alive(groups);
    for (uint32_t g = 0; g < groups; ++g) alive[g] = g;
    for (int at = 0; at < 150 && alive.size() > 1; ++at) {
      std::shuffle(alive.begin(), alive.end(), random);
      const uint32_t a = alive[0], b = alive[1];
      if (const uint32_t what = below(20); what < 17) {
        Decision decision;
        decision.reason = kReasons[below(std::size(kReasons))];
        model.Add(a, b, {decision.reason, at});
        refusals.Add(GroupId(a), GroupId(b), std::move(decision), at);
      } else if (what < 19) {
        model.Inherit(a, b);
        refusals.Inherit(GroupId(a), GroupId(b));
        alive.erase(alive.begin());
      } else {
        model.Forget(a);
        refusals.Forget(GroupId(a));
      }
      ExpectSame(refusals, model, groups);
      if (HasFatalFailure()) FAIL() << "seed " << seed << ", step " << at;
    }
  }
}

// What contains a group that was refused for good stays refused, for that reason.
TEST(Refusals, GoodReasonsOutliveMerges) {
  for (const bool permanent_moves : {false, true}) {
    Refusals refusals;
    const ReasonCode good = ReasonCode::kGridBarrier, passing = ReasonCode::kSlower;
    ASSERT_TRUE(IsPermanent(good));
    ASSERT_FALSE(IsPermanent(passing));
    Decision one, other;
    one.reason = permanent_moves ? good : passing;
    other.reason = permanent_moves ? passing : good;
    refusals.Add(GroupId(0), GroupId(2), one, 1);
    refusals.Add(GroupId(1), GroupId(2), other, 2);
    refusals.Inherit(GroupId(0), GroupId(1));
    ASSERT_NE(refusals.Find(GroupId(2), GroupId(1)), nullptr);
    EXPECT_EQ(refusals.Find(GroupId(2), GroupId(1))->reason, good);
    EXPECT_EQ(refusals.Find(GroupId(2), GroupId(0)), nullptr);
  }
}

}  // namespace
}  // namespace seam
