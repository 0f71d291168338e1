// Long rows to the CTAs of a cluster, a piece each: a table of pieces that were timed, of which the
// first that fits is taken, or another where a row leaves much of that one unused.
#include <algorithm>
#include <optional>

#include "ir/status.h"
#include "scheduler/reduction_arrangements.h"
#include "scheduler/reduction_share.h"
#include "scheduler/reduction_turns.h"
#include "scheduler/workload.h"

namespace seam::reduction {
namespace {

// How CTAs that take rows in turn cut one that is long, in order of preference: columns a CTA at
// most, CTAs at most, of which a row takes one or a cluster, threads a CTA, CTAs an SM, stages at
// most, two at least unless it is one, or 0 if threads load rows, whether columns are read again
// from shared memory instead of staying in registers. Of several CTAs an SM one goes on while
// another waits for its cluster. Source: schedules timed side by side on an H200,
// docs/schedulers/tuning.md, "Long rows".
struct Piece {
  int64_t columns;
  int most_ctas, threads, ctas_per_sm, stages;
  bool reread = false;
};
// 16-bit data and narrower, without weights, beside some and beside many, then wider.
constexpr Piece kNarrowPieces[] = {{14336, 1, 256, 1, 3},        {16384, 1, 512, 1, 3},
                                   {8192, 8, 128, 2, 3},         {8192, 16, 128, 3, 3},
                                   {32768, 16, 512, 1, 2, true}, {16384, 16, 512, 1, 3}};
// The same of two softmaxes of two inputs, whose exponentials take more threads.
constexpr Piece kTwoSoftmaxesPieces[] = {{14336, 1, 256, 1, 3}, {16384, 1, 512, 1, 3},
                                         {12288, 8, 384, 1, 3}, {12800, 16, 320, 2, 2, true},
                                         {8192, 16, 128, 3, 3}, {32768, 16, 512, 1, 2, true},
                                         {16384, 16, 512, 1, 3}};
constexpr Piece kFewWeightsPieces[] = {{16384, 1, 512, 1, 3},        {8192, 8, 128, 2, 3},
                                       {8192, 16, 128, 3, 3},        {16384, 16, 256, 1, 3},
                                       {32768, 16, 512, 1, 2, true}, {16384, 16, 512, 1, 3}};
constexpr Piece kWeightedPieces[] = {{16384, 1, 1024, 1, 3},
                                     {8192, 8, 256, 2, 2},
                                     {32768, 16, 512, 1, 2, true},
                                     {16384, 16, 512, 1, 3}};
constexpr Piece kWidePieces[] = {
    {7168, 2, 256, 1, 3},   {8192, 2, 1024, 1, 3},  {4096, 8, 256, 2, 3},
    {4096, 16, 256, 3, 3},  {8192, 16, 256, 3, 2},  {8192, 16, 256, 2, 2},
    {16384, 16, 256, 2, 0}, {16384, 16, 256, 1, 2}, {8192, 16, 512, 1, 3}};
constexpr Piece kWideWeightedPieces[] = {{8192, 2, 1024, 1, 3},
                                         {4096, 8, 256, 2, 3},
                                         {16384, 8, 512, 1, 2, true},
                                         {16384, 16, 256, 1, 2, true},
                                         {8192, 16, 512, 1, 3}};
// 16-bit data of one input beside many weights of wider elements.
constexpr Piece kWideWeightsPieces[] = {{10240, 1, 320, 2, 2},
                                        {6144, 2, 192, 2, 3},
                                        {8192, 8, 256, 2, 2},
                                        {32768, 16, 512, 1, 2, true},
                                        {16384, 16, 512, 1, 3}};
// Of rows in pieces, one input of 16-bit data and two of wider: others do better where threads
// load.
constexpr Piece kNarrowInPieces[] = {{16384, 16, 256, 3, 2, true}};
constexpr Piece kWideInPieces[] = {{16384, 16, 256, 1, 2}};
// Those that only 16 SMs hold, in their shared memory: two rows of one narrow input there, or one
// row of a wide input or of two narrow ones.
constexpr int64_t kLongInPieces = 8 * 53248;
constexpr Piece kLongestInPieces[] = {{53248, 16, 512, 1, 2, true}, {53248, 16, 512, 1, 1, true}};
// Of rows that are only read, and held since a second pass needs what the first one finds: without
// results to write a turn takes half as long, and several CTAs an SM with many columns a thread
// hide more of what they wait for each other than rows that are brought ahead.
constexpr Piece kReadPieces[] = {{16384, 8, 256, 3, 0}, {16384, 8, 256, 2, 0}};
// Where a CTA keeps states of its columns, of 16-bit data: one state a column, and several.
constexpr Piece kOneStatePieces[] = {{6144, 2, 384, 1, 3},  {4096, 4, 256, 2, 3},
                                     {8192, 8, 512, 1, 3},  {16384, 16, 512, 1, 3, true},
                                     {8192, 16, 512, 1, 3}, {4096, 16, 512, 1, 3}};
constexpr Piece kStatesPieces[] = {{4096, 4, 256, 2, 3},
                                   {4096, 8, 128, 2, 3},
                                   {16384, 16, 256, 1, 3, true},
                                   {8192, 16, 512, 1, 3},
                                   {4096, 16, 512, 1, 3}};
// The same where rows are few: their states, which all CTAs leave, are as much as a row each.
constexpr Piece kFewRowsStatesPieces[] = {{6144, 2, 192, 1, 2}};
// The same of wider data.
constexpr Piece kWideStatesPieces[] = {{4096, 2, 256, 1, 3},
                                       {8192, 16, 512, 1, 3},
                                       {4096, 16, 512, 1, 3},
                                       {16384, 16, 512, 1, 1, true}};

// The same of one input, narrow and wide.
constexpr Piece kOneInputStatesPieces[] = {{4096, 16, 128, 3, 3},
                                           {8192, 16, 512, 1, 3},
                                           {16384, 16, 512, 1, 3, true},
                                           {4096, 16, 512, 1, 3}};
constexpr Piece kWideOneInputStatesPieces[] = {{4096, 16, 128, 2, 3},
                                               {8192, 16, 512, 1, 3},
                                               {4096, 16, 512, 1, 3},
                                               {16384, 16, 512, 1, 1, true}};

// Those that such pieces leave idle threads in: of narrow data without weights in long rows and
// beside few in a CTA's, of wider data without in short rows and beside weights in long ones, of
// one state a column, and several.
constexpr Piece kUnevenNarrowPieces[] = {{24576, 8, 256, 2, 2, true}, {16384, 16, 256, 3, 2, true}};
constexpr Piece kUnevenFewWeightsPieces[] = {{16384, 1, 640, 1, 2}};
constexpr Piece kUnevenWidePieces[] = {{4096, 4, 256, 3, 2}};
constexpr Piece kUnevenWideLongPieces[] = {{16384, 16, 512, 1, 2}};
constexpr Piece kUnevenOneStatePieces[] = {{6912, 2, 288, 2, 3}};
constexpr Piece kUnevenStatesPieces[] = {
    {7680, 2, 320, 2, 3, true}, {8192, 2, 512, 1, 3}, {16384, 8, 512, 1, 3, true}};

// A row for which there is one stage comes in slices, one or more vectors of each thread, with all
// that there is room for to spare: they are under way while the cluster exchanges sums. Source:
// docs/schedulers/clusters.md, "A single stage, in slices".
constexpr int kMostSlices = 16;
int SlicesOf(int registers) {
  int slices = std::min(registers, kMostSlices);
  while (registers % slices != 0) --slices;
  return slices;
}
void CutInSlices(int64_t stage_bytes, int64_t room, Schedule& s) {
  s.slices = SlicesOf(s.registers);
  const int64_t slice_bytes = CeilDivide(stage_bytes, s.slices);
  s.spare = static_cast<int>(std::min<int64_t>(s.slices - 1, (room - stage_bytes) / slice_bytes));
}

// Registers beside what a thread keeps through all turns where it reads rows again from shared
// memory.
constexpr int kRereadRegisters = 32;

// Columns from which on rows without weights leave enough of a piece unused to go in others.
constexpr int64_t kUnevenNarrowColumns = 131072;

// Registers beside what a thread keeps of weights of wider elements, which take whole words.
constexpr int kWideWeightRegisters = 20;

// The same as kCtaColumns beside weights of wider elements, of uneven rows, and where a CTA keeps
// states of columns.
constexpr int64_t kWideWeightsCtaColumns = 8192;
constexpr int64_t kUnevenCtaColumns = 16384, kStatesCtaColumns = 12288, kOneStateCtaColumns = 8192,
                  kFewRowsCtaColumns = 8192, kWideStatesCtaColumns = 6144;

// Of a row beside weights that one CTA takes in turn: two a thread of whole warps.
constexpr int64_t kUnmaskedVectors = 64;

// Rows of so many columns that one CTA would have them all, but so few of them that its states of
// columns, several each, take as long.
bool AreFewWithStates(const SizedGroup& sized, int states) {
  constexpr int64_t kLeastTurns = 4, kMostTurns = 16;
  const int64_t sms = sized.context.device.sms;
  return states > 1 && sized.widest_bytes < 4 && sized.columns > kFewRowsCtaColumns &&
         sized.columns <= kStatesCtaColumns && !sized.context.any_order &&
         sized.rows >= kLeastTurns * sms && sized.rows <= kMostTurns * sms;
}

// Rows of one narrow input beside many weights of wider elements.
bool AreBesideManyWideWeights(const SizedGroup& sized, const KeptRows& rows, int states) {
  return states == 0 && HasWideWeights(sized, rows) && rows.AlikeWords() > kManyWeights &&
         sized.large_inputs == 1;
}

absl::Span<const Piece> PiecesFor(const SizedGroup& sized, const KeptRows& rows, int states) {
  const double weights = rows.AlikeWords();
  const bool narrow = sized.widest_bytes < 4;
  if (states == 0 && sized.run < sized.columns) {
    if (sized.columns > kLongInPieces) return kLongestInPieces;
    if (sized.large_inputs != (narrow ? 1 : 2)) return {};
    return narrow ? absl::MakeSpan(kNarrowInPieces) : kWideInPieces;
  }
  if (states == 0) {
    const bool many_weights = weights >= (narrow ? 1 : 2) * kManyWeights;
    if (AreBesideManyWideWeights(sized, rows, states)) return kWideWeightsPieces;
    if (narrow) {
      const bool two_softmaxes = sized.large_inputs == 2 && weights == 0 && rows.online_sums() > 1;
      return two_softmaxes  ? absl::MakeSpan(kTwoSoftmaxesPieces)
             : many_weights ? absl::MakeSpan(kWeightedPieces)
             : weights > 0  ? absl::MakeSpan(kFewWeightsPieces)
                            : kNarrowPieces;
    }
    return many_weights ? absl::MakeSpan(kWideWeightedPieces) : kWidePieces;
  }
  if (IsOneInputWithStates(sized))
    return narrow ? absl::MakeSpan(kOneInputStatesPieces) : kWideOneInputStatesPieces;
  if (!narrow) return kWideStatesPieces;
  if (AreFewWithStates(sized, states)) return kFewRowsStatesPieces;
  return states == 1 ? absl::MakeSpan(kOneStatePieces) : kStatesPieces;
}

// Pieces to try instead of one that has `c` idle threads.
absl::Span<const Piece> UnevenPiecesFor(const SizedGroup& sized, double weights, int states,
                                        const Schedule& c) {
  const bool narrow = sized.widest_bytes < 4;
  if (c.columns_at_once() == sized.columns) return {};
  if (states == 0) {
    if (sized.run < sized.columns || sized.large_inputs != 1) return {};
    if (narrow && weights == 0 && sized.columns > kUnevenNarrowColumns) return kUnevenNarrowPieces;
    if (narrow && weights > 0 && weights < kManyWeights && c.cluster == 1)
      return kUnevenFewWeightsPieces;
    if (!narrow && weights == 0 && c.cluster == 2) return kUnevenWidePieces;
    if (!narrow && weights > 0 && c.stages == 0) return kUnevenWideLongPieces;
    return {};
  }
  if (!narrow || c.cluster == 1 || AreFewWithStates(sized, states) || IsOneInputWithStates(sized)) {
    return {};
  }
  return states == 1 ? absl::MakeSpan(kUnevenOneStatePieces) : kUnevenStatesPieces;
}

// A third stage of rows that come in two and are read again from there beside weights, where they
// leave threads idle and the room unused.
void AddStage(const SizedGroup& sized, const KeptRows& rows, double weights, int states,
              int64_t stage_bytes, Schedule& c) {
  constexpr int kStages = 3;
  if (states == 0 && weights > 0 && c.reread && c.stages == kStages - 1 && c.min_ctas_per_sm == 1 &&
      c.columns_at_once() != sized.columns &&
      kStages * stage_bytes + rows.StateBytes(c) + kOtherSharedBytes <=
          sized.context.device.smem_bytes_per_cta) {
    c.stages = kStages;
    StayTogether(sized, stage_bytes, c);
  }
}

// Whether an SM has room for a second CTA, of rows that come in two stages and are read again from
// there beside weights in registers: one goes on while the other waits for its cluster.
bool HasRoomForAnother(const SizedGroup& sized, const KeptRows& rows, int states,
                       int64_t stage_bytes, const Schedule& c) {
  constexpr int kBeside = 24;
  const DeviceInfo& device = sized.context.device;
  const double weights = rows.AlikeWords();
  const int registers = 65536 / (2 * c.threads());
  return states == 0 && weights > 0 && c.reread && c.stages == 2 && c.min_ctas_per_sm == 1 &&
         sized.run == sized.columns &&
         2 * stage_bytes + rows.StateBytes(c) + kOtherSharedBytes <=
             device.smem_bytes_per_cta / 2 &&
         c.registers * c.vector * weights + kBeside <= registers;
}

// Half of the CTAs, twice as large, if a row of narrow data leaves much of a piece for `cluster` of
// them unused: turns are longer then, and fewer CTAs wait for each other. 0: it does not. Wider
// data were not timed; group norms' backward passes, whose rows keep states of columns, lost 4 to 8
// percent.
int HalfOf(const SizedGroup& sized, const Piece& piece, int states, int cluster) {
  constexpr double kUsed = 0.85;
  constexpr int kLeast = 8;
  const bool used =
      static_cast<double>(sized.columns) > kUsed * static_cast<double>(piece.columns) * cluster;
  const bool keeps_states = states == 0 && sized.shape.crossed();
  const bool fits = sized.widest_bytes < 4 && sized.run == sized.columns && !keeps_states;
  return cluster >= kLeast && fits && !used ? cluster / 2 : 0;
}

// Whether rows that are only read do better where they are brought ahead: two inputs that one CTA
// holds, and wide data that leave much of eight CTAs unused.
bool LosesUnstaged(const SizedGroup& sized, const Piece& piece, const Schedule& c) {
  constexpr double kUsed = 0.85;
  const double used =
      static_cast<double>(sized.columns) / static_cast<double>(int64_t{c.cluster} * piece.columns);
  return (c.cluster == 1 && sized.large_inputs > 1) ||
         (c.cluster == 8 && sized.widest_bytes >= 4 && used < kUsed);
}

// Gives the row to a cluster whose CTAs have at most so many threads.
void ShareInCluster(const SizedGroup& sized, int cluster, int most_threads, int ctas_per_sm,
                    Schedule& s) {
  constexpr int64_t kTooMany = 1 << 15;  // Vectors of a thread, whatever its registers.
  const int64_t vectors = CeilDivide(sized.columns, cluster * s.vector);
  s.cluster = cluster;
  s.registers = static_cast<int>(std::min(CeilDivide(vectors, most_threads), kTooMany));
  s.lanes_per_row = 32;
  s.warps_per_row = static_cast<int>(CeilDivide(vectors, int64_t{s.registers} * 32));
  s.row_warps = 1;
  s.min_ctas_per_sm = ctas_per_sm;
  s.persistent = true;
}

// A few more vectors a thread of a row that stays in shared memory, where no column has registers
// of its own: as many as leave no vector a mask, or else as many as many slices divide.
void RoundVectors(const SizedGroup& sized, Schedule& s) {
  constexpr int kFewestSlices = 7;
  const int64_t vectors = CeilDivide(sized.columns, s.cluster * s.vector);
  const bool whole = vectors * s.cluster * s.vector == sized.columns;
  const int least = s.registers;
  for (const bool unmasked : {true, false}) {
    for (int r = least; r <= least + least / 4; ++r) {
      const bool masks = !whole || vectors % (r * 32) != 0;
      if (SlicesOf(r) < kFewestSlices || (unmasked && masks)) continue;
      s.registers = r;
      s.warps_per_row = static_cast<int>(CeilDivide(vectors, r * 32));
      return;
    }
  }
}

// A cluster whose threads load the row and that it divides evenly, as many CTAs an SM as have the
// registers, of which one goes on while others wait: instead of pieces so short that CTAs mostly
// wait for each other, of rows that meet twice, and beside sums over rows, which leave two wide
// inputs few registers to begin with. Nothing where no number of threads divides the row. Source:
// docs/schedulers/clusters.md, "Rows that threads divide".
std::optional<Schedule> LoadEvenly(const SizedGroup& sized, const KeptRows& rows, int states,
                                   const Schedule& piece) {
  constexpr int64_t kMostColumns = 8192, kShortColumns = 3200;
  constexpr int kMostVectors = 8, kFewestVectors = 4, kLeastThreads = 128, kMostThreads = 512;
  constexpr int kMostCtas = 6, kBesideWords = 40, kLeastCluster = 8;
  const DeviceInfo& device = sized.context.device;
  const bool wide = sized.narrowest_bytes >= 4, crossed = sized.shape.crossed();
  const bool uneven = piece.columns_at_once() != sized.columns;
  const bool meet_twice = StateWords(sized) > 1;
  const bool is_short = wide && meet_twice && sized.columns < kShortColumns * piece.cluster;
  if (states > 0 || piece.cluster < kLeastCluster || sized.run < sized.columns ||
      sized.narrowest_bytes != sized.widest_bytes || !(crossed ? wide || uneven : is_short)) {
    return std::nullopt;
  }
  const int cluster =
      PowerOfTwoAtLeast(CeilDivide(sized.columns, kMostColumns), device.max_cluster);
  if (sized.rows * cluster * 4 < device.sms * 3) return std::nullopt;  // SMs would be idle.
  for (int vectors = kMostVectors; vectors >= kFewestVectors; --vectors) {
    const int64_t at_once = int64_t{cluster} * piece.vector * vectors * 32;
    const int64_t threads = sized.columns / at_once * 32;
    if (sized.columns % at_once != 0 || threads < kLeastThreads || threads > kMostThreads) continue;
    Schedule s = piece;
    s.stages = s.pace = s.spare = 0;
    s.slices = 1;
    s.settled = s.tickets = s.reread = s.early = false;
    ShareInCluster(sized, cluster, static_cast<int>(threads), 1, s);
    const double words = rows.Words(vectors, s) + rows.AlikeWords() + kBesideWords;
    const auto fit = static_cast<int>(65536 / (words * static_cast<double>(threads)));
    if (fit == 0) continue;
    s.min_ctas_per_sm = std::min(fit, kMostCtas);
    s.grid = CtasOfClusters(sized, s);
    PinColumns(sized, s);
    return s;
  }
  return std::nullopt;
}

// Rows in pieces that lie apart, a channel of all images for example, which copies do not bring as
// fast: few threads with many vectors each, if these hold the row, as many CTAs an SM as have the
// registers.
bool ChooseLoadingCta(const SizedGroup& sized, const KeptRows& rows, Schedule& s) {
  constexpr int kThreads = 256, kLeastCtas = 2, kMostCtas = 4, kBesideWords = 38;
  Schedule alone = s;
  ShareInCluster(sized, 1, kThreads, kLeastCtas, alone);
  const double words = rows.Words(alone.registers, alone);
  if (sized.shape.crossed() || sized.rows < sized.context.device.sms ||
      words > 65536 / (kLeastCtas * kThreads) - kAheadRegisters) {
    return false;
  }
  alone.min_ctas_per_sm = std::clamp(static_cast<int>(65536 / (kThreads * (words + kBesideWords))),
                                     kLeastCtas, kMostCtas);
  s = alone;
  return true;
}

// A cluster's rows in few turns, of one input or of narrow ones: threads bring the next one, which
// takes less than copies to begin with; of wide data small CTAs, four of them an SM.
void BringFewTurns(const SizedGroup& sized, const KeptRows& rows, Schedule& s) {
  constexpr int kTurnsBrought = 32, kWideThreads = 128, kWideCtas = 4;
  const DeviceInfo& device = sized.context.device;
  const bool wide = sized.widest_bytes >= 4;
  if (!device.async_loads || s.cluster == 1 || s.reread || (wide && sized.large_inputs > 1) ||
      sized.rows * s.cluster >= kTurnsBrought * ResidentCtas(s, device)) {
    return;
  }
  Schedule t = s;
  if (wide) ShareInCluster(sized, s.cluster, kWideThreads, kWideCtas, t);
  t.stages = t.pace = 0;
  t.settled = false;
  t.tickets = false;
  t.async = true;
  t.grid = CtasOfClusters(sized, t);
  const double words = rows.Words(t.registers, t) + rows.AlikeWords() + kOtherRegisters;
  if (words <= RegistersFor(device, t.threads() * t.min_ctas_per_sm) &&
      rows.AsyncBytes(t) + rows.StateBytes(t) + kOtherSharedBytes <=
          device.smem_bytes_per_cta / t.min_ctas_per_sm) {
    s = t;
  }
}

// The same of rows that a cluster holds: of two CTAs an SM one goes on while the other waits.
// Longer rows have one if there are registers for nothing else, which costs less than to read them
// again, and so have few rows. Few rows that no CTA holds go to more CTAs than a cluster's.
bool ChooseLoadingCluster(const SizedGroup& sized, const KeptRows& rows, Schedule& s) {
  constexpr int kThreads = 512;
  const DeviceInfo& device = sized.context.device;
  const bool narrow = sized.widest_bytes < 4;
  const bool bare = !narrow && rows.AlikeWords() == 0;
  for (int ctas = 2; ctas >= 1; --ctas) {
    for (int cluster = 2; cluster <= device.max_cluster; cluster *= 2) {
      Schedule c = s;
      const bool whole_sms = bare || sized.rows * cluster <= CtasInClusters(device, cluster);
      if (sized.columns > int64_t{cluster} * kThreads * kMostWords || (ctas == 1 && !whole_sms) ||
          (sized.rows * cluster * 2 < device.sms && !HoldsRow(sized, rows, c))) {
        continue;
      }
      ShareInCluster(sized, cluster, kThreads, ctas, c);
      AlignToKept(rows, sized.columns, c);
      double words = rows.Words(c.registers, c);
      if (c.vector * sized.widest_bytes < 16) words += kSingleWords;
      // With registers to spare compilers load weights and unpack narrow data ahead.
      if (ctas == 1) words += c.registers * c.vector * (rows.AlikeWords() + (narrow ? 0.5 : 0));
      if (words > 65536 / (ctas * c.threads()) - kOtherRegisters ||
          rows.StateBytes(c) > device.smem_bytes_per_cta / ctas - kOtherSharedBytes) {
        continue;
      }
      c.grid = CtasOfClusters(sized, c);
      if (ctas > 1 && c.columns_at_once() == sized.columns) PinColumns(sized, c);
      s = c;
      return true;
    }
  }
  return false;
}

}  // namespace

absl::StatusOr<bool> ChooseCluster(const SizedGroup& sized, const KeptRows& rows, int states,
                                   Schedule& s) {
  const DeviceInfo& device = sized.context.device;
  const double weights = rows.AlikeWords();
  // What a CTA for each row does faster if it has masks.
  const bool uneven = states == 0 && VectorsOf(sized, s) % kUnmaskedVectors != 0 &&
                      IsOneNarrowInputBesideWeights(sized, rows, s);
  const bool wide_weights = AreBesideManyWideWeights(sized, rows, states);
  const int64_t enough = uneven                                   ? kUnevenCtaColumns
                         : wide_weights                           ? kWideWeightsCtaColumns
                         : states == 0                            ? kCtaColumns
                         : sized.widest_bytes >= 4                ? kWideStatesCtaColumns
                         : AreFewWithStates(sized, states)        ? kFewRowsCtaColumns
                         : states == 1 && !TakesTickets(sized, s) ? kOneStateCtaColumns
                                                                  : kStatesCtaColumns;
  if (device.max_cluster == 1 || s.outer || s.vector == 1 || sized.rows == 0) return false;
  if (IsForSteps(sized, rows, s)) return false;
  if (s.shift) return ChooseShiftedCluster(sized, rows, states, s);
  if (sized.columns <= enough) return false;
  const bool fits = states == 0 && FitsCta(sized, rows, s);
  Schedule pinned = s;
  PinColumns(sized, pinned);
  SEAM_ASSIGN_OR_RETURN(const KeptRows pinned_rows, KeptRows::Of(sized, pinned));
  // The row in such pieces, so many of them, if that is possible.
  const auto in_pieces = [&](const Piece& piece, int cluster) -> std::optional<Schedule> {
    Schedule c = s;
    // Nothing but a cluster shares the states of columns.
    const bool few_rows = states == 0 ? sized.rows * cluster * 2 < device.sms
                                      : cluster == 1 && sized.rows <= device.sms;
    if (cluster > std::min(piece.most_ctas, device.max_cluster) || few_rows) return std::nullopt;
    ShareInCluster(sized, cluster, piece.threads, piece.ctas_per_sm, c);
    c.reread = piece.reread;
    if (c.reread && states == 0 && weights == 0) RoundVectors(sized, c);
    // Which CTAs have which rows matters to nothing but what they sum over rows.
    c.tickets = piece.stages > 1 && !sized.shape.crosses_all_rows() && MayCountRows(sized);
    const int registers = std::min(255, 65536 / (c.threads() * piece.ctas_per_sm));
    const double words = states + weights + (c.reread ? 0 : sized.input_words);
    if (c.registers * c.vector * words > registers - (c.reread       ? kRereadRegisters
                                                      : wide_weights ? kWideWeightRegisters
                                                                     : kOtherRegisters))
      return std::nullopt;
    const int64_t stage = pinned_rows.StageBytes(c);
    if (stage == 0) return std::nullopt;
    const int64_t room =
        device.smem_bytes_per_cta / piece.ctas_per_sm - kOtherSharedBytes - rows.StateBytes(c);
    if (room < 0) return std::nullopt;
    c.stages = static_cast<int>(std::min<int64_t>(piece.stages, room / stage));
    if (c.stages < std::min(2, piece.stages)) return std::nullopt;
    if (c.stages == 1 && c.reread) CutInSlices(stage, room, c);
    StayTogether(sized, stage, c);
    return c;
  };
  const auto cluster_for = [&](const Piece& piece) {
    return PowerOfTwoAtLeast(CeilDivide(sized.columns, piece.columns), 32);
  };
  if (states == 0 && weights == 0 && sized.large_outputs == 0 && sized.run == sized.columns) {
    for (const Piece& piece : kReadPieces) {
      std::optional<Schedule> c = in_pieces(piece, cluster_for(piece));
      if (!c || LosesUnstaged(sized, piece, *c)) continue;
      c->grid = CtasOfClusters(sized, *c);
      PinColumns(sized, *c);
      s = *std::move(c);
      return true;
    }
  }
  for (const Piece& piece : PiecesFor(sized, rows, states)) {
    std::optional<Schedule> c = in_pieces(piece, cluster_for(piece));
    if (!c) continue;
    const int half = HalfOf(sized, piece, states, c->cluster);
    if (HasRoomForAnother(sized, rows, states, pinned_rows.StageBytes(*c), *c)) {
      c->min_ctas_per_sm = 2;
    } else if (half > 0) {
      Piece twice = piece;
      twice.threads = std::min(2 * piece.threads, 1024);
      twice.ctas_per_sm = std::max(1, piece.ctas_per_sm - 1);
      std::optional<Schedule> larger = in_pieces(twice, half);
      if (larger && larger->stages >= c->stages) c = larger;
    }
    for (const Piece& other : UnevenPiecesFor(sized, weights, states, *c)) {
      if (std::optional<Schedule> even = in_pieces(other, cluster_for(other))) {
        c = even;
        break;
      }
    }
    AddStage(sized, rows, weights, states, pinned_rows.StageBytes(*c), *c);
    if (fits && AreTurnsTooFew(sized, *c)) return false;
    if (std::optional<Schedule> even = LoadEvenly(sized, rows, states, *c)) {
      s = *std::move(even);
      return true;
    }
    c->grid = CtasOfClusters(sized, *c);
    PinColumns(sized, *c);
    if (states == 0) BringFewTurns(sized, rows, *c);
    s = *std::move(c);
    return true;
  }
  if (states > 0) return false;
  // Pieces that give a warp's lanes a vector each.
  const bool pieces =
      sized.run < sized.columns && sized.run >= 32 * s.vector && sized.widest_bytes < 4;
  if ((!fits || pieces) && ChooseLoadingCta(sized, rows, s)) return true;
  return !fits && ChooseLoadingCluster(sized, rows, s);
}

}  // namespace seam::reduction
