// seam verify, seam ops, seam print: what needs the graph alone.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "ir/ops.h"
#include "ir/text/printer.h"
#include "ir/verify.h"
#include "tools/seam_command.h"

namespace seam::tool {
namespace {

std::string Count(size_t n, absl::string_view noun) {
  return absl::StrCat(n, " ", noun, n == 1 ? "" : "s");
}

int RunVerify(const std::string& graph) {
  const absl::StatusOr<Fusion> fusion = LoadGraph(graph);
  if (!fusion.ok()) return Fail(kBadGraph, fusion.status().message());
  if (absl::Status status = Verify(*fusion); !status.ok()) return Fail(kBadGraph, status.message());
  std::vector<std::string> symbols;
  for (const SymNode* s : fusion->env().symbols()) {
    symbols.push_back(
        absl::StrCat(std::string(s->name), " in [", s->range.lo, ", ", s->range.hi, "]"));
  }
  const std::string report = absl::StrCat(
      Coloured(Colour::kGreen, "ok"), "  ", std::string(fusion->name()), ": ",
      Count(fusion->inputs().size(), "input"), ", ", Count(fusion->num_exprs(), "expression"), ", ",
      Count(fusion->outputs().size(), "output"), symbols.empty() ? "" : "; ",
      absl::StrJoin(symbols, ", "), "\n");
  if (absl::Status status = WriteOutput("", report); !status.ok()) return Fail(status);
  return kGood;
}

int RunPrint(const std::string& graph, const std::string& path) {
  const absl::StatusOr<Fusion> fusion = LoadGraph(graph);
  if (!fusion.ok()) return Fail(kBadGraph, fusion.status().message());
  if (absl::Status status = WriteOutput(path, PrintFusion(*fusion)); !status.ok())
    return Fail(status);
  return kGood;
}

// The dtypes that an operation takes, in short.
std::string DTypesOf(OpKind kind) {
  int floats = 0, integers = 0;
  bool boolean = false;
  for (int i = 0; i < kNumDTypes; ++i) {
    const DType dtype = static_cast<DType>(i);
    if (!TakesDType(kind, dtype)) continue;
    floats += IsFloat(dtype);
    integers += IsInteger(dtype);
    boolean |= dtype == DType::Bool;
  }
  if (floats > 0 && integers > 0) return boolean ? "any" : "numbers";
  if (floats > 0) return floats < 6 ? "f32 f64" : "floats";
  if (integers > 0) return boolean ? "integers bool" : "integers";
  return boolean ? "bool" : "none";
}

int RunOps(const std::string& filter) {
  std::string text;
  int shown = 0;
  std::vector<OpClass> classes;
  for (const OpInfo& op : AllOps()) {
    if (std::find(classes.begin(), classes.end(), op.op_class) == classes.end())
      classes.push_back(op.op_class);
  }
  for (const OpClass op_class : classes) {
    bool headed = false;
    for (const OpInfo& op : AllOps()) {
      if (op.op_class != op_class) continue;
      if (!absl::StrContains(op.name, filter) && !absl::StrContains(op.doc, filter) &&
          filter != OpClassName(op_class))
        continue;
      if (!headed) {
        absl::StrAppend(&text, shown == 0 ? "" : "\n",
                        Coloured(Colour::kBold, OpClassName(op_class)), "\n");
        headed = true;
      }
      const std::string operands =
          op.num_operands < 0 ? "1 or more" : absl::StrCat(op.num_operands);
      const std::string arity =
          op.num_results == 1 ? operands : absl::StrCat(operands, " -> ", op.num_results);
      absl::StrAppendFormat(&text, "  %-15s %-9s %-14s %s\n", op.name, arity, DTypesOf(op.kind),
                            op.doc);
      ++shown;
    }
  }
  if (shown == 0)
    return Fail(kWrongUsage,
                absl::StrCat("no operation has '", filter, "' in its name, class or description"));
  absl::StrAppend(
      &text, "\n", Count(shown, "operation"),
      ". Columns: name, operands (-> results if more than one), dtypes of the data, meaning.\n");
  if (absl::Status status = WriteOutput("", text); !status.ok()) return Fail(status);
  return kGood;
}

}  // namespace

void AddGraphCommands(CLI::App& app, std::vector<Command>& commands) {
  struct GraphArguments {
    std::string graph, path, filter;
  };
  const auto options = std::make_shared<GraphArguments>();

  CLI::App* verify =
      app.add_subcommand("verify", "Check a graph: syntax, types, shapes, every invariant");
  AddGraphArgument(*verify, &options->graph);
  verify->footer(
      "An error names file, line and column, what was found and what was expected.\n\n"
      "Examples:\n"
      "  seam verify examples/layer_norm.seam\n"
      "  generate_graph | seam verify -");
  commands.push_back({verify, [options] { return RunVerify(options->graph); }});

  CLI::App* ops = app.add_subcommand("ops", "List the operations, one line each");
  ops->add_option("filter", options->filter,
                  "Only operations with this text in their name, description or class")
      ->type_name("");
  ops->footer(
      "Examples:\n"
      "  seam ops\n"
      "  seam ops log\n"
      "  seam ops reduction");
  commands.push_back({ops, [options] { return RunOps(options->filter); }});

  CLI::App* print = app.add_subcommand(
      "print", "Print a graph in canonical text: one operation a line, every type");
  AddGraphArgument(*print, &options->graph);
  AddOutputOption(*print, &options->path);
  print->footer(
      "Printing the result again gives the same text.\n\n"
      "Examples:\n"
      "  seam print softmax\n"
      "  seam print examples/rope.seam -o rope_canonical.seam");
  commands.push_back({print, [options] { return RunPrint(options->graph, options->path); }});
}

}  // namespace seam::tool
