// What statements do to the active threads of a cluster, and what can be wrong with it: control
// flow and arithmetic here, execute_memory.cc what moves elements, execute_together.cc what takes
// several threads.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ir/op_semantics.h"
#include "ir/philox.h"
#include "ir/status.h"
#include "runtime/simulator/simulation.h"

namespace seam::simulator {

absl::Status Simulation::RunBlock(const CompiledBlock& block, const Lanes& lanes) {
  for (const CompiledStmt& s : block) {
    SEAM_RETURN_IF_ERROR(Spend(static_cast<int64_t>(lanes.size())));
    SEAM_RETURN_IF_ERROR(
        std::visit([&](const auto& node) { return Execute(s, node, lanes); }, s.stmt->node));
    if (leaving_) break;
  }
  return absl::OkStatus();
}

absl::Status Simulation::Fault(const CompiledStmt& s, int thread, absl::string_view what) {
  // The values of the symbols in the statement's expressions, as this thread sees them.
  std::string symbols;
  std::vector<const SymNode*> seen;
  const auto add = [&](SymInt e) {
    for (const SymNode* symbol : FreeSymbols(e)) {
      if (symbol == kernel_.block_x.node() || symbol == kernel_.thread_x.node()) continue;
      if (std::find(seen.begin(), seen.end(), symbol) != seen.end()) continue;
      seen.push_back(symbol);
      const int64_t value = Values(CompileExpr(SymInt::FromNode(symbol)))[thread];
      absl::StrAppend(&symbols, ", ", symbol->name, " = ", value);
    }
  };
  std::visit(
      [&](const auto& node) {
        if constexpr (requires { node.extent; }) add(node.extent);
        if constexpr (requires { node.condition; }) add(node.condition);
        if constexpr (requires { node.slot; }) add(node.slot);
        if constexpr (requires { node.index; }) add(node.index);
        if constexpr (requires { node.from; }) add(node.from);
        if constexpr (requires { node.to; }) add(node.to);
        if constexpr (requires { node.predicate; }) add(node.predicate);
        if constexpr (std::is_same_v<std::decay_t<decltype(node)>, kernel::IndexValue>)
          add(node.value);
      },
      s.stmt->node);
  return absl::FailedPreconditionError(absl::StrCat(
      "kernel ", kernel_.name, ", statement ", s.number, " (", kernel::PrintStmt(kernel_, *s.stmt),
      "), CTA ", cta_ + RankOf(thread), ", thread ", InCta(thread), symbols, ": ", what));
}

absl::Status Simulation::CheckExpr(const CompiledStmt& s, const Expr& e, const Lanes& lanes) {
  if (e.id < 0) return absl::OkStatus();
  if (const auto overflow = integers_.Check(e.id, lanes)) {
    return Fault(s, overflow->thread, overflow->message);
  }
  return absl::OkStatus();
}

const int64_t* Simulation::Values(const Expr& e) {
  if (e.id >= 0) return integers_.Values(e.id);
  broadcast_.assign(threads_, e.constant);
  return broadcast_.data();
}

absl::StatusOr<const Simulation::Lanes*> Simulation::Select(const CompiledStmt& s, const Expr& e,
                                                            const Lanes& lanes, Lanes* storage) {
  if (e.id < 0 && e.constant != 0) return &lanes;
  SEAM_RETURN_IF_ERROR(CheckExpr(s, e, lanes));
  if (e.id < 0 || integers_.is_uniform(e.id)) {
    return e.id >= 0 && integers_.Uniform(e.id) != 0 ? &lanes : storage;
  }
  const int64_t* holds = integers_.Values(e.id);
  for (const int t : lanes) {
    if (holds[t] != 0) storage->push_back(t);
  }
  return storage;
}

absl::StatusOr<int> Simulation::SlotOf(const CompiledStmt& s, int fragment, const Expr& slot,
                                       int width, const Lanes& lanes) {
  const int64_t value = slot.id < 0 ? slot.constant : integers_.Uniform(slot.id);
  const kernel::Fragment& f = kernel_.fragments[fragment];
  if (value < 0 || value > f.count - width) {
    return Fault(s, lanes[0],
                 absl::StrCat("slot ", value, " (", width, " wide) is outside fragment ", f.name,
                              " of ", f.count));
  }
  return first_row_[fragment] + static_cast<int>(value);
}

void Simulation::MarkWritten(int row, const Lanes& lanes) {
  if (written_count_[row] == threads_) return;
  uint8_t* written = written_.data() + static_cast<size_t>(row) * threads_;
  for (const int t : lanes) {
    written_count_[row] += !written[t];
    written[t] = 1;
  }
}

absl::Status Simulation::RequireWritten(const CompiledStmt& s, int row, const Lanes& lanes) {
  if (written_count_[row] == threads_) return absl::OkStatus();
  const uint8_t* written = written_.data() + static_cast<size_t>(row) * threads_;
  for (const int t : lanes) {
    if (written[t]) continue;
    const auto fragment =
        std::upper_bound(first_row_.begin(), first_row_.end(), row) - first_row_.begin() - 1;
    return Fault(s, t,
                 absl::StrCat("reads ", kernel_.fragments[fragment].name, "[",
                              row - first_row_[fragment], "], which this thread has not written"));
  }
  return absl::OkStatus();
}

absl::StatusOr<const Scalar*> Simulation::Read(const CompiledStmt& s,
                                               const CompiledOperand& operand, const Lanes& lanes) {
  if (operand.fragment < 0) return operand.constant;
  SEAM_ASSIGN_OR_RETURN(const int row, SlotOf(s, operand.fragment, operand.slot, 1, lanes));
  SEAM_RETURN_IF_ERROR(RequireWritten(s, row, lanes));
  return Row(row);
}

absl::Status Simulation::Execute(const CompiledStmt& s, const kernel::For& node,
                                 const Lanes& lanes) {
  SEAM_RETURN_IF_ERROR(CheckExpr(s, s.index, lanes));
  const SymNode* symbol = node.symbol.node();
  const bool uniform = s.index.id < 0 || integers_.is_uniform(s.index.id);
  std::vector<int64_t> extents;  // By position in `lanes`, where they differ.
  int64_t most = uniform ? *Values(s.index) : INT64_MIN;
  if (!uniform) {
    const int64_t* values = integers_.Values(s.index.id);
    for (const int t : lanes) {
      extents.push_back(values[t]);
      most = std::max(most, values[t]);
    }
  }
  Lanes active;
  for (int64_t i = 0; i < most; ++i) {
    if (i < s.lo || i > s.hi) {
      return Fault(s, lanes[0],
                   absl::StrCat(symbol->name, " = ", i, " is outside its declared range ", s.lo,
                                "..", s.hi));
    }
    active.clear();
    for (size_t k = 0; k < extents.size(); ++k) {
      if (i < extents[k]) active.push_back(lanes[k]);
    }
    integers_.SetUniform(symbol, i);
    SEAM_RETURN_IF_ERROR(Spend(1));
    SEAM_RETURN_IF_ERROR(RunBlock(s.body, uniform ? lanes : active));
    if (std::exchange(leaving_, false)) break;
  }
  return absl::OkStatus();
}

absl::Status Simulation::Execute(const CompiledStmt& s, const kernel::Leave&, const Lanes& lanes) {
  Lanes storage;
  SEAM_ASSIGN_OR_RETURN(const Lanes* leaving, Select(s, s.predicate, lanes, &storage));
  if (leaving->empty()) return absl::OkStatus();
  SEAM_RETURN_IF_ERROR(RequireAll(s, "way out of the loop", *leaving));
  leaving_ = true;
  return absl::OkStatus();
}

absl::Status Simulation::Execute(const CompiledStmt& s, const kernel::If&, const Lanes& lanes) {
  Lanes storage;
  SEAM_ASSIGN_OR_RETURN(const Lanes* taken, Select(s, s.predicate, lanes, &storage));
  Lanes others;
  if (!s.otherwise.empty() && taken->size() < lanes.size()) {
    std::set_difference(lanes.begin(), lanes.end(), taken->begin(), taken->end(),
                        std::back_inserter(others));
  }
  if (!taken->empty()) SEAM_RETURN_IF_ERROR(RunBlock(s.body, *taken));
  if (!others.empty()) SEAM_RETURN_IF_ERROR(RunBlock(s.otherwise, others));
  return absl::OkStatus();
}

absl::Status Simulation::Execute(const CompiledStmt& s, const kernel::Map& node,
                                 const Lanes& lanes) {
  SEAM_ASSIGN_OR_RETURN(const int row, SlotOf(s, node.fragment, s.slot, 1, lanes));
  const bool full = static_cast<int>(lanes.size()) == threads_;
  const size_t n = lanes.size();
  const Scalar* arguments[3] = {};
  for (size_t i = 0; i < s.operands.size(); ++i) {
    SEAM_ASSIGN_OR_RETURN(arguments[i], Read(s, s.operands[i], lanes));
    if (full) continue;
    for (size_t k = 0; k < n; ++k) scratch_[i][k] = arguments[i][lanes[k]];
    arguments[i] = scratch_[i].data();
  }
  Scalar* result = full ? Row(row) : scratch_[3].data();
  const DType out = kernel_.fragments[node.fragment].dtype;
  if (ClassOf(node.op) == OpClass::Cast) {
    CastScalars(s.operands[0].dtype, out, arguments[0], result, n);
  } else {
    const DType in = s.operands[node.op == OpKind::Where ? 1 : 0].dtype;
    EvalElementwise(node.op, in, out, arguments, result, n);
  }
  if (!full) {
    for (size_t k = 0; k < n; ++k) Row(row)[lanes[k]] = result[k];
  }
  MarkWritten(row, lanes);
  return absl::OkStatus();
}

absl::Status Simulation::Execute(const CompiledStmt& s, const kernel::IndexValue& node,
                                 const Lanes& lanes) {
  SEAM_ASSIGN_OR_RETURN(const int row, SlotOf(s, node.fragment, s.slot, 1, lanes));
  SEAM_RETURN_IF_ERROR(CheckExpr(s, s.index, lanes));
  const int64_t* values = Values(s.index);
  for (size_t k = 0; k < lanes.size(); ++k) scratch_[0][k] = IntScalar(values[lanes[k]]);
  CastScalars(DType::I64, kernel_.fragments[node.fragment].dtype, scratch_[0].data(),
              scratch_[1].data(), lanes.size());
  for (size_t k = 0; k < lanes.size(); ++k) Row(row)[lanes[k]] = scratch_[1][k];
  MarkWritten(row, lanes);
  return absl::OkStatus();
}

absl::Status Simulation::Execute(const CompiledStmt& s, const kernel::LetSymbol& node,
                                 const Lanes& lanes) {
  SEAM_ASSIGN_OR_RETURN(const Scalar* values, Read(s, s.operands[0], lanes));
  const SymNode* symbol = node.symbol.node();
  int64_t* array = integers_.MutableVarying(symbol);
  for (const int t : lanes) {
    array[t] = values[t].i;
    if (array[t] < s.lo || array[t] > s.hi) {
      return Fault(s, t,
                   absl::StrCat(symbol->name, " = ", array[t], " is outside its declared range ",
                                s.lo, "..", s.hi));
    }
  }
  integers_.Changed(symbol);
  return absl::OkStatus();
}

absl::Status Simulation::Execute(const CompiledStmt& s, const kernel::Random& node,
                                 const Lanes& lanes) {
  SEAM_ASSIGN_OR_RETURN(const int row, SlotOf(s, node.fragment, s.slot, 1, lanes));
  SEAM_RETURN_IF_ERROR(CheckExpr(s, s.index, lanes));
  SEAM_ASSIGN_OR_RETURN(const Scalar* seeds, Read(s, s.operands[0], lanes));
  SEAM_ASSIGN_OR_RETURN(const Scalar* offsets, Read(s, s.operands[1], lanes));
  const int64_t* index = Values(s.index);
  const DType dtype = kernel_.fragments[node.fragment].dtype;
  const auto value = node.op == OpKind::RandomUniform ? RandomUniformValue : RandomNormalValue;
  for (const int t : lanes) {
    Row(row)[t] =
        FloatScalar(RoundToDType(dtype, value(dtype, seeds[t].i, offsets[t].i, index[t])));
  }
  MarkWritten(row, lanes);
  return absl::OkStatus();
}

absl::Status Simulation::Execute(const CompiledStmt& s, const kernel::ShuffleXor& node,
                                 const Lanes& lanes) {
  for (size_t k = 0; k < lanes.size(); k += kWarp) {
    // Of a whole warp, the next 32 active threads are consecutive from a multiple of 32.
    if (lanes[k] % kWarp != 0 || k + kWarp > lanes.size() ||
        lanes[k + kWarp - 1] != lanes[k] + kWarp - 1) {
      return Fault(s, lanes[k], "a shuffle that not all threads of the warp reach");
    }
  }
  SEAM_ASSIGN_OR_RETURN(const Scalar* source, Read(s, s.operands[0], lanes));
  SEAM_ASSIGN_OR_RETURN(const int row, SlotOf(s, node.fragment, s.slot, 1, lanes));
  for (const int t : lanes) scratch_[0][t] = source[t ^ node.mask];
  for (const int t : lanes) Row(row)[t] = scratch_[0][t];
  MarkWritten(row, lanes);
  return absl::OkStatus();
}

}  // namespace seam::simulator
