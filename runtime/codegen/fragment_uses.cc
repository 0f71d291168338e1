#include "runtime/codegen/fragment_uses.h"

#include <algorithm>

#include "runtime/codegen/prelude.h"

namespace seam {

FragmentUses::FragmentUses(const kernel::Kernel& kernel) : uses_(kernel.fragments.size()) {
  Walk(kernel.body);
  for (size_t f = 0; f < uses_.size(); ++f) {
    const kernel::Fragment& fragment = kernel.fragments[f];
    uses_[f].rounded_by_stores = uses_[f].computed && !uses_[f].read_as_operand &&
                                 !fragment.packed && HasCudaPairs(fragment.dtype);
  }
  // Until nothing changes: a copy's source is rounded where its target is.
  for (bool changed = true; changed;) {
    changed = false;
    for (Use& use : uses_) {
      for (const int target : use.copied_to) {
        if (!use.rounded_by_stores || uses_[target].rounded_by_stores) continue;
        use.rounded_by_stores = false;
        changed = true;
      }
    }
  }
}

const kernel::Stmt* FragmentUses::declaration(int fragment) const {
  const Use& use = uses_[fragment];
  const bool direct = use.first_is_write && use.first.size() == use.common;
  return direct ? &(*use.first.back().first)[use.first.back().second] : nullptr;
}

void FragmentUses::Touch(int fragment, bool write) {
  Use& use = uses_[fragment];
  use.writes += write;
  if (use.first.empty()) {
    use.first = path_;
    use.common = path_.size();
    use.first_is_write = write;
    return;
  }
  size_t common = 0;
  while (common < std::min(use.common, path_.size()) &&
         use.first[common].first == path_[common].first) {
    ++common;
  }
  use.common = common;
}

void FragmentUses::Compute(int fragment) {
  Touch(fragment, true);
  uses_[fragment].computed = true;
}

void FragmentUses::Operands(std::initializer_list<const kernel::Operand*> operands) {
  for (const kernel::Operand* operand : operands) {
    if (operand->fragment < 0) continue;
    Touch(operand->fragment, false);
    uses_[operand->fragment].read_as_operand = true;
  }
}

void FragmentUses::Walk(const kernel::Block& block) {
  path_.emplace_back(&block, 0);
  for (size_t i = 0; i < block.size(); ++i) {
    path_.back().second = i;
    std::visit([this](const auto& node) { Visit(node); }, block[i].node);
  }
  path_.pop_back();
}

void FragmentUses::Visit(const kernel::For& node) { Walk(node.body); }
void FragmentUses::Visit(const kernel::If& node) {
  Walk(node.body);
  Walk(node.otherwise);
}
void FragmentUses::Visit(const kernel::Load& node) {
  Touch(node.fragment, true);
  uses_[node.fragment].from_buffer |= node.space == kernel::Space::Global;
}
void FragmentUses::Visit(const kernel::Store& node) { Touch(node.fragment, false); }
void FragmentUses::Visit(const kernel::RemoteStore& node) { Touch(node.fragment, false); }
void FragmentUses::Visit(const kernel::Map& node) {
  if (node.op == OpKind::Copy && node.arguments[0].fragment >= 0) {
    Touch(node.arguments[0].fragment, false);
    uses_[node.arguments[0].fragment].copied_to.push_back(node.fragment);
  } else {
    for (const kernel::Operand& operand : node.arguments) Operands({&operand});
  }
  Compute(node.fragment);
  const bool same = node.op == OpKind::Copy || node.op == OpKind::Cast;
  if (same && node.arguments[0].fragment >= 0) {
    uses_[node.fragment].from_buffer |= is_input(node.arguments[0].fragment);
  } else {
    uses_[node.fragment].changed = true;
  }
}
void FragmentUses::Visit(const kernel::IndexValue& node) { Compute(node.fragment); }
void FragmentUses::Visit(const kernel::LetSymbol& node) { Operands({&node.value}); }
void FragmentUses::Visit(const kernel::Random& node) {
  Operands({&node.seed, &node.offset});
  Compute(node.fragment);
}
void FragmentUses::Visit(const kernel::ShuffleXor& node) {
  Operands({&node.source});
  Compute(node.fragment);
}

}  // namespace seam
