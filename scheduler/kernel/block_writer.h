// Writes statements of the thread-level kernel IR: fragments, maps and nested blocks, with the
// arithmetic that the lowering needs spelled once. Thread-safety: none.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "ir/op_semantics.h"
#include "scheduler/kernel/kernel_ir.h"

namespace seam::kernel {

class BlockWriter {
 public:
  explicit BlockWriter(Kernel* kernel) : kernel_(kernel) { blocks_.push_back({&kernel->body, {}}); }

  int NewFragment(absl::string_view name, DType dtype, int count = 1, bool packed = false);
  int NewShared(absl::string_view name, DType dtype, int64_t count);
  DType dtype(int fragment) const { return kernel_->fragments[fragment].dtype; }

  template <typename Node>
  void Emit(Node node) {
    blocks_.back().statements->push_back(Stmt{std::move(node)});
  }
  // Statements emitted by `body` become the body of the loop or condition.
  template <typename Body>
  void Loop(SymInt symbol, SymInt extent, bool unrolled, Body body, bool rolled = false) {
    For loop{symbol, extent, unrolled, {}, rolled};
    blocks_.push_back({&loop.body, {}});
    body();
    blocks_.pop_back();
    Emit(std::move(loop));
  }
  template <typename Body, typename Otherwise>
  void Branch(SymInt condition, Body body, Otherwise otherwise) {
    If branch{condition, {}, {}};
    blocks_.push_back({&branch.body, {}});
    body();
    blocks_.back() = {&branch.otherwise, {}};
    otherwise();
    blocks_.pop_back();
    Emit(std::move(branch));
  }

  // Makes `symbol` stand for `value` from here on, unless an enclosing block has done so.
  void Bind(SymInt symbol, Operand value) {
    for (const OpenBlock& block : blocks_) {
      if (std::find(block.bound.begin(), block.bound.end(), symbol) != block.bound.end()) return;
    }
    blocks_.back().bound.push_back(symbol);
    Emit(LetSymbol{symbol, value});
  }

  void Set(int fragment, SymInt slot, OpKind op, std::initializer_list<Operand> arguments) {
    Emit(Map{op, fragment, slot, arguments});
  }
  // A new scalar of `dtype` holding op(arguments).
  Operand Make(DType dtype, OpKind op, std::initializer_list<Operand> arguments) {
    const int fragment = NewFragment("t", dtype);
    Emit(Map{op, fragment, 0, arguments});
    return Operand::Reg(fragment);
  }
  // A new scalar holding an integer expression.
  Operand Index(DType dtype, SymInt value) {
    const int fragment = NewFragment("i", dtype);
    Emit(IndexValue{fragment, 0, value});
    return Operand::Reg(fragment);
  }
  static Operand Number(DType dtype, double value) {
    return Operand::Const(
        dtype, IsFloat(dtype) ? FloatScalar(value) : IntScalar(static_cast<int64_t>(value)));
  }

 private:
  struct OpenBlock {
    Block* statements;
    std::vector<SymInt> bound;
  };
  Kernel* kernel_;
  std::vector<OpenBlock> blocks_;
};

}  // namespace seam::kernel
