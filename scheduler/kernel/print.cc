// The kernel IR as text, for people: `seam compile` writes it, error messages quote its lines.
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "scheduler/kernel/kernel_ir.h"

namespace seam::kernel {
namespace {

std::string ScalarText(DType dtype, Scalar value) {
  if (!IsFloat(dtype)) return absl::StrCat(value.i);
  if (std::isfinite(value.f)) return absl::StrFormat("%.17g", value.f);
  return value.f != value.f ? "nan" : value.f < 0 ? "-inf" : "inf";
}

class Printer {
 public:
  explicit Printer(const Kernel& kernel) : kernel_(kernel) {}

  std::string Line(const Stmt& stmt) const {
    return std::visit([this](const auto& node) { return Head(node); }, stmt.node);
  }

  void Print(const Block& block, int indent, std::string* out) {
    for (const Stmt& stmt : block) {
      absl::StrAppendFormat(out, "%4d: %*s%s\n", next_++, 2 * indent, "", Line(stmt));
      if (const For* loop = std::get_if<For>(&stmt.node)) Print(loop->body, indent + 1, out);
      if (const If* branch = std::get_if<If>(&stmt.node)) {
        Print(branch->body, indent + 1, out);
        if (!branch->otherwise.empty())
          absl::StrAppendFormat(out, "      %*selse\n", 2 * indent, "");
        Print(branch->otherwise, indent + 1, out);
      }
    }
  }

 private:
  std::string FragmentName(int fragment) const {
    const bool known = fragment >= 0 && fragment < static_cast<int>(kernel_.fragments.size());
    return known ? kernel_.fragments[fragment].name : absl::StrCat("<fragment ", fragment, ">");
  }
  std::string Slot(int fragment, SymInt slot, int width = 1) const {
    return absl::StrCat(FragmentName(fragment), "[", slot.ToString(),
                        width > 1 ? absl::StrCat(" :+", width) : "", "]");
  }
  std::string Element(Space space, int array, SymInt index, int width) const {
    std::string name;
    if (space == Space::Global) {
      const bool known = array >= 0 && array < static_cast<int>(kernel_.buffers.size());
      name = known ? kernel_.buffers[array].name : absl::StrCat("<buffer ", array, ">");
    } else {
      const bool known = array >= 0 && array < static_cast<int>(kernel_.shared.size());
      name = absl::StrCat("shared.",
                          known ? kernel_.shared[array].name : absl::StrCat("<array ", array, ">"));
    }
    return absl::StrCat(name, "[", index.ToString(), width > 1 ? absl::StrCat(" :+", width) : "",
                        "]");
  }
  std::string Value(const Operand& operand) const {
    if (operand.fragment >= 0) return Slot(operand.fragment, operand.slot);
    return absl::StrCat(DTypeName(operand.dtype), " ", ScalarText(operand.dtype, operand.constant));
  }
  static absl::string_view Hint(CacheHint hint) {
    static constexpr const char* kNames[] = {"", " streaming", " evict_first", " evict_last",
                                             " read_only"};
    return kNames[static_cast<int>(hint)];
  }
  static std::string Predicate(SymInt predicate) {
    if (predicate == SymInt(1)) return "";
    return absl::StrCat(" if ", predicate.ToString());
  }

  std::string Head(const For& node) const {
    return absl::StrCat("for ", node.symbol.ToString(), " in 0..", node.extent.ToString(),
                        node.unrolled ? " unrolled"
                        : node.rolled ? " rolled"
                                      : "");
  }
  std::string Head(const Leave& node) const {
    return absl::StrCat("leave if ", node.condition.ToString());
  }
  std::string Head(const If& node) const { return absl::StrCat("if ", node.condition.ToString()); }
  static absl::string_view StartText(Start start) {
    switch (start) {
      case Start::Aligned:
        return "";
      case Start::Anywhere:
        return " unaligned";
      case Start::Inside:
        return " unaligned inside";
    }
    return "";
  }
  std::string Head(const Load& node) const {
    const std::string predicate = Predicate(node.predicate);
    const bool known =
        node.fragment >= 0 && node.fragment < static_cast<int>(kernel_.fragments.size());
    const DType dtype = known ? kernel_.fragments[node.fragment].dtype : DType::I64;
    return absl::StrCat(Slot(node.fragment, node.slot, node.width), " = load ",
                        Element(node.space, node.array, node.index, node.width), predicate,
                        predicate.empty() ? ""
                        : node.fills      ? absl::StrCat(" else ", ScalarText(dtype, node.fill))
                                          : " else anything",
                        Hint(node.hint), StartText(node.start));
  }
  std::string Head(const Store& node) const {
    return absl::StrCat("store ", Element(node.space, node.array, node.index, node.width), " = ",
                        Slot(node.fragment, node.slot, node.width), Predicate(node.predicate),
                        Hint(node.hint));
  }
  std::string Head(const Map& node) const {
    std::string arguments;
    for (const Operand& operand : node.arguments) {
      absl::StrAppend(&arguments, arguments.empty() ? "" : ", ", Value(operand));
    }
    return absl::StrCat(Slot(node.fragment, node.slot), " = ", OpName(node.op), "(", arguments, ")",
                        node.precision == Precision::kLoose  ? " loose"
                        : node.precision == Precision::kTerm ? " of a term"
                                                             : "");
  }
  std::string Head(const IndexValue& node) const {
    return absl::StrCat(Slot(node.fragment, node.slot), " = index ", node.value.ToString());
  }
  std::string Head(const LetSymbol& node) const {
    return absl::StrCat("let ", node.symbol.ToString(), " = ", Value(node.value));
  }
  std::string Head(const Random& node) const {
    return absl::StrCat(Slot(node.fragment, node.slot), " = ", OpName(node.op), "(seed ",
                        Value(node.seed), ", offset ", Value(node.offset), ", element ",
                        node.index.ToString(), ")");
  }
  std::string Head(const ShuffleXor& node) const {
    return absl::StrCat(Slot(node.fragment, node.slot), " = shuffle_xor(", Value(node.source), ", ",
                        node.mask, ")");
  }
  std::string Head(const TakeTicket& node) const {
    return absl::StrCat(Slot(node.fragment, node.slot), " = ticket of ", node.total.ToString());
  }
  std::string Head(const AwaitTickets& node) const {
    return absl::StrCat("await ", node.count.ToString(), " tickets for a while");
  }
  std::string Head(const CtaSync&) const { return "barrier"; }
  std::string Head(const Pause& node) const {
    return absl::StrCat("pause for ", node.cycles.ToString(), " cycles");
  }
  std::string Head(const ClusterSync& node) const {
    return absl::StrCat("barrier of the cluster", node.orders ? ", in order" : "");
  }
  std::string Head(const RemoteStore& node) const {
    return absl::StrCat("store to CTA ", node.cta.ToString(), " ",
                        Element(Space::Shared, node.array, node.index, 1), " = ",
                        Slot(node.fragment, node.slot), Predicate(node.predicate), ", arriving at ",
                        node.barrier.ToString());
  }
  std::string Head(const AwaitStores& node) const {
    return absl::StrCat("await stores of ", node.bytes, " bytes at ", node.barrier.ToString(),
                        ", round ", node.round.ToString());
  }
  std::string Head(const KeepPacked& node) const {
    return absl::StrCat("keep packed ", FragmentName(node.fragment));
  }
  std::string Head(const AwaitLoaded& node) const {
    return absl::StrCat("await what loads bring to ",
                        absl::StrJoin(node.fragments, ", ", [&](std::string* out, int fragment) {
                          absl::StrAppend(out, FragmentName(fragment));
                        }));
  }
  std::string Head(const BulkCopy& node) const {
    return absl::StrCat("copy ", Element(Space::Shared, node.array, node.to, 1), " = ",
                        Element(Space::Global, node.buffer, node.from, 1), ", ",
                        node.count.ToString(), " elements, arriving at ", node.barrier.ToString());
  }
  std::string Head(const AwaitCopies& node) const {
    return absl::StrCat("await copies at ", node.barrier.ToString(), ", round ",
                        node.round.ToString());
  }
  std::string Head(const AsyncLoad& node) const {
    return absl::StrCat("begin load ", Element(Space::Shared, node.array, node.to, node.width),
                        " = ", Element(Space::Global, node.buffer, node.from, node.width),
                        Predicate(node.predicate));
  }
  std::string Head(const AwaitLoads&) const { return "await loads"; }
  std::string Head(const GridSync&) const { return "barrier of the grid"; }
  std::string Head(const Comment& node) const {
    return absl::StrCat("# ", absl::StrReplaceAll(node.text, {{"\n", " "}}));
  }

  const Kernel& kernel_;
  int next_ = 0;
};

}  // namespace

std::string PrintStmt(const Kernel& kernel, const Stmt& stmt) { return Printer(kernel).Line(stmt); }

std::string PrintKernel(const Kernel& kernel) {
  std::string out = absl::StrCat("kernel ", kernel.name, "\n");
  for (absl::string_view line : absl::StrSplit(kernel.summary, '\n', absl::SkipEmpty())) {
    absl::StrAppend(&out, "  # ", line, "\n");
  }
  absl::StrAppend(&out, "  grid ", kernel.grid_x.ToString(), " (", kernel.block_x.ToString(),
                  ") threads ", kernel.threads, " (", kernel.thread_x.ToString(), ")");
  if (kernel.cluster > 1) absl::StrAppend(&out, " cluster ", kernel.cluster);
  if (kernel.min_ctas_per_sm > 0) absl::StrAppend(&out, " ctas_per_sm ", kernel.min_ctas_per_sm);
  absl::StrAppend(&out, kernel.index32 ? " index32" : "",
                  kernel.together.is_symbolic()
                      ? absl::StrCat(" one launch (", kernel.together.ToString(), ")")
                      : "",
                  "\n");
  for (const SymInt parameter : kernel.parameters) {
    absl::StrAppend(&out, "  parameter ", parameter.ToString(), "\n");
  }
  for (const Buffer& buffer : kernel.buffers) {
    absl::StrAppend(&out, "  buffer ", buffer.name, ": ", DTypeName(buffer.dtype), "[",
                    buffer.num_elements.ToString(), "] align ", buffer.alignment_bytes,
                    buffer.written ? " written" : "", "\n");
  }
  for (const SharedArray& array : kernel.shared) {
    absl::StrAppend(&out, "  shared ", array.name, ": ", DTypeName(array.dtype), "[", array.count,
                    "]", array.alignment > 16 ? absl::StrCat(" align ", array.alignment) : "",
                    array.lasting >= 0 ? " lasting" : "", "\n");
  }
  if (kernel.copy_barriers > 0) {
    absl::StrAppend(&out, "  copy barriers ", kernel.copy_barriers, ", batches of ",
                    kernel.copies_per_batch, "\n");
  }
  if (kernel.store_barriers > 0)
    absl::StrAppend(&out, "  store barriers ", kernel.store_barriers, "\n");
  for (const Fragment& fragment : kernel.fragments) {
    absl::StrAppend(&out, "  fragment ", fragment.name, ": ", DTypeName(fragment.dtype), "[",
                    fragment.count, "]", fragment.packed ? " packed" : "", "\n");
  }
  Printer(kernel).Print(kernel.body, 0, &out);
  return out;
}

}  // namespace seam::kernel
