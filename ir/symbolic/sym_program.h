// A list of symbolic expressions compiled to a flat integer program, for launch parameters and
// guards.
//
// Invariants: instructions are in topological order and each distinct node is computed once.
// Registers are [inputs | constants | one per instruction]. Thread-safety: a compiled program is
// immutable; it may be run from many threads, each with its own scratch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ir/symbolic/sym_int.h"

namespace seam {

class SymProgram {
 public:
  SymProgram() = default;  // No inputs, no outputs.

  // outputs [num_outputs] over the values of the symbols inputs [num_inputs]. Errors: an Invalid
  // output, a symbol that is not among the inputs, an input that is no symbol or is given twice.
  // Linear in the nodes.
  static absl::StatusOr<SymProgram> Compile(absl::Span<const SymInt> outputs,
                                            absl::Span<const SymNode* const> inputs);

  int num_inputs() const { return static_cast<int>(inputs_.size()); }
  int num_outputs() const { return static_cast<int>(outputs_.size()); }
  int num_registers() const {
    return static_cast<int>(inputs_.size() + constants_.size() + instructions_.size());
  }

  // inputs [num_inputs], outputs [num_outputs], scratch [num_registers]. Does not allocate and does
  // not check: arithmetic wraps around and a division by zero gives 0. For inputs that RunChecked
  // or guards accept.
  void Run(const int64_t* inputs, int64_t* outputs, int64_t* scratch) const;
  // The same with scratch of its own, on the stack for a small program.
  void Run(const int64_t* inputs, int64_t* outputs) const;

  // The same with an error for an input outside its symbol's range and for an output that overflow
  // or a division by zero leaves without a value. What select does not take, and what a false
  // operand of && or a true one of || makes irrelevant, may fail. Where there is an error in output
  // i, only the outputs before i are written.
  absl::Status RunChecked(const int64_t* inputs, int64_t* outputs) const;

  absl::Status CheckInputs(const int64_t* inputs) const;  // Each within its symbol's range.

  std::string ToString() const;  // One instruction a line: "r3 = floordiv(r0, r2)".

 private:
  struct Instruction {
    SymKind kind;
    int first_operand;
    int num_operands;
    int64_t constant;  // Of an Add.
  };
  struct Input {
    std::string name;
    SymRange range;
  };

  std::vector<Input> inputs_;
  std::vector<int64_t> constants_;
  std::vector<Instruction> instructions_;
  std::vector<int> operands_;          // Registers.
  std::vector<int64_t> coefficients_;  // Beside each operand; used by Add.
  std::vector<int> outputs_;           // Registers.
};

}  // namespace seam
