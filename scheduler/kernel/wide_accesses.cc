#include "scheduler/kernel/wide_accesses.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "ir/dtype.h"
#include "ir/scalar.h"

namespace seam::kernel {
namespace {

constexpr int kMostBytes = 16;

int64_t ConstantOf(SymInt e) {
  if (const std::optional<int64_t> value = e.maybe_int()) return *value;
  return e.node()->kind == SymKind::Add ? e.node()->constant : 0;
}

// Loads that differ in the constant of their index alone, or stores, which are written as loads
// without a fill here.
struct Family {
  Load like;                                       // With that constant 0.
  std::map<int64_t, std::vector<size_t>> members;  // By the constant: statements of the block.
};

// In the order of the statements.
using Key = std::tuple<int, CacheHint, SymInt, SymInt, bool, uint64_t>;
struct Families {
  std::vector<Family> all;
  absl::flat_hash_map<Key, size_t> by_key;
};

Load WithoutFill(const Store& store) {
  Load load{store.fragment, store.slot};
  load.width = store.width;
  load.space = store.space;
  load.array = store.array;
  load.index = store.index;
  load.predicate = store.predicate;
  load.hint = store.hint;
  load.fills = false;
  return load;
}

// `width` elements from `first` on, of which these statements access some.
struct Wide {
  int64_t first;
  int width;
  std::vector<std::pair<size_t, int>> members;  // The statement, and which element.
};

// Of one block; what is nested in it has one of its own.
class Widener {
 public:
  Widener(Kernel& kernel, Block& block) : kernel_(kernel), block_(block), before_(block.size()) {}

  void Run() {
    for (size_t i = 0; i < block_.size(); ++i) Visit(i);
    EndRun();
    if (absl::c_all_of(before_, [](const Block& b) { return b.empty(); }) && behind_.empty())
      return;
    Block all;
    for (size_t i = 0; i < block_.size(); ++i) {
      absl::c_move(before_[i], std::back_inserter(all));
      all.push_back(std::move(block_[i]));
    }
    absl::c_move(behind_, std::back_inserter(all));
    block_ = std::move(all);
  }

 private:
  void Visit(size_t i) {
    Stmt& stmt = block_[i];
    if (const auto* load = std::get_if<Load>(&stmt.node)) {
      if (load->space != Space::Global) return;
      // Of what is written meanwhile each load has its time.
      if (kernel_.buffers[load->array].written) return EndRun();
      if (load->width == 1) Join(*load, i, loads_);
    } else if (const auto* store = std::get_if<Store>(&stmt.node)) {
      if (store->space == Space::Global && store->width == 1) Join(WithoutFill(*store), i, stores_);
    } else if (!std::holds_alternative<Map>(stmt.node) &&
               !std::holds_alternative<IndexValue>(stmt.node) &&
               !std::holds_alternative<LetSymbol>(stmt.node) &&
               !std::holds_alternative<Random>(stmt.node) &&
               !std::holds_alternative<Comment>(stmt.node)) {
      EndRun();
      if (auto* loop = std::get_if<For>(&stmt.node)) Widener(kernel_, loop->body).Run();
      if (auto* branch = std::get_if<If>(&stmt.node)) {
        Widener(kernel_, branch->body).Run();
        Widener(kernel_, branch->otherwise).Run();
      }
    }
  }

  void Join(const Load& access, size_t at, Families& families) const {
    if (!access.index.is_valid()) return;  // The verifier will say so.
    const int64_t constant = ConstantOf(access.index);
    const SymInt rest = access.index - constant;
    const DType dtype = kernel_.buffers[access.array].dtype;
    const auto [known, first] =
        families.by_key.try_emplace(Key(access.array, access.hint, rest, access.predicate,
                                        access.fills, EncodeBits(dtype, access.fill)),
                                    families.all.size());
    if (first) {
      families.all.push_back({access, {}});
      families.all.back().like.index = rest;
    }
    families.all[known->second].members[constant].push_back(at);
  }

  // `width` elements from `first` on, where there are enough of them for one access.
  std::optional<Wide> WideAt(const Family& family, int64_t first, int width, bool load) const {
    Wide wide{first, width, {}};
    int present = 0;
    for (auto it = family.members.lower_bound(first);
         it != family.members.end() && it->first < first + width; ++it, ++present) {
      for (size_t at : it->second)
        wide.members.emplace_back(at, static_cast<int>(it->first - first));
    }
    if (present == width) return wide;
    const bool most = load && present > 1 && 2 * present >= width;
    return most && ProvablyDivisible(kernel_.buffers[family.like.array].num_elements, width)
               ? std::make_optional(wide)
               : std::nullopt;
  }

  void EndRun() {
    for (Family& family : loads_.all) JoinFamily(family, true);
    for (Family& family : stores_.all) JoinFamily(family, false);
    loads_ = {};
    stores_ = {};
  }

  void JoinFamily(Family& family, bool load) {
    std::map<int64_t, std::vector<size_t>>& members = family.members;
    if (members.size() < 2) return;
    // Two stores to one element keep their order.
    const bool twice = absl::c_any_of(members, [](const auto& m) { return m.second.size() > 1; });
    if (!load && twice) return;
    const Buffer& buffer = kernel_.buffers[family.like.array];
    const int most_bytes = std::min(kMostBytes, buffer.alignment_bytes);
    for (int width = most_bytes / DTypeBytes(buffer.dtype); width > 1; width /= 2) {
      // Proofs take longest: one for each place that a wide access may start at.
      std::array<std::optional<bool>, kMostBytes> aligned;
      const auto is_aligned = [&](int64_t first) {
        std::optional<bool>& known = aligned[(first % width + width) % width];
        if (!known) known = ProvablyDivisible(family.like.index + first, width);
        return *known;
      };
      for (auto it = members.begin(); it != members.end();) {
        const int64_t constant = it->first;
        std::optional<Wide> wide;
        for (int64_t first = constant - width + 1; first <= constant && !wide; ++first) {
          wide = WideAt(family, first, width, load);
          if (wide && !is_aligned(first)) wide.reset();
        }
        if (!wide) {
          ++it;
          continue;
        }
        Replace(family.like, *wide, load);
        it = members.erase(members.lower_bound(wide->first),
                           members.lower_bound(wide->first + width));
      }
    }
  }

  void Replace(const Load& like, const Wide& wide, bool load) {
    const int fragment = static_cast<int>(kernel_.fragments.size());
    kernel_.fragments.push_back({"wide", kernel_.buffers[like.array].dtype, wide.width, false});
    size_t first = block_.size(), last = 0;
    for (const auto& [at, element] : wide.members) {
      first = std::min(first, at);
      last = std::max(last, at);
      Map copy{OpKind::Copy, fragment, element, {}};
      if (load) {
        const auto& single = std::get<Load>(block_[at].node);
        copy.fragment = single.fragment;
        copy.slot = single.slot;
        copy.arguments = {Operand::Reg(fragment, element)};
      } else {
        const auto& single = std::get<Store>(block_[at].node);
        copy.arguments = {Operand::Reg(single.fragment, single.slot)};
      }
      block_[at].node = std::move(copy);
    }
    Load all = like;
    all.fragment = fragment;
    all.slot = 0;
    all.width = wide.width;
    all.index = like.index + wide.first;
    if (load) {
      before_[first].push_back({all});
      return;
    }
    const Store store{fragment,   0,         wide.width,     Space::Global,
                      like.array, all.index, like.predicate, like.hint};
    (last + 1 < block_.size() ? before_[last + 1] : behind_).push_back({store});
  }

  Kernel& kernel_;
  Block& block_;
  Families loads_, stores_;    // Of the statements since the last loop or barrier.
  std::vector<Block> before_;  // What comes before each statement.
  Block behind_;
};

}  // namespace

void WidenAccesses(Kernel& kernel) { Widener(kernel, kernel.body).Run(); }

}  // namespace seam::kernel
