// A graph of tests/graphs: its text, and the header comment that says into how many kernels it
// should be cut.
//
//   # Title.
//   #
//   # sizes: M=8192 N=4096       at which bytes are counted
//   # run: M=8                   for the simulator; other symbols get small odd sizes
//   # expect: 2 kernels, 1 call, least + x + 2*mean
//   # today: 3 kernels, 1 call, 402718720 bytes; who refuses, and why
//   # why: one sentence or two on why the expectation is right
//
// `expect` is what the rule of legality makes possible. Its bytes are those of the kernels, without
// the calls': `least` is every input and every result of a call read once, every output and every
// operand of a call written once; a name behind it is a value that passes through memory once more.
// `today` is there where the schedulers or the passes do not get there yet.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ir/fusion.h"
#include "runtime/executable.h"
#include "segmenter/segmented_fusion.h"
#include "segmenter/sizes.h"

namespace seam::testing {

struct CutFigures {
  int kernels = 0, calls = 0;
  int64_t bytes = 0;             // Of the kernels.
  std::string ToString() const;  // "2 kernels, 1 call, 402718720 bytes"
  friend bool operator==(const CutFigures&, const CutFigures&) = default;
};

struct NamedGraph {
  std::string name, path;
  std::string text;                           // The whole file.
  std::map<std::string, std::string> header;  // By key, without what folds the lines.
  Fusion fusion;
  SymbolSizes sizes;
  std::map<std::string, int64_t> run_sizes;  // Of all symbols.
  CutFigures expected;
  std::optional<std::pair<CutFigures, std::string>> today;  // And why.
};

// Errors name the file and what its header lacks.
absl::StatusOr<NamedGraph> LoadNamedGraph(const std::string& path);
// The file's text with this line for today, or without one.
std::string WithToday(const NamedGraph& graph, const std::string& today);

// Of what runs.
absl::StatusOr<CutFigures> FiguresOf(absl::Span<const GroupReport> reports,
                                     const SymbolSizes& sizes);
// Of what the segmenter counts.
CutFigures FiguresOf(const SegmentedFusion& segmented, const SizeHints& sizes);
// What the kernels of `fusion` have to read and write, however it is cut; calls are borders.
int64_t LeastBytes(const Fusion& fusion, const SizeHints& sizes);

}  // namespace seam::testing
