#include "ir/symbolic/sym_program.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "ir/status.h"

namespace seam {
namespace {

constexpr size_t kStackRegisters = 128;
constexpr size_t kMostShown = 60;  // Bytes of an expression in an error.

const char* OpName(SymKind kind) {
  switch (kind) {
    case SymKind::Add:
      return "sum";
    case SymKind::Mul:
      return "mul";
    case SymKind::FloorDiv:
      return "floordiv";
    case SymKind::Mod:
      return "mod";
    case SymKind::Min:
      return "min";
    case SymKind::Max:
      return "max";
    case SymKind::Eq:
      return "eq";
    case SymKind::Ne:
      return "ne";
    case SymKind::Lt:
      return "lt";
    case SymKind::Le:
      return "le";
    case SymKind::And:
      return "and";
    case SymKind::Or:
      return "or";
    default:
      return "select";
  }
}

int64_t WrapAdd(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
int64_t WrapMul(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}
int64_t FloorQuotient(int64_t a, int64_t b) {  // b is neither 0 nor -1.
  return a / b - (a % b != 0 && (a % b < 0) != (b < 0));
}
int64_t FloorRemainder(int64_t a, int64_t b) {
  return a % b + (a % b != 0 && (a % b < 0) != (b < 0) ? b : 0);
}

enum class Fault : uint8_t { None, Overflow, DivisionByZero };

struct Checked {
  int64_t value = 0;
  Fault fault = Fault::None;
};

}  // namespace

absl::StatusOr<SymProgram> SymProgram::Compile(absl::Span<const SymInt> outputs,
                                               absl::Span<const SymNode* const> inputs) {
  SymProgram p;
  absl::flat_hash_map<const SymNode*, int> node_register;
  for (const SymNode* input : inputs) {
    if (input == nullptr || input->kind != SymKind::Symbol) {
      return absl::InvalidArgumentError(
          absl::StrCat("symbolic program: input ", p.inputs_.size(), " is not a symbol"));
    }
    if (!node_register.emplace(input, p.num_inputs()).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("symbolic program: input \"", input->name, "\" is given twice"));
    }
    p.inputs_.push_back({std::string(input->name), input->range});
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].is_valid()) {
      return absl::InvalidArgumentError(
          absl::StrCat("symbolic program: output ", i, " is invalid"));
    }
  }
  const std::vector<const SymNode*> nodes = TopologicalNodes(outputs);
  absl::flat_hash_map<int64_t, int> constant_register;
  const auto add_constant = [&](SymInt e) {
    if (const auto v = e.maybe_int()) {
      if (constant_register.emplace(*v, p.num_registers()).second) p.constants_.push_back(*v);
    }
  };
  for (const SymInt output : outputs) add_constant(output);
  for (const SymNode* node : nodes) {
    for (const SymInt child : node->children) add_constant(child);
  }
  const auto register_of = [&](SymInt e) {
    const auto v = e.maybe_int();
    return v ? constant_register.at(*v) : node_register.at(e.node());
  };
  for (const SymNode* node : nodes) {
    if (node->kind == SymKind::Symbol) {
      if (node_register.contains(node)) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("symbolic program: symbol \"", node->name, "\" is not among the inputs"));
    }
    node_register.emplace(node, p.num_registers());
    p.instructions_.push_back({node->kind, static_cast<int>(p.operands_.size()),
                               static_cast<int>(node->children.size()), node->constant});
    for (size_t i = 0; i < node->children.size(); ++i) {
      p.operands_.push_back(register_of(node->children[i]));
      p.coefficients_.push_back(node->kind == SymKind::Add ? node->coefficients[i] : 1);
    }
  }
  for (const SymInt output : outputs) p.outputs_.push_back(register_of(output));
  return p;
}

void SymProgram::Run(const int64_t* inputs, int64_t* outputs, int64_t* scratch) const {
  int64_t* out = std::copy_n(inputs, inputs_.size(), scratch);
  out = std::copy(constants_.begin(), constants_.end(), out);
  for (const Instruction& op : instructions_) {
    const int* r = operands_.data() + op.first_operand;
    const int64_t* k = coefficients_.data() + op.first_operand;
    const int n = op.num_operands;
    int64_t v = scratch[r[0]];
    const int64_t second = n > 1 ? scratch[r[1]] : 0;
    switch (op.kind) {
      case SymKind::Add:
        v = op.constant;
        for (int i = 0; i < n; ++i) v = WrapAdd(v, WrapMul(k[i], scratch[r[i]]));
        break;
      case SymKind::Mul:
        for (int i = 1; i < n; ++i) v = WrapMul(v, scratch[r[i]]);
        break;
      case SymKind::FloorDiv:
        v = second == 0 ? 0 : second == -1 ? WrapMul(v, -1) : FloorQuotient(v, second);
        break;
      case SymKind::Mod:
        v = second == 0 || second == -1 ? 0 : FloorRemainder(v, second);
        break;
      case SymKind::Min:
        for (int i = 1; i < n; ++i) v = std::min(v, scratch[r[i]]);
        break;
      case SymKind::Max:
        for (int i = 1; i < n; ++i) v = std::max(v, scratch[r[i]]);
        break;
      case SymKind::Eq:
        v = v == second;
        break;
      case SymKind::Ne:
        v = v != second;
        break;
      case SymKind::Lt:
        v = v < second;
        break;
      case SymKind::Le:
        v = v <= second;
        break;
      case SymKind::And:
        for (int i = 1; i < n; ++i) v &= scratch[r[i]];
        break;
      case SymKind::Or:
        for (int i = 1; i < n; ++i) v |= scratch[r[i]];
        break;
      default:
        v = v != 0 ? second : scratch[r[2]];
        break;
    }
    *out++ = v;
  }
  for (size_t i = 0; i < outputs_.size(); ++i) outputs[i] = scratch[outputs_[i]];
}

void SymProgram::Run(const int64_t* inputs, int64_t* outputs) const {
  absl::InlinedVector<int64_t, kStackRegisters> scratch(num_registers());
  Run(inputs, outputs, scratch.data());
}

absl::Status SymProgram::CheckInputs(const int64_t* inputs) const {
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const Input& input = inputs_[i];
    if (inputs[i] < input.range.lo || inputs[i] > input.range.hi) {
      return absl::OutOfRangeError(absl::StrCat(input.name, " = ", inputs[i], " is outside ",
                                                input.range.lo, "..", input.range.hi));
    }
  }
  return absl::OkStatus();
}

absl::Status SymProgram::RunChecked(const int64_t* inputs, int64_t* outputs) const {
  SEAM_RETURN_IF_ERROR(CheckInputs(inputs));
  absl::InlinedVector<Checked, kStackRegisters> regs;
  regs.reserve(num_registers());
  for (size_t i = 0; i < inputs_.size(); ++i) regs.push_back({inputs[i], Fault::None});
  for (const int64_t c : constants_) regs.push_back({c, Fault::None});
  for (const Instruction& op : instructions_) {
    const int* r = operands_.data() + op.first_operand;
    const int64_t* k = coefficients_.data() + op.first_operand;
    const int n = op.num_operands;
    Checked v = regs[r[0]];
    if (op.kind == SymKind::Select) {
      if (v.fault == Fault::None) v = regs[r[v.value != 0 ? 1 : 2]];
      regs.push_back(v);
      continue;
    }
    Fault fault = Fault::None;
    for (int i = 0; i < n && fault == Fault::None; ++i) fault = regs[r[i]].fault;
    if (op.kind == SymKind::And || op.kind == SymKind::Or) {
      const int64_t decisive = op.kind == SymKind::Or;
      const bool decided = std::any_of(r, r + n, [&](int i) {
        return regs[i].fault == Fault::None && (regs[i].value != 0) == (decisive != 0);
      });
      regs.push_back(decided ? Checked{decisive, Fault::None} : Checked{1 - decisive, fault});
      continue;
    }
    if (fault != Fault::None) {
      regs.push_back({0, fault});
      continue;
    }
    const int64_t second = n > 1 ? regs[r[1]].value : 0;
    switch (op.kind) {
      case SymKind::Add: {
        // 128 bits hold the sum of as many terms as a sum can have, so that only the result may
        // overflow.
        __int128 sum = op.constant;
        bool overflow = false;
        for (int i = 0; i < n; ++i) {
          overflow |=
              __builtin_add_overflow(sum, static_cast<__int128>(k[i]) * regs[r[i]].value, &sum);
        }
        v.value = static_cast<int64_t>(sum);
        if (overflow || v.value != sum) v.fault = Fault::Overflow;
        break;
      }
      case SymKind::Mul: {
        const bool zero = std::any_of(r, r + n, [&](int i) { return regs[i].value == 0; });
        for (int i = 1; i < n && !zero && v.fault == Fault::None; ++i) {
          if (__builtin_mul_overflow(v.value, regs[r[i]].value, &v.value))
            v.fault = Fault::Overflow;
        }
        if (zero) v.value = 0;
        break;
      }
      case SymKind::FloorDiv:
        if (second == 0) {
          v.fault = Fault::DivisionByZero;
        } else if (second == -1) {
          if (__builtin_sub_overflow(int64_t{0}, v.value, &v.value)) v.fault = Fault::Overflow;
        } else {
          v.value = FloorQuotient(v.value, second);
        }
        break;
      case SymKind::Mod:
        if (second == 0) {
          v.fault = Fault::DivisionByZero;
        } else {
          v.value = second == -1 ? 0 : FloorRemainder(v.value, second);
        }
        break;
      case SymKind::Min:
        for (int i = 1; i < n; ++i) v.value = std::min(v.value, regs[r[i]].value);
        break;
      case SymKind::Max:
        for (int i = 1; i < n; ++i) v.value = std::max(v.value, regs[r[i]].value);
        break;
      case SymKind::Eq:
        v.value = v.value == second;
        break;
      case SymKind::Ne:
        v.value = v.value != second;
        break;
      case SymKind::Lt:
        v.value = v.value < second;
        break;
      default:
        v.value = v.value <= second;
        break;
    }
    regs.push_back(v);
  }
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const Checked& v = regs[outputs_[i]];
    if (v.fault != Fault::None) {
      return absl::OutOfRangeError(absl::StrCat(
          "output ", i, ": ", v.fault == Fault::Overflow ? "overflow" : "division by zero"));
    }
    outputs[i] = v.value;
  }
  return absl::OkStatus();
}

std::string SymProgram::ToString() const {
  std::string text;
  for (size_t i = 0; i < inputs_.size(); ++i)
    absl::StrAppend(&text, "r", i, " = ", inputs_[i].name, "\n");
  size_t next = inputs_.size();
  for (const int64_t c : constants_) absl::StrAppend(&text, "r", next++, " = ", c, "\n");
  for (const Instruction& op : instructions_) {
    absl::StrAppend(&text, "r", next++, " = ", OpName(op.kind), "(");
    for (int i = 0; i < op.num_operands; ++i) {
      const int at = op.first_operand + i;
      absl::StrAppend(&text, i == 0 ? "" : ", ");
      if (op.kind == SymKind::Add && coefficients_[at] != 1)
        absl::StrAppend(&text, coefficients_[at], "*");
      absl::StrAppend(&text, "r", operands_[at]);
    }
    if (op.kind == SymKind::Add && op.constant != 0) absl::StrAppend(&text, ", ", op.constant);
    absl::StrAppend(&text, ")\n");
  }
  absl::StrAppend(
      &text, "return ",
      absl::StrJoin(outputs_, ", ", [](std::string* out, int r) { absl::StrAppend(out, "r", r); }),
      "\n");
  return text;
}

absl::StatusOr<int64_t> Evaluate(
    SymInt e, absl::FunctionRef<std::optional<int64_t>(const SymNode* symbol)> lookup) {
  const std::vector<const SymNode*> symbols = FreeSymbols(e);
  absl::StatusOr<SymProgram> program = SymProgram::Compile({&e, 1}, symbols);
  if (!program.ok()) return program.status();
  absl::InlinedVector<int64_t, 8> inputs;
  for (const SymNode* symbol : symbols) {
    const std::optional<int64_t> value = lookup(symbol);
    if (!value)
      return absl::NotFoundError(absl::StrCat("symbol \"", symbol->name, "\" has no value"));
    inputs.push_back(*value);
  }
  int64_t value = 0;
  const absl::Status status = program->RunChecked(inputs.data(), &value);
  if (!status.ok()) {
    // What the program calls its output has a text here.
    const absl::string_view reason = absl::StripPrefix(status.message(), "output 0: ");
    std::string text = e.ToString();
    if (text.size() > kMostShown) text = text.substr(0, kMostShown) + "...";
    return absl::Status(status.code(), absl::StrCat("value of ", text, ": ", reason));
  }
  return value;
}

}  // namespace seam
