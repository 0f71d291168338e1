// KeptRows: what rows at the tile level ask of a thread's registers and of a CTA's shared memory.
//
// Thread-safety: immutable once built.
#pragma once

#include <map>
#include <vector>

#include "absl/status/statusor.h"
#include "scheduler/choose.h"
#include "scheduler/kernel/kept_window.h"
#include "scheduler/kernel/rows_ahead.h"
#include "scheduler/trace.h"

namespace seam {

// Shared memory of a CTA that is no stage: states on their way between warps, barriers, and what
// the driver takes.
inline constexpr int64_t kOtherSharedBytes = 4096;

class KeptRows {
 public:
  // With the facts and the alignment of `s`. Errors: those of Trace.
  static absl::StatusOr<KeptRows> Of(const SizedGroup& sized, const Schedule& s);

  // Registers of a thread for that many vectors of a row: for the elements of large inputs, or for
  // what it keeps instead of them.
  double Words(int registers, const Schedule& s) const;

  // The symbols of the group by which the index of a column is divided: where columns lie in pieces
  // or a part of them has a weight. Of all that is read and written, or of what several rows or
  // columns share, and of positions that are computed with.
  std::vector<const SymNode*> ColumnDivisors(bool of_shared) const;

  // Registers for what all rows read alike at a point, weights above all.
  double AlikeWords() const;
  // Bytes of the widest of these; 0 if there are none.
  int AlikeBytes() const;

  // Of reductions that keep some columns: registers of a thread for its states, and after so many
  // columns it is the same ones' turn again; 0 where that is not known.
  int KeptWords(const Schedule& s) const;
  int64_t KeptPeriod() const;

  // Bytes of shared memory in which a CTA's threads leave states of columns for each other: of
  // those that are kept, and where the states of its rows are merged.
  int64_t StateBytes(const Schedule& s) const;

  // Whether it saves an exchange of a cluster's CTAs or a pass over memory to have a sum of
  // exponentials in the pass of its maximum (Schedule::online), for an exponential more of each
  // element.
  bool GainsOnline(const Schedule& s) const;
  // Of shifted rows: whether what is loaded first is put together from neighbouring words.
  bool JoinsFirstLoad() const { return kernel::IsFirstLoadElsewhere(traced_.tile); }
  int online_sums() const { return online_sums_; }  // That may be folded so.

  // Bytes of shared memory for one turn's rows, as far as bulk copies can bring them. A kernel that
  // knows more facts has more of them brought: rows in pieces, whose lengths copies have to know.
  int64_t StageBytes(const Schedule& s) const;

  // Registers for what each row reads at a point that these copies do not bring: of tensors that
  // rows share, such as tables, and of those that have an element for each point.
  struct Rest {
    double of_tables = 0, of_tensors = 0;
  };
  Rest NotBrought(const Schedule& s) const;

  // The same as far as threads can bring them, for a turn or for all. Whether that is all that is
  // read at each column.
  int64_t AsyncBytes(const Schedule& s) const;
  bool AreAllBrought() const;

  // Bytes of shared memory for a CTA's rows as blocks, beside stages; 0 if some tensor of rows and
  // columns lies otherwise.
  int64_t BlockBytes(const Schedule& s) const;

 private:
  bool IsShared(const kernel::TileValue& value) const;
  bool IsOfRowAndColumn(SymInt index) const;
  // Calls `visit(bytes of an element)` for each load that all rows read alike.
  template <typename Visitor>
  void VisitAlike(Visitor visit) const;
  kernel::KeptWindow WindowOf(const kernel::TileReduction& r, const Schedule& s) const;
  KeptRows(const SizedGroup& sized, TracedKernel traced);

  double input_words_;
  TracedKernel traced_;
  int online_sums_;
  std::vector<bool> resident_;
};

// Remembers KeptRows::Words, which are a minimum cut and the same for as many points, for those who
// look at many schedules.
class WordsByPoints {
 public:
  explicit WordsByPoints(const KeptRows& rows) : rows_(rows) {}
  double Of(const Schedule& s) {
    const auto [it, is_new] = words_.try_emplace(s.registers * s.vector, 0);
    if (is_new) it->second = rows_.Words(s.registers, s);
    return it->second;
  }

 private:
  const KeptRows& rows_;
  std::map<int, double> words_;
};

}  // namespace seam
