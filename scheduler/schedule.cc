#include "scheduler/schedule.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"

namespace seam {

int Schedule::grid_step() const {
  return cluster *
         (shift ? vector / static_cast<int>(std::gcd<int64_t>(vector, rows_per_cta())) : 1);
}

// Of R rows, R/V or one more start alike, and a team has R/teams or one more, one after the other:
// a part of two classes, or of few large and many small ones, where these are one row each.
int Schedule::stretches() const {
  if (!shift || cluster == 1 || grid % grid_step() == 0) return 1;
  return teams() >= vector ? 2 : std::min(vector, 2 * vector / (teams() + 1) + 2);
}

std::string Schedule::ToString() const {
  std::string text(SchedulerName(kind));
  if (kind == SchedulerKind::kPointwise || kind == SchedulerKind::kReduction) {
    absl::StrAppend(&text, outer ? " outer" : " inner", ", ", threads(), " threads, vector ",
                    vector);
    if (points > 1) {
      absl::StrAppend(&text, ", ", points, " neighbouring points of axis ", along, " to a thread");
    }
    if (beside >= 0)
      absl::StrAppend(&text, ", ", beside_points, " of axis ", beside,
                      points > 1 ? " with each" : " to a thread");
    if (uneven) absl::StrAppend(&text, ", fewer at the end");
    if (kind == SchedulerKind::kReduction || warps_per_row * lanes_per_row > 1 || split > 1) {
      absl::StrAppend(
          &text, ", ", lanes_per_row * warps_per_row, " threads a row x ", registers, " vectors, ",
          rows_per_cta(), " rows a CTA, ",
          // Lanes or warps: both may lie along rows.
          outer && row_warps > 1 ? absl::StrCat(row_warps, " warps side by side, ") : "",
          tiles ? absl::StrCat("a tile of ", vector, "x", registers, " to a thread, ") : "",
          neighbours > 1 ? absl::StrCat("each ", neighbours, " of them merged, ") : "",
          !persistent                  ? "row read again in every pass"
          : async && reread && !blocks ? "row kept in shared memory"
                                       : "row kept in registers");
      if (split > 1) absl::StrAppend(&text, ", row split over ", split, " CTAs");
      if (columns_apart) absl::StrAppend(&text, " for each part of its columns");
      if (grid > 0) {
        absl::StrAppend(&text, ", rows taken ", tickets ? "by ticket" : "in turn", " by ", grid,
                        " CTAs");
      }
      if (cluster > 1) {
        absl::StrAppend(&text, grid > 0 ? " in clusters of " : ", row shared by clusters of ",
                        cluster, grid > 0 ? "" : " CTAs");
      }
      if (stages > 0) {
        absl::StrAppend(&text, ", ", stages, " of them brought to shared memory ahead",
                        slices > 1 ? absl::StrCat(" in ", slices, " slices") : "",
                        spare > 0 ? absl::StrCat(" with room for ", spare, " more") : "",
                        reread ? ", read again from there" : "");
      }
      if (async && !blocks) {
        absl::StrAppend(&text, grid > 0 ? ", the next one brought to shared memory by its threads"
                                        : ", brought there by its threads");
      }
      if (pace > 0) absl::StrAppend(&text, ", CTAs keep pace");
      if (pace > 1) absl::StrAppend(&text, " every ", pace, " turns");
      if (stagger > 0) {
        absl::StrAppend(&text, ", ", staggered, " clusters begin within ", stagger, " cycles");
      }
      if (settled) absl::StrAppend(&text, ", first loads awaited before");
      if (blocks)
        absl::StrAppend(&text, ", through shared memory in blocks of ", rows_per_cta(), " rows",
                        async ? ", brought there by asynchronous loads" : "",
                        reread ? ", read again from there" : "",
                        runs ? ", neighbouring columns to a thread" : "");
      if (together > 1) absl::StrAppend(&text, ", states of ", together, " rows left together");
      if (finish_lanes > 1) absl::StrAppend(&text, ", ", finish_lanes, " lanes merge states");
      if (whole_lanes > 1) {
        absl::StrAppend(&text, ", ", whole_lanes, " lanes merge those of all batches");
      }
      if (one_launch) absl::StrAppend(&text, ", finished by the same kernel");
      if (held > 0) {
        absl::StrAppend(&text, ", ", held,
                        held > 1 ? " steps of a CTA stay" : " step of a CTA stays",
                        " in shared memory until then");
      }
      if (shift) absl::StrAppend(&text, ", rows shifted to aligned addresses");
      if (stretches() > 1)
        absl::StrAppend(&text, ", those that start alike one after the other if CTAs keep columns");
      if (early) absl::StrAppend(&text, ", weights loaded early");
      if (chan_welford) absl::StrAppend(&text, ", statistics in one pass");
      if (online) absl::StrAppend(&text, ", maximum and sum in one pass");
    }
    if (min_ctas_per_sm > 0) absl::StrAppend(&text, ", at least ", min_ctas_per_sm, " CTAs an SM");
    absl::StrAppend(&text, ", ", index32 ? 32 : 64, "-bit indices, bases aligned to ",
                    alignment_bytes, " bytes");
    if (apart) absl::StrAppend(&text, ", a launch of its own");
  }
  for (size_t i = 0; i < islands.size(); ++i)
    absl::StrAppend(&text, i == 0 ? " " : "; ", "island ", i, ": ", islands[i].ToString());
  for (const SymbolFact& f : facts) {
    if (f.value >= 0) {
      absl::StrAppend(&text, ", ", f.symbol, " = ", f.value);
    } else {
      absl::StrAppend(&text, ", ", f.multiple, " divides ", f.symbol);
    }
  }
  return text;
}

absl::Status CheckSchedule(const Schedule& s) {
  auto within = [](int value, int lo, int hi) { return lo <= value && value <= hi; };
  auto power_of_two = [](int value) { return value > 0 && (value & (value - 1)) == 0; };
  const char* broken = nullptr;
  if (s.kind != SchedulerKind::kPointwise && s.kind != SchedulerKind::kReduction) {
    broken = "kind is neither pointwise nor reduction";
  } else if (!power_of_two(s.vector) || s.vector > 16) {
    broken = "vector is no power of two up to 16";
  } else if (!power_of_two(s.lanes_per_row) || s.lanes_per_row > 32) {
    broken = "lanes_per_row is no power of two up to 32";
  } else if (!within(s.warps_per_row, 1, 32) || !within(s.row_warps, 1, 32 / s.warps_per_row)) {
    broken = "warps_per_row * row_warps is not within 1 to 32";
  } else if (!within(s.registers, 1, 256)) {
    broken = "registers is not within 1 to 256";
  } else if (!within(s.split, 1, 65535)) {
    broken = "split is not within 1 to 65535";
  } else if (s.persistent && s.split > 1) {
    broken = "a row that CTAs share is not kept in registers";
  } else if (s.columns_apart && (s.split == 1 || s.outer || s.shift || s.held > 0)) {
    broken = "columns that are apart are those of rows that CTAs share, unshifted, and do not keep";
  } else if (s.shift && s.outer) {
    broken = "only rows with neighbours along the columns are shifted";
  } else if (!power_of_two(s.cluster) || s.cluster > 16) {
    broken = "cluster is no power of two up to 16";
  } else if (!within(s.grid, 0, 65535)) {
    broken = "grid is not within 0 to 65535";
  } else if (s.grid > 0 && (s.split > 1 || (s.outer && !s.async) || s.grid % s.cluster != 0)) {
    broken = "rows taken in turn are whole, a cluster's, and if outer brought by threads";
  } else if (!within(s.stages, 0, 16)) {
    broken = "stages is not within 0 to 16";
  } else if (s.stages > 0 ? !s.persistent || s.grid == 0 : s.reread && !s.blocks && !s.async) {
    broken = "rows are brought ahead of CTAs that take them in turn and hold them whole";
  } else if (s.tickets && (s.stages < 2 || s.shift)) {
    broken = "rows taken by ticket are brought two ahead at least and start aligned";
  } else if (s.pace < 0 || (s.pace > 0 && (s.stages == 0 || s.tickets))) {
    broken = "CTAs keep pace that take rows in a fixed order and have them brought ahead";
  } else if (s.stagger < 0 || s.stagger > 1000000 || s.staggered < 0 || s.staggered > 65535 ||
             (s.stagger > 0) != (s.staggered > 0) || (s.stagger > 0 && s.cluster == 1) ||
             int64_t{s.stagger} * s.staggered > INT32_MAX) {
    broken = "clusters begin one after the other within a million cycles, a number of them";
  } else if (s.settled && s.stages == 0) {
    broken = "first loads are awaited before turns whose rows are brought ahead";
  } else if (s.slices < 1 || s.registers % s.slices != 0) {
    broken = "slices does not divide registers";
  } else if (!within(s.spare, 0, s.slices - 1)) {
    broken = "spare is not within 0 to slices - 1";
  } else if (s.slices > 1 && (s.stages == 0 || !s.reread || s.rows_per_cta() > 1 || s.tickets ||
                              s.shift || s.blocks)) {
    broken = "one row that is read again from its stage, in a fixed order, comes in slices";
  } else if (s.blocks && (!s.persistent || s.outer || s.shift || s.cluster > 1)) {
    broken = "rows that go through shared memory stay with a CTA that holds them whole";
  } else if (s.async && (!s.persistent || s.shift || s.stages > 0 ||
                         (!s.blocks && (s.vector == 1 || (s.grid == 0 && !s.reread))))) {
    broken = "threads bring vectors of rows that nothing else brings: the next ones or all";
  } else if (s.runs && !s.blocks) {
    broken = "only of rows that go through shared memory threads have neighbouring columns";
  } else if (s.tiles && (!s.outer || !power_of_two(s.registers) || s.registers > 64 || s.grid > 0 ||
                         s.cluster > 1 || s.held > 0 || s.async || s.blocks)) {
    broken = "tiles are outer, of a power of two of columns up to 64, of CTAs that load their rows";
  } else if (s.cluster > 1 && !s.outer &&
             (!s.persistent || s.lanes_per_row != 32 || s.row_warps > 1 || s.grid == 0)) {
    broken = "a cluster takes single rows in turn and holds them whole";
  } else if (s.cluster > 1 && s.outer &&
             (s.vector == 1 || s.split > 1 || s.threads() % s.rows_per_cta() != 0)) {
    broken = "of vectors of rows a cluster takes those that have as many threads each";
  } else if (s.cluster > 1 && s.one_launch) {
    broken = "what clusters leave in parts is finished by a kernel of its own";
  } else if (s.neighbours < 1) {
    broken = "neighbours is below 1";
  } else if (s.neighbours > 1 &&
             (!s.outer || s.vector == 1 || s.rows_per_cta() % s.neighbours != 0 ||
              s.threads() % s.rows_per_cta() != 0)) {
    broken =
        "neighbours that are rows lie in vectors, in a CTA all together, with as many threads each";
  } else if (s.beside < -1 || s.beside == s.along ||
             !within(s.beside_points, 1, kMostPointsBeside) ||
             (s.beside < 0 && s.beside_points > 1) || (s.uneven && s.points_of_thread() == 1)) {
    broken = "beside is another axis of up to 128 points, and only several points are uneven";
  } else if (!power_of_two(s.points) || s.points > 16 || s.along < 0 ||
             ((s.points > 1 || s.beside >= 0) &&
              (s.tiles || s.blocks || s.async || s.shift || s.grid > 0 || s.cluster > 1 ||
               s.neighbours > 1 || (s.kind == SchedulerKind::kReduction && s.split > 1)))) {
    broken = "points is no power of two up to 16, of rows that their threads load";
  } else if (!power_of_two(s.finish_lanes) || s.finish_lanes > 32 || !power_of_two(s.whole_lanes) ||
             s.whole_lanes > 32) {
    broken = "finish_lanes or whole_lanes is no power of two up to 32";
  } else if (!power_of_two(s.together) || s.together > s.most_together()) {
    broken = "states that are left together are those of a power of two of rows that a warp has";
  } else if (!within(s.held, 0, 1024) || (s.held > 0 && (s.split == 1 || !s.one_launch))) {
    broken = "only between the phases of one kernel in which CTAs share rows steps are held";
  } else if (!power_of_two(s.alignment_bytes)) {
    broken = "alignment_bytes is no power of two";
  } else if (s.min_ctas_per_sm < 0) {
    broken = "min_ctas_per_sm is negative";
  }
  for (const SymbolFact& f : s.facts) {
    if (f.multiple < 1) broken = "a fact's multiple is below 1";
  }
  if (broken == nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("schedule: ", broken));
}

}  // namespace seam
