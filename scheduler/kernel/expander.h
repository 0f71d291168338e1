// The state of one expansion, shared by the files that write its parts; ExpandTile is its
// interface.
//
//   expand.cc          the passes, each a loop over steps of columns
//   expand_places.cc   which rows and columns a thread has, and masks
//   expand_levels.cc   which values a pass needs, how often, and when they are loaded
//   expand_values.cc   loads, arithmetic, stores
//   expand_neutral.cc  what holds outside the mask, so that reductions need none
//   expand_folds.cc    reductions: within a thread, a warp, a CTA, a cluster
//   expand_pairs.cc    extrema of 16-bit data, two elements at once
//   expand_online.cc   sums of exponentials in the pass of their maxima
//   expand_rows.cc     states of vectors of rows, merged a row a thread
//   expand_row_values.cc  what follows from those states, a row a thread
//   expand_kept.cc     reductions that keep some of a row's columns
//   expand_stretches.cc  rows in the order of where they start
//   expand_turns.cc    CTAs that take rows in turn: rows brought ahead, states across rows
//   expand_merge_rows.cc   the states of a CTA's rows, merged before it leaves them
//   expand_async.cc    rows that threads bring to shared memory themselves
//   expand_tiles.cc    threads with tiles, moved in vectors along rows or columns
//   expand_blocks.cc   rows that go through shared memory together
//   expand_tickets.cc  CTAs that take the next rows that nobody has
//   expand_held.cc     steps that stay in shared memory from phase to phase
//
// Thread-safety: none; one expansion has one Expander.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "scheduler/kernel/access.h"
#include "scheduler/kernel/block_writer.h"
#include "scheduler/kernel/expand.h"
#include "scheduler/kernel/hold.h"
#include "scheduler/kernel/kept_window.h"
#include "scheduler/kernel/reduction_state.h"
#include "scheduler/kernel/row_blocks.h"
#include "scheduler/kernel/rows_ahead.h"

namespace seam::kernel {

class Expander {
 public:
  Expander(const TileKernel& tile, const ExpandOptions& options)
      : tile_(tile), options_(options), w_(&out_) {}

  absl::StatusOr<Kernel> Run();

 private:
  // A value is computed at the lowest level that can hold it:
  //   row     it does not depend on the column: once a thread, before the pass that first needs it;
  //   unit    it depends on the column but is the same for a whole vector: once a register step;
  //   element everything else: inside the innermost loop.
  enum class Level : uint8_t { kConstant, kRow, kUnit, kElement };

  // What a value is where the mask does not hold.
  enum class Outside : uint8_t { kZero, kZeroIfCleared, kAnything };

  struct ThreadCoordinates {
    SymInt row;        // Over v when vectors lie along rows.
    SymInt row_local;  // Row within the CTA.
    SymInt column;     // Within one step, over u and, when vectors lie along columns, v.
    SymInt column_lane, column_warp;  // Which of the row's threads this one is.
    SymInt first, in_first;  // Of an odd run: its first column, and whose place in the first pair.
    std::vector<int> column_lane_masks, row_lane_masks;
    int64_t rows_per_cta = 1, column_warps = 1;
  };

  // How the columns of one space are addressed and masked.
  struct SpaceState {
    SymInt extent;
    SymInt step;  // Loop symbol; absent (constant 0) when one step covers the space.
    SymInt steps = 1;
    SymInt column;    // Over u, v and step.
    SymInt end;       // Of the row's columns, or of those of the CTA's piece where a cluster cuts
                      // evenly.
    SymInt mask = 1;  // column is inside, over u, v and step.
    std::unique_ptr<SymImporter> importer;
    std::vector<SymInt> lets;        // What stands for the tile's there, if that is its own.
    std::map<TileId, int> resident;  // Loads and computed values held in fragments between passes.
    bool persistent = false;
  };

  // What is another thing where a thread has one row instead of a vector of them.
  struct RowView {
    ThreadCoordinates at;
    SymInt row_mask = 1;
    SymInt u, v = 0;
    int64_t registers = 1;
    int vector = 1;
    bool outer = false, tiles = false;
    std::map<int, std::vector<int>> states;
    std::map<TileId, int> row_values;
  };

  // A value of the row, and where its first thread has left it.
  struct RowValue {
    TileId id;
    int array;
  };

  // Loads of the step that comes next: into the fragments of this one, as soon as it is done with
  // them.
  struct NextStep {
    SpaceState at;
    bool backward = false;  // From the last step to the first.
    std::map<TileId, int> fragments;
  };

  // What differs between the body of a row and its ends; the other of them, while one is written.
  struct Ends {
    SymInt element;  // Which of the ends' elements a thread has.
    SymInt head;     // Columns before the body: fewer than a vector.
    int vector = 1;
    int64_t registers = 1;
    SymInt u, v;
    int64_t slot = 0;
    std::vector<SpaceState> spaces;
    std::vector<SymInt> lets;
    std::vector<Level> levels;
    std::vector<TileId> early, late;
  };

  // Where a value of the current pass is: the slot as an expression of u and v.
  struct FragmentSlot {
    int fragment;
    SymInt slot;
  };

  // The state of a reduction while a thread folds its elements. That of a Welford reduction is
  // shifted then: sums of x - pivot and of its square, and how many there are. `pivot` is the mean
  // of the first step's elements, one part in as many as there are steps: the squares' rounding
  // errors, relative to the squared deviations from the mean, grow by that factor at most.
  // Where states are merged it is the mean of those of the first step, and where they lie in shared
  // memory that of all.
  struct Accumulator {
    int id;
    std::vector<int> fragments;  // One a component, RowSlots() slots each.
    int pivot = -1;
    int sum = -1, squares = -1;  // Of one step.
    bool merges = false;         // States, not elements.
    bool finds_pivot = false;    // The elements go to the pivot.
    bool whole = false;          // All elements of the step are inside.
    bool counts_each = false;    // A vector may lie partly inside.
    bool single = false;         // One state, however many rows the thread has.
    // Of a maximum with a sum beside it: of the elements of a step `top` is the maximum first, then
    // what is taken off them, and `terms` the sum of their exponentials. So a sum shrinks once a
    // step at most.
    int top = -1, terms = -1;
    bool finds_top = false;  // The elements go to `top`.
    int pairs = -1;  // Of 16-bit data: a vector of the largest of what is loaded, beside the state.
    // Of Welford states of columns that stay with a thread through all turns: the rows in them, as
    // many in each, of the body and of the ends; and what the row at hand weighs beside them.
    int rows = -1;
    std::optional<WelfordWeights> weights;
    bool shifts_elements() const { return pivot >= 0 && !merges; }
  };

  // A reduction that keeps some columns: where a CTA's threads leave the states of their columns,
  // one after the other as the columns lie, those of its rows beside each other.
  struct KeptFold {
    SymInt kept, inner;
    KeptWindow window;
    std::vector<int> arrays;  // Of the components.
  };

  // Where states of a reduction across rows lie, an array for each component: that of all columns,
  // or of the first one.
  struct StatesPlace {
    Space space;
    std::vector<int> arrays;
    SymInt first;
    SymInt predicate;
  };

  // A load that bulk copies make, and the ends of such a row, loaded a turn ahead.
  struct CopiedRow {
    RowCopy from;
    int array;
    int64_t copies;
    int64_t line;  // Elements of a line of memory, or 0 (LineOf).
  };
  struct EndsAhead {
    int space, fragment;
  };

  // A load that stays in shared memory, and where.
  struct Held {
    int space, array;
    bool found;
  };

  // A load that threads bring to shared memory, and where.
  struct AsyncRow {
    int space, array;
  };

  // Passes.
  void BeginInTurn();
  absl::Status Prepare();
  absl::Status CheckSection(const TileReduction& r) const;
  HoldLimits Limits() const;
  absl::Status ExpandPass(int pass);
  int64_t PassesBefore(int pass) const;
  void RenewStep(int index);
  void ExpandStep(const std::vector<TileId>& ids, SpaceState& space,
                  std::vector<Accumulator>& accumulators,
                  const std::vector<const TileStore*>& stores);
  void KeepPackedFor(int pass);
  void EmitKeepPacked(int fragment);

  // Places and masks.
  absl::Status PlaceThreads();
  SpaceState PlaceSpace(int index, bool persistent, int64_t per_step);
  void CutEvenly();
  SymInt MaskOf(const SpaceState& state, bool body) const;
  SymInt MaskOfLast(SymInt mask) const;
  void MapColumn(const TileSpace& space, SpaceState& state, std::vector<SymInt>& lets);
  SymImporter RowImporter();
  void MapLets(SymImporter& importer, std::vector<SymInt>& lets);
  void PlaceEnds();
  SpaceState EndsOf(const TileSpace& space, const SpaceState& body, bool cut);
  SymInt InBody(SymInt extent, SymInt head) const;
  void SwapEnds();
  SymInt WholeVector(SymInt mask) const;
  SymInt WholeStep(SymInt mask) const;
  SymInt UnitMask(SymInt mask) const;
  SymInt FirstOfRow() const { return SymAnd(SymEq(at_.column_lane, 0), SymEq(at_.column_warp, 0)); }
  SymInt Leader() const { return SymAnd(SymEq(rank_, 0), FirstOfRow()); }
  SymInt RowSlot() const { return outer_ ? v_ : SymInt(0); }
  int RowSlots() const { return outer_ ? vector_ : 1; }

  // Levels.
  std::vector<bool> NeededBy(int pass, const std::vector<bool>& kept) const;
  std::vector<TileId> Collect(int pass);
  Level LevelOf(const TileValue& value, const TileSpace& space, SpaceState& state);
  bool LetsBelowElement(const TileValue& value) const;
  bool UsesColumn(SymInt e, const TileSpace& space) const;
  bool IsOfRow(const TileValue& value) const;
  bool IsSameForRows(TileId id, SymImporter& importer) const;
  bool IsShared(TileId id, const SpaceState& space) const;
  void CollectEarly(int pass);
  void CollectLate(int pass, const std::vector<TileId>& ids);

  // Values.
  Operand Read(TileId id);
  void EmitLets(const TileValue& value);
  bool IsInShared(TileId id) const {
    return copied_.contains(id) || async_.contains(id) || blocks_.loads[id].has_value();
  }
  Load LoadOf(TileId id, int fragment, SymInt slot, SymImporter& importer) const;
  void EmitPoint(TileId id, int fragment, SymInt slot, SymImporter& importer, SymInt mask);
  void EmitVectorLoad(TileId id, int fragment, SymInt slot, SymImporter& importer, SymInt mask);
  bool HasRoomBehind(const TileValue& value) const;
  bool MayLoadWindows() const {
    return vector_ > 1 && !has_ends_ && !tiles_ && options_.odd_run == 0 && !options_.blocks &&
           options_.held == 0;
  }
  std::optional<Access> WindowOf(const TileValue& value, SymImporter& importer) const;
  void EmitWindow(TileId id, const Access& access, int fragment, SymInt slot, SymImporter& importer,
                  SymInt mask);
  Access::Kind LoadKind(const TileValue& value, SymImporter& importer) const;
  bool IsVectorLoad(const TileValue& value, SymImporter& importer) const;
  void ComputeRowValues(const std::vector<TileId>& ids, int pass);
  void BeginRowLoads(int pass);
  bool HoldAcrossPasses(TileId id, SpaceState& space);
  void SetZero(TileId id);
  bool IsTooMuchForAStep(const std::vector<TileId>& ids, const SpaceState& space) const;
  bool IsLoadedFirst(TileId id, const SpaceState& space) const;
  void LoadForStep(TileId id, SpaceState& space, SymImporter& importer, SymInt mask);
  void LoadUnit(TileId id, int fragment, SymImporter& importer, SymInt mask);
  SpaceState StepAt(int index, SymInt step, SymInt is_there);
  SpaceState LoadFirstStep(const std::vector<TileId>& ids, int space, SymInt begin, bool backward);
  void LoadNextStep();
  Access StoreAccess(const TileStore& store, SymImporter& importer) const;
  void SetPlace(const TileStore& store, SymImporter& importer, Store& out) const;
  void EmitScalarStore(const TileStore& store, SymImporter& importer, SymInt mask);
  void EmitSectionStore(const TileStore& store, const SpaceState& space, SymInt mask);
  void EmitVectorStore(const TileStore& store, int fragment, SymImporter& importer, SymInt mask);
  void EmitRowStore(const TileStore& store, SymImporter& importer);
  int BufferAlignment(int buffer) const { return tile_.buffers[buffer].alignment_bytes; }
  static bool IsNarrow(DType dtype) { return DTypeBytes(dtype) < 4; }

  // Outside the mask.
  bool IsNeutralOutside(const Accumulator& a);
  TileId LoadUnderCasts(TileId id) const;
  void ChooseFills();
  void FindFolded();
  Scalar FillOf(TileId load) const;
  Outside ZeroOutside(TileId id);
  Outside ProductOutside(TileId a, TileId b);
  bool MayClear() const;
  void ClearOutside(const std::vector<Accumulator>& accumulators, const std::vector<bool>& neutral,
                    SymInt mask);

  // Folds.
  Accumulator NewAccumulator(int id);
  bool IsOfOneElement(const TileReduction& r) const;
  void SetNeutral(const Accumulator& a);
  bool IsSummedByStep(const Accumulator& a) const;
  SymInt SlotOf(const Accumulator& a) const;
  Operand Masked(Operand value, Operand neutral, std::optional<Operand> inside, DType dtype);
  std::optional<Operand> InsideFlag(SymInt mask);
  bool FoldsInOrder(const TileReduction& r) const;
  void Accumulate(Accumulator& a, std::optional<Operand> inside, SymImporter& importer);
  void WeighRow(Accumulator& a);
  void CountRowsOfColumns(const Accumulator& a);
  void AccumulateShifted(const Accumulator& a, std::optional<Operand> inside);
  void Count(const Accumulator& a, std::optional<Operand> inside, int64_t elements);
  void StartStep(Accumulator& a, SymInt mask);
  void EndStep(const Accumulator& a);
  void FoldStep(const std::vector<TileId>& ids, SpaceState& space,
                std::vector<Accumulator>& accumulators,
                const std::vector<const TileStore*>& stores);
  void FindTops(const std::vector<TileId>& ids, SpaceState& space, std::vector<Accumulator> tops);
  void MergeOnline(const Accumulator& a, int64_t states,
                   const std::function<Operand(int, SymInt, SymInt)>& take,
                   const std::vector<int>& masks);
  Operand Shrinkage(int id, Operand before, Operand after);
  void AddExponential(const Accumulator& a, std::optional<Operand> inside);
  void OpenPairs(Accumulator& a);
  bool AccumulatePairs(const Accumulator& a);
  void FoldPairs(const Accumulator& a);
  void EmitTerm(int id, int fragment, Operand lack);
  void FinishSum(const Accumulator& a);
  void FindPivots(const std::vector<TileId>& ids, SpaceState& first,
                  std::vector<Accumulator>& accumulators);
  void MergeShifted(const Accumulator& a, Operand mean, Operand m2, Operand count);
  Operand Reciprocal(Operand count);
  void SetPivot(const Accumulator& a, Operand part);
  void MergeAroundMean(const Accumulator& a, int64_t states,
                       absl::FunctionRef<Operand(int, SymInt, SymInt)> take);
  void Unshift(const Accumulator& a);
  void UnshiftBy(const Accumulator& a, Operand part);
  bool FoldAcrossThreads(const std::vector<Accumulator>& accumulators);
  void FoldLanes(const Accumulator& a, const std::vector<int>& masks);
  bool IsOfSections(const Accumulator& a) const {
    return tile_.reductions[a.id].over == Over::Sections;
  }
  void FoldSections(const Accumulator& a);
  void ScatterLanes(const Accumulator& a, const std::vector<int>& arrays, SymInt place);
  void LeaveStates(const Accumulator& a, const std::vector<int>& arrays, SymInt place,
                   SymInt leader);
  bool FoldAcrossCluster(const std::vector<Accumulator>& accumulators);
  static DType ExchangedType(DType dtype);
  int Exchanged(int fragment);
  void MergeShared(const Accumulator& a, const std::vector<int>& arrays, int64_t states,
                   SymInt origin, int64_t stride, int64_t at_once = INT64_MAX);
  template <typename Take>
  void MergeIntoRows(const Accumulator& a, Take take);
  bool LeavesParts(int id) const {
    return !options_.partials.empty() && !options_.partials[id].empty();
  }
  void StorePartial(int id, const std::vector<int>& fragments);
  void StoreTogether(int id, const std::vector<int>& fragments);

  // A row a thread.
  void PlaceRows();
  bool MergesByRow() const { return row_view_.has_value() && outer_; }
  bool MergesByRow(int pass) const;
  bool MergesByRow(const std::vector<Accumulator>& accumulators) const;
  bool EndsInVector() const;
  void OverVectorsOrRows(absl::FunctionRef<void()> passes);
  void WhereRows(absl::FunctionRef<void()> body);
  void SwapRowView();
  absl::Status MergeParts(int pass);
  void MergeByRow(const std::vector<Accumulator>& accumulators,
                  const std::vector<std::vector<int>>& arrays);
  bool MergesNeighbours(const std::vector<Accumulator>& accumulators) const;
  void MergeNeighbours(std::vector<Accumulator>& rows);
  void MergeAcrossCluster(std::vector<Accumulator>& all);
  Accumulator OfOneRow(const Accumulator& a);
  // For the first of a row's threads.
  template <typename Body>
  void AtFirstOfRows(Body body) {
    if (at_.column_warps == 1) return body();
    w_.Branch(SymEq(at_.column_warp, 0), body, [] {});
  }
  std::vector<int> SendRows(const Accumulator& a, SymInt barrier, SymInt even, int64_t* bytes);
  int64_t SendSigns(SymInt barrier);
  void ShareRows(const std::vector<Accumulator>& rows, const std::vector<Accumulator>& vectors,
                 int pass);
  int LeaveRow(int fragment);
  void TakeRow(int fragment, int array);

  // Values of a row a thread.
  std::vector<bool> KnownByRow() const;
  std::vector<bool> DiffersByRow() const;
  std::vector<std::vector<bool>> WantedStates(int pass, const std::vector<RowValue>& left) const;
  std::vector<TileId> WantedOfRow(int pass, const std::vector<bool>& known) const;
  void ComputeByRow(TileId id, SymImporter& importer);
  void LoadByRow();
  void StoreByRow(int pass, const std::vector<bool>& known);
  std::vector<RowValue> LeaveRowValues(int pass);
  void TakeRowValues(const std::vector<RowValue>& left);

  // Kept columns.
  void PrepareKept();
  bool IsKeptByStep(const Accumulator& a) const;
  void AwaitKept(const std::vector<Accumulator>& accumulators, bool again);
  void LeaveKept(const Accumulator& a);
  void LeaveAfterSteps(const std::vector<Accumulator>& accumulators);
  void FoldKept(const std::vector<Accumulator>& accumulators, int pass);
  void FoldAlike(const KeptFold& fold, const std::vector<int>& reductions, int pass);
  template <typename Predicate>
  void LeaveNeutral(const std::vector<int>& reductions, SymInt kept, Predicate predicate);
  void StoreKept(const Accumulator& a, SymInt to, SymInt predicate);

  // Rows that threads bring.
  void PrepareAsync();
  void BringOwnRows(SymInt turn);
  void TakeOwnRows();
  int64_t AsyncSlots() const;
  SymInt InAsync(SymInt turn) const;
  bool RollsUnits(const std::vector<Accumulator>& accumulators) const;

  // Blocks of rows.
  void PrepareBlocks();
  void PlaceInPairs();
  SymInt MaskOfPairs(const SpaceState& state) const;
  SymInt InRun(SymInt column, SymInt run) const;
  SymInt InBlock(const RowBlock& block) const;
  void BringBlocks();
  void TakeBlocksOut();
  void MoveBlocks(const std::vector<const RowBlock*>& blocks, Space from);

  // Tiles.
  bool IsAcrossLoad(const TileValue& value, SymImporter& importer) const;
  bool IsAcrossStore(const TileStore& store, SymImporter& importer) const;
  Access AcrossAccess(SymInt index, const Buffer& buffer) const;
  void LoadAcross(TileId id, int fragment, SymImporter& importer, SymInt mask);
  void StoreAcross(const TileStore& store, int fragment, SymImporter& importer, SymInt mask);
  void MoveAcross(SymInt predicate, absl::FunctionRef<void(SymInt condition, bool whole)> move);
  SymInt SlotInTile() const { return v_ * registers_ + u_; }

  // Steps that stay.
  void PrepareHeld();
  SymInt HeldSteps(const std::vector<TileId>& ids, int space) const;
  SymInt InHeld(SymInt step) const;
  void LeaveHeld(const SpaceState& space);
  void OverHeldSteps(const std::vector<TileId>& ids, int index, SymInt steps,
                     absl::FunctionRef<void()> step);
  bool FindsAll(const std::vector<TileId>& ids) const;
  SpaceState VectorByVector(int index);

  // Rows in turn.
  void PrepareRowCopies();
  int SlicePlaces() const;
  SymImporter SetImporter(SymInt set) const;
  SymInt InStage(const CopiedRow& copied, SymInt place, SymInt set) const;
  void FindPlace();
  void CopySlice(SymInt place, SymInt slice, SymInt set);
  void CopyPieces(TileId id, const CopiedRow& copied, SymInt place, SymInt first,
                  SymImporter& importer);
  void BringFirstRows();
  void BringFirstValues();
  void LoadRowValues(SymInt turn, SymInt set);
  void TakeValuesAhead();
  void LoadValuesAhead();
  void AwaitRows();
  void AwaitSlice();
  void PassSliceOn();
  void CopyNextRows(bool end_of_turn);
  bool ReadsUntilTheEnd() const;
  // Columns of a CTA; in a cluster they begin at column rank * CtaColumns() of the row.
  int64_t CtaColumns() const { return options_.columns_per_step / cluster_; }
  // Columns of a CTA that come together, a thread's vectors of them, and the slice that has vector
  // u.
  int64_t SliceColumns() const { return CtaColumns() / options_.slices; }
  int64_t SliceUnits() const { return registers_ / options_.slices; }
  SymInt SliceOfUnit() const { return FloorDiv(u_, SliceUnits()); }
  SymInt FirstOfBatch() const { return uneven_batch_rows_ ? batch_ * *uneven_batch_rows_ : 0; }
  SymInt IsThere(SymInt row) const {  // Whether a row of a CTA's set is one of its.
    return uneven_batch_rows_ ? SymLt(row - FirstOfBatch(), *uneven_batch_rows_)
                              : SymLt(row, rows_);
  }
  SymInt SetInOrder(SymInt turn) const {
    return stretched() ? first_row_ + turn * alike_every_
                       : batch_ * sets_ + turn * teams_ + nth_team_;
  }
  bool stretched() const { return stretched_; }
  bool KeepsColumns() const;
  void PlaceStretches();
  void BeginStretch();
  SymInt Bound(absl::string_view name, SymInt value, SymInt most);
  void FindClasses();
  SymInt ClassOf(SymInt position) const;
  SymInt FirstOfClass(SymInt number) const;
  SymInt NthSet(SymInt number);
  SymInt NumberOf(SymInt turn) const { return stretched() ? begun_ + turn : turn; }
  SymInt HeadOf(SymInt set) const;
  SymInt SetOf(SymInt turn);
  bool CanPassTickets() const;
  void OpenTickets();
  void TakeSet();
  SymInt TicketOf(SymInt turn, SymInt is_there);
  int64_t PassTicketOn(SymInt barrier);
  bool KeepsPace() const { return options_.pace > 0 && !tickets_ && !copied_.empty(); }
  void KeepPace();
  void HoistLoads();
  void AwaitHoisted();
  void OpenAcrossRows();
  void StoreAcrossRows();
  bool IsStreamed(const Accumulator& a) const;
  void LeaveWithoutTurns(const Accumulator& a);
  StatesPlace PlaceOfCta(const Accumulator& a) const;
  void MergeRowsOfCta();
  void TakeStates(const Accumulator& a, const StatesPlace& at);
  template <typename Move>
  void MoveStates(const Accumulator& a, const StatesPlace& at);
  template <typename Move>
  void EmitForVector(Move move);

  // Writes what `body` does for the ends: vectors of one element, and columns, residents and levels
  // of their own.
  template <typename Body>
  void AtEnds(Body body) {
    if (!has_ends_) return;
    SwapEnds();
    body();
    SwapEnds();
  }
  // Writes `body` for each of a step's vectors, of a vector's elements, of a thread's rows.
  template <typename Body>
  void OverUnits(Body body) {
    if (registers_ > 1) {
      w_.Loop(u_, registers_, true, body);
    } else {
      body();
    }
  }
  template <typename Body>
  void OverElements(Body body) {
    if (vector_ > 1) {
      w_.Loop(v_, vector_, true, body);
    } else {
      body();
    }
  }
  template <typename Body>
  void OverRowSlots(Body body) {
    if (outer_ && vector_ > 1) {
      w_.Loop(v_, vector_, true, body);
    } else {
      body();
    }
  }
  // Writes `body` for each vector of columns of which a thread has states across rows.
  template <typename Body>
  void OverStatesAcrossRows(const Accumulator& a, Body body) {
    if (tile_.reductions[a.id].over == Over::All) return body();
    OverUnits(body);
    AtEnds([&] { OverUnits(body); });
  }
  // Writes `body` for each state that the thread has of a row's columns: of its rows, or of its
  // columns that are kept.
  template <typename Body>
  void OverStates(const Accumulator& a, Body body) {
    if (DependsOn(SlotOf(a), v_)) {
      OverElements(body);
    } else {
      body();
    }
  }

  const TileKernel& tile_;
  const ExpandOptions& options_;
  Kernel out_;
  BlockWriter w_;
  std::unique_ptr<SymImporter> base_;
  std::vector<std::pair<const SymNode*, SymInt>> parameter_map_;
  ThreadCoordinates at_;
  SymInt v_, u_;  // Loop symbols of the vector and of the registers; constant 0 where there is one
                  // of them only.
  SymInt part_, rows_, row_mask_;
  int vector_ = 1;
  int64_t registers_ = 1;
  bool outer_ = false;
  bool tiles_ = false;  // A thread's columns are neighbours, several of them.
  bool has_ends_ = false, at_ends_ = false;
  int64_t slot_ = 0;  // Of the first point, where each has one of its own.
  std::vector<SpaceState> spaces_;
  Ends ends_;
  std::optional<RowView> row_view_;  // Where there is one, or what it has been swapped for.
  std::vector<SymInt> lets_;
  std::vector<Level> levels_;
  std::vector<bool> stored_;  // Of stores: by the first threads of rows, in an earlier pass.
  std::vector<Precision> precisions_;
  Holds holds_;
  bool packs_ = false;                     // Narrow elements of a row stay packed.
  CacheHint stores_ = CacheHint::Default;  // Of the current pass.
  std::set<int> paired_;                   // Reductions whose pairs have something.
  std::map<TileId, Scalar> fills_;         // Of loads, where it is not zero.
  std::vector<bool> folded_;               // Values that reductions are computed from.
  std::map<TileId, Outside> zero_outside_;
  std::map<TileId, Operand> cleared_;  // Of the vector at hand.
  NextStep next_step_;
  bool loads_again_ = false;          // The step is gone over once more after this time:
  std::map<TileId, int> step_loads_;  // what it has loaded for that.
  std::vector<TileId> early_;         // Loads for later passes that the current one issues.
  std::vector<TileId> late_;          // Loads that the current pass issues where it uses them.
  bool by_unit_ = false;              // So does it with all loads, which do not fit at once.
  // Where CTAs take rows in turn: the turn, how many at most, the set of rows that the CTA or its
  // cluster has in this one, and how many sets there are.
  SymInt turn_, turns_, set_, sets_;           // Sets: of a batch.
  SymInt batch_ = 0, batches_ = 1, nth_team_;  // Of the batch's teams.
  // Rows of a batch, where they do not fill its last set: no set has rows of two batches.
  std::optional<SymInt> uneven_batch_rows_;
  SymInt all_turns_;  // Of the team, in order.
  // A team's rows do not all start alike: they come in stretches of those that do, or need not,
  // since nothing but a row's own elements has columns.
  bool stretched_ = false, anywhere_ = false;
  // The stretch, its first row, the team's turns before it, and the rows from one to the next.
  SymInt stretch_, first_row_, begun_ = 0;
  int alike_every_ = 1;
  // Rows that start alike, at the least, of how many starts there is one more, and where in the
  // order of starts the team's rows begin.
  SymInt in_class_, larger_, position_;
  std::optional<std::pair<SymInt, SymInt>> first_vector_;  // Of the body, once a stretch.
  bool tickets_ = false;                // Sets of rows are taken by ticket, but for the first ones.
  int tickets_array_ = -1;              // Shared: the sets of the turns that come next.
  int next_ticket_ = -1;                // Of the team's first thread.
  int cluster_ = 1, teams_ = 1;         // CTAs that share a row, and how many such teams there are.
  SymInt team_, rank_;                  // Of the CTA.
  int64_t even_piece_ = 0;              // Columns of each CTA of a cluster, where they are even.
  RowBlocks blocks_;                    // Loads and stores through shared memory,
  std::vector<int> block_arrays_;       // and the arrays there.
  std::map<TileId, CopiedRow> copied_;  // Loads that bulk copies make.
  std::map<TileId, AsyncRow> async_;    // Loads that threads bring.
  std::vector<int> hoisted_;            // Of what is loaded before all turns.
  std::map<TileId, int> values_ahead_;  // Loads of the row alone: where they are for the next turn.
  std::map<TileId, EndsAhead> ends_ahead_;  // The same for the ends of copied rows.
  int64_t slice_elements_ = 0;              // Of each of them, in a slice; a stage may be one.
  SymInt place_;                            // Of the slice at hand.
  bool awaits_slices_ = false;              // Of this turn's row, which no pass has been over yet.
  int last_copied_pass_ = -1;               // Over rows that come in slices.
  bool passes_slices_on_ = false;           // The current pass is that one.
  int turns_behind_ = 0;                    // From the last read of a stage to the next copy there.
  bool passed_on_ = true;                   // What a barrier of the turn orders is behind us: the
                                            // next copies, the next ticket.
  std::vector<Accumulator> across_rows_;
  SymInt fold_turn_;    // The turn of a fold; 0 behind the last one.
  int signs_ = -1;      // Shared: where nothing but a sign of life arrives.
  int fold_turns_ = 1;  // Turns after which the shared memory of a fold is used again.
  std::map<TileId, int> row_values_;
  std::map<TileId, FragmentSlot> places_;
  std::map<int, std::vector<int>> states_;  // Reduction -> fragments of its components.
  std::map<int, KeptFold> kept_;            // By reduction.
  std::map<TileId, Held> held_;
  std::optional<SymInt> held_step_;  // The step that is read from shared memory.
};

// Merges the states whose components `take` brings into those of the thread's rows. All rows have
// as many elements, and the first of a vector is inside if any is: its count does for all.
template <typename Take>
void Expander::MergeIntoRows(const Accumulator& a, Take take) {
  const TileReduction& r = tile_.reductions[a.id];
  if (r.op == OpKind::Welford && r.over == Over::Columns) {
    const Operand more = take(2, 0);
    const WelfordWeights weights = WeighWelford(w_, r.dtype, Operand::Reg(a.fragments[2]), more);
    return OverRowSlots([&] {
      const Operand mean = take(0, RowSlot()), m2 = take(1, RowSlot());
      MergeWelford(w_, a.fragments, RowSlot(), mean, m2, weights);
    });
  }
  OverStates(a, [&] {
    StateOperands state;
    for (int c = 0; c < NumComponents(r); ++c) state.push_back(take(c, SlotOf(a)));
    MergeState(w_, r.op, a.fragments, SlotOf(a), state);
  });
}

}  // namespace seam::kernel
