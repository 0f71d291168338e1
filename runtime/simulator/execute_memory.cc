// What loads, stores and copies do, and what can be wrong with them: addresses, races, elements
// that nobody has written or that have not come yet.
#include <algorithm>
#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"
#include "ir/status.h"
#include "runtime/simulator/simulation.h"

namespace seam::simulator {

using kernel::Space;

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
    // What nobody uses is seen if somebody does.
    Scalar fill = node.fill;
    if (!node.fills && IsFloat(memory.dtype)) fill.f = std::numeric_limits<double>::quiet_NaN();
    for (int w = 0; w < node.width; ++w) {
      for (const int t : lanes) Row(row + w)[t] = fill;
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

}  // namespace seam::simulator
