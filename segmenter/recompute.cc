// Recompute: who reads a value computes it again, where that takes less time than to write and to
// read it.
//
//   before:  { y = x * c  rows(y) }  { cols(y) }              y is written and read
//   after:   { y = x * c  rows(y) }  { y = x * c  cols(y) }   x and c are read twice
//
// What is copied leads back to what is in memory anyway, and to results of reductions, which are
// small and become outputs. If all readers have copies the value is not written any more; what its
// group has no use for then goes with the first of them. Arithmetic has a price, so that what takes
// long to compute is still computed once. No cycle comes of it: all that a copy reads its original
// has read before or computed, or a group has written that stands before the reader.
#include <algorithm>
#include <optional>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "segmenter/closer_look.h"
#include "segmenter/passes.h"
#include "segmenter/traffic.h"

namespace seam {
namespace {

// Most expressions that a reader computes again to have one value, and most of these that compute.
constexpr size_t kMaxCopiedExprs = 64;
constexpr int kMaxArithmetic = 24;
constexpr int kMaxRounds = 4;
// The part of a kernel's time that is worth a change of it.
constexpr double kLeastSaved = 0.01;

bool CanCopy(const Fusion& f, ExprId e) {
  switch (f.info(e).op_class) {
    case OpClass::Elementwise:
    case OpClass::Cast:
    case OpClass::Broadcast:
    case OpClass::View:
    case OpClass::Factory:
      return true;
    default:
      return false;
  }
}

// How a group that reads a value comes to compute it.
struct Copying {
  GroupId reader;
  std::vector<ExprId> exprs;   // That it does not compute yet; ascending.
  std::vector<ValId> exports;  // That their group hands out for it, and has not so far.
  int num_reads = 0;           // Values that it has not read so far.
  double saved_bytes = 0;      // By the group, as bytes of traffic; less than 0 for more.
  double least_saved = 0;      // That is worth a change of it.
  SchedulerKind scheduler = SchedulerKind::kNone;
};

class Recomputation {
 public:
  explicit Recomputation(Merger& merger)
      : merger_(merger),
        s_(merger.segmented()),
        f_(s_.fusion()),
        sizes_(merger.sizes()),
        guard_(merger.guard()),
        work_(f_.num_exprs() / 8 + 16384) {
    for (const OrderConstraint& c : s_.order_constraints()) ordered_.insert(c.before);
  }

  // Returns whether anything changed.
  bool Run() {
    bool any = false;
    for (int round = 0; round < kMaxRounds; ++round) {
      bool changed = false;
      // Readers first: what they no longer read need not be handed on.
      std::vector<GroupId> groups = s_.groups();
      std::reverse(groups.begin(), groups.end());
      for (GroupId g : groups) {
        const std::vector<ValId> outputs = s_.outputs(g);
        for (auto v = outputs.rbegin(); v != outputs.rend(); ++v) {
          if (work_ > 0 && merger_.status().ok() && s_.buffer_of(*v).valid())
            changed |= TryValue(*v, g);
        }
      }
      any |= changed;
      if (!changed) break;
    }
    return any;
  }

 private:
  bool TryValue(ValId v, GroupId from) {
    if (!CanCopy(f_, f_.definition(v)) || s_.scheduler(from) == SchedulerKind::kAlias) return false;
    std::vector<Copying> all, some;
    double saved_by_all = s_.is_result(v) ? 0 : static_cast<double>(sizes_.Bytes(v));
    double saved_by_some = 0, least_saved = 0;
    bool every = !s_.is_result(v);
    std::vector<ValId> exports;
    const auto readers = s_.readers(s_.buffer_of(v));
    if (readers.size() > kMaxReaders) return false;
    for (EdgeId e : readers) {
      std::optional<Copying> copying = Find(v, from, s_.edge(e).to);
      if (!copying) {
        every = false;
        continue;
      }
      saved_by_all += copying->saved_bytes;
      for (ValId u : copying->exports) {
        if (std::find(exports.begin(), exports.end(), u) != exports.end()) continue;
        exports.push_back(u);
        saved_by_all -= static_cast<double>(sizes_.Bytes(u));
      }
      double saved = copying->saved_bytes;
      for (ValId u : copying->exports) saved -= static_cast<double>(sizes_.Bytes(u));
      least_saved += copying->least_saved;
      if (saved > copying->least_saved) {
        saved_by_some += saved;
        some.push_back(*copying);
      }
      all.push_back(*std::move(copying));
    }
    if (every && saved_by_all > saved_by_some && saved_by_all > least_saved &&
        Accepted(v, absl::MakeSpan(all)) && Apply(v, from, all, saved_by_all)) {
      return true;
    }
    some.erase(std::remove_if(some.begin(), some.end(),
                              [&](Copying& c) { return !Accepted(v, absl::MakeSpan(&c, 1)); }),
               some.end());
    return !some.empty() && Apply(v, from, some, saved_by_some);
  }

  // The way back from the value to what the reader can read.
  std::optional<Copying> Find(ValId v, GroupId from, GroupId reader) {
    if (s_.scheduler(reader) != SchedulerKind::kPointwise &&
        s_.scheduler(reader) != SchedulerKind::kReduction) {
      return std::nullopt;
    }
    Copying copying{reader};
    double more_bytes = -static_cast<double>(sizes_.Bytes(v)), more_arithmetic = 0;
    int computing = 0;
    copying.num_reads = -1;
    std::vector<ExprId> todo = {f_.definition(v)};
    absl::flat_hash_set<ExprId> seen(todo.begin(), todo.end());
    absl::flat_hash_set<ValId> read;
    while (!todo.empty()) {
      const ExprId e = todo.back();
      todo.pop_back();
      if (copying.exprs.size() == kMaxCopiedExprs || ordered_.contains(e)) return std::nullopt;
      copying.exprs.push_back(e);
      computing += guard_.BytesOfArithmetic(f_, e) > 0;
      if (computing > kMaxArithmetic) return std::nullopt;
      more_arithmetic += Arithmetic(e);
      for (int i = 0; i < static_cast<int>(f_.operands(e).size()); ++i) {
        const ValId u = f_.operands(e)[i];
        const ExprId definition = f_.definition(u);
        if (definition.valid() && s_.computes(reader, definition)) continue;
        if (s_.data_edge(reader, u).valid()) continue;
        // That the group has a copy of may be written too late for the reader.
        const bool in_memory = s_.buffer_of(u).valid() &&
                               (!definition.valid() || s_.Precedes(s_.home(definition), reader));
        if (!in_memory && CanCopy(f_, definition)) {
          if (seen.insert(definition).second) todo.push_back(definition);
          continue;
        }
        if (!read.insert(u).second) continue;
        more_bytes += static_cast<double>(ReadBytes(f_, sizes_, e, i));
        ++copying.num_reads;
        if (in_memory) continue;
        if (s_.home(definition) != from) return std::nullopt;
        copying.exports.push_back(u);
      }
    }
    std::sort(copying.exprs.begin(), copying.exprs.end());
    const auto bytes = static_cast<double>(MovedBytes(s_, sizes_, reader));
    double arithmetic = 0;
    for (ExprId e : s_.all_exprs({reader})) arithmetic += Arithmetic(e);
    const double cost = Cost(bytes, arithmetic);
    copying.saved_bytes = cost - Cost(bytes + more_bytes, arithmetic + more_arithmetic);
    copying.least_saved = kLeastSaved * cost;
    return copying;
  }

  double Arithmetic(ExprId e) {  // In bytes.
    --work_;
    return guard_.BytesOfArithmetic(f_, e) *
           static_cast<double>(sizes_.BytesAs(f_.result(e), DType::Bool));
  }

  // What a kernel takes, in bytes: threads compute while others wait for memory, but for a part.
  static double Cost(double bytes, double arithmetic) {
    constexpr double kInTheWay = 0.25;
    return std::max(bytes, arithmetic) + kInTheWay * std::min(bytes, arithmetic);
  }

  // Whether all readers have schedulers with the copies, and plans that are as fast as before.
  bool Accepted(ValId v, absl::Span<Copying> copyings) {
    for (Copying& c : copyings) {
      std::vector<ExprId> exprs = s_.all_exprs(c.reader);
      // A part of the value is less than what would be saved. Beside all of it, at each point, a
      // part may be read as well, if nothing is computed again for that.
      bool reads_part = false, reads_all = false;
      for (ExprId e : exprs) {
        for (int i = 0; i < static_cast<int>(f_.operands(e).size()); ++i) {
          if (f_.operands(e)[i] != v) continue;
          reads_part |= ReadBytes(f_, sizes_, e, i) < sizes_.Bytes(v);
          reads_all |= f_.info(e).op_class == OpClass::Elementwise;
        }
      }
      const bool computes =
          absl::c_any_of(c.exprs, [&](ExprId e) { return guard_.BytesOfArithmetic(f_, e) > 0; });
      if (reads_part && (computes || !reads_all)) return false;
      exprs.insert(exprs.end(), c.exprs.begin(), c.exprs.end());
      std::sort(exprs.begin(), exprs.end());
      GroupSummary with = Summary(exprs);
      const Decision decision = AskGuard(
          guard_, f_, s_.axes(), s_.facts(), [&] { return exprs; }, with);
      if (!decision.ok || decision.late) return false;
      GroupSummary without = s_.summary(c.reader);
      without.num_tensors = s_.num_tensors(c.reader);
      with.num_tensors = without.num_tensors + c.num_reads;
      if (guard_.FractionOfPeak(f_, s_.axes(), sizes_, with) <
          guard_.FractionOfPeak(f_, s_.axes(), sizes_, without)) {
        return false;
      }
      c.scheduler = decision.scheduler;
    }
    return true;
  }

  GroupSummary Summary(const std::vector<ExprId>& exprs) {
    work_ -= static_cast<int64_t>(exprs.size());
    return Summarize(f_, s_.axes(), s_.facts(), exprs);
  }

  // What `from` still computes when the readers have their copies.
  std::vector<ExprId> Needed(ValId v, GroupId from, absl::Span<const Copying> copyings) {
    const bool handed_out = s_.is_result(v) || copyings.size() < s_.readers(s_.buffer_of(v)).size();
    std::vector<ExprId> todo;
    absl::flat_hash_set<ExprId> needed;
    const auto need = [&](ValId u) {
      const ExprId e = f_.definition(u);
      if (e.valid() && s_.computes(from, e) && needed.insert(e).second) todo.push_back(e);
    };
    for (ValId u : s_.outputs(from)) {
      if (u != v || handed_out) need(u);
    }
    for (const Copying& c : copyings) {
      for (ValId u : c.exports) need(u);
    }
    while (!todo.empty()) {
      const ExprId e = todo.back();
      todo.pop_back();
      for (ValId u : f_.operands(e)) need(u);
    }
    std::vector<ExprId> sorted(needed.begin(), needed.end());
    std::sort(sorted.begin(), sorted.end());
    work_ -= static_cast<int64_t>(sorted.size());
    return sorted;
  }

  bool Apply(ValId v, GroupId from, absl::Span<const Copying> copyings, double saved_bytes) {
    const std::vector<ExprId> needed = Needed(v, from, copyings);
    const auto is_needed = [&](ExprId e) {
      return std::binary_search(needed.begin(), needed.end(), e);
    };
    GroupPart rest{s_.exprs(from), s_.copies(from)};
    std::vector<ExprId> leaving;
    for (ExprId e : rest.own) {
      if (!is_needed(e)) leaving.push_back(e);
    }
    const auto drop = [&](std::vector<ExprId>& list) {
      list.erase(std::remove_if(list.begin(), list.end(), [&](ExprId e) { return !is_needed(e); }),
                 list.end());
    };
    drop(rest.own);
    drop(rest.copies);
    // Who takes in what leaves.
    absl::flat_hash_map<GroupId, std::vector<ExprId>> taken;
    for (ExprId e : leaving) {
      const auto taker = std::find_if(copyings.begin(), copyings.end(), [&](const Copying& c) {
        return s_.computes(c.reader, e) || std::binary_search(c.exprs.begin(), c.exprs.end(), e);
      });
      if (taker == copyings.end()) return false;
      taken[taker->reader].push_back(e);
    }
    SchedulerKind scheduler_of_rest = s_.scheduler(from);
    if (!leaving.empty()) {
      if (rest.own.empty()) return false;
      const Decision decision = AskGuard(guard_, f_, s_.axes(), s_.facts(), needed);
      if (!decision.ok || decision.late) return false;
      scheduler_of_rest = decision.scheduler;
    }

    std::vector<GroupId> changed = {from};
    for (const Copying& c : copyings) changed.push_back(c.reader);
    MergeTrial trial = merger_.TrialOf("recompute", changed, static_cast<int64_t>(saved_bytes));
    std::vector<Merger::Remake> remakes;
    for (const Copying& c : copyings) {
      GroupPart part{s_.exprs(c.reader), s_.copies(c.reader)};
      part.copies.insert(part.copies.end(), c.exprs.begin(), c.exprs.end());
      std::sort(part.copies.begin(), part.copies.end());
      remakes.push_back({c.reader, std::move(part), c.scheduler});
    }
    if (!leaving.empty()) {
      remakes.push_back({from, std::move(rest), scheduler_of_rest});
      for (size_t i = 0; i < copyings.size(); ++i) {
        const auto it = taken.find(copyings[i].reader);
        if (it == taken.end()) continue;
        Merger::Remake remake = remakes[i];
        for (ExprId e : it->second) {
          remake.part.own.push_back(e);
          remake.part.copies.erase(
              std::find(remake.part.copies.begin(), remake.part.copies.end(), e));
        }
        std::sort(remake.part.own.begin(), remake.part.own.end());
        remakes.push_back(std::move(remake));
      }
    }
    for (const Merger::Remake& r : remakes)
      work_ -= static_cast<int64_t>(r.part.own.size() + r.part.copies.size());
    merger_.RemakeAll(remakes);
    merger_.RecordCut(std::move(trial), changed);
    return true;
  }

  static constexpr uint32_t kMaxReaders = 64;

  Merger& merger_;
  const SegmentedFusion& s_;
  const Fusion& f_;
  const SizeHints& sizes_;
  const SchedulabilityGuard& guard_;
  absl::flat_hash_set<ExprId> ordered_;  // That something must run after.
  int64_t work_;                         // Left, in expressions that are looked at.
};

}  // namespace

bool RecomputeInReaders(Merger& merger) { return Recomputation(merger).Run(); }

}  // namespace seam
