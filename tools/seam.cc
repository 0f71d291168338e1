// seam: the command line tool. Each group of subcommands is a file, seam_*.cc; this one dispatches.
#include <signal.h>

#include <algorithm>
#include <new>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "tools/seam_command.h"

int main(int argc, char** argv) {
  using namespace seam::tool;
  // A write past `ulimit -f` shall fail as one to a full disk does, not end the process.
  signal(SIGXFSZ, SIG_IGN);
  CLI::App app(
      "Seam cuts a graph of tensor operations into fused GPU kernels, compiles them, runs them,\n"
      "and can say why it cut where it did.");
  app.name("seam");
  app.require_subcommand(1);
  app.set_version_flag("--version", "seam " SEAM_VERSION, "Print the version and exit");
  app.footer(
      "A GRAPH is a file in Seam's text form, - for standard input, or the name of an example\n"
      "(instance_norm, layer_norm, softmax, ...).\n\n"
      "Exit codes: 0 good, 1 a check or Seam itself failed, 2 wrong usage, 3 a bad input graph,\n"
      "4 the machine lacks something (NVRTC, a GPU, space on the disk).\n\n"
      "Start with:\n"
      "  seam segment instance_norm         how the graph is cut, and into what\n"
      "  seam run instance_norm --check     run it and compare with the reference\n"
      "  seam run --help                    all about a subcommand");
  std::vector<Command> commands;
  AddGraphCommands(app, commands);
  AddSegmentCommand(app, commands);
  AddExplainCommand(app, commands);
  AddDiffCommand(app, commands);
  AddCompileCommand(app, commands);
  AddRunCommand(app, commands);
  AddBenchCommand(app, commands);

  const bool named = argc > 1 && argv[1][0] != '-';
  if (named && std::none_of(commands.begin(), commands.end(),
                            [&](const Command& c) { return c.app->get_name() == argv[1]; })) {
    return Fail(kWrongUsage, absl::StrCat("there is no subcommand '", argv[1],
                                          "'; run 'seam --help' for those there are"));
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    const absl::Status status = WriteOutput("", app.help());
    return status.ok() ? kGood : Fail(status);
  } catch (const CLI::CallForVersion& version) {
    const absl::Status status = WriteOutput("", absl::StrCat(version.what(), "\n"));
    return status.ok() ? kGood : Fail(status);
  } catch (const CLI::ParseError& error) {
    std::string named;
    for (const CLI::App* sub : app.get_subcommands()) named = absl::StrCat(" ", sub->get_name());
    // What is lacking often lacks because of an option that there is not.
    const std::vector<std::string> unknown = app.remaining(/*recurse=*/true);
    const std::string what = unknown.empty() ? error.what() : CLI::ExtrasError(unknown).what();
    return Fail(kWrongUsage, absl::StrCat(what, "\nRun 'seam", named, " --help'."));
  }
  try {
    for (const Command& command : commands) {
      if (command.app->parsed()) return command.run();
    }
  } catch (const std::bad_alloc&) {
    return Fail(kEnvironmentLacks, "there is not enough memory for this");
  }
  return kWrongUsage;
}
