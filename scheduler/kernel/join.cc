// The statements of each kernel are copied: its symbols are made anew in the common environment,
// its fragments follow those of the kernels before. Side by side, the CTA's number decides which of
// them it runs, and what they have in shared memory lies in the same place:
//
//   if block < end_1:
//     if block < end_0:                block_0 = block           kernel 0
//     else:                            block_1 = block - end_0   kernel 1
//   else:                              block_2 = block - end_1   kernel 2
//
// As phases, those after the first become loops, and nothing needs the CTA that it had; arrays
// follow those of the phases before, but for lasting ones, which they have in common:
//
//                                                                kernel 0
//   barrier of the grid
//   for turn:                          block_1 = block + turn * grid_0, while below grid_1
//                                                                kernel 1
#include "scheduler/kernel/join.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "ir/status.h"

namespace seam::kernel {
namespace {

// Whether CTAs run one of the kernels that are joined or all of them.
enum class Run : uint8_t { kOne, kAll };

// Which array of `to` the array becomes, of one kernel whose arrays before it have become `taken`.
int PlaceFor(const SharedArray& array, Run run, absl::Span<const int> taken,
             std::vector<SharedArray>& to) {
  const auto known = absl::c_find_if(to, [&](const SharedArray& other) {
    if (run == Run::kAll) return array.lasting >= 0 && other.lasting == array.lasting;
    return other.dtype == array.dtype &&
           !absl::c_linear_search(taken, static_cast<int>(&other - to.data()));
  });
  const int place = static_cast<int>(known - to.begin());
  if (known == to.end()) {
    to.push_back(array);
  } else {
    known->count = std::max(known->count, array.count);
    known->alignment = std::max(known->alignment, array.alignment);
  }
  return place;
}

// Copies the statements of one kernel into another.
class Copier {
 public:
  // Buffer i becomes buffers[i] of `to`.
  Copier(const Kernel& from, std::vector<int> buffers, Run run, Kernel& to)
      : from_(from),
        importer_(to.env.get()),
        to_(to),
        first_fragment_(static_cast<int>(to.fragments.size())),
        first_barrier_(run == Run::kAll ? to.copy_barriers : 0),
        buffers_(std::move(buffers)) {
    importer_.Map(from.thread_x.node(), to.thread_x);
    if (from.together.is_symbolic()) {
      if (!to.together.is_symbolic()) to.together = to.env->FreshSymbol("together", 0, 1);
      importer_.Map(from.together.node(), to.together);
    }
    to.fragments.insert(to.fragments.end(), from.fragments.begin(), from.fragments.end());
    for (const SharedArray& array : from.shared)
      shared_.push_back(PlaceFor(array, run, shared_, to.shared));
    to.copy_barriers = std::max(to.copy_barriers, first_barrier_ + from.copy_barriers);
    to.copies_per_batch = std::max(to.copies_per_batch, from.copies_per_batch);
  }

  void Replace(SymInt symbol, SymInt value) { importer_.Map(symbol.node(), value); }
  SymInt Import(SymInt e) { return importer_.Import(e); }

  // A symbol of the same name and values. Loops one after the other may have the same symbol.
  SymInt Bind(SymInt symbol) {
    const SymNode* node = symbol.node();
    if (const auto known = bound_.find(node); known != bound_.end()) return known->second;
    const SymInt bound =
        node->upper.is_symbolic()
            ? to_.env->FreshSymbol(node->name, node->range.lo, importer_.Import(node->upper))
            : to_.env->FreshSymbol(node->name, node->range.lo, node->range.hi);
    importer_.Map(node, bound);
    return bound_[node] = bound;
  }

  // The statements for the CTA that `number` is: `block` says it in a register, which is done
  // first.
  Block BodyFor(absl::string_view block, SymInt number) {
    const SymInt symbol = to_.env->FreshSymbol("block", 0, Import(from_.grid_x) - 1);
    const int fragment = static_cast<int>(to_.fragments.size());
    to_.fragments.push_back({std::string(block), DType::I64, 1, false});
    Block body;
    body.push_back({IndexValue{fragment, 0, number}});
    body.push_back({LetSymbol{symbol, Operand::Reg(fragment)}});
    Replace(from_.block_x, symbol);
    for (Stmt& stmt : Body()) body.push_back(std::move(stmt));
    return body;
  }
  // Those of the CTAs that `block_x` has been mapped to.
  Block Body() { return Copied(from_.body); }

 private:
  Operand Copied(Operand operand) {
    if (operand.fragment >= 0) operand.fragment += first_fragment_;
    operand.slot = importer_.Import(operand.slot);
    return operand;
  }
  template <typename Access>
  void Move(Access& access) {
    access.fragment += first_fragment_;
    access.array = access.space == Space::Shared ? shared_[access.array] : buffers_[access.array];
    access.slot = importer_.Import(access.slot);
    access.index = importer_.Import(access.index);
    access.predicate = importer_.Import(access.predicate);
  }

  Block Copied(const Block& block) {
    Block copy;
    for (const Stmt& stmt : block) {
      copy.push_back(stmt);
      std::visit([&](auto& node) { Edit(node); }, copy.back().node);
    }
    return copy;
  }
  void Edit(For& node) {
    node.extent = importer_.Import(node.extent);
    node.symbol = Bind(node.symbol);
    node.body = Copied(node.body);
  }
  void Edit(Leave& node) { node.condition = importer_.Import(node.condition); }
  void Edit(If& node) {
    node.condition = importer_.Import(node.condition);
    node.body = Copied(node.body);
    node.otherwise = Copied(node.otherwise);
  }
  void Edit(Load& node) { Move(node); }
  void Edit(Store& node) { Move(node); }
  void Edit(Map& node) {
    node.fragment += first_fragment_;
    node.slot = importer_.Import(node.slot);
    for (Operand& operand : node.arguments) operand = Copied(operand);
  }
  void Edit(IndexValue& node) {
    node.fragment += first_fragment_;
    node.slot = importer_.Import(node.slot);
    node.value = importer_.Import(node.value);
  }
  void Edit(LetSymbol& node) {
    node.value = Copied(node.value);
    node.symbol = Bind(node.symbol);
  }
  void Edit(Random& node) {
    node.fragment += first_fragment_;
    node.slot = importer_.Import(node.slot);
    node.seed = Copied(node.seed);
    node.offset = Copied(node.offset);
    node.index = importer_.Import(node.index);
  }
  void Edit(ShuffleXor& node) {
    node.fragment += first_fragment_;
    node.slot = importer_.Import(node.slot);
    node.source = Copied(node.source);
  }
  void Edit(TakeTicket& node) {
    node.fragment += first_fragment_;
    node.slot = importer_.Import(node.slot);
    node.total = importer_.Import(node.total);
  }
  void Edit(AwaitTickets& node) { node.count = importer_.Import(node.count); }
  void Edit(CtaSync&) {}
  // Kernels with clusters are not joined.
  void Edit(Pause& node) { node.cycles = importer_.Import(node.cycles); }
  void Edit(ClusterSync&) {}
  void Edit(RemoteStore&) {}
  void Edit(AwaitStores&) {}
  void Edit(KeepPacked& node) { node.fragment += first_fragment_; }
  void Edit(AwaitLoaded& node) {
    for (int& fragment : node.fragments) fragment += first_fragment_;
  }
  // Where a copy of either kind goes to and comes from.
  template <typename Copy>
  void EditPlaces(Copy& node) {
    node.array = shared_[node.array];
    node.to = importer_.Import(node.to);
    node.buffer = buffers_[node.buffer];
    node.from = importer_.Import(node.from);
  }
  void Edit(BulkCopy& node) {
    EditPlaces(node);
    node.count = importer_.Import(node.count);
    node.barrier = importer_.Import(node.barrier) + first_barrier_;
  }
  void Edit(AwaitCopies& node) {
    node.barrier = importer_.Import(node.barrier) + first_barrier_;
    node.round = importer_.Import(node.round);
  }
  void Edit(AsyncLoad& node) {
    EditPlaces(node);
    node.predicate = importer_.Import(node.predicate);
  }
  void Edit(AwaitLoads&) {}
  void Edit(GridSync&) {}
  void Edit(Comment&) {}

  const Kernel& from_;
  SymImporter importer_;
  absl::flat_hash_map<const SymNode*, SymInt> bound_;
  Kernel& to_;
  const int first_fragment_, first_barrier_;
  const std::vector<int> buffers_;
  std::vector<int> shared_;
};

// What all of them have: as many threads.
absl::StatusOr<Kernel> Joined(std::string name, absl::Span<const Kernel> kernels) {
  if (kernels.empty())
    return absl::InvalidArgumentError(absl::StrCat("kernel ", name, ": no kernels to join"));
  Kernel joined;
  joined.name = std::move(name);
  joined.env = std::make_shared<ShapeEnv>();
  joined.threads = kernels.front().threads;
  joined.index32 = true;
  for (const Kernel& kernel : kernels) {
    if (kernel.threads != joined.threads) {
      return absl::InvalidArgumentError(absl::StrCat("kernel ", joined.name, ": one of ",
                                                     joined.threads, " and one of ", kernel.threads,
                                                     " threads cannot be joined"));
    }
    if (kernel.cluster > 1) {
      return absl::InvalidArgumentError(absl::StrCat("kernel ", joined.name,
                                                     ": one in clusters of ", kernel.cluster,
                                                     " CTAs cannot be joined"));
    }
    joined.index32 &= kernel.index32;
  }
  joined.thread_x = joined.env->FreshSymbol("thread", 0, joined.threads - 1);
  joined.block_x = joined.env->FreshSymbol("block", 0, INT32_MAX);
  return joined;
}

// The body of the kernel whose CTAs end first behind `block`. A chain of conditions would go
// through the instructions of all kernels.
Block OneOf(SymInt block, absl::Span<const SymInt> ends, absl::Span<Block> bodies) {
  if (bodies.size() == 1) return std::move(bodies[0]);
  const size_t half = bodies.size() / 2;
  If both{SymLt(block, ends[half - 1]),
          OneOf(block, ends.subspan(0, half), bodies.subspan(0, half)),
          OneOf(block, ends.subspan(half), bodies.subspan(half))};
  Block one;
  one.push_back({std::move(both)});
  return one;
}

}  // namespace

bool CanStandBeside(const Kernel& kernel) {
  return kernel.cluster == 1 && kernel.NumPhases() == 1 && !kernel.TakesTickets() &&
         !kernel.grid_x.is_same(0);
}

int64_t SharedBytesSideBySide(absl::Span<const Kernel* const> kernels) {
  Kernel joined;  // As far as that takes.
  for (const Kernel* kernel : kernels) {
    std::vector<int> taken;
    for (const SharedArray& array : kernel->shared)
      taken.push_back(PlaceFor(array, Run::kOne, taken, joined.shared));
    joined.copy_barriers = std::max(joined.copy_barriers, kernel->copy_barriers);
  }
  return joined.SharedBytes();
}

absl::StatusOr<Kernel> SideBySide(std::string name, absl::Span<const Kernel> kernels,
                                  Parameters parameters) {
  SEAM_ASSIGN_OR_RETURN(Kernel joined, Joined(std::move(name), kernels));
  joined.min_ctas_per_sm = kernels.front().min_ctas_per_sm;
  std::vector<Block> bodies;
  std::vector<SymInt> ends;  // Of the CTAs up to each kernel.
  for (size_t i = 0; i < kernels.size(); ++i) {
    const Kernel& kernel = kernels[i];
    if (!CanStandBeside(kernel)) {
      return absl::InvalidArgumentError(
          absl::StrCat("kernel ", kernel.name, " has no CTAs, or needs the whole grid for itself"));
    }
    const bool copies = kernel.copy_barriers > 0 && joined.copy_barriers > 0;
    if (copies && kernel.copies_per_batch != joined.copies_per_batch) {
      return absl::InvalidArgumentError(absl::StrCat(
          "kernel ", joined.name, ": one with batches of ", joined.copies_per_batch,
          " copies and one of ", kernel.copies_per_batch, " cannot stand side by side"));
    }
    joined.min_ctas_per_sm = std::min(joined.min_ctas_per_sm, kernel.min_ctas_per_sm);
    absl::StrAppend(&joined.summary, joined.summary.empty() ? "" : "\n", "island ", i, ": ",
                    kernel.summary);
    std::vector<int> buffers(kernel.buffers.size());
    absl::c_iota(buffers, static_cast<int>(joined.buffers.size()));
    Copier copier(kernel, std::move(buffers), Run::kOne, joined);
    if (parameters == Parameters::kOwn || i == 0) {
      for (SymInt p : kernel.parameters) joined.parameters.push_back(copier.Bind(p));
    } else if (kernel.parameters.size() == kernels.front().parameters.size()) {
      for (size_t k = 0; k < kernel.parameters.size(); ++k)
        copier.Replace(kernel.parameters[k], joined.parameters[k]);
    } else {
      return absl::InvalidArgumentError(
          absl::StrCat("kernel ", joined.name, ": ", kernels.front().parameters.size(), " and ",
                       kernel.parameters.size(), " parameters cannot be common"));
    }
    for (Buffer buffer : kernel.buffers) {
      buffer.num_elements = copier.Import(buffer.num_elements);
      joined.buffers.push_back(std::move(buffer));
    }
    const SymInt begin = ends.empty() ? SymInt(0) : ends.back();
    const bool some = ProvablyLe(1, begin) || ProvablyLe(1, copier.Import(kernel.grid_x));
    ends.push_back(joined.env->FreshSymbol(absl::StrCat("end_", i), some ? 1 : 0, INT32_MAX));
    joined.parameters.push_back(ends.back());
    bodies.push_back(copier.BodyFor(absl::StrCat("cta_", i), joined.block_x - begin));
  }
  joined.body = OneOf(joined.block_x, ends, absl::MakeSpan(bodies));
  joined.grid_x = ends.back();
  return joined;
}

absl::StatusOr<Kernel> InPhases(std::string name, absl::Span<const Kernel> kernels,
                                absl::Span<const std::vector<int>> buffers) {
  SEAM_ASSIGN_OR_RETURN(Kernel joined, Joined(std::move(name), kernels));
  joined.summary = kernels.front().summary;
  joined.min_ctas_per_sm = kernels.front().min_ctas_per_sm;
  for (size_t i = 0; i < kernels.size(); ++i) {
    const Kernel& kernel = kernels[i];
    if (kernel.parameters.size() > kernels.front().parameters.size()) {
      return absl::InvalidArgumentError(absl::StrCat("kernel ", joined.name, ": phases of ",
                                                     kernels.front().parameters.size(), " and of ",
                                                     kernel.parameters.size(), " parameters"));
    }
    Copier copier(kernel, buffers[i], Run::kAll, joined);
    for (size_t k = 0; k < kernel.parameters.size(); ++k) {
      if (i == 0) joined.parameters.push_back(copier.Bind(kernel.parameters[k]));
      copier.Replace(kernel.parameters[k], joined.parameters[k]);
    }
    for (size_t k = 0; k < kernel.buffers.size(); ++k) {
      Buffer buffer = kernel.buffers[k];
      const size_t number = static_cast<size_t>(buffers[i][k]);
      if (number < joined.buffers.size()) {
        joined.buffers[number].written |= buffer.written;
        continue;
      }
      buffer.num_elements = copier.Import(buffer.num_elements);
      joined.buffers.push_back(std::move(buffer));
    }
    const SymInt grid = copier.Import(kernel.grid_x);
    if (i == 0) joined.grid_x = grid;
    if (i > 0) joined.body.push_back({GridSync{}});
    if (grid.is_same(joined.grid_x)) {
      copier.Replace(kernel.block_x, joined.block_x);
      for (Stmt& stmt : copier.Body()) joined.body.push_back(std::move(stmt));
      continue;
    }
    const std::string cta = absl::StrCat("cta_", i);
    if (ProvablyLe(grid, joined.grid_x)) {
      joined.body.push_back(
          {If{SymLt(joined.block_x, grid), copier.BodyFor(cta, joined.block_x), {}}});
      continue;
    }
    const SymInt turn = joined.env->FreshSymbol("turn", 0, CeilDiv(grid, joined.grid_x) - 1);
    For turns{turn, CeilDiv(grid - joined.block_x, joined.grid_x), false, {}};
    turns.body = copier.BodyFor(cta, joined.block_x + turn * joined.grid_x);
    // The next turn writes to the same shared arrays.
    if (!kernel.shared.empty()) turns.body.push_back({CtaSync{}});
    joined.body.push_back({std::move(turns)});
  }
  return joined;
}

}  // namespace seam::kernel
