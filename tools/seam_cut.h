// A graph and how it is cut: what segment, explain and diff work on. It comes from the segmenter,
// with options, or from a file.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/executable.h"
#include "segmenter/dump.h"
#include "segmenter/segment.h"
#include "tools/seam_command.h"

namespace seam::tool {

struct CutOptions {
  std::string graph;
  std::string load;                   // A file with a segmentation; empty: it is segmented.
  std::vector<std::string> settings;  // Of --set.
  std::vector<std::string> without;   // Passes that are switched off.
  Narrowing narrow_edges = Narrowing::kExact;
  bool trace = false;
};

CLI::Option* AddWithoutOption(CLI::App& app, std::vector<std::string>* without);
// --load and --segmentation.
CLI::Option* AddLoadOption(CLI::App& app, const char* name, std::string* path);
// --narrow-edges.
CLI::Option* AddNarrowOption(CLI::App& app, Narrowing* narrow_edges);

// --no-tuned.
CLI::Option* AddNoTunedOption(CLI::App& app, bool* no_tuned);

// --any-order.
CLI::Option* AddAnyOrderOption(CLI::App& app, bool* any_order);

// The file of --segmentation, where there is one, as the cut to compile.
int ReadSegmentation(const std::string& path, CompileOptions* options);

// Says what kept the caches on disk from working; nothing else differs for it.
void WarnOfCaches(const Executable& executable);

struct Cut {
  std::unique_ptr<const Fusion> fusion;  // The segmentation refers to it.
  Sizes sizes;                           // Of all symbols.
  SegmentOptions options;                // With which it was segmented; of a loaded one the sizes.
  std::string text;                      // Of a loaded one: the file.
  SegmentedFusion segmented;
  SegmentationLog log;
  SizeHints hints;

  DumpOptions Dump(bool color) const { return {&hints, &log, color}; }
};
// On an error prints it and gives the exit code. Of a loaded segmentation every group is one that
// its scheduler takes; its own sizes hold where --set gives none.
int MakeCut(const CutOptions& options, std::unique_ptr<Cut>* cut);

}  // namespace seam::tool
