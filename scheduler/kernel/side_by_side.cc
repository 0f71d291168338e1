// Each kernel becomes the body of an `if` on the CTA's number:
//
//   if block < end_0:                  block_0 = block           kernel 0
//   if end_0 <= block < end_1:         block_1 = block - end_0   kernel 1
//
// Its symbols are made anew in the common environment, its fragments, arrays and buffers follow
// those of the kernels before.
#include "scheduler/kernel/side_by_side.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"

namespace seam::kernel {
namespace {

// Copies the statements of one kernel into another.
class Copier {
 public:
  Copier(const Kernel& from, Kernel& to)
      : importer_(to.env.get()),
        to_(to),
        first_fragment_(static_cast<int>(to.fragments.size())),
        first_shared_(static_cast<int>(to.shared.size())),
        first_buffer_(static_cast<int>(to.buffers.size())) {
    for (SymInt parameter : from.parameters) to.parameters.push_back(Bind(parameter));
    importer_.Map(from.thread_x.node(), to.thread_x);
    block_ = to.env->FreshSymbol("block", 0, importer_.Import(from.grid_x) - 1);
    importer_.Map(from.block_x.node(), block_);
    for (Buffer buffer : from.buffers) {
      buffer.num_elements = importer_.Import(buffer.num_elements);
      to.buffers.push_back(std::move(buffer));
    }
    to.fragments.insert(to.fragments.end(), from.fragments.begin(), from.fragments.end());
    to.shared.insert(to.shared.end(), from.shared.begin(), from.shared.end());
    body_ = Copied(from.body);
  }

  SymInt block() const { return block_; }
  Block TakeBody() { return std::move(body_); }

 private:
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

  Operand Copied(Operand operand) {
    if (operand.fragment >= 0) operand.fragment += first_fragment_;
    operand.slot = importer_.Import(operand.slot);
    return operand;
  }
  template <typename Access>
  void Move(Access& access) {
    access.fragment += first_fragment_;
    access.array += access.space == Space::Shared ? first_shared_ : first_buffer_;
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
  void Edit(CtaSync&) {}
  void Edit(Comment&) {}

  SymImporter importer_;
  absl::flat_hash_map<const SymNode*, SymInt> bound_;
  Kernel& to_;
  const int first_fragment_, first_shared_, first_buffer_;
  SymInt block_;
  Block body_;
};

}  // namespace

absl::StatusOr<Kernel> SideBySide(std::string name, absl::Span<const Kernel> kernels) {
  if (kernels.empty()) return absl::InvalidArgumentError("no kernels to put side by side");
  Kernel joined;
  joined.name = std::move(name);
  joined.env = std::make_shared<ShapeEnv>();
  joined.threads = kernels.front().threads;
  joined.min_ctas_per_sm = kernels.front().min_ctas_per_sm;
  joined.index32 = true;
  joined.thread_x = joined.env->FreshSymbol("thread", 0, joined.threads - 1);
  joined.block_x = joined.env->FreshSymbol("block", 0, INT32_MAX);
  SymInt end = 0;  // Of the CTAs so far.
  for (size_t i = 0; i < kernels.size(); ++i) {
    const Kernel& kernel = kernels[i];
    if (kernel.threads != joined.threads) {
      return absl::InvalidArgumentError(absl::StrCat("kernels of ", joined.threads, " and of ",
                                                     kernel.threads,
                                                     " threads cannot be side by side"));
    }
    if (kernel.grid_x.is_same(0))
      return absl::InvalidArgumentError(absl::StrCat("kernel ", kernel.name, " has no CTAs"));
    joined.min_ctas_per_sm = std::min(joined.min_ctas_per_sm, kernel.min_ctas_per_sm);
    joined.index32 &= kernel.index32;
    absl::StrAppend(&joined.summary, joined.summary.empty() ? "" : "\n", "island ", i, ": ",
                    kernel.summary);
    Copier copier(kernel, joined);
    const SymInt begin = end;
    end = joined.env->FreshSymbol(absl::StrCat("end_", i), 0, INT32_MAX);
    joined.parameters.push_back(end);
    If island{SymAnd(SymGe(joined.block_x, begin), SymLt(joined.block_x, end)), {}, {}};
    const int fragment = static_cast<int>(joined.fragments.size());
    joined.fragments.push_back({absl::StrCat("cta_", i), DType::I64, 1, false});
    island.body.push_back({IndexValue{fragment, 0, joined.block_x - begin}});
    island.body.push_back({LetSymbol{copier.block(), Operand::Reg(fragment)}});
    for (Stmt& stmt : copier.TakeBody()) island.body.push_back(std::move(stmt));
    joined.body.push_back({std::move(island)});
  }
  joined.grid_x = end;
  return joined;
}

}  // namespace seam::kernel
