// What every statement does to the active threads of a CTA, and what can be wrong with it.
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ir/op_semantics.h"
#include "ir/philox.h"
#include "ir/status.h"
#include "runtime/simulator/simulation.h"

namespace seam::simulator {

using kernel::Space;

namespace {
constexpr int kWarp = 32;
}  // namespace

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

// The clusters take tickets in turn, in each round another one first, although they run one after
// the other: one that takes tickets until they are used up takes one in each round before. Those of
// the last rounds, in which not all of them take one, stand for nothing.
absl::Status Simulation::Execute(const CompiledStmt& s, const kernel::TakeTicket& node,
                                 const Lanes& lanes) {
  if (lanes.size() > 1) return Fault(s, lanes[1], "a ticket that several threads take");
  SEAM_RETURN_IF_ERROR(CheckExpr(s, s.index, lanes));
  const int64_t total = Values(s.index)[lanes[0]];
  if (total < 1 || total > INT32_MAX || total != tickets_in_all_.value_or(total)) {
    return Fault(
        s, lanes[0],
        absl::StrCat("a ticket of ", total, ", where others are of ", tickets_in_all_.value_or(0)));
  }
  tickets_in_all_ = total;
  const int64_t clusters = grid_ / kernel_.cluster, round = cluster_tickets_++;
  const int64_t place = (cta_ / kernel_.cluster + round) % clusters;
  const int64_t ticket = std::min(round * clusters + place, total - 1);
  if (++tickets_taken_ > total) {
    return Fault(s, lanes[0], absl::StrCat("a ticket after the last one of ", total));
  }
  SEAM_ASSIGN_OR_RETURN(const int row, SlotOf(s, node.fragment, s.slot, 1, lanes));
  Row(row)[lanes[0]] = IntScalar(ticket);
  MarkWritten(row, lanes);
  return absl::OkStatus();
}

// The clusters run one after the other: nobody is ahead.
absl::Status Simulation::Execute(const CompiledStmt& s, const kernel::AwaitTickets&,
                                 const Lanes& lanes) {
  return CheckExpr(s, s.index, lanes);
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

template <typename Access>
absl::Status Simulation::CheckAddresses(const CompiledStmt& s, const Access& node,
                                        const Memory& memory, const int64_t* index,
                                        const Lanes& lanes) {
  const int element_bytes = DTypeBytes(memory.dtype);
  kernel::Start start = kernel::Start::Aligned;
  if constexpr (requires { node.start; }) start = node.start;
  const bool aligned = node.width > 1 && start == kernel::Start::Aligned;
  const int64_t vector = aligned ? std::min(16, node.width * element_bytes) / element_bytes : 1;
  const int64_t piece = 16 / element_bytes;
  for (const int t : lanes) {
    if (start == kernel::Start::Inside && index[t] >= 0 &&
        index[t] / piece * piece > memory.num_elements - 2 * piece) {
      return Fault(
          s, t,
          absl::StrCat("the aligned 32 bytes from element ", index[t] / piece * piece,
                       " on are not inside buffer ", memory.name, " of ", memory.num_elements));
    }
    if (index[t] < 0 || index[t] > memory.num_elements - node.width) {
      return Fault(s, t,
                   absl::StrCat("element ", index[t],
                                node.width > 1 ? absl::StrCat(" (", node.width, " wide)") : "",
                                " is outside ", memory.shared ? "shared array " : "buffer ",
                                memory.name, " of ", memory.num_elements));
    }
    if ((index[t] & (vector - 1)) != 0) {
      return Fault(
          s, t,
          absl::StrCat("element ", index[t], " of ", memory.shared ? "shared array " : "buffer ",
                       memory.name, " is no multiple of the vector's ", vector, " elements"));
    }
  }
  return absl::OkStatus();
}

// Cuts the active threads into runs of consecutive threads whose indices are equally spaced.
template <typename Visit>
void Simulation::ForEachRun(const Lanes& lanes, const int64_t* index, Visit visit) {
  for (size_t begin = 0; begin < lanes.size();) {
    size_t end = begin + 1;
    int64_t stride = 0;
    if (end < lanes.size() && lanes[end] == lanes[begin] + 1) {
      stride = index[lanes[end]] - index[lanes[begin]];
      while (end < lanes.size() && lanes[end] == lanes[end - 1] + 1 &&
             index[lanes[end]] - index[lanes[end - 1]] == stride) {
        ++end;
      }
    }
    visit(lanes[begin], stride, end - begin);
    begin = end;
  }
}

absl::Status Simulation::CheckArrived(const CompiledStmt& s, const Memory& memory, int64_t element,
                                      int thread) {
  if (!memory.shared) return absl::OkStatus();
  const int loader = loads_.LoaderOf(memory.array, element);
  if (loader < 0 && copies_.Arrived(memory.array, element, InCta(thread))) return absl::OkStatus();
  return Fault(s, thread,
               absl::StrCat("element ", element % memory.num_elements, " of shared array ",
                            memory.name, " is brought by a ",
                            loader < 0 ? "copy for which this thread has not waited"
                                       : absl::StrCat("load for which thread ", InCta(loader),
                                                      " has not waited")));
}

const int64_t* Simulation::InParts(const Memory& memory, const int64_t* index, const Lanes& lanes) {
  const int64_t first = memory.lasting ? cta_ : 0;
  for (const int t : lanes) in_parts_[t] = index[t] + (first + RankOf(t)) * memory.num_elements;
  return in_parts_.data();
}

absl::Status Simulation::Execute(const CompiledStmt& s, const kernel::BulkCopy& node,
                                 const Lanes& lanes) {
  for (size_t i = 0; i < lanes.size(); ++i) {
    if (i > 0 && RankOf(lanes[i]) == RankOf(lanes[i - 1])) {
      return Fault(s, lanes[i], "a copy that several threads of the CTA start");
    }
    SEAM_RETURN_IF_ERROR(StartCopy(s, node, lanes[i]));
  }
  return absl::OkStatus();
}

absl::Status Simulation::StartCopy(const CompiledStmt& s, const kernel::BulkCopy& node, int t) {
  constexpr int64_t kUnit = 16;  // Bytes.
  const Lanes lanes = {t};
  const Memory &to = shared_[node.array], &from = buffers_[node.buffer];
  const auto value = [&](const Expr& e) -> absl::StatusOr<int64_t> {
    SEAM_RETURN_IF_ERROR(CheckExpr(s, e, lanes));
    return e.id < 0 ? e.constant : Values(e)[t];
  };
  SEAM_ASSIGN_OR_RETURN(const int64_t to_element, value(s.slot));
  SEAM_ASSIGN_OR_RETURN(const int64_t source, value(s.index));
  SEAM_ASSIGN_OR_RETURN(const int64_t count, value(s.predicate));
  SEAM_ASSIGN_OR_RETURN(int64_t barrier, value(s.barrier));
  barrier += RankOf(t) * kernel_.copy_barriers;
  const int64_t first = to_element + RankOf(t) * to.num_elements;
  const int64_t bytes = DTypeBytes(to.dtype);
  if (to_element * bytes % kUnit != 0 || source * bytes % kUnit != 0 ||
      count * bytes % kUnit != 0) {
    return Fault(s, t,
                 absl::StrCat("elements ", source, " to ", source + count, " go to element ",
                              to_element, ": no multiples of ", kUnit, " bytes"));
  }
  const auto inside = [&](int64_t begin, const Memory& memory) {
    return count > 0 && begin >= 0 && begin <= memory.num_elements - count;
  };
  if (count != 0 && (!inside(source, from) || !inside(to_element, to))) {
    return Fault(s, t,
                 absl::StrCat(count, " elements from ", source, " of ", from.num_elements, " to ",
                              to_element, " of ", to.num_elements));
  }
  if (!copies_.CanStart(barrier)) {
    return Fault(s, t, "a copy starts before all threads have waited for the last ones there");
  }
  for (int64_t i = 0; i < count; ++i)
    SEAM_RETURN_IF_ERROR(CopyElement(s, to, first + i, from, source + i, t));
  copies_.Start(barrier, node.array, first, count);
  std::memcpy(to.data + first * bytes, from.data + source * bytes, count * bytes);
  return absl::OkStatus();
}

absl::Status Simulation::CopyElement(const CompiledStmt& s, const Memory& to, int64_t to_element,
                                     const Memory& from, int64_t from_element, int thread) {
  const Moment now = Now(thread), there = Now(to, thread);
  SEAM_RETURN_IF_ERROR(CheckArrived(s, to, to_element, thread));
  if (!to.tracker->CanWrite(to_element, there)) {
    return Fault(s, thread,
                 absl::StrCat("race on element ", to_element % to.num_elements, " of shared array ",
                              to.name, ": copied here, ", to.tracker->Describe(to_element, there),
                              " without a barrier between"));
  }
  to.tracker->Write(to_element, there);
  if (from.initialized != nullptr && from.initialized[from_element] == 0) {
    return Fault(s, thread,
                 absl::StrCat("copies element ", from_element, " of buffer ", from.name,
                              ", which nothing has written"));
  }
  if (!from.tracks_reads) return absl::OkStatus();
  if (!from.tracker->CanRead(from_element, now)) {
    return Fault(
        s, thread,
        absl::StrCat("race on element ", from_element, " of buffer ", from.name, ": copied here, ",
                     from.tracker->Describe(from_element, now), " without a barrier between"));
  }
  from.tracker->Read(from_element, now);
  return absl::OkStatus();
}

absl::Status Simulation::Execute(const CompiledStmt& s, const kernel::AsyncLoad& node,
                                 const Lanes& lanes) {
  const Memory &to = shared_[node.array], &from = buffers_[node.buffer];
  Lanes storage;
  SEAM_ASSIGN_OR_RETURN(const Lanes* taken, Select(s, s.predicate, lanes, &storage));
  SEAM_RETURN_IF_ERROR(CheckExpr(s, s.slot, *taken));
  SEAM_RETURN_IF_ERROR(CheckExpr(s, s.index, *taken));
  const int64_t* index = Values(s.index);
  SEAM_RETURN_IF_ERROR(CheckAddresses(s, node, from, index, *taken));
  const std::vector<int64_t> source(index, index + threads_);
  index = Values(s.slot);
  SEAM_RETURN_IF_ERROR(CheckAddresses(s, node, to, index, *taken));
  if (IsInParts(to)) index = InParts(to, index, *taken);
  const int64_t bytes = DTypeBytes(to.dtype);
  for (const int t : *taken) {
    for (int w = 0; w < node.width; ++w)
      SEAM_RETURN_IF_ERROR(CopyElement(s, to, index[t] + w, from, source[t] + w, t));
    loads_.Begin(t, {s.number, node.array, node.buffer, index[t], source[t], node.width});
    std::memcpy(to.data + index[t] * bytes, from.data + source[t] * bytes, node.width * bytes);
  }
  return absl::OkStatus();
}

// The elements count as written again, since they may come as late as this.
absl::Status Simulation::Execute(const CompiledStmt& s, const kernel::AwaitLoads&,
                                 const Lanes& lanes) {
  for (const int t : lanes) {
    for (const AsyncLoads::Load& load : loads_.UnderWay(t)) {
      const Memory &to = shared_[load.array], &from = buffers_[load.buffer];
      const int64_t bytes = DTypeBytes(to.dtype);
      if (std::memcmp(to.data + load.to * bytes, from.data + load.from * bytes,
                      load.width * bytes) != 0) {
        return Fault(
            s, t,
            absl::StrCat("element ", load.from, " of buffer ", from.name,
                         " has changed since statement ", load.statement, " began to load it"));
      }
      for (int w = 0; w < load.width; ++w) to.tracker->Write(load.to + w, Now(to, t));
    }
    loads_.Await(t);
  }
  return absl::OkStatus();
}

absl::Status Simulation::Execute(const CompiledStmt& s, const kernel::AwaitCopies&,
                                 const Lanes& lanes) {
  SEAM_RETURN_IF_ERROR(RequireAll(s, "wait", lanes));
  SEAM_RETURN_IF_ERROR(CheckExpr(s, s.barrier, lanes));
  SEAM_RETURN_IF_ERROR(CheckExpr(s, s.index, lanes));
  for (int rank = 0; rank < kernel_.cluster; ++rank) {
    const int first = rank * cta_threads_;
    const int64_t barrier = Values(s.barrier)[first], round = Values(s.index)[first];
    const int64_t of_cta = barrier + rank * kernel_.copy_barriers;
    const int64_t complete = copies_.Complete(of_cta);
    if (round + 1 != complete) {
      return Fault(s, first,
                   absl::StrCat("waits for round ", round, " of the copies at ", barrier,
                                ", of which ", complete, " have been started"));
    }
    for (int t = 0; t < cta_threads_; ++t) copies_.Await(of_cta, t, round + 1);
  }
  return absl::OkStatus();
}

absl::Status Simulation::Execute(const CompiledStmt& s, const kernel::Load& node,
                                 const Lanes& lanes) {
  const Memory& memory = node.space == Space::Global ? buffers_[node.array] : shared_[node.array];
  SEAM_ASSIGN_OR_RETURN(const int row, SlotOf(s, node.fragment, s.slot, node.width, lanes));
  Lanes storage;
  SEAM_ASSIGN_OR_RETURN(const Lanes* taken, Select(s, s.predicate, lanes, &storage));
  for (int w = 0; w < node.width; ++w) MarkWritten(row + w, lanes);
  if (taken->size() < lanes.size()) {
    for (int w = 0; w < node.width; ++w) {
      for (const int t : lanes) Row(row + w)[t] = node.fill;
    }
  }
  SEAM_RETURN_IF_ERROR(CheckExpr(s, s.index, *taken));
  const int64_t* index = Values(s.index);
  SEAM_RETURN_IF_ERROR(CheckAddresses(s, node, memory, index, *taken));
  if (IsInParts(memory)) index = InParts(memory, index, *taken);
  if (memory.tracker != nullptr || memory.initialized != nullptr) {
    for (const int t : *taken) {
      const Moment now = Now(memory, t);
      for (int64_t e = index[t]; e < index[t] + node.width; ++e) {
        const auto place = [&] {
          return absl::StrCat("element ", e % memory.num_elements, " of ",
                              memory.shared ? "shared array " : "buffer ", memory.name);
        };
        if (memory.shared ? !memory.tracker->Written(e, now.began)
                          : memory.initialized != nullptr && memory.initialized[e] == 0) {
          return Fault(s, t, absl::StrCat("reads ", place(), ", which nothing has written"));
        }
        SEAM_RETURN_IF_ERROR(CheckArrived(s, memory, e, t));
        if (!memory.tracks_reads) continue;
        const bool copied = memory.shared && copies_.Brings(memory.array, e);
        if (!copied && !memory.tracker->CanRead(e, now)) {
          return Fault(
              s, t,
              absl::StrCat("race on ", place(), ": read here, ", memory.tracker->Describe(e, now),
                           " without a barrier between"));
        }
        memory.tracker->Read(e, now);
      }
    }
  }
  const int element_bytes = DTypeBytes(memory.dtype);
  ForEachRun(*taken, index, [&](int first, int64_t stride, size_t count) {
    for (int w = 0; w < node.width; ++w) {
      LoadScalars(memory.dtype, memory.data + (index[first] + w) * element_bytes,
                  stride * element_bytes, Row(row + w) + first, count);
    }
  });
  return absl::OkStatus();
}

absl::Status Simulation::Execute(const CompiledStmt& s, const kernel::Store& node,
                                 const Lanes& lanes) {
  const Memory& memory = node.space == Space::Global ? buffers_[node.array] : shared_[node.array];
  SEAM_ASSIGN_OR_RETURN(const int row, SlotOf(s, node.fragment, s.slot, node.width, lanes));
  Lanes storage;
  SEAM_ASSIGN_OR_RETURN(const Lanes* taken, Select(s, s.predicate, lanes, &storage));
  for (int w = 0; w < node.width; ++w) SEAM_RETURN_IF_ERROR(RequireWritten(s, row + w, *taken));
  SEAM_RETURN_IF_ERROR(CheckExpr(s, s.index, *taken));
  const int64_t* index = Values(s.index);
  SEAM_RETURN_IF_ERROR(CheckAddresses(s, node, memory, index, *taken));
  if (IsInParts(memory)) index = InParts(memory, index, *taken);
  for (const int t : *taken) {
    const Moment now = Now(memory, t);
    for (int64_t e = index[t]; e < index[t] + node.width; ++e) {
      if (!memory.tracker->CanWrite(e, now)) {
        return Fault(s, t,
                     absl::StrCat("race on element ", e % memory.num_elements, " of ",
                                  memory.shared ? "shared array " : "buffer ", memory.name,
                                  ": written here, ", memory.tracker->Describe(e, now),
                                  " without a barrier between"));
      }
      SEAM_RETURN_IF_ERROR(CheckArrived(s, memory, e, t));
      if (memory.shared) copies_.Forget(memory.array, e);
      memory.tracker->Write(e, now);
      if (memory.initialized != nullptr) memory.initialized[e] = 1;
    }
  }
  const int element_bytes = DTypeBytes(memory.dtype);
  ForEachRun(*taken, index, [&](int first, int64_t stride, size_t count) {
    for (int w = 0; w < node.width; ++w) {
      StoreScalars(memory.dtype, Row(row + w) + first,
                   memory.data + (index[first] + w) * element_bytes, stride * element_bytes, count);
    }
  });
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

absl::Status Simulation::Execute(const CompiledStmt& s, const kernel::CtaSync&,
                                 const Lanes& lanes) {
  SEAM_RETURN_IF_ERROR(RequireAll(s, "barrier", lanes));
  if (++interval_ == UINT32_MAX) return absl::ResourceExhaustedError("more than 2^32 barriers");
  return absl::OkStatus();
}

absl::Status Simulation::Execute(const CompiledStmt& s, const kernel::ClusterSync&,
                                 const Lanes& lanes) {
  SEAM_RETURN_IF_ERROR(Execute(s, kernel::CtaSync{}, lanes));
  synced_ = interval_;
  return absl::OkStatus();
}

absl::Status Simulation::Execute(const CompiledStmt& s, const kernel::RemoteStore& node,
                                 const Lanes& lanes) {
  const Memory& memory = shared_[node.array];
  SEAM_ASSIGN_OR_RETURN(const int row, SlotOf(s, node.fragment, s.slot, 1, lanes));
  Lanes storage;
  SEAM_ASSIGN_OR_RETURN(const Lanes* taken, Select(s, s.predicate, lanes, &storage));
  SEAM_RETURN_IF_ERROR(RequireWritten(s, row, *taken));
  std::vector<int64_t> values[3];
  const Expr* const exprs[] = {&s.index, &s.cta, &s.barrier};
  for (int i = 0; i < 3; ++i) {
    SEAM_RETURN_IF_ERROR(CheckExpr(s, *exprs[i], *taken));
    const int64_t* all = Values(*exprs[i]);
    values[i].assign(all, all + threads_);
  }
  const int bytes = DTypeBytes(memory.dtype);
  for (const int t : *taken) {
    const int64_t index = values[0][t], cta = values[1][t], barrier = values[2][t];
    if (index < 0 || index >= memory.num_elements) {
      return Fault(s, t,
                   absl::StrCat("element ", index, " is outside shared array ", memory.name, " of ",
                                memory.num_elements));
    }
    if (synced_ == first_interval_)
      return Fault(s, t, "a store to a CTA of the cluster that may not have begun");
    if (!remote_stores_.CanStore(cta, barrier)) {
      return Fault(s, t,
                   absl::StrCat("a store arrives at ", barrier,
                                ", where another CTA may still wait for the last ones"));
    }
    const int64_t element = index + cta * memory.num_elements;
    if (!memory.tracker->CanWrite(element, Now(memory, t))) {
      return Fault(s, t,
                   absl::StrCat("race on element ", index, " of shared array ", memory.name,
                                " of CTA ", cta_ + cta, ": written here, ",
                                memory.tracker->Describe(element, Now(memory, t)),
                                " without a wait between"));
    }
    memory.tracker->Write(element, Now(memory, t));
    remote_stores_.Store(cta, barrier, t / kWarp, bytes);
    StoreScalars(memory.dtype, Row(row) + t, memory.data + element * bytes, bytes, 1);
  }
  return absl::OkStatus();
}

absl::Status Simulation::Execute(const CompiledStmt& s, const kernel::AwaitStores& node,
                                 const Lanes& lanes) {
  SEAM_RETURN_IF_ERROR(RequireAll(s, "wait", lanes));
  SEAM_RETURN_IF_ERROR(CheckExpr(s, s.barrier, lanes));
  SEAM_RETURN_IF_ERROR(CheckExpr(s, s.index, lanes));
  for (int rank = 0; rank < kernel_.cluster; ++rank) {
    const int first = rank * cta_threads_;
    const int64_t barrier = Values(s.barrier)[first], round = Values(s.index)[first];
    const int64_t rounds = remote_stores_.round(rank, barrier);
    const int64_t bytes = remote_stores_.bytes(rank, barrier);
    const int missing = remote_stores_.Missing(rank, barrier);
    if (round != rounds || bytes != node.bytes || missing >= 0) {
      return Fault(s, first,
                   absl::StrCat("waits for ", node.bytes, " bytes in round ", round, "; in round ",
                                rounds, " come ", bytes,
                                missing < 0 ? "" : absl::StrCat(", none from warp ", missing)));
    }
    remote_stores_.Await(rank, barrier);
  }
  remote_stores_.EndInterval();
  return absl::OkStatus();
}

absl::Status Simulation::RequireAll(const CompiledStmt& s, absl::string_view what,
                                    const Lanes& lanes) {
  if (static_cast<int>(lanes.size()) == threads_) return absl::OkStatus();
  return Fault(
      s, lanes[0],
      absl::StrCat("a ", what, " that only ", lanes.size(), " of ", threads_, " threads reach"));
}

}  // namespace seam::simulator
