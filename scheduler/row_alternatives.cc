#include "scheduler/row_alternatives.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "absl/algorithm/container.h"
#include "ir/status.h"
#include "scheduler/alternatives.h"
#include "scheduler/held_steps.h"
#include "scheduler/kept_rows.h"
#include "scheduler/neighbour_ways.h"
#include "scheduler/reduction_arrangements.h"
#include "scheduler/reduction_share.h"
#include "scheduler/schedule_collector.h"
#include "scheduler/schedulers.h"
#include "scheduler/stencils.h"
#include "scheduler/workload.h"

namespace seam {
namespace {

// Columns of a piece that make a cluster's exchange worth its while.
constexpr int64_t kLeastPiece = 4096;
// Bytes of neighbouring rows that a warp reads of a column: from a sector on.
constexpr int64_t kMostPieceBytes = 256;
// Elements of a row that a thread has in hand.
constexpr int kLeastElements = 4, kMostElements = 64;
// Threads of an SM that pay where rows leave some of them idle.
constexpr int kUnevenThreads = 1280;

bool IsPowerOfTwo(int n) { return (n & (n - 1)) == 0; }

// Rows of a reduction, in all the ways in which `chosen` may share and keep them.
class Rows {
 public:
  static absl::StatusOr<std::vector<Schedule>> Of(const SizedGroup& sized, const Schedule& chosen) {
    SEAM_ASSIGN_OR_RETURN(const KeptRows rows, KeptRows::Of(sized, chosen));
    SEAM_ASSIGN_OR_RETURN(const HeldSteps held, HeldSteps::Of(sized, chosen));
    SEAM_ASSIGN_OR_RETURN(const Schedule unshifted, Unshifted(sized, chosen));
    Rows all(sized, chosen, unshifted, rows, held);
    all.FinishOtherwise();
    all.BringOtherwise();
    all.BeginOtherwise();
    if (chosen.neighbours > 1) {
      SEAM_RETURN_IF_ERROR(all.ShareAmongNeighbours());
      return all.Take();
    }
    all.ShareRows();
    SEAM_ASSIGN_OR_RETURN(const std::vector<Schedule> others, OtherPoints(sized, chosen));
    all.HavePoints(others);
    SEAM_RETURN_IF_ERROR(all.ShareInBlocks());
    if (chosen.blocks && !all.fixed_lanes_) {
      // What the heuristic would have taken without blocks, if that shifts rows.
      Schedule s = chosen;
      s.shift = true;
      SEAM_RETURN_IF_ERROR(ChooseVector(sized, 16 / sized.narrowest_bytes, s));
      if (s.shift) all.ShareRowsInVectors(s);
    }
    if (chosen.vector == 1 && !sized.shape.outer && !chosen.tiles &&
        chosen.points_of_thread() == 1) {
      // Single elements, four to a thread.
      Schedule s = chosen;
      SEAM_RETURN_IF_ERROR(
          TakeElements(sized, std::min(kSingleElements, 16 / sized.narrowest_bytes), s).status());
      all.ShareRowsInVectors(s);
    }
    return all.Take();
  }

 private:
  Rows(const SizedGroup& sized, const Schedule& chosen, const Schedule& unshifted,
       const KeptRows& rows, const HeldSteps& held)
      : sized_(sized),
        chosen_(chosen),
        unshifted_(unshifted),
        rows_(rows),
        held_(held),
        device_(sized.context.device),
        states_(ColumnStates(sized)),
        crossed_(sized.shape.crossed()),
        alike_words_(rows.AlikeWords()),
        apart_(MayFinishThere(chosen, chosen.grid) && !chosen.one_launch),
        fixed_lanes_(sized.shape.outer || (sized.beside > 1 && sized.run < sized.columns)),
        collector_(sized, chosen),
        words_(rows) {}

  // In vectors that divide every row.
  static absl::StatusOr<Schedule> Unshifted(const SizedGroup& sized, const Schedule& chosen) {
    Schedule s = chosen;
    if (!chosen.shift) return s;
    s.shift = false;
    SEAM_RETURN_IF_ERROR(ChooseVector(sized, chosen.vector, s));
    for (const SymbolFact& fact : chosen.facts) {
      if (fact.value < 0) continue;
      std::erase_if(s.facts, [&](const SymbolFact& f) { return f.symbol == fact.symbol; });
      s.facts.push_back(fact);
    }
    return s;
  }

  // What CTAs leave in parts can be finished by their own kernel.
  bool MayFinishThere(const Schedule& s, int64_t ctas) const {
    return crossed_ && sized_.shape.batch.empty() && s.cluster == 1 &&
           ctas <= ResidentCtas(s, device_);
  }

  // The chosen one, finished by a kernel of its own instead of the same one, or the other way
  // round; and with the first loads awaited, or not. That it has the registers was chosen.
  void FinishOtherwise() {
    if (chosen_.grid > 0 && MayFinishThere(chosen_, chosen_.grid)) {
      Schedule s = chosen_;
      s.one_launch = !s.one_launch;
      if (!s.one_launch || reduction::HasRoom(sized_, s, /*any=*/true)) Rate(s);
    }
    if (chosen_.stages > 0 && states_ > 0) {
      Schedule s = chosen_;
      s.settled = !s.settled;
      Rate(s);
    }
  }

  // The chosen one, its rows loaded by threads instead of brought by them, or the other way round.
  void BringOtherwise() {
    if (chosen_.outer && chosen_.grid > 0) return;
    Schedule s = chosen_;
    s.async = !s.async;
    if (!s.blocks) s.reread = s.async && s.grid == 0;
    AddOne(s);
  }

  // The chosen one, its clusters all at once.
  void BeginOtherwise() {
    if (chosen_.stagger == 0) return;
    Schedule s = chosen_;
    s.stagger = s.staggered = 0;
    Rate(s);
  }

  // Several rows to a thread, with more lanes a row.
  void HavePoints(const std::vector<Schedule>& others) {
    for (Schedule s : others) {
      if (!s.persistent || s.outer || s.warps_per_row > 1) continue;
      for (; s.lanes_per_row <= 32; s.lanes_per_row *= 2) {
        const int64_t vectors = CeilDivide(VectorsOf(sized_, s), s.lanes_per_row);
        s.registers = static_cast<int>(std::max<int64_t>(1, vectors));
        if (s.points_of_thread() * s.registers * s.vector > kMostElements) continue;
        for (const int ctas : {0, 4}) {
          s.min_ctas_per_sm = ctas;
          const bool fit = ctas * s.threads() <= device_.max_threads_per_sm;
          if (fit && CheckSchedule(s).ok()) Rate(s);
        }
      }
    }
  }

  // Lanes lie along what is contiguous; where that is the columns, lanes and warps are for rows of
  // any length, else the lanes stay and warps go down the columns.
  void ShareRows() {
    // Narrower vectors pay where rows start anywhere, or where lanes lie along rows.
    const int least = chosen_.shift ? 2 : chosen_.outer ? 1 : chosen_.vector;
    for (int vector = chosen_.vector; vector >= least; vector /= 2) {
      Schedule s = chosen_;
      s.vector = vector;
      ShareRowsInVectors(s);
    }
    if (chosen_.shift) ShareRowsInVectors(unshifted_);
  }

  // Nothing brought, kept by turns or left to others.
  static Schedule Plain(Schedule s) {
    s.split = s.cluster = s.slices = 1;
    s.grid = s.stages = s.spare = s.pace = s.held = 0;
    s.reread = s.async = s.blocks = s.runs = s.tickets = s.early = s.one_launch = false;
    s.settled = false;
    s.stagger = s.staggered = 0;
    return s;
  }

  void ShareRowsInVectors(const Schedule& shared) {
    const Schedule s = Plain(shared);
    if (s.tiles) {
      ShareInTiles(s);
    } else if (fixed_lanes_) {
      ShareAmongWarps(s);
    } else {
      ShareAmongThreads(s);
    }
  }

  // Tiles of more or fewer columns, to more or fewer lanes.
  void ShareInTiles(Schedule s) {
    s.persistent = true;
    for (s.registers = 2; s.registers * s.vector <= kMostElements; s.registers *= 2) {
      for (s.lanes_per_row = 2; s.lanes_per_row <= 16; s.lanes_per_row *= 2) {
        const int64_t warps = CeilDivide(sized_.columns, int64_t{s.lanes_per_row} * s.registers);
        if (warps > 32) continue;
        s.warps_per_row = static_cast<int>(warps);
        for (s.row_warps = 1; s.threads() <= 1024; s.row_warps *= 2) AskForThreads(s);
      }
    }
  }

  // Neighbours that are rows in all ways, the fastest by estimate also with statistics in one pass,
  // and asking an SM for one CTA less; and read again.
  absl::Status ShareAmongNeighbours() {
    constexpr size_t kMostWays = kMostAlternatives * 2 / 3, kVaried = 8;
    Schedule s = Plain(chosen_);
    s.chan_welford = false;
    SEAM_RETURN_IF_ERROR(ChooseVector(sized_, 16 / sized_.narrowest_bytes, s));
    std::vector<Schedule> ways = reduction::NeighbourWays(sized_, rows_, s);
    for (size_t i = 0; i < ways.size() && ways_.size() < kMostWays; ++i) {
      std::vector<Schedule> varied = {ways[i]};
      if (i < kVaried) {
        varied.push_back(ways[i]);
        varied.back().chan_welford = true;
        varied.push_back(ways[i]);
        --varied.back().min_ctas_per_sm;
      }
      for (Schedule& way : varied) {
        reduction::ChooseStagger(sized_, way);
        way.together = static_cast<int>(std::min<int64_t>(way.together, way.most_together()));
        way.one_launch =
            MayFinishThere(way, CeilDivide(sized_.rows, way.rows_per_cta())) && !apart_;
        if (way.min_ctas_per_sm > 0 && collector_.Takes(way) && CheckSchedule(way).ok() &&
            RoomFor(way) >= 0 && !absl::c_linear_search(ways_, way)) {
          ways_.push_back(std::move(way));
        }
      }
    }
    for (s.lanes_per_row = 1; s.lanes_per_row <= 32; s.lanes_per_row *= 2)
      if (s.rows_per_cta() % s.neighbours == 0) ReadRowsAgain(s);
    return absl::OkStatus();
  }

  // The ways, then the others.
  std::vector<Schedule> Take() {
    std::vector<Schedule> list = std::move(ways_);
    for (Schedule& s : collector_.Take())
      if (list.size() < kMostAlternatives) list.push_back(std::move(s));
    return list;
  }

  // Short rows through shared memory: lanes a row, rows a block, in registers or read again from
  // there. Of rows in pieces a thread has a piece, as the heuristic has it.
  absl::Status ShareInBlocks() {
    Schedule s = unshifted_;
    if (s.outer || s.vector * sized_.widest_bytes >= 16 || (fixed_lanes_ && !s.runs))
      return absl::OkStatus();
    s.blocks = s.persistent = true;
    s.split = s.cluster = s.slices = 1;
    s.grid = s.stages = s.spare = s.pace = s.held = 0;
    s.async = s.tickets = s.settled = s.early = s.one_launch = s.chan_welford = false;
    if (!fixed_lanes_) s.warps_per_row = 1;
    const int threads_per_row = s.lanes_per_row * s.warps_per_row;
    PinColumns(sized_, s);
    // Copies bring blocks if all of them are multiples of 16 bytes.
    Schedule ahead = s;
    AddDivisibility(sized_, 16 / sized_.narrowest_bytes, ahead);
    SEAM_ASSIGN_OR_RETURN(KeptRows rows, KeptRows::Of(sized_, ahead));
    rows_ahead_.emplace(std::move(rows));
    facts_ahead_ = ahead.facts;
    for (s.lanes_per_row = 1; s.lanes_per_row <= 32; s.lanes_per_row *= 2) {
      const int64_t vectors = CeilDivide(sized_.columns, s.vector);
      if (fixed_lanes_) {
        s.warps_per_row = static_cast<int>(CeilDivide(threads_per_row, s.lanes_per_row));
      } else {
        s.registers = static_cast<int>(CeilDivide(vectors, s.lanes_per_row));
      }
      if (s.registers * s.vector > kMostElements) continue;
      for (s.row_warps = 1; s.row_warps * s.warps_per_row <= 16; s.row_warps *= 2) {
        const bool few = s.row_warps * s.warps_per_row < 4;
        for (const bool reread : {false, true}) {
          s.reread = reread;
          s.async = chosen_.async;
          if (!few && BlockBytes(s) > 0) AskForThreads(s);
        }
      }
    }
    return absl::OkStatus();
  }

  void ShareAmongThreads(Schedule s) {
    for (int cluster = 1; cluster <= device_.max_cluster; cluster *= 2) {
      const bool whole = s.vector > 1 && sized_.columns >= kLeastPiece * cluster;
      if (cluster > 1 && !whole) break;
      const int64_t vectors = CeilDivide(VectorsOf(sized_, s), cluster);
      for (const int registers : {1, 2, 3, 4, 5, 6, 8, 16, 32, 64}) {
        if (registers * s.vector < kLeastElements || registers * s.vector > kMostElements) continue;
        if (IsEven() && !IsPowerOfTwo(registers)) continue;
        const int64_t threads = CeilDivide(CeilDivide(vectors, registers), 32) * 32;
        if (threads > 1024 || threads * registers > vectors + vectors / 4 + 31) continue;
        s.cluster = cluster;
        s.registers = registers;
        s.lanes_per_row = 32;
        s.warps_per_row = static_cast<int>(threads / 32);
        KeepRows(s, cluster > 1);
      }
      // Rows that share a warp: as many vectors a thread as it takes.
      s.warps_per_row = 1;
      for (int lanes = 1; cluster == 1 && lanes < 32; lanes *= 2) {
        const int64_t registers = CeilDivide(vectors, lanes);
        if (registers * s.vector > kMostElements) continue;
        s.lanes_per_row = lanes;
        s.registers = static_cast<int>(registers);
        KeepRows(s, false);
      }
    }
    s.cluster = 1;
    s.lanes_per_row = 32;
    ReadRowsAgain(s);
  }

  // Of rows that are neighbours lanes take pieces of several lengths, of interleaved ones those
  // that the heuristic has; the other lanes and the warps go down the columns.
  void ShareAmongWarps(Schedule s) {
    std::vector<int> lanes = {chosen_.lanes_per_row};
    if (s.outer) {
      lanes.clear();
      for (int n = 1; n <= 32; n *= 2) {
        const int64_t bytes = int64_t{32} / n * s.vector * sized_.widest_bytes;
        if (bytes >= kSectorBytes && bytes <= kMostPieceBytes) lanes.push_back(n);
      }
    }
    for (const int n : lanes) {
      s.lanes_per_row = n;
      const int64_t vectors = CeilDivide(sized_.columns, int64_t{n} * (s.outer ? 1 : s.vector));
      for (int warps = 1; warps <= 32; warps *= 2) {
        s.warps_per_row = warps;
        s.registers = static_cast<int>(std::min<int64_t>(CeilDivide(vectors, warps), 256));
        if (warps > vectors || int64_t{s.registers} * warps < vectors) continue;
        KeepRows(s, false);
      }
      ReadRowsAgain(s);
    }
  }

  // Rows that the CTA or the cluster covers at once.
  void KeepRows(Schedule s, bool in_cluster) {
    s.persistent = true;
    s.chan_welford = false;
    if (Words(s) + s.registers * s.vector * states_ > kMostWords) return;
    // Rows that start at different places, or that a cluster shares, are a CTA's only one.
    const bool alone = in_cluster || (s.shift && crossed_);
    for (const int cta_threads : {128, 256}) {
      const int row_warps = alone ? 1 : std::max(1, cta_threads / 32 / s.warps_per_row);
      if (cta_threads > 128 && row_warps == 1) continue;
      s.row_warps = row_warps;
      AskForThreads(s);
    }
  }

  // Longer rows, or shorter ones of which a second pass finds much in the cache.
  void ReadRowsAgain(Schedule s) {
    if (states_ > 0 && chosen_.persistent) return;  // Their states would go to memory.
    s.persistent = false;
    s.chan_welford = true;
    if (s.neighbours == 1) s.row_warps = 1;
    for (const int warps : {4, 8, 16, 32}) {
      for (int registers = 1; registers <= 8; registers *= 2) {
        s.warps_per_row = warps;
        s.registers = registers;
        if (registers * s.vector > kMostElements / 2 || s.columns_per_step() > 2 * sized_.columns ||
            Words(s) > kMostWords / 2) {
          continue;
        }
        AskForThreads(s);
        ShareAmongCtas(s);
      }
    }
  }

  // Few rows: several CTAs for each.
  void ShareAmongCtas(Schedule s) {
    if (crossed_) return;
    const int64_t ctas = CeilDivide(sized_.rows, s.rows_per_cta());
    const int64_t steps = CeilDivide(sized_.columns, s.columns_per_step());
    if (s.shift) {  // Such rows are not split where they start aligned.
      s.shift = false;
      s.vector = unshifted_.vector;
      s.facts = unshifted_.facts;
    }
    for (const int waves : {1, 2, 4}) {
      const int64_t split = std::min<int64_t>({waves * device_.sms / ctas, steps, 65535});
      if (split < 2) continue;
      s.split = static_cast<int>(split);
      for (const int threads : {512, 1024, 2048}) {
        s.min_ctas_per_sm = std::max(1, threads / s.threads());
        const bool meet = ctas * split <= ResidentCtas(s, device_);
        for (const bool one_launch : {false, true}) {
          if (one_launch && !meet) continue;
          s.one_launch = one_launch;
          s.held = 0;
          Add(s);
          // As many steps as stay on the chip, or none.
          if (one_launch) s.held = held_.Most(s);
          if (s.held > 0) Add(s);
        }
      }
    }
  }

  // How far it is from the heuristic's in what matters least or costs registers.
  int Steps(const Schedule& s) const {
    int steps = (s.chan_welford && s.persistent) + (s.early != chosen_.early) +
                (s.online != chosen_.online) + (s.facts != chosen_.facts) +
                (s.stages != chosen_.stages && (s.stages == 1 || s.stages == 2)) +
                (s.slices != chosen_.slices) + 2 * s.reread +
                (s.row_warps != chosen_.row_warps && s.row_warps > 1 && s.threads() > 128);
    for (int vector = s.vector; vector < chosen_.vector; vector *= 2) steps += 2;
    return steps;
  }

  // Threads that an SM is asked to hold: more hide latency, fewer leave each more registers.
  void AskForThreads(Schedule s) {
    std::vector<int> asked;
    for (const int threads : {256, 384, 512, 768, 1024, kUnevenThreads, 1536}) {
      if (threads == kUnevenThreads && IsEven()) continue;
      s.min_ctas_per_sm = std::max(1, threads / s.threads());
      if (s.min_ctas_per_sm * s.threads() > device_.max_threads_per_sm ||
          absl::c_linear_search(asked, s.min_ctas_per_sm))
        continue;
      asked.push_back(s.min_ctas_per_sm);
      TakeInTurn(s);
    }
  }

  // A CTA for each set of rows, or rows in turn, for clusters to load or brought ahead.
  void TakeInTurn(Schedule s) {
    const int64_t sets = CeilDivide(sized_.rows, s.rows_per_cta());
    s.grid = 0;
    if (s.outer ? sized_.shape.crosses_all_rows() : crossed_ && s.cluster == 1) {
      if (s.outer) s.async = chosen_.async;
      const int64_t most = chosen_.persistent ? ResidentCtas(s, device_) : chosen_.grid;
      if (!SetGrid(s, sets, most)) return;
    }
    s.one_launch = MayFinishThere(s, s.grid > 0 ? s.grid : sets) && !apart_;
    if (s.cluster == 1 || s.outer) Toggle(s);
    if (!s.persistent || s.outer || fixed_lanes_ || device_.max_cluster == 1) return;
    const int64_t held = ResidentCtas(s, device_);
    if (!SetGrid(s, sets * s.cluster, held)) return;
    if (s.cluster == 1 && sets <= s.grid * std::max<int64_t>(1, sized_.batches))
      return;  // No CTA takes a second turn.
    s.one_launch = MayFinishThere(s, s.grid) && !apart_;
    if (s.cluster > 1) Toggle(s);
    if (s.blocks) s.facts = facts_ahead_;
    s.stages = 2;
    s.async = false;
    s.settled = chosen_.settled;
    const int64_t stage = (s.blocks ? *rows_ahead_ : rows_).StageBytes(s);
    const int64_t room = RoomFor(s);
    for (const int stages : {3, 2, 1}) {
      if (stage == 0 || stages * stage > room) continue;
      if (stages == 1 && 2 * stage <= room) continue;
      s.stages = stages;
      for (const bool reread : {false, true}) {
        s.reread = reread;
        for (const bool tickets : {false, true}) {
          s.tickets = tickets;
          const bool any_order = !sized_.shape.crosses_all_rows() || sized_.context.any_order;
          if (tickets && (s.shift || stages == 1 || !any_order)) continue;
          for (s.pace = 0; s.pace <= (tickets ? 0 : 2); ++s.pace) {
            Toggle(s);
            if (stages == 1 && reread && s.pace == chosen_.pace) BringInSlices(s, stage, room);
          }
        }
      }
    }
  }

  // A single stage in slices, with as many more of them as have room.
  void BringInSlices(Schedule s, int64_t stage, int64_t room) {
    for (const int slices : {2, 4, 8}) {
      if (s.registers % slices != 0) break;
      s.slices = slices;
      s.spare = static_cast<int>(std::min<int64_t>((room - stage) * slices / stage, slices - 1));
      Toggle(s);
    }
  }

  // As many CTAs as there is work for, of shifted rows up to the next step, or all clusters that
  // are held if the heuristic takes all, of batches by their own rule. False: not even one step of
  // them is held.
  bool SetGrid(Schedule& s, int64_t wanted, int64_t most) const {
    if (!sized_.shape.batch.empty()) return reduction::ChooseTeams(sized_, s);
    const bool in_stretches = s.cluster > 1 && chosen_.stretches() > 1;
    const int64_t step = in_stretches ? s.cluster : s.grid_step();
    const int64_t ctas = s.shift ? CeilDivide(wanted, step) * step : wanted;
    s.grid = static_cast<int>(std::min({ctas, most, int64_t{65535}}) / step * step);
    return s.grid > 0;
  }

  // Weights ahead of the first reduction; the row's length as a constant, where no mask is left.
  void Toggle(const Schedule& plain) {
    for (const bool early : {false, true}) {
      if (early && alike_words_ == 0) continue;
      Schedule s = plain;
      s.early = early;
      Add(s);
      if (!s.persistent || s.blocks || s.columns_at_once() != sized_.columns) continue;
      PinColumns(sized_, s);
      if (s.facts != plain.facts) Add(s);
    }
  }

  // With and without sums of exponentials in the pass of their maxima, where that may pay.
  void Add(Schedule s) {
    for (const bool online : {false, true}) {
      if (online && !rows_.GainsOnline(s)) continue;
      s.online = online;
      AddOne(s);
    }
  }

  void AddOne(Schedule s) {
    s.stagger = s.staggered = 0;
    reduction::ChooseStagger(sized_, s);
    s.together = static_cast<int>(std::min<int64_t>(s.together, s.most_together()));
    if (!CheckSchedule(s).ok()) return;
    const int ctas = std::max(1, s.min_ctas_per_sm);
    const int registers = std::min(255, device_.registers_per_sm / (s.threads() * ctas) / 8 * 8);
    if (HeldWords(s) + ScheduleCollector::kOtherWords <= registers && RoomFor(s) >= 0) Rate(s);
  }

  // Rows that powers of two of whole warps divide: other shares would leave threads idle.
  bool IsEven() const { return VectorsOf(sized_, chosen_) % 64 == 0; }

  // Registers of a thread for what it holds.
  double HeldWords(const Schedule& s) {
    const int points = s.registers * s.vector;
    double words = (s.reread ? 0 : Words(s)) + points * states_;
    // Weights that are early or for all turns stay; narrow data are unpacked while the next come.
    if (s.grid > 0 || s.early) words += points * alike_words_;
    if (s.stages > 0 && sized_.widest_bytes < 4) words += points;
    return words;
  }

  void Rate(const Schedule& s) {
    const double element_bytes = sized_.input_words * 4;
    double bytes = element_bytes * s.registers * s.vector;
    if (s.stages > 0) bytes *= std::max(0.5, s.stages - 1.0);
    // Of all passes the first brings what is read, the last writes.
    const double again = 1 - held_.Share(s, s.held);
    const int passes = std::max(1, sized_.shape.max_depth - s.online);
    const double reads = s.persistent ? 1 : 1.0 + 0.5 * again * passes;
    collector_.Add(s, collector_.Cost(s, HeldWords(s), bytes, reads), Steps(s));
  }

  // Bytes of shared memory that a CTA has for stages.
  int64_t RoomFor(const Schedule& s) const {
    return device_.smem_bytes_per_cta / std::max(1, s.min_ctas_per_sm) - kOtherSharedBytes -
           rows_.StateBytes(s) - (s.blocks ? BlockBytes(s) : 0) -
           (s.async && !s.blocks ? rows_.AsyncBytes(s) : 0);
  }

  int64_t BlockBytes(const Schedule& s) const {
    const auto [it, is_new] = block_bytes_.try_emplace(
        {s.rows_per_cta(), s.columns_per_step(), s.reread, s.stages > 0}, 0);
    if (is_new) it->second = (s.stages > 0 ? *rows_ahead_ : rows_).BlockBytes(s);
    return it->second;
  }

  // Registers of a thread for what it keeps of a row.
  double Words(const Schedule& s) { return words_.Of(s); }

  const SizedGroup& sized_;
  const Schedule& chosen_;
  const Schedule unshifted_;
  const KeptRows& rows_;
  const HeldSteps& held_;
  const DeviceInfo& device_;
  const int states_;
  const bool crossed_;
  const double alike_words_;
  const bool apart_;  // The chosen one is finished by a kernel of its own, though it need not be.
  const bool fixed_lanes_;
  ScheduleCollector collector_;
  std::vector<Schedule> ways_;  // Of neighbours that are rows.
  WordsByPoints words_;
  // By rows, columns, whether they are read again, and brought ahead.
  mutable std::map<std::tuple<int64_t, int64_t, bool, bool>, int64_t> block_bytes_;
  // Blocks brought ahead: what these ask for, and the facts that they need.
  std::optional<KeptRows> rows_ahead_;
  std::vector<SymbolFact> facts_ahead_;
};

}  // namespace

absl::StatusOr<std::vector<Schedule>> RowAlternatives(const SizedGroup& sized,
                                                      const Schedule& chosen) {
  return Rows::Of(sized, chosen);
}

}  // namespace seam
