// Where a kernel's fragments are used: what decides how the emitter declares and rounds them.
//
// Thread-safety: immutable once built. Holds pointers into the kernel.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <utility>
#include <vector>

#include "scheduler/kernel/kernel_ir.h"

namespace seam {

class FragmentUses {
 public:
  explicit FragmentUses(const kernel::Kernel& kernel);  // Linear in the statements.

  // The statement that may declare the fragment with the value that it writes: all uses are in its
  // block or below, none before it. Null if there is none.
  const kernel::Stmt* declaration(int fragment) const;
  bool written_once(int fragment) const { return uses_[fragment].writes == 1; }
  bool used(int fragment) const { return !uses_[fragment].first.empty(); }
  // It is computed, and nothing but stores reads it or a fragment that it is copied to, so that
  // they may do the rounding: one conversion packs two narrow floats and rounds them.
  bool rounded_by_stores(int fragment) const { return uses_[fragment].rounded_by_stores; }
  // It holds what a thread has loaded from a buffer, as it is there or in another type, and so may
  // have either sign. (Not what came through shared memory.)
  bool is_input(int fragment) const {
    return uses_[fragment].from_buffer && !uses_[fragment].changed;
  }

 private:
  using Path = std::vector<std::pair<const kernel::Block*, size_t>>;
  struct Use {
    Path first;         // To the first use: a statement in every block from the outermost in.
    size_t common = 0;  // Blocks of that path that hold all uses.
    bool first_is_write = false;
    bool computed = false;
    bool read_as_operand = false;  // By anything but a copy or a store.
    std::vector<int> copied_to;
    bool rounded_by_stores = false;
    bool from_buffer = false;
    bool changed = false;  // By an operation.
    int writes = 0;
  };

  void Touch(int fragment, bool write);
  void Compute(int fragment);
  void Operands(std::initializer_list<const kernel::Operand*> operands);
  void Walk(const kernel::Block& block);
  void Visit(const kernel::For& node);
  void Visit(const kernel::Leave&) {}
  void Visit(const kernel::If& node);
  void Visit(const kernel::Load& node);
  void Visit(const kernel::Store& node);
  void Visit(const kernel::Map& node);
  void Visit(const kernel::IndexValue& node);
  void Visit(const kernel::LetSymbol& node);
  void Visit(const kernel::Random& node);
  void Visit(const kernel::ShuffleXor& node);
  void Visit(const kernel::TakeTicket& node) { Touch(node.fragment, true); }
  void Visit(const kernel::AwaitTickets&) {}
  void Visit(const kernel::CtaSync&) {}
  void Visit(const kernel::Pause&) {}
  void Visit(const kernel::ClusterSync&) {}
  void Visit(const kernel::RemoteStore& node);
  void Visit(const kernel::AwaitStores&) {}
  void Visit(const kernel::KeepPacked& node) { Touch(node.fragment, true); }
  void Visit(const kernel::AwaitLoaded& node) {
    for (int fragment : node.fragments) Touch(fragment, false);
  }
  void Visit(const kernel::BulkCopy&) {}
  void Visit(const kernel::AwaitCopies&) {}
  void Visit(const kernel::AsyncLoad&) {}
  void Visit(const kernel::AwaitLoads&) {}
  void Visit(const kernel::GridSync&) {}
  void Visit(const kernel::Comment&) {}

  std::vector<Use> uses_;
  Path path_;  // To the statement that is being visited.
};

}  // namespace seam
