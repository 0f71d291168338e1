// What threads and CTAs do together: tickets, barriers, stores to other CTAs of a cluster.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "ir/status.h"
#include "runtime/simulator/simulation.h"

namespace seam::simulator {

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

absl::Status Simulation::Execute(const CompiledStmt& s, const kernel::Pause&, const Lanes& lanes) {
  return CheckExpr(s, s.index, lanes);
}

absl::Status Simulation::Execute(const CompiledStmt& s, const kernel::CtaSync&,
                                 const Lanes& lanes) {
  SEAM_RETURN_IF_ERROR(RequireAll(s, "barrier", lanes));
  if (++interval_ == UINT32_MAX) return absl::ResourceExhaustedError("more than 2^32 barriers");
  return absl::OkStatus();
}

absl::Status Simulation::Execute(const CompiledStmt& s, const kernel::ClusterSync& node,
                                 const Lanes& lanes) {
  begun_ = true;
  if (node.orders) {
    remote_stores_.EndInterval();
    return Execute(s, kernel::CtaSync{}, lanes);
  }
  return RequireAll(s, "barrier", lanes);
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
    if (!begun_) return Fault(s, t, "a store to a CTA of the cluster that may not have begun");
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
