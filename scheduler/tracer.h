// The state of one trace, shared by the files that write its parts; Trace is its interface.
//
//   trace.cc             outputs, the rows' and columns' coordinates, buffers, passes
//   trace_reductions.cc  reductions and their partial states
//   trace_values.cc      one value at one point
//   trace_powers.cc      powers with exponents that are known
//
// Thread-safety: none; one trace has one Tracer.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "ir/alike.h"
#include "scheduler/trace.h"

namespace seam {

class Tracer {
 public:
  Tracer(const Fusion& group, const GroupShape& shape, const TraceOptions& options)
      : group_(group),
        shape_(shape),
        options_(options),
        tile_(out_.tile),
        first_alike_(FirstAlike(group)) {}

  absl::StatusOr<TracedKernel> Run();

 private:
  using TileId = kernel::TileId;
  using Index = SymVector;

  // A set of columns with its symbol and the coordinates of rows and columns at a point.
  struct Space {
    int id;
    std::map<AxisId, SymInt> at;
  };

  // Coordinates and buffers.
  absl::Status Prepare();
  int64_t LowestValue(const SymNode* symbol) const;
  SymInt Import(SymInt e) { return importer_->Import(e); }
  SymInt Extent(ValId v, int d) { return Import(group_.domain(v)[d].extent); }
  SymInt Radix(AxisId a);
  SymInt Steps(AxisId a);
  void MoveTo(int point);
  bool IsOfPart(const AxisSet& axes) const;
  bool IsOfPoint(ValId v, int point) const;
  SymInt Elements(absl::Span<const AxisId> axes);
  SymInt Places(ExprId e);
  int PiecesOf(ExprId e) const;
  int64_t TogetherOf(ExprId e) const;
  SymInt StatesOfRow(ExprId e);
  int NeighboursOf(ExprId e) const;
  bool IsEmpty(ValId v);
  bool HasAxesOfRows(ValId v) const;
  SymInt FirstOfOthers(const AxisSet& axes);
  std::map<AxisId, SymInt> Coordinates(const std::vector<AxisId>& axes, SymInt linear);
  const Space& SpaceOf(const std::vector<AxisId>& columns);
  bool AreSections(const std::vector<AxisId>& columns) const;
  const Space& SpaceOfSections();
  int BufferOf(BufferSource::Kind kind, int index, ValId v);
  int AddBuffer(BufferSource source, kernel::Buffer buffer);
  SymInt Address(ValId v, const Index& index);

  // Outputs and passes.
  absl::Status TraceOutput(int output, ValId v);
  // In a split plan every stage has its merges first, then one round of columns.
  int StageDepth(int depth) const { return options_.split > 1 ? 1 : depth * 2 + 1; }
  // A sum that comes with its maximum has that one's depth.
  int DepthOf(ExprId e) const {
    if (const OnlineSum* online = OnlineSumOf(e)) e = online->max;
    return shape_.depth[group_.operands(e)[0].index()];
  }
  int PassOf(int depth, int space);
  void FinishPasses();
  // Linear in the values, times those among them that load behind a mask.
  void JoinLoads();

  // Reductions.
  absl::StatusOr<const std::vector<TileId>*> EnsureReduction(ExprId e);
  absl::StatusOr<std::vector<TileId>> Reduce(ExprId e);
  bool IsNarrow(TileId element) const;
  std::vector<TileId> TwoPassWelford(ExprId e, kernel::TileReduction sum, int depth);
  std::vector<TileId> MergePartials(ExprId e);
  SymInt StateOfRow(ExprId e, int* space);
  SymInt CtasOf(size_t part);
  SymInt CtasOf(ExprId e);
  SymInt MergeSpace(SymInt parts, int* id);
  int AddReduction(kernel::TileReduction reduction, ExprId e);
  int PartialBuffer(ExprId e, int component, DType dtype, bool written);
  std::vector<TileId> Results(ExprId e, int reduction, DType accumulator);
  const OnlineSum* OnlineSumOf(ExprId sum) const;
  const OnlineSum* SumBeside(ExprId max) const;
  std::vector<PartialSlot> ComponentsOf(ExprId e) const;
  TileId Neutral(ExprId e);
  TileId Position(TileId of_state);
  SymInt ElementsOf(ExprId e);

  // One value at one point.
  absl::StatusOr<TileId> At(ValId v, const Index& index, SymInt predicate);
  // What is left of a predicate beside that a point is no padding.
  SymInt WithoutPads(SymInt predicate) const {
    const auto it = without_pads_.find(predicate.bits());
    return it == without_pads_.end() ? predicate : it->second;
  }
  // Whether a value is known to have an element there.
  bool IsWithin(ValId v, const Index& index);
  absl::StatusOr<TileId> Compute(ValId v, const Index& index, SymInt predicate);
  absl::StatusOr<TileId> Pointwise(ExprId e, ValId v, const Index& index, SymInt predicate);
  absl::StatusOr<TileId> Unrolled(ExprId e, ValId v, const Index& index, SymInt predicate);
  absl::StatusOr<TileId> ReductionResult(ExprId e, ValId v, const Index& index);
  absl::StatusOr<TileId> View(ExprId e, ValId v, const Index& index, SymInt predicate);
  bool AreSteps(ExprId e);
  absl::StatusOr<TileId> Concatenated(ExprId e, ValId v, const Index& index, SymInt predicate);
  absl::StatusOr<TileId> Indexed(ExprId e, ValId v, const Index& index, SymInt predicate);

  // Tile values.
  TileId Add(kernel::TileValue value);
  TileId Constant(DType dtype, Scalar scalar);
  TileId Map(OpKind op, DType dtype, std::vector<TileId> operands);
  TileId Cast(TileId id, DType dtype);
  TileId IndexOf(SymInt e, DType dtype);
  // A comparison, in as few bits as it takes. Linear in the values so far.
  TileId Power(DType dtype, std::vector<TileId> operands);
  TileId Compare(OpKind op, std::vector<TileId> operands);
  TileId Result(int reduction, int component, DType dtype);
  static Scalar Zero(DType dtype) { return IsFloat(dtype) ? FloatScalar(0) : IntScalar(0); }

  template <typename AtomsOf>
  Index IndexAt(int rank, const Space& space, AtomsOf atoms_of) {
    Index index;
    for (int d = 0; d < rank; ++d) {
      SymInt position = 0;
      for (AxisId a : atoms_of(d)) {
        const auto it = space.at.find(a);
        position = position * Radix(a) + (it == space.at.end() ? SymInt(0) : it->second);
      }
      index.push_back(position);
    }
    return index;
  }

  const Fusion& group_;
  const GroupShape& shape_;
  const TraceOptions& options_;
  TracedKernel out_;
  kernel::TileKernel& tile_;
  std::unique_ptr<SymImporter> importer_;
  std::map<AxisId, SymInt> row_coordinates_;
  std::vector<SymInt> first_point_;  // Of GroupShape::points, along each of their axes.
  SymInt is_there_ = 1;              // Whether the point at hand is none behind an axis' end.
  std::map<std::vector<AxisId>, Space> spaces_;
  absl::flat_hash_map<uint64_t, int> merge_spaces_;  // By the number of parts.
  std::vector<std::pair<int, int>> pass_keys_;
  std::map<ExprId, std::vector<TileId>> reduced_;
  // Per value the one that is traced instead: what is written twice is computed once.
  const std::vector<ValId> first_alike_;
  absl::flat_hash_map<std::string, TileId> memo_;
  std::map<ExprId, bool> are_steps_;                    // Of concatenations.
  absl::flat_hash_map<uint64_t, SymInt> without_pads_;  // By the bits of a predicate.
};

}  // namespace seam
