// One run of a kernel: what the statements are compiled to, and the state of the cluster of CTAs
// that is running; a kernel without clusters has clusters of one CTA.
//
// The kernel's statements are numbered and their integer expressions compiled once (prepare.cc);
// then every cluster walks those of a phase with the set of its active threads (execute.cc), and
// after the last one the next phase begins. The threads of a cluster are numbered one CTA after the
// other. Fragments lie slot by slot, all threads of a slot together, so that one call evaluates an
// operation for the whole cluster; so do the CTAs' parts of a shared array.
// Thread-safety: none.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ir/scalar.h"
#include "runtime/simulator/async_loads.h"
#include "runtime/simulator/bulk_copies.h"
#include "runtime/simulator/index_evaluator.h"
#include "runtime/simulator/race_tracker.h"
#include "runtime/simulator/remote_stores.h"
#include "runtime/simulator/simulator.h"

namespace seam::simulator {

// An integer expression at its place: a constant, or a handle of the evaluator.
struct Expr {
  int id = -1;
  int64_t constant = 0;
};

struct CompiledOperand {
  int fragment = -1;
  Expr slot;
  DType dtype = DType::F32;
  const Scalar* constant = nullptr;  // [threads]
};

// A statement with its expressions in the order in which its kind names them, and the blocks inside
// it.
struct CompiledStmt {
  const kernel::Stmt* stmt;
  int number;
  Expr slot, index, predicate, barrier, cta;
  int64_t lo = 0, hi = 0;  // Of the symbol that it binds.
  std::vector<CompiledOperand> operands;
  std::vector<CompiledStmt> body, otherwise;
};
using CompiledBlock = std::vector<CompiledStmt>;

// One memory that kernels address: a buffer or a shared array.
struct Memory {
  absl::string_view name;
  DType dtype;
  int64_t num_elements;  // Of a shared one: of each CTA's part.
  char* data;            // In the memory format.
  uint8_t* initialized;  // Null: everything is.
  RaceTracker* tracker;  // Null: nobody writes.
  bool tracks_reads = false;
  bool read_only = false;
  bool shared = false;
  int array = -1;          // Of a shared one: its number.
  bool exchanged = false;  // Other CTAs of the cluster store to it.
  bool lasting = false;    // Each CTA of the grid has a part.
};

class Simulation {
 public:
  Simulation(const kernel::Kernel& kernel, const SimOptions& options)
      : kernel_(kernel),
        options_(options),
        cta_threads_(kernel.threads),
        threads_(kernel.threads * kernel.cluster),
        integers_(threads_, kernel.index32) {}

  absl::Status Prepare(absl::Span<const SimBuffer> buffers, absl::Span<const int64_t> parameters);
  absl::Status Run();

 private:
  static constexpr int kWarp = 32;
  using Lanes = std::vector<int>;  // Active threads of the cluster, ascending.
  using SymbolLookup = absl::FunctionRef<std::optional<int64_t>(const SymNode*)>;

  // Preparation.
  absl::Status BindBuffers(absl::Span<const SimBuffer> buffers, SymbolLookup lookup);
  void DeclareSymbols(const kernel::Block& block, absl::flat_hash_set<const SymNode*>* declared);
  Expr CompileExpr(SymInt e);
  CompiledOperand CompileOperand(const kernel::Operand& operand);
  CompiledBlock CompileBlock(const kernel::Block& block);
  static void FindReads(const kernel::Block& block, std::vector<uint8_t>* buffers,
                        std::vector<uint8_t>* shared, std::vector<uint8_t>* exchanged);

  // Execution.
  absl::Status RunCluster(int64_t cluster, const CompiledBlock& phase);
  absl::Status RunBlock(const CompiledBlock& block, const Lanes& lanes);
  absl::Status Execute(const CompiledStmt& s, const kernel::For& node, const Lanes& lanes);
  absl::Status Execute(const CompiledStmt& s, const kernel::Leave& node, const Lanes& lanes);
  absl::Status Execute(const CompiledStmt& s, const kernel::If& node, const Lanes& lanes);
  absl::Status Execute(const CompiledStmt& s, const kernel::Load& node, const Lanes& lanes);
  absl::Status Execute(const CompiledStmt& s, const kernel::Store& node, const Lanes& lanes);
  absl::Status Execute(const CompiledStmt& s, const kernel::Map& node, const Lanes& lanes);
  absl::Status Execute(const CompiledStmt& s, const kernel::IndexValue& node, const Lanes& lanes);
  absl::Status Execute(const CompiledStmt& s, const kernel::LetSymbol& node, const Lanes& lanes);
  absl::Status Execute(const CompiledStmt& s, const kernel::Random& node, const Lanes& lanes);
  absl::Status Execute(const CompiledStmt& s, const kernel::ShuffleXor& node, const Lanes& lanes);
  absl::Status Execute(const CompiledStmt& s, const kernel::TakeTicket& node, const Lanes& lanes);
  absl::Status Execute(const CompiledStmt& s, const kernel::AwaitTickets& node, const Lanes& lanes);
  absl::Status Execute(const CompiledStmt& s, const kernel::CtaSync& node, const Lanes& lanes);
  absl::Status Execute(const CompiledStmt& s, const kernel::Pause& node, const Lanes& lanes);
  absl::Status Execute(const CompiledStmt& s, const kernel::ClusterSync& node, const Lanes& lanes);
  absl::Status Execute(const CompiledStmt& s, const kernel::RemoteStore& node, const Lanes& lanes);
  absl::Status Execute(const CompiledStmt& s, const kernel::AwaitStores& node, const Lanes& lanes);
  absl::Status Execute(const CompiledStmt&, const kernel::KeepPacked&, const Lanes&) {
    return absl::OkStatus();
  }
  absl::Status Execute(const CompiledStmt&, const kernel::AwaitLoaded&, const Lanes&) {
    return absl::OkStatus();
  }
  absl::Status Execute(const CompiledStmt& s, const kernel::BulkCopy& node, const Lanes& lanes);
  absl::Status Execute(const CompiledStmt& s, const kernel::AwaitCopies& node, const Lanes& lanes);
  absl::Status Execute(const CompiledStmt& s, const kernel::AsyncLoad& node, const Lanes& lanes);
  absl::Status Execute(const CompiledStmt& s, const kernel::AwaitLoads& node, const Lanes& lanes);
  absl::Status Execute(const CompiledStmt&, const kernel::GridSync&, const Lanes&) {
    return absl::OkStatus();  // Ends a phase; Run takes the next one's CTAs.
  }
  absl::Status Execute(const CompiledStmt&, const kernel::Comment&, const Lanes&) {
    return absl::OkStatus();
  }

  // Pieces of statements.
  absl::Status StartCopy(const CompiledStmt& s, const kernel::BulkCopy& node, int thread);
  // A thread copies an element to one of shared memory.
  absl::Status CopyElement(const CompiledStmt& s, const Memory& to, int64_t to_element,
                           const Memory& from, int64_t from_element, int thread);
  absl::Status RequireAll(const CompiledStmt& s, absl::string_view what, const Lanes& lanes);
  // Where elements of the CTAs' parts of a shared array lie, of which each thread means its own's.
  bool IsInParts(const Memory& memory) const {
    return memory.shared && (kernel_.cluster > 1 || memory.lasting);
  }
  const int64_t* InParts(const Memory& memory, const int64_t* index, const Lanes& lanes);
  absl::Status CheckArrived(const CompiledStmt& s, const Memory& memory, int64_t element,
                            int thread);
  absl::Status CheckExpr(const CompiledStmt& s, const Expr& e, const Lanes& lanes);
  // The threads of `lanes` for which `e` holds; either `lanes` itself or `*storage`.
  absl::StatusOr<const Lanes*> Select(const CompiledStmt& s, const Expr& e, const Lanes& lanes,
                                      Lanes* storage);
  const int64_t* Values(const Expr& e);  // [threads], valid until the next call.
  absl::StatusOr<int> SlotOf(const CompiledStmt& s, int fragment, const Expr& slot, int width,
                             const Lanes& lanes);
  Scalar* Row(int row) { return registers_.data() + static_cast<size_t>(row) * threads_; }
  void MarkWritten(int row, const Lanes& lanes);
  absl::Status RequireWritten(const CompiledStmt& s, int row, const Lanes& lanes);
  absl::StatusOr<const Scalar*> Read(const CompiledStmt& s, const CompiledOperand& operand,
                                     const Lanes& lanes);
  template <typename Access>
  absl::Status CheckAddresses(const CompiledStmt& s, const Access& node, const Memory& memory,
                              const int64_t* index, const Lanes& lanes);
  template <typename Visit>
  static void ForEachRun(const Lanes& lanes, const int64_t* index, Visit visit);

  int RankOf(int thread) const { return kernel_.cluster == 1 ? 0 : thread / cta_threads_; }
  int InCta(int thread) const { return kernel_.cluster == 1 ? thread : thread % cta_threads_; }
  Moment Now(int thread) const {
    return {interval_,       static_cast<uint32_t>(cta_) + RankOf(thread),
            InCta(thread),   first_of_phase_,
            first_interval_, first_interval_};
  }
  // For an access of that memory.
  Moment Now(const Memory& memory, int thread) const {
    Moment now = Now(thread);
    if (memory.lasting) now.began = options_.phase_by_phase ? first_of_phase_ : 1;
    if (!memory.exchanged) return now;
    now.interval = now.synced = remote_stores_.interval();
    now.phase = now.began = remote_stores_.first_interval();
    return now;
  }
  absl::Status Fault(const CompiledStmt& s, int thread, absl::string_view what);
  absl::Status Spend(int64_t steps) {
    steps_ += steps;
    if (steps_ <= options_.max_steps) return absl::OkStatus();
    return absl::ResourceExhaustedError(absl::StrCat("kernel ", kernel_.name, ": more than ",
                                                     options_.max_steps, " steps, in CTA ", cta_));
  }

  const kernel::Kernel& kernel_;
  const SimOptions& options_;
  const int cta_threads_, threads_;  // Of a CTA and of a cluster.
  IndexEvaluator integers_;
  int64_t grid_ = 0;
  std::vector<CompiledBlock> phases_;  // Each ends with a barrier of the grid, but for the last.
  std::vector<Memory> buffers_, shared_;
  std::vector<std::unique_ptr<RaceTracker>> trackers_;
  std::vector<std::unique_ptr<Scalar[]>> constants_;
  std::vector<char> shared_bytes_;
  BulkCopies copies_;
  AsyncLoads loads_;
  RemoteStores remote_stores_;

  std::vector<int> first_row_;      // By fragment: row of its slot 0.
  std::vector<Scalar> registers_;   // [rows, threads]
  std::vector<uint8_t> written_;    // [rows, threads]
  std::vector<int> written_count_;  // [rows]
  std::vector<Scalar> scratch_[4];  // [threads] each.
  std::vector<int64_t> broadcast_;  // [threads]
  std::vector<int64_t> in_parts_;   // [threads]

  Lanes all_;
  int next_number_ = 0;
  int64_t cta_ = 0;                                  // The first of the cluster.
  bool leaving_ = false;                             // The loop at hand.
  int64_t tickets_taken_ = 0, cluster_tickets_ = 0;  // In all, and by this cluster.
  std::optional<int64_t> tickets_in_all_;
  int64_t steps_ = 0;
  // Intervals: this one, the first of the cluster and of the phase.
  uint32_t interval_ = 0, first_interval_ = 0, first_of_phase_ = 1;
  bool begun_ = false;  // All CTAs of the cluster.
};

}  // namespace seam::simulator
