#include "ir/alike.h"

#include <cstring>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/hash/hash.h"

namespace seam {

bool IsOpaque(OpClass c) {
  return c == OpClass::Library || c == OpClass::Template || c == OpClass::Communication ||
         c == OpClass::Barrier;
}

namespace {

// What an expression is but for its name: equal for those that are alike.
using Key = absl::InlinedVector<uint64_t, 16>;

Key KeyOf(const Fusion& f, ExprId e, const std::vector<ValId>& first) {
  Key key = {static_cast<uint64_t>(f.op(e))};
  for (ValId v : f.operands(e)) key.push_back(first[v.index()].index());
  if (AttributesOf(f.op(e)) == 0) return key;
  const Attributes& a = f.attributes(e);
  key.push_back(a.axes.size());
  for (int32_t axis : a.axes) key.push_back(static_cast<uint64_t>(axis));
  for (const SymVector* list : {&a.sizes, &a.start, &a.stop, &a.step}) {
    key.push_back(list->size());
    for (SymInt n : *list) key.push_back(n.bits());
  }
  uint64_t value;
  static_assert(sizeof value == sizeof a.value);
  std::memcpy(&value, &a.value, sizeof value);
  key.insert(key.end(),
             {static_cast<uint64_t>(a.dtype), value, static_cast<uint64_t>(a.int_value)});
  return key;
}

}  // namespace

std::vector<ValId> FirstAlike(const Fusion& fusion) {
  std::vector<ValId> first;
  first.reserve(fusion.num_vals());
  for (uint32_t v = 0; v < fusion.num_vals(); ++v) first.emplace_back(v);
  absl::flat_hash_map<Key, ExprId> known;
  known.reserve(fusion.num_exprs());
  for (uint32_t i = 0; i < fusion.num_exprs(); ++i) {
    const ExprId e(i);
    if (IsOpaque(fusion.info(e).op_class)) continue;
    const auto [it, is_new] = known.try_emplace(KeyOf(fusion, e, first), e);
    if (is_new) continue;
    for (int r = 0; r < fusion.num_results(e); ++r)
      first[fusion.result(e, r).index()] = fusion.result(it->second, r);
  }
  return first;
}

}  // namespace seam
