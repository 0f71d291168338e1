// What the subcommands of `seam` share: exit codes, errors on stderr, graphs by path or by name,
// sizes from --set, output files, progress.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ir/fusion.h"
#include "runtime/size_binding.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace seam::tool {

enum ExitCode : int {
  kGood = 0,
  kCheckFailed = 1,
  kWrongUsage = 2,
  kBadGraph = 3,
  kEnvironmentLacks = 4,
};

// A subcommand: its options are registered with `app`; `run` does the work after they are parsed.
struct Command {
  CLI::App* app;
  std::function<int()> run;
};
void AddGraphCommands(CLI::App& app, std::vector<Command>& commands);  // verify, ops, print
void AddSegmentCommand(CLI::App& app, std::vector<Command>& commands);
void AddExplainCommand(CLI::App& app, std::vector<Command>& commands);
void AddDiffCommand(CLI::App& app, std::vector<Command>& commands);
void AddCompileCommand(CLI::App& app, std::vector<Command>& commands);
void AddRunCommand(CLI::App& app, std::vector<Command>& commands);
void AddBenchCommand(CLI::App& app, std::vector<Command>& commands);

// Prints "seam: message" on stderr; returns `code`.
int Fail(ExitCode code, absl::string_view message);
// The same for an error of the library. What the machine lacks (NVRTC, a GPU, memory) is
// kEnvironmentLacks, an argument that does not fit the graph kBadGraph, the rest, what is not built
// yet among it, kCheckFailed.
int Fail(const absl::Status& status);

// Prints "seam: warning: message" on stderr.
void Warn(absl::string_view message);

// The positional argument GRAPH and the options that several subcommands have.
void AddGraphArgument(CLI::App& app, std::string* graph);
void AddSetOption(CLI::App& app, std::vector<std::string>* settings, absl::string_view otherwise);

// -o for what is written to a file or, without it, to standard output.
void AddOutputOption(CLI::App& app, std::string* path);
// Refuses, as the check of an option, an empty name.
std::string CheckNamed(const std::string& path);
// The same of what is no integer from `least` to `most`.
std::function<std::string(const std::string&)> IntegerFrom(int64_t least, int64_t most);

// The graph at `name`: a path, "-" for standard input, or the name of an example. On an error
// prints it and sets
// `*exit_code`.
absl::StatusOr<Fusion> LoadGraph(const std::string& name);

// The content of a file, or of standard input where `path` is "-".
absl::StatusOr<std::string> ReadInput(const std::string& path);

// Sizes of symbols by name.
using Sizes = std::map<std::string, int64_t>;
// Values of `settings`, each "NAME=INTEGER" or several with commas between, for symbols of
// `fusion`. On an error prints it and gives the exit code: kWrongUsage for bad syntax, an unknown
// symbol or one that is set twice; kBadGraph for a value outside its symbol's range.
int ParseSizes(const Fusion& fusion, const std::vector<std::string>& settings, Sizes* sizes);
// Gives every symbol that has no size the value of `otherwise`(position among the symbols), moved
// into its range; those that are only strides of inputs and outputs get those of tensors without
// gaps.
void FillSizes(const Fusion& fusion, const std::function<int64_t(int)>& otherwise, Sizes* sizes);

// What a symbol without a size counts as where nothing runs.
inline int64_t HintedSize(int) { return 1024; }
std::vector<SymbolValue> SymbolsOf(const Sizes& sizes);

// Writes `content` to the file `path`, or to stdout where `path` is empty. A file that is there is
// replaced by a whole one or not at all. Error: kUnavailable with a sentence.
absl::Status WriteOutput(const std::string& path, absl::string_view content);
absl::Status MakeDirectories(const std::string& path);

// `text` in a colour where stdout is a terminal (and NO_COLOR is not set), else plain.
enum class Colour { kGreen, kRed, kBold, kFaint };
bool IsColoured();
std::string Coloured(Colour colour, absl::string_view text);

// A line on stderr that says what takes so long, where stderr is a terminal. The next output
// replaces it.
void ShowProgress(absl::string_view text);

}  // namespace seam::tool
