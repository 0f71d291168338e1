// Checks a kernel's arguments, declares its symbols and compiles its statements.
#include <numeric>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ir/status.h"
#include "runtime/simulator/simulation.h"

namespace seam::simulator {

using kernel::Block;
using kernel::Operand;
using kernel::Space;
using kernel::Stmt;

void Simulation::FindReads(const Block& block, std::vector<uint8_t>* buffers,
                           std::vector<uint8_t>* shared, std::vector<uint8_t>* exchanged) {
  for (const Stmt& stmt : block) {
    if (const auto* load = std::get_if<kernel::Load>(&stmt.node)) {
      (load->space == Space::Global ? *buffers : *shared)[load->array] = 1;
    } else if (const auto* copy = std::get_if<kernel::BulkCopy>(&stmt.node)) {
      (*buffers)[copy->buffer] = 1;
    } else if (const auto* async = std::get_if<kernel::AsyncLoad>(&stmt.node)) {
      (*buffers)[async->buffer] = 1;
    } else if (const auto* store = std::get_if<kernel::RemoteStore>(&stmt.node)) {
      (*exchanged)[store->array] = 1;
    } else if (const auto* loop = std::get_if<kernel::For>(&stmt.node)) {
      FindReads(loop->body, buffers, shared, exchanged);
    } else if (const auto* branch = std::get_if<kernel::If>(&stmt.node)) {
      FindReads(branch->body, buffers, shared, exchanged);
      FindReads(branch->otherwise, buffers, shared, exchanged);
    }
  }
}

absl::Status Simulation::BindBuffers(absl::Span<const SimBuffer> buffers, SymbolLookup lookup) {
  const auto error = [&](size_t i, const auto&... parts) {
    return absl::InvalidArgumentError(absl::StrCat("kernel ", kernel_.name, ", buffer ",
                                                   kernel_.buffers[i].name, ": ", parts...));
  };
  std::vector<uint8_t> buffer_reads(kernel_.buffers.size()), shared_reads(kernel_.shared.size()),
      exchanged(kernel_.shared.size());
  FindReads(kernel_.body, &buffer_reads, &shared_reads, &exchanged);
  for (size_t i = 0; i < buffers.size(); ++i) {
    const kernel::Buffer& declared = kernel_.buffers[i];
    const SimBuffer& given = buffers[i];
    SEAM_ASSIGN_OR_RETURN(const int64_t num_elements, Evaluate(declared.num_elements, lookup));
    if (given.dtype != declared.dtype) {
      return error(i, "is ", DTypeName(given.dtype), ", expected ", DTypeName(declared.dtype));
    }
    if (num_elements < 0 || given.num_elements < num_elements) {
      return error(i, "has ", given.num_elements, " elements, expected ", num_elements);
    }
    if (given.data == nullptr && num_elements > 0) return error(i, "is null");
    if (num_elements > 0 && reinterpret_cast<uintptr_t>(given.data) %
                                    static_cast<uintptr_t>(declared.alignment_bytes) !=
                                0) {
      return error(i, "is not aligned to ", declared.alignment_bytes, " bytes");
    }
    if (given.read_only && declared.written)
      return error(i, "is read-only, but the kernel writes it");
    buffers_.push_back({.name = declared.name,
                        .dtype = declared.dtype,
                        .num_elements = num_elements,
                        .data = static_cast<char*>(given.data),
                        .initialized = given.initialized,
                        .tracker = nullptr,
                        .read_only = !declared.written});
  }
  // Buffers that share memory with a written one share its tracker.
  for (size_t i = 0; i < buffers_.size(); ++i) {
    if (buffers_[i].read_only || buffers_[i].num_elements == 0 || buffers_[i].tracker != nullptr)
      continue;
    const char* begin = buffers_[i].data;
    const char* end = begin + buffers_[i].num_elements * DTypeBytes(buffers_[i].dtype);
    std::vector<Memory*> same;
    bool reads = false;
    for (size_t j = 0; j < buffers_.size(); ++j) {
      Memory& other = buffers_[j];
      const char* other_end = other.data + other.num_elements * DTypeBytes(other.dtype);
      if (other.num_elements == 0 || other.data >= end || other_end <= begin) continue;
      if (other.data != begin || other_end != end || other.dtype != buffers_[i].dtype) {
        if (buffers[i].gaps || buffers[j].gaps) continue;
        return error(i, "overlaps buffer ", other.name, " in part");
      }
      same.push_back(&other);
      reads |= buffer_reads[j] != 0;
    }
    trackers_.push_back(std::make_unique<RaceTracker>(buffers_[i].num_elements, false, reads));
    for (Memory* memory : same) {
      memory->tracker = trackers_.back().get();
      memory->tracks_reads = reads;
    }
  }
  std::vector<int64_t> sizes, offsets;  // Of the arrays' parts together.
  int64_t bytes = 0;
  for (const kernel::SharedArray& array : kernel_.shared) {
    sizes.push_back(array.count * (array.lasting >= 0 ? grid_ : kernel_.cluster));
    offsets.push_back(bytes);
    bytes += (sizes.back() * DTypeBytes(array.dtype) + 15) / 16 * 16;
  }
  shared_bytes_.resize(bytes);
  for (size_t i = 0; i < kernel_.shared.size(); ++i) {
    const kernel::SharedArray& array = kernel_.shared[i];
    trackers_.push_back(std::make_unique<RaceTracker>(sizes[i], true, shared_reads[i] != 0));
    shared_.push_back({.name = array.name,
                       .dtype = array.dtype,
                       .num_elements = array.count,
                       .data = shared_bytes_.data() + offsets[i],
                       .initialized = nullptr,
                       .tracker = trackers_.back().get(),
                       .tracks_reads = shared_reads[i] != 0,
                       .shared = true,
                       .array = static_cast<int>(i),
                       .exchanged = exchanged[i] != 0,
                       .lasting = array.lasting >= 0});
  }
  copies_.Declare(kernel_.copy_barriers * kernel_.cluster, kernel_.copies_per_batch, cta_threads_,
                  sizes);
  loads_.Declare(threads_, sizes);
  remote_stores_.Declare(kernel_.store_barriers, kernel_.cluster, threads_ / 32);
  return absl::OkStatus();
}

// Loops and LetSymbols, outer ones first, so that bounds of inner ones may name outer ones.
void Simulation::DeclareSymbols(const Block& block, absl::flat_hash_set<const SymNode*>* declared) {
  for (const Stmt& stmt : block) {
    const auto* loop = std::get_if<kernel::For>(&stmt.node);
    const auto* let = std::get_if<kernel::LetSymbol>(&stmt.node);
    if (loop != nullptr || let != nullptr) {
      const SymNode* symbol = loop != nullptr ? loop->symbol.node() : let->symbol.node();
      if (declared->insert(symbol).second) {
        const auto [lo, hi] = integers_.DeclaredBounds(symbol);
        if (loop != nullptr) {
          integers_.DeclareUniform(symbol, lo, hi);
        } else {
          integers_.DeclareVarying(symbol, lo, hi);
        }
      }
    }
    if (loop != nullptr) DeclareSymbols(loop->body, declared);
    if (const auto* branch = std::get_if<kernel::If>(&stmt.node)) {
      DeclareSymbols(branch->body, declared);
      DeclareSymbols(branch->otherwise, declared);
    }
  }
}

Expr Simulation::CompileExpr(SymInt e) {
  if (const std::optional<int64_t> value = e.maybe_int()) return {-1, *value};
  return {integers_.Compile(e), 0};
}

CompiledOperand Simulation::CompileOperand(const Operand& operand) {
  if (operand.fragment >= 0) {
    return {operand.fragment, CompileExpr(operand.slot), kernel_.fragments[operand.fragment].dtype,
            nullptr};
  }
  constants_.push_back(std::make_unique<Scalar[]>(threads_));
  std::fill_n(constants_.back().get(), threads_, operand.constant);
  return {-1, {}, operand.dtype, constants_.back().get()};
}

CompiledBlock Simulation::CompileBlock(const Block& block) {
  CompiledBlock compiled;
  compiled.reserve(block.size());
  for (const Stmt& stmt : block) {
    CompiledStmt s{.stmt = &stmt, .number = next_number_++};
    if (const auto* node = std::get_if<kernel::For>(&stmt.node)) {
      s.index = CompileExpr(node->extent);
      std::tie(s.lo, s.hi) = integers_.DeclaredBounds(node->symbol.node());
      s.body = CompileBlock(node->body);
    } else if (const auto* node = std::get_if<kernel::Leave>(&stmt.node)) {
      s.predicate = CompileExpr(node->condition);
    } else if (const auto* node = std::get_if<kernel::TakeTicket>(&stmt.node)) {
      s.slot = CompileExpr(node->slot);
      s.index = CompileExpr(node->total);
    } else if (const auto* node = std::get_if<kernel::AwaitTickets>(&stmt.node)) {
      s.index = CompileExpr(node->count);
    } else if (const auto* node = std::get_if<kernel::Pause>(&stmt.node)) {
      s.index = CompileExpr(node->cycles);
    } else if (const auto* node = std::get_if<kernel::If>(&stmt.node)) {
      s.predicate = CompileExpr(node->condition);
      s.body = CompileBlock(node->body);
      s.otherwise = CompileBlock(node->otherwise);
    } else if (const auto* node = std::get_if<kernel::Load>(&stmt.node)) {
      s.slot = CompileExpr(node->slot);
      s.index = CompileExpr(node->index);
      s.predicate = CompileExpr(node->predicate);
    } else if (const auto* node = std::get_if<kernel::Store>(&stmt.node)) {
      s.slot = CompileExpr(node->slot);
      s.index = CompileExpr(node->index);
      s.predicate = CompileExpr(node->predicate);
    } else if (const auto* node = std::get_if<kernel::Map>(&stmt.node)) {
      s.slot = CompileExpr(node->slot);
      for (const Operand& operand : node->arguments) s.operands.push_back(CompileOperand(operand));
    } else if (const auto* node = std::get_if<kernel::IndexValue>(&stmt.node)) {
      s.slot = CompileExpr(node->slot);
      s.index = CompileExpr(node->value);
    } else if (const auto* node = std::get_if<kernel::LetSymbol>(&stmt.node)) {
      s.operands.push_back(CompileOperand(node->value));
      std::tie(s.lo, s.hi) = integers_.DeclaredBounds(node->symbol.node());
    } else if (const auto* node = std::get_if<kernel::Random>(&stmt.node)) {
      s.slot = CompileExpr(node->slot);
      s.index = CompileExpr(node->index);
      s.operands = {CompileOperand(node->seed), CompileOperand(node->offset)};
    } else if (const auto* node = std::get_if<kernel::ShuffleXor>(&stmt.node)) {
      s.slot = CompileExpr(node->slot);
      s.operands.push_back(CompileOperand(node->source));
    } else if (const auto* node = std::get_if<kernel::RemoteStore>(&stmt.node)) {
      s.slot = CompileExpr(node->slot);
      s.index = CompileExpr(node->index);
      s.predicate = CompileExpr(node->predicate);
      s.cta = CompileExpr(node->cta);
      s.barrier = CompileExpr(node->barrier);
    } else if (const auto* node = std::get_if<kernel::AwaitStores>(&stmt.node)) {
      s.index = CompileExpr(node->round);
      s.barrier = CompileExpr(node->barrier);
    } else if (const auto* node = std::get_if<kernel::BulkCopy>(&stmt.node)) {
      s.slot = CompileExpr(node->to);
      s.index = CompileExpr(node->from);
      s.predicate = CompileExpr(node->count);
      s.barrier = CompileExpr(node->barrier);
    } else if (const auto* node = std::get_if<kernel::AsyncLoad>(&stmt.node)) {
      s.slot = CompileExpr(node->to);
      s.index = CompileExpr(node->from);
      s.predicate = CompileExpr(node->predicate);
    } else if (const auto* node = std::get_if<kernel::AwaitCopies>(&stmt.node)) {
      s.index = CompileExpr(node->round);
      s.barrier = CompileExpr(node->barrier);
    }
    compiled.push_back(std::move(s));
  }
  return compiled;
}

absl::Status Simulation::Prepare(absl::Span<const SimBuffer> buffers,
                                 absl::Span<const int64_t> parameters) {
  const auto error = [&](const auto&... parts) {
    return absl::InvalidArgumentError(absl::StrCat("kernel ", kernel_.name, ": ", parts...));
  };
  if (buffers.size() != kernel_.buffers.size()) {
    return error(buffers.size(), " buffers given, expected ", kernel_.buffers.size());
  }
  if (parameters.size() != kernel_.parameters.size()) {
    return error(parameters.size(), " parameters given, expected ", kernel_.parameters.size());
  }
  const auto lookup = [&](const SymNode* symbol) -> std::optional<int64_t> {
    for (size_t i = 0; i < parameters.size(); ++i) {
      if (kernel_.parameters[i].node() == symbol) return parameters[i];
    }
    return std::nullopt;
  };
  absl::flat_hash_set<const SymNode*> declared;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const SymNode* symbol = kernel_.parameters[i].node();
    const auto [lo, hi] = integers_.DeclaredBounds(symbol);
    if (parameters[i] < lo || parameters[i] > hi) {
      return error("parameter ", symbol->name, " is ", parameters[i], ", outside ", lo, "..", hi);
    }
    integers_.DeclareUniform(symbol, parameters[i], parameters[i]);
    integers_.SetUniform(symbol, parameters[i]);
    declared.insert(symbol);
  }
  SEAM_ASSIGN_OR_RETURN(grid_, Evaluate(kernel_.grid_x, lookup));
  if (grid_ < 0 || grid_ > INT32_MAX) return error("a grid of ", grid_, " CTAs");
  if (grid_ % kernel_.cluster != 0)
    return error("a grid of ", grid_, " CTAs in clusters of ", kernel_.cluster);
  const SymRange blocks = RangeOf(kernel_.block_x);
  if (grid_ > 0 && (blocks.lo > 0 || blocks.hi < grid_ - 1)) {
    return error("block_x is declared as ", blocks.lo, "..", blocks.hi, ", the grid is ", grid_);
  }
  const int64_t last_block = std::max<int64_t>(grid_ - 1, 0);
  if (kernel_.cluster == 1) {
    integers_.DeclareUniform(kernel_.block_x.node(), 0, last_block);
  } else {
    integers_.DeclareVarying(kernel_.block_x.node(), 0, last_block);
  }
  integers_.DeclareVarying(kernel_.thread_x.node(), 0, cta_threads_ - 1);
  if (const SymInt together = kernel_.together; together.is_symbolic()) {
    const int64_t value = options_.phase_by_phase ? 0 : 1;
    integers_.DeclareUniform(together.node(), value, value);
    integers_.SetUniform(together.node(), value);
    declared.insert(together.node());
  }
  declared.insert(kernel_.block_x.node());
  declared.insert(kernel_.thread_x.node());
  all_.resize(threads_);
  std::iota(all_.begin(), all_.end(), 0);
  int64_t* const numbers = integers_.MutableVarying(kernel_.thread_x.node());
  for (int t = 0; t < threads_; ++t) numbers[t] = InCta(t);
  DeclareSymbols(kernel_.body, &declared);
  SEAM_RETURN_IF_ERROR(BindBuffers(buffers, lookup));
  phases_.emplace_back();
  for (CompiledStmt& s : CompileBlock(kernel_.body)) {
    const bool last = std::holds_alternative<kernel::GridSync>(s.stmt->node);
    phases_.back().push_back(std::move(s));
    if (last) phases_.emplace_back();
  }

  int rows = 0;
  for (const kernel::Fragment& fragment : kernel_.fragments) {
    first_row_.push_back(rows);
    rows += fragment.count;
  }
  registers_.resize(static_cast<size_t>(rows) * threads_, IntScalar(0));
  written_.resize(registers_.size());
  written_count_.resize(rows);
  for (std::vector<Scalar>& scratch : scratch_) scratch.resize(threads_);
  in_parts_.resize(threads_);
  return absl::OkStatus();
}

}  // namespace seam::simulator
