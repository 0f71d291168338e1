// CTAs, or clusters of them, that take the next rows that nobody has: memory is then read in nearly
// the order of the rows, which it does best, whoever is ahead.
//
//   turn     t                t + 1       ...   t + stages
//            ticket drawn  -> passed on                        by the first thread of the team
//                             first barrier, or exchange
//                             everybody may know it      ...   its rows
//
// A ticket is drawn a turn before it is passed on, so that nobody waits for it. The first rows, as
// many as there are stages, are taken in order. Each team draws one ticket more than it has turns,
// so that all of them together draw as many in every launch, and the last one resets the count.
#include <algorithm>

#include "absl/algorithm/container.h"
#include "scheduler/kernel/expander.h"

namespace seam::kernel {

// In a cluster tickets are passed on with the states of a fold.
bool Expander::CanPassTickets() const {
  return cluster_ == 1 || absl::c_any_of(tile_.reductions, [](const TileReduction& r) {
           return r.over == Over::Columns;
         });
}

void Expander::OpenTickets() {
  next_ticket_ = w_.NewFragment("ticket", DType::I32);
  if (!tickets_) return w_.Set(next_ticket_, 0, OpKind::Copy, {BlockWriter::Number(DType::I32, 0)});
  // Of this turn and those that are ahead.
  tickets_array_ = w_.NewShared("tickets", DType::I32, options_.stages + 1);
  w_.Branch(
      SymAnd(SymEq(out_.thread_x, 0), SymEq(rank_, 0)),
      [&] {
        w_.Emit(TakeTicket{next_ticket_, 0, sets_ + teams_});
      },
      [] {});
}

// The set that a turn's ticket stands for, `sets_` or more if there is none left, where the ticket
// is there already; else 0.
SymInt Expander::TicketOf(SymInt turn, SymInt is_there) {
  Load load{w_.NewFragment("t", DType::I32), 0};
  load.space = Space::Shared;
  load.array = tickets_array_;
  load.index = Mod(turn, options_.stages + 1);
  load.predicate = is_there;
  w_.Emit(load);
  const SymInt set = out_.env->FreshSymbol("ticket", 0, sets_);
  w_.Bind(set, Operand::Reg(load.fragment));
  return set;
}

// The set of this turn or the next one; at least `sets_` if there is none.
SymInt Expander::SetOf(SymInt turn) {
  if (!tickets_) return SetInOrder(turn);
  const SymInt in_order = SymLt(turn, options_.stages);
  const SymInt ticket = TicketOf(turn, SymGe(turn, options_.stages));
  const SymInt set = out_.env->FreshSymbol("next", 0, sets_);
  w_.Bind(set, w_.Index(DType::I64, SymSelect(in_order, Min(SetInOrder(turn), sets_), ticket)));
  return set;
}

void Expander::TakeSet() {
  const SymInt set = SetOf(turn_);
  w_.Emit(Leave{SymGe(set, sets_)});
  w_.Bind(set_, w_.Index(DType::I64, set));
}

// Ahead of a barrier, or of an exchange that ends at `barrier` of a cluster: the ticket of the turn
// that is `stages` away, for all threads of the team. Bytes that come to each CTA of a cluster.
int64_t Expander::PassTicketOn(SymInt barrier) {
  w_.Branch(
      SymAnd(SymEq(out_.thread_x, 0), SymEq(rank_, 0)),
      [&] {
        const SymInt number = out_.env->FreshSymbol("number", 0, sets_ + (teams_ - 1));
        w_.Bind(number, Operand::Reg(next_ticket_));
        const SymInt in_order = int64_t{options_.stages} * teams_;
        const Operand set = w_.Index(DType::I32, Min(number + in_order, sets_));
        const SymInt index = Mod(turn_ + options_.stages, options_.stages + 1);
        if (cluster_ == 1) {
          Store out{set.fragment, 0};
          out.space = Space::Shared;
          out.array = tickets_array_;
          out.index = index;
          w_.Emit(out);
        } else {
          const SymInt cta = out_.env->FreshSymbol("cta", 0, cluster_ - 1);
          w_.Loop(cta, cluster_, true, [&] {
            RemoteStore out{set.fragment, 0, tickets_array_, index};
            out.cta = cta;
            out.barrier = barrier;
            w_.Emit(out);
          });
        }
        w_.Emit(TakeTicket{next_ticket_, 0, sets_ + teams_});
      },
      [] {});
  return DTypeBytes(DType::I32);
}

// In a fixed order tickets only count the turns of all teams, one every so many turns. A team that
// is ahead of their mean then waits a little before it brings more: memory serves the others
// meanwhile, all end together, and what is under way lies close together.
void Expander::KeepPace() {
  const int64_t every = options_.pace, round = every * teams_;
  const SymInt turn = NumberOf(turn_);
  const SymInt total = FloorDiv(sets_, round) * teams_ + Min(teams_, Mod(sets_, round));
  w_.Branch(
      SymAnd(SymEq(out_.thread_x, 0), SymEq(rank_, 0)),
      [&] {
        const SymInt number = out_.env->FreshSymbol("number", 0, sets_ - 1);
        w_.Bind(number, Operand::Reg(next_ticket_));
        w_.Branch(
            SymEq(Mod(turn, every), 0),
            [&] {
              w_.Emit(TakeTicket{next_ticket_, 0, total});
            },
            [] {});
        // A turn later, so that nobody waits for the ticket itself.
        const SymInt least = FloorDiv(turn - 1, every) * teams_;
        w_.Branch(
            SymAnd(SymEq(Mod(turn, every), 1 % every), SymLt(number, least)),
            [&] { w_.Emit(AwaitTickets{least}); }, [] {});
      },
      [] {});
}

}  // namespace seam::kernel
