// The rules of the thread-level kernel IR: one walk over the statements with the symbols in scope.
#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "ir/status.h"
#include "scheduler/kernel/kernel_ir.h"

namespace seam::kernel {
namespace {

constexpr int kWarp = 32;
constexpr int kMaxThreads = 1024;
constexpr int kMaxNesting = 256;    // Keeps every recursive walk of a kernel shallow.
constexpr int kMaxCount = 1 << 16;  // Slots of a fragment; registers end far below.
constexpr int kMaxCluster = 16;
constexpr int kMaxCopyBarriers = 1 << 12;
constexpr int64_t kMaxSharedBytes = 1 << 20;  // Above every device's; a launch has its own limit.

bool IsIdentifier(absl::string_view name) {
  if (name.empty() || absl::ascii_isdigit(name[0])) return false;
  return std::all_of(name.begin(), name.end(),
                     [](char c) { return absl::ascii_isalnum(c) || c == '_'; });
}

class Verifier {
 public:
  explicit Verifier(const Kernel& kernel) : kernel_(kernel) {}

  absl::Status Run() {
    if (absl::Status status = Header(); !status.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("kernel ", kernel_.name, ": ", status.message()));
    }
    phase_of_.assign(kernel_.fragments.size(), -1);
    stored_in_.resize(kernel_.shared.size());
    brought_.resize(kernel_.shared.size());
    int phase = 0;
    for (const Stmt& stmt : kernel_.body) {
      phase += std::holds_alternative<GridSync>(stmt.node);
      FindStores(stmt, phase, 0);
    }
    SEAM_RETURN_IF_ERROR(Walk(kernel_.body, Flow{}, 0));
    if (absl::Status status = CheckAwaited(); !status.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("kernel ", kernel_.name, ": ", status.message()));
    }
    return absl::OkStatus();
  }

 private:
  enum class Binding : uint8_t { Parameter, Place, Loop, UnrolledLoop, Let };
  // What encloses a statement: the first condition or extent that splits a CTA, or a warp.
  struct Flow {
    SymInt splits_cta = 0, splits_warp = 0;
  };

  template <typename... Parts>
  static absl::Status Error(const Parts&... parts) {
    return absl::InvalidArgumentError(absl::StrCat(parts...));
  }

  absl::Status Bind(SymInt symbol, Binding binding) {
    const SymNode* node = symbol.node();
    if (node == nullptr || node->kind != SymKind::Symbol || node->env != kernel_.env.get()) {
      return Error(symbol.ToString(), " is no symbol of the kernel's environment");
    }
    if (!scope_.emplace(node, binding).second) {
      return Error("symbol ", symbol.ToString(), " is bound twice");
    }
    return absl::OkStatus();
  }

  // `e` is a valid expression over symbols in scope; `last` is the highest kind of binding allowed.
  absl::Status Check(absl::string_view what, SymInt e, Binding last = Binding::Let) const {
    if (!e.is_valid()) return Error(what, " is an invalid expression");
    if (e.is_constant()) return absl::OkStatus();
    if (e.env() != kernel_.env.get()) {
      return Error(what, " ", e.ToString(), " belongs to another environment");
    }
    for (const SymNode* symbol : FreeSymbols(e)) {
      const auto found = scope_.find(symbol);
      if (found == scope_.end()) {
        return Error(what, " ", e.ToString(), " uses symbol ", symbol->name,
                     ", which is not bound here");
      }
      if (found->second > last) {
        return Error(what, " ", e.ToString(), " uses symbol ", symbol->name,
                     ", but only parameters are known there");
      }
    }
    return absl::OkStatus();
  }

  // The phases that store to each shared array, in order, and which ones copies or stores of other
  // CTAs bring.
  void FindStores(const Stmt& stmt, int phase, int nesting) {
    const auto add = [&](int array) {
      if (array < 0 || static_cast<size_t>(array) >= stored_in_.size()) return;
      std::vector<int>& phases = stored_in_[array];
      if (phases.empty() || phases.back() != phase) phases.push_back(phase);
    };
    const Store* store = std::get_if<Store>(&stmt.node);
    if (store != nullptr && store->space == Space::Shared) add(store->array);
    const auto bring = [&](int array) {
      if (array >= 0 && static_cast<size_t>(array) < brought_.size()) brought_[array] = true;
    };
    if (const AsyncLoad* load = std::get_if<AsyncLoad>(&stmt.node)) add(load->array);
    if (const RemoteStore* remote = std::get_if<RemoteStore>(&stmt.node)) bring(remote->array);
    if (const BulkCopy* copy = std::get_if<BulkCopy>(&stmt.node)) {
      add(copy->array);
      bring(copy->array);
    }
    if (nesting > kMaxNesting) return;
    const auto inside = [&](const Block& block) {
      for (const Stmt& s : block) FindStores(s, phase, nesting + 1);
    };
    if (const For* loop = std::get_if<For>(&stmt.node)) inside(loop->body);
    if (const If* branch = std::get_if<If>(&stmt.node)) {
      inside(branch->body);
      inside(branch->otherwise);
    }
  }

  absl::Status Header() {
    if (!IsIdentifier(kernel_.name)) return Error("the name is no C identifier");
    if (kernel_.env == nullptr) return Error("no environment");
    if (kernel_.threads < kWarp || kernel_.threads > kMaxThreads || kernel_.threads % kWarp != 0) {
      return Error(kernel_.threads, " threads, expected a multiple of 32 from 32 to 1024");
    }
    if (kernel_.cluster < 1 || kernel_.cluster > kMaxCluster ||
        (kernel_.cluster & (kernel_.cluster - 1)) != 0) {
      return Error("a cluster of ", kernel_.cluster, " CTAs, expected a power of two from 1 to ",
                   kMaxCluster);
    }
    if (kernel_.min_ctas_per_sm < 0) return Error("min_ctas_per_sm is negative");
    for (const SymInt parameter : kernel_.parameters) {
      SEAM_RETURN_IF_ERROR(Bind(parameter, Binding::Parameter));
    }
    SEAM_RETURN_IF_ERROR(Bind(kernel_.block_x, Binding::Place));
    SEAM_RETURN_IF_ERROR(Bind(kernel_.thread_x, Binding::Place));
    if (!kernel_.together.is_same(1)) {
      SEAM_RETURN_IF_ERROR(Bind(kernel_.together, Binding::Place));
      const SymRange range = RangeOf(kernel_.together);
      if (range.lo > 0 || range.hi < 1)
        return Error("together is declared as ", range.lo, "..", range.hi, ", not 0..1");
    }
    const SymRange threads = RangeOf(kernel_.thread_x);
    if (threads.lo > 0 || threads.hi < kernel_.threads - 1) {
      return Error("thread_x is declared as ", threads.lo, "..", threads.hi, ", but there are ",
                   kernel_.threads, " threads");
    }
    SEAM_RETURN_IF_ERROR(Check("grid_x", kernel_.grid_x, Binding::Parameter));
    for (const Buffer& buffer : kernel_.buffers) {
      SEAM_RETURN_IF_ERROR(Check(absl::StrCat("num_elements of buffer ", buffer.name),
                                 buffer.num_elements, Binding::Parameter));
      if (buffer.alignment_bytes < 1 ||
          (buffer.alignment_bytes & (buffer.alignment_bytes - 1)) != 0) {
        return Error("buffer ", buffer.name, " has an alignment of ", buffer.alignment_bytes,
                     " bytes, expected a power of two");
      }
    }
    for (const Fragment& fragment : kernel_.fragments) {
      if (fragment.count < 1 || fragment.count > kMaxCount) {
        return Error("fragment ", fragment.name, " has ", fragment.count, " slots");
      }
    }
    int64_t shared_bytes = 0;
    for (const SharedArray& array : kernel_.shared) {
      if (array.count < 1 || array.count > kMaxSharedBytes ||
          (shared_bytes += array.count * DTypeBytes(array.dtype)) > kMaxSharedBytes) {
        return Error("shared array ", array.name, " has ", array.count, " elements");
      }
      if (array.alignment < 16 || (array.alignment & (array.alignment - 1)) != 0) {
        return Error("shared array ", array.name, " is aligned to ", array.alignment, " bytes");
      }
      if (array.lasting < 0) continue;
      if (kernel_.cluster > 1) return Error("a lasting array in a kernel of clusters");
      for (const SharedArray* other = kernel_.shared.data(); other != &array; ++other) {
        if (other->lasting == array.lasting)
          return Error("two lasting arrays of number ", array.lasting);
      }
    }
    if (kernel_.copy_barriers < 0 || kernel_.copy_barriers > kMaxCopyBarriers ||
        kernel_.copies_per_batch < 1 || kernel_.copies_per_batch > kMaxCopyBarriers ||
        kernel_.store_barriers < 0 || kernel_.store_barriers > kMaxCopyBarriers) {
      return Error(kernel_.copy_barriers, " barriers for batches of ", kernel_.copies_per_batch,
                   " copies, ", kernel_.store_barriers, " for stores");
    }
    return absl::OkStatus();
  }

  absl::Status Walk(const Block& block, Flow flow, int nesting, bool in_loop = false) {
    std::vector<SymInt> lets;
    for (const Stmt& stmt : block) {
      const int number = next_++;
      absl::Status status =
          nesting > kMaxNesting
              ? Error("blocks nest deeper than ", kMaxNesting)
              : std::visit([&](const auto& node) { return Visit(node, flow); }, stmt.node);
      if (status.ok() && !in_loop && std::holds_alternative<Leave>(stmt.node))
        status = Error("it stands in no loop that can be left");
      if (std::holds_alternative<GridSync>(stmt.node)) {
        if (status.ok() && nesting > 0) status = Error("a barrier of the grid inside a block");
        if (status.ok()) status = CheckAwaited();
        for (const SymInt symbol : lets) scope_.erase(symbol.node());
        lets.clear();
        ++phase_;
      }
      if (!status.ok()) {
        return absl::InvalidArgumentError(absl::StrCat("kernel ", kernel_.name, ", statement ",
                                                       number, " (", PrintStmt(kernel_, stmt),
                                                       "): ", status.message()));
      }
      if (const LetSymbol* let = std::get_if<LetSymbol>(&stmt.node)) lets.push_back(let->symbol);
      if (std::holds_alternative<AsyncLoad>(stmt.node)) load_ahead_ = number;
      if (std::holds_alternative<AwaitLoads>(stmt.node)) {
        load_ahead_ = -1;
        last_wait_ = number;
      }
      if (const For* loop = std::get_if<For>(&stmt.node)) {
        SEAM_RETURN_IF_ERROR(
            Walk(loop->body, Below(flow, loop->extent), nesting + 1, !loop->unrolled));
        if (last_wait_ > number) load_ahead_ = -1;  // The next turn may wait.
        scope_.erase(loop->symbol.node());
      }
      if (const If* branch = std::get_if<If>(&stmt.node)) {
        const Flow below = Below(flow, branch->condition);
        SEAM_RETURN_IF_ERROR(Walk(branch->body, below, nesting + 1));
        SEAM_RETURN_IF_ERROR(Walk(branch->otherwise, below, nesting + 1));
      }
    }
    for (const SymInt symbol : lets) scope_.erase(symbol.node());
    return absl::OkStatus();
  }

  // Whether `e` can differ between two threads of one group of `group` consecutive threads.
  bool Varies(SymInt e, int group) const {
    const SymNode* thread = kernel_.thread_x.node();
    if (e.is_constant()) return false;
    const std::vector<const SymNode*> symbols = FreeSymbols(e);
    if (std::find(symbols.begin(), symbols.end(), thread) == symbols.end()) return false;
    if (symbols.size() == 1) {
      int64_t first = 0;
      for (int64_t t = 0; t < kernel_.threads; ++t) {
        const auto value = Evaluate(e, [t](const SymNode*) { return std::optional<int64_t>(t); });
        if (!value.ok()) return true;
        if (t % group == 0) first = *value;
        if (*value != first) return true;
      }
      return false;
    }
    const absl::Span<const SymInt> children = e.node()->children;
    return std::any_of(children.begin(), children.end(),
                       [&](SymInt child) { return Varies(child, group); });
  }

  Flow Below(Flow flow, SymInt condition) const {
    if (flow.splits_cta == SymInt(0) && Varies(condition, kernel_.threads))
      flow.splits_cta = condition;
    if (flow.splits_warp == SymInt(0) && Varies(condition, kWarp)) flow.splits_warp = condition;
    return flow;
  }

  absl::Status CheckSlot(int fragment, SymInt slot, int width = 1) {
    if (fragment < 0 || fragment >= static_cast<int>(kernel_.fragments.size())) {
      return Error("no fragment ", fragment);
    }
    if (phase_of_[fragment] < 0) phase_of_[fragment] = phase_;
    if (phase_of_[fragment] != phase_) {
      return Error("fragment ", kernel_.fragments[fragment].name,
                   " is used before a barrier of the grid and behind it");
    }
    SEAM_RETURN_IF_ERROR(Check("slot", slot));
    for (const SymNode* symbol : FreeSymbols(slot)) {
      if (scope_.at(symbol) != Binding::UnrolledLoop) {
        return Error("slot ", slot.ToString(), " uses symbol ", symbol->name,
                     ", which is not of an unrolled loop");
      }
    }
    const Fragment& f = kernel_.fragments[fragment];
    const SymRange range = RangeOf(slot);
    if (range.hi < 0 || range.lo > f.count - width) {
      return Error("slot ", slot.ToString(), " (", width, " wide) is outside fragment ", f.name,
                   " of ", f.count);
    }
    return absl::OkStatus();
  }

  absl::StatusOr<DType> TypeOf(const Operand& operand) {
    if (operand.fragment < 0) return operand.dtype;
    SEAM_RETURN_IF_ERROR(CheckSlot(operand.fragment, operand.slot));
    return kernel_.fragments[operand.fragment].dtype;
  }

  absl::Status CheckResult(int fragment, SymInt slot, DType dtype) {
    SEAM_RETURN_IF_ERROR(CheckSlot(fragment, slot));
    const Fragment& f = kernel_.fragments[fragment];
    if (f.dtype == dtype) return absl::OkStatus();
    return Error("fragment ", f.name, " is ", DTypeName(f.dtype), ", the value is ",
                 DTypeName(dtype));
  }

  template <typename Access>
  absl::Status CheckAccess(const Access& node) {
    if (node.width < 1 || node.width > kMaxCount || (node.width & (node.width - 1)) != 0) {
      return Error("width ", node.width, " is no power of two");
    }
    const bool global = node.space == Space::Global;
    const size_t arrays = global ? kernel_.buffers.size() : kernel_.shared.size();
    if (node.array < 0 || static_cast<size_t>(node.array) >= arrays) {
      return Error(global ? "no buffer " : "no shared array ", node.array);
    }
    SEAM_RETURN_IF_ERROR(CheckSlot(node.fragment, node.slot, node.width));
    SEAM_RETURN_IF_ERROR(Check("index", node.index));
    SEAM_RETURN_IF_ERROR(Check("predicate", node.predicate));
    const DType dtype =
        global ? kernel_.buffers[node.array].dtype : kernel_.shared[node.array].dtype;
    SEAM_RETURN_IF_ERROR(CheckResult(node.fragment, node.slot, dtype));
    if constexpr (requires { node.start; }) {
      const int bytes = node.width * DTypeBytes(dtype);
      if (node.start != Start::Aligned &&
          (!global || bytes < 4 || bytes > 16 || DTypeBytes(dtype) == 1)) {
        return Error("an unaligned access of ", node.width, " elements of ", DTypeName(dtype));
      }
      if (node.start == Start::Inside && (bytes != 16 || kernel_.buffers[node.array].written)) {
        return Error("an access inside ", kernel_.buffers[node.array].name, " of ", bytes, " bytes",
                     bytes == 16 ? ", which the kernel writes" : "");
      }
    }
    const int access_bytes = std::min(16, node.width * DTypeBytes(dtype));
    if (global && node.width > 1 && kernel_.buffers[node.array].alignment_bytes < access_bytes) {
      return Error("a vector of ", access_bytes, " bytes in buffer ",
                   kernel_.buffers[node.array].name, ", which is aligned to ",
                   kernel_.buffers[node.array].alignment_bytes);
    }
    return absl::OkStatus();
  }

  absl::Status Visit(const For& node, const Flow&) {
    SEAM_RETURN_IF_ERROR(Check("extent", node.extent));
    if (node.unrolled && !node.extent.is_constant()) {
      return Error("an unrolled loop needs a constant extent");
    }
    if (node.unrolled && node.rolled) return Error("a loop is unrolled or it is not");
    SEAM_RETURN_IF_ERROR(Bind(node.symbol, node.unrolled ? Binding::UnrolledLoop : Binding::Loop));
    const SymRange range = RangeOf(node.symbol);
    if (RangeOf(node.extent).hi > 0 &&
        (range.lo > 0 || (node.extent.is_constant() && range.hi < *node.extent.maybe_int() - 1))) {
      return Error("the loop leaves the declared range ", range.lo, "..", range.hi,
                   " of its symbol");
    }
    return absl::OkStatus();
  }
  absl::Status Visit(const Leave& node, const Flow&) const {
    SEAM_RETURN_IF_ERROR(Check("condition", node.condition));
    if (!Varies(node.condition, kernel_.threads)) return absl::OkStatus();
    return Error("the condition differs between threads");
  }
  absl::Status Visit(const If& node, const Flow&) const {
    return Check("condition", node.condition);
  }
  absl::Status Visit(const Load& node, const Flow&) {
    SEAM_RETURN_IF_ERROR(CheckAccess(node));
    if (node.space == Space::Global || kernel_.shared[node.array].lasting >= 0)
      return absl::OkStatus();
    const std::vector<int>& phases = stored_in_[node.array];
    if (phases.empty() || phases.front() >= phase_ ||
        std::find(phases.begin(), phases.end(), phase_) != phases.end()) {
      return absl::OkStatus();
    }
    return Error("shared array ", kernel_.shared[node.array].name,
                 " does not last through the barrier of the grid behind which it is loaded");
  }
  absl::Status Visit(const Store& node, const Flow&) {
    SEAM_RETURN_IF_ERROR(CheckAccess(node));
    if (node.space == Space::Global && !kernel_.buffers[node.array].written) {
      return Error("buffer ", kernel_.buffers[node.array].name, " is not marked as written");
    }
    return absl::OkStatus();
  }
  absl::Status Visit(const Map& node, const Flow&) {
    std::vector<DType> operands;
    for (const Operand& operand : node.arguments) {
      SEAM_ASSIGN_OR_RETURN(const DType dtype, TypeOf(operand));
      operands.push_back(dtype);
    }
    if (ClassOf(node.op) == OpClass::Cast) {
      if (operands.size() != 1) return Error("a cast takes one operand, not ", operands.size());
      return CheckSlot(node.fragment, node.slot);
    }
    if (ClassOf(node.op) != OpClass::Elementwise) {
      return Error(OpName(node.op), " is no elementwise operation");
    }
    SEAM_ASSIGN_OR_RETURN(const DType result, InferDType(node.op, operands));
    return CheckResult(node.fragment, node.slot, result);
  }
  absl::Status Visit(const IndexValue& node, const Flow&) {
    SEAM_RETURN_IF_ERROR(Check("value", node.value));
    return CheckSlot(node.fragment, node.slot);
  }
  absl::Status Visit(const LetSymbol& node, const Flow&) {
    SEAM_ASSIGN_OR_RETURN(const DType dtype, TypeOf(node.value));
    if (!IsInteger(dtype)) return Error("the value is ", DTypeName(dtype), ", expected an integer");
    return Bind(node.symbol, Binding::Let);
  }
  absl::Status Visit(const Random& node, const Flow&) {
    if (ClassOf(node.op) != OpClass::Random)
      return Error(OpName(node.op), " gives no random numbers");
    for (const Operand* operand : {&node.seed, &node.offset}) {
      SEAM_ASSIGN_OR_RETURN(const DType dtype, TypeOf(*operand));
      if (dtype != DType::I64) return Error("seed and offset are i64, not ", DTypeName(dtype));
    }
    SEAM_RETURN_IF_ERROR(Check("element", node.index));
    SEAM_RETURN_IF_ERROR(CheckSlot(node.fragment, node.slot));
    if (!IsFloat(kernel_.fragments[node.fragment].dtype)) return Error("the result is a float");
    return absl::OkStatus();
  }
  absl::Status Visit(const ShuffleXor& node, const Flow& flow) {
    SEAM_ASSIGN_OR_RETURN(const DType dtype, TypeOf(node.source));
    SEAM_RETURN_IF_ERROR(CheckResult(node.fragment, node.slot, dtype));
    if (node.mask < 1 || node.mask >= kWarp) return Error("mask ", node.mask, " is not in 1..31");
    if (flow.splits_warp == SymInt(0)) return absl::OkStatus();
    return Error("a shuffle below ", flow.splits_warp.ToString(), ", which differs inside a warp");
  }
  absl::Status Visit(const TakeTicket& node, const Flow&) {
    SEAM_RETURN_IF_ERROR(CheckResult(node.fragment, node.slot, DType::I32));
    SEAM_RETURN_IF_ERROR(Check("total", node.total, Binding::Parameter));
    if (tickets_in_ < 0) tickets_in_ = phase_;
    return tickets_in_ == phase_ ? absl::OkStatus()
                                 : Error("tickets on both sides of a barrier of the grid");
  }
  absl::Status Visit(const AwaitTickets& node, const Flow&) const {
    SEAM_RETURN_IF_ERROR(Check("count", node.count));
    return tickets_in_ == phase_ ? absl::OkStatus()
                                 : Error("no ticket of this phase was taken before");
  }
  absl::Status Visit(const Pause& node, const Flow&) const { return Check("cycles", node.cycles); }
  absl::Status Visit(const CtaSync&, const Flow& flow) const {
    if (flow.splits_cta == SymInt(0)) return absl::OkStatus();
    return Error("a barrier below ", flow.splits_cta.ToString(), ", which differs between threads");
  }
  absl::Status Visit(const ClusterSync&, const Flow& flow) const {
    if (kernel_.cluster == 1) return Error("there is no cluster");
    return Visit(CtaSync{}, flow);
  }
  absl::Status Visit(const RemoteStore& node, const Flow&) {
    if (node.array < 0 || static_cast<size_t>(node.array) >= kernel_.shared.size())
      return Error("no shared array ", node.array);
    SEAM_RETURN_IF_ERROR(Check("index", node.index));
    SEAM_RETURN_IF_ERROR(Check("predicate", node.predicate));
    const DType dtype = kernel_.shared[node.array].dtype;
    SEAM_RETURN_IF_ERROR(CheckResult(node.fragment, node.slot, dtype));
    if (DTypeBytes(dtype) < 4) return Error("a store of ", DTypeBytes(dtype), " bytes");
    SEAM_RETURN_IF_ERROR(Check("cta", node.cta));
    const SymRange ranks = RangeOf(node.cta);
    if (kernel_.cluster == 1 || ranks.lo < 0 || ranks.hi >= kernel_.cluster)
      return Error("CTA ", node.cta.ToString(), " of a cluster of ", kernel_.cluster);
    return CheckBarrier(node.barrier, kernel_.store_barriers);
  }
  absl::Status Visit(const AwaitStores& node, const Flow& flow) {
    SEAM_RETURN_IF_ERROR(Check("round", node.round));
    SEAM_RETURN_IF_ERROR(CheckBarrier(node.barrier, kernel_.store_barriers));
    if (node.bytes < 1 || node.bytes > kMaxSharedBytes) return Error(node.bytes, " bytes");
    return Visit(ClusterSync{}, flow);
  }
  absl::Status CheckBarrier(SymInt barrier, int barriers) const {
    SEAM_RETURN_IF_ERROR(Check("barrier", barrier));
    const SymRange range = RangeOf(barrier);
    if (range.lo >= 0 && range.hi < barriers) return absl::OkStatus();
    return Error("barrier ", barrier.ToString(), " of ", barriers);
  }
  absl::Status CheckCopyBarrier(SymInt barrier) {
    SEAM_RETURN_IF_ERROR(CheckBarrier(barrier, kernel_.copy_barriers));
    if (copies_in_ < 0) copies_in_ = phase_;
    if (copies_in_ != phase_) return Error("copies on both sides of a barrier of the grid");
    return absl::OkStatus();
  }
  absl::Status Visit(const KeepPacked& node, const Flow&) {
    SEAM_RETURN_IF_ERROR(CheckSlot(node.fragment, 0));
    const Fragment& f = kernel_.fragments[node.fragment];
    return f.packed ? absl::OkStatus() : Error("fragment ", f.name, " is not packed");
  }
  absl::Status Visit(const AwaitLoaded& node, const Flow&) {
    if (node.fragments.empty()) return Error("waits for no fragment");
    for (int fragment : node.fragments) SEAM_RETURN_IF_ERROR(CheckSlot(fragment, 0));
    return absl::OkStatus();
  }
  // What copies of both kinds have in common.
  template <typename Copy>
  absl::Status CheckCopy(const Copy& node) const {
    if (node.array < 0 || static_cast<size_t>(node.array) >= kernel_.shared.size())
      return Error("no shared array ", node.array);
    if (node.buffer < 0 || static_cast<size_t>(node.buffer) >= kernel_.buffers.size())
      return Error("no buffer ", node.buffer);
    const Buffer& buffer = kernel_.buffers[node.buffer];
    const SharedArray& array = kernel_.shared[node.array];
    if (buffer.dtype != array.dtype) {
      return Error("buffer ", buffer.name, " is ", DTypeName(buffer.dtype), ", shared array ",
                   array.name, " ", DTypeName(array.dtype));
    }
    if (array.lasting >= 0) return Error("a copy to a lasting array");
    SEAM_RETURN_IF_ERROR(Check("destination", node.to));
    return Check("source", node.from);
  }
  absl::Status CheckAligned(const Buffer& buffer, int bytes) const {
    if (buffer.alignment_bytes >= bytes) return absl::OkStatus();
    return Error("buffer ", buffer.name, " is aligned to ", buffer.alignment_bytes, " bytes");
  }
  absl::Status Visit(const BulkCopy& node, const Flow&) {
    SEAM_RETURN_IF_ERROR(CheckCopy(node));
    SEAM_RETURN_IF_ERROR(CheckAligned(kernel_.buffers[node.buffer], 16));
    SEAM_RETURN_IF_ERROR(Check("count", node.count));
    return CheckCopyBarrier(node.barrier);
  }
  absl::Status Visit(const AwaitCopies& node, const Flow& flow) {
    SEAM_RETURN_IF_ERROR(Check("round", node.round));
    SEAM_RETURN_IF_ERROR(CheckCopyBarrier(node.barrier));
    if (flow.splits_cta == SymInt(0)) return absl::OkStatus();
    return Error("a wait below ", flow.splits_cta.ToString(), ", which differs between threads");
  }
  absl::Status Visit(const AsyncLoad& node, const Flow&) const {
    SEAM_RETURN_IF_ERROR(CheckCopy(node));
    SEAM_RETURN_IF_ERROR(Check("predicate", node.predicate));
    const Buffer& buffer = kernel_.buffers[node.buffer];
    const int64_t bytes = int64_t{node.width} * DTypeBytes(buffer.dtype);
    if (bytes != 4 && bytes != 8 && bytes != 16)
      return Error("an asynchronous load of ", bytes, " bytes");
    SEAM_RETURN_IF_ERROR(CheckAligned(buffer, static_cast<int>(bytes)));
    if (buffer.written) return Error("buffer ", buffer.name, " is written by the kernel");
    if (!brought_[node.array]) return absl::OkStatus();
    return Error("shared array ", kernel_.shared[node.array].name,
                 " is brought by bulk copies or other CTAs, too");
  }
  absl::Status Visit(const AwaitLoads&, const Flow&) const { return absl::OkStatus(); }
  // At the end of a phase.
  absl::Status CheckAwaited() const {
    if (load_ahead_ < 0) return absl::OkStatus();
    return Error("nothing waits for the loads that statement ", load_ahead_, " begins");
  }
  absl::Status Visit(const GridSync&, const Flow&) const {
    return kernel_.cluster == 1 ? absl::OkStatus() : Error("a kernel in clusters has one phase");
  }
  absl::Status Visit(const Comment&, const Flow&) const { return absl::OkStatus(); }

  const Kernel& kernel_;
  absl::flat_hash_map<const SymNode*, Binding> scope_;
  std::vector<int> phase_of_;                // By fragment: where it is used; -1: not yet.
  std::vector<std::vector<int>> stored_in_;  // By shared array: phases.
  std::vector<bool> brought_;                // By shared array: by bulk copies or other CTAs.
  // Statements: the last AsyncLoad of the phase that no AwaitLoads follows, the last AwaitLoads.
  int load_ahead_ = -1, last_wait_ = -1;
  int phase_ = 0;
  int copies_in_ = -1;   // The phase with bulk copies.
  int tickets_in_ = -1;  // The phase with tickets.
  int next_ = 0;
};

}  // namespace

absl::Status VerifyKernel(const Kernel& kernel) { return Verifier(kernel).Run(); }

}  // namespace seam::kernel
