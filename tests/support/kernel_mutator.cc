#include "tests/support/kernel_mutator.h"

namespace seam::testing {
namespace {

using kernel::Block;

class Mutator {
 public:
  Mutator(Mutation mutation, int k) : mutation_(mutation), left_(k) {}

  // Whether the bug has been planted.
  bool Apply(Block* block) {
    for (size_t i = 0; i < block->size(); ++i) {
      auto& node = (*block)[i].node;
      const bool barrier = std::holds_alternative<kernel::CtaSync>(node) ||
                           std::holds_alternative<kernel::ClusterSync>(node) ||
                           std::holds_alternative<kernel::AwaitCopies>(node) ||
                           std::holds_alternative<kernel::AwaitStores>(node) ||
                           std::holds_alternative<kernel::AwaitLoads>(node) ||
                           std::holds_alternative<kernel::GridSync>(node);
      if (barrier && Here(Mutation::RemoveBarrier)) {
        block->erase(block->begin() + static_cast<ptrdiff_t>(i));
        return true;
      }
      if (auto* load = std::get_if<kernel::Load>(&node); load != nullptr && Access(load))
        return true;
      if (auto* store = std::get_if<kernel::Store>(&node); store != nullptr && Access(store))
        return true;
      if (auto* store = std::get_if<kernel::RemoteStore>(&node); store != nullptr && Access(store))
        return true;
      if (auto* copy = std::get_if<kernel::BulkCopy>(&node);
          copy != nullptr && Here(Mutation::ShiftIndex)) {
        copy->from += 16;
        return true;
      }
      if (auto* load = std::get_if<kernel::AsyncLoad>(&node); load != nullptr) {
        if (Condition(&load->predicate)) return true;
        if (Here(Mutation::ShiftIndex)) {
          load->from += load->width;
          return true;
        }
      }
      if (auto* ticket = std::get_if<kernel::TakeTicket>(&node);
          ticket != nullptr && Here(Mutation::ShiftIndex)) {
        ticket->total += 1;
        return true;
      }
      if (auto* leave = std::get_if<kernel::Leave>(&node);
          leave != nullptr && Here(Mutation::DropPredicate)) {
        leave->condition = 0;
        return true;
      }
      if (auto* shuffle = std::get_if<kernel::ShuffleXor>(&node);
          shuffle != nullptr && Here(Mutation::ChangeShuffleMask)) {
        shuffle->mask = shuffle->mask > 1 ? shuffle->mask / 2 : 2;
        return true;
      }
      if (auto* loop = std::get_if<kernel::For>(&node); loop != nullptr && Apply(&loop->body))
        return true;
      if (auto* branch = std::get_if<kernel::If>(&node); branch != nullptr) {
        if (Condition(&branch->condition) || Apply(&branch->body) || Apply(&branch->otherwise))
          return true;
      }
    }
    return false;
  }

 private:
  bool Here(Mutation mutation) { return mutation_ == mutation && left_-- == 0; }
  bool Condition(SymInt* condition) {
    if (condition->is_constant() || !Here(Mutation::DropPredicate)) return false;
    *condition = 1;
    return true;
  }
  template <typename Node>
  bool Access(Node* node) {
    if (Condition(&node->predicate)) return true;
    if (!Here(Mutation::ShiftIndex)) return false;
    node->index += 1;
    return true;
  }

  const Mutation mutation_;
  int left_;
};

}  // namespace

std::optional<kernel::Kernel> Mutate(const kernel::Kernel& kernel, Mutation mutation, int k) {
  kernel::Kernel mutant = kernel;
  if (!Mutator(mutation, k).Apply(&mutant.body)) return std::nullopt;
  return mutant;
}

}  // namespace seam::testing
