#include "tests/graphs/named_graph.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "ir/status.h"
#include "ir/text/parser.h"
#include "segmenter/traffic.h"

namespace seam::testing {
namespace {

using Header = std::map<std::string, std::string>;

// The lines "# key: text" in front of the graph; those that are indented more continue the one
// before.
Header ParseHeader(absl::string_view text) {
  Header header;
  std::string key;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    if (!absl::ConsumePrefix(&line, "#")) break;
    if (absl::StartsWith(line, "   ") && !key.empty()) {
      absl::StrAppend(&header[key], " ", absl::StripAsciiWhitespace(line));
      continue;
    }
    key.clear();
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(absl::StripAsciiWhitespace(line), absl::MaxSplits(": ", 1));
    if (absl::StrContains(parts.first, ' ') || parts.second.empty()) continue;
    key = std::string(parts.first);
    header[key] = std::string(absl::StripAsciiWhitespace(parts.second));
  }
  return header;
}

// "M=8192 N=4096"
absl::StatusOr<SymbolSizes> ParseSizes(absl::string_view text) {
  SymbolSizes sizes;
  for (absl::string_view setting : absl::StrSplit(text, ' ', absl::SkipEmpty())) {
    const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(setting, '=');
    int64_t size;
    if (!absl::SimpleAtoi(parts.second, &size)) {
      return absl::InvalidArgumentError(absl::StrCat("`", setting, "` is not NAME=INTEGER"));
    }
    sizes[std::string(parts.first)] = size;
  }
  return sizes;
}

// "2 kernels, 1 call, BYTES", BYTES by `bytes_of`.
template <typename BytesOf>
absl::StatusOr<CutFigures> ParseFigures(absl::string_view text, BytesOf bytes_of) {
  CutFigures figures;
  for (absl::string_view part : absl::StrSplit(text, ", ")) {
    const std::vector<absl::string_view> words = absl::StrSplit(part, ' ');
    int count = 0;
    if (words.size() == 2 && absl::SimpleAtoi(words[0], &count) &&
        absl::StartsWith(words[1], "kernel")) {
      figures.kernels = count;
    } else if (words.size() == 2 && absl::SimpleAtoi(words[0], &count) &&
               absl::StartsWith(words[1], "call")) {
      figures.calls = count;
    } else {
      SEAM_ASSIGN_OR_RETURN(figures.bytes, bytes_of(part));
    }
  }
  return figures;
}

// "least + x + 2*mean"
absl::StatusOr<int64_t> ParseBytes(absl::string_view text, const Fusion& fusion,
                                   const SizeHints& sizes) {
  int64_t bytes = 0;
  for (absl::string_view term : absl::StrSplit(text, " + ")) {
    int64_t factor = 1;
    std::vector<absl::string_view> parts = absl::StrSplit(term, '*');
    if (parts.size() == 2 && !absl::SimpleAtoi(parts[0], &factor)) parts.clear();
    if (parts.empty() || parts.size() > 2) {
      return absl::InvalidArgumentError(absl::StrCat("`", term, "` is not a number of bytes"));
    }
    if (parts.back() == "least") {
      bytes += factor * LeastBytes(fusion, sizes);
      continue;
    }
    ValId value;
    for (uint32_t v = 0; v < fusion.num_vals(); ++v) {
      if (fusion.name(ValId(v)) == parts.back()) value = ValId(v);
    }
    if (!value.valid()) {
      return absl::InvalidArgumentError(absl::StrCat("there is no value `", parts.back(), "`"));
    }
    bytes += factor * sizes.Bytes(value);
  }
  return bytes;
}

bool IsCall(const Fusion& fusion, ExprId e) { return fusion.info(e).op_class == OpClass::Library; }

bool IsView(const Fusion& fusion, ExprId e) {
  const OpClass c = fusion.info(e).op_class;
  return c == OpClass::View || c == OpClass::Broadcast;
}

// What the expressions of a Fusion other than calls and views have to read, and what is written.
class Traffic {
 public:
  Traffic(const Fusion& fusion, const SizeHints& sizes) : fusion_(fusion), sizes_(sizes) {
    for (uint32_t i = 0; i < fusion.num_exprs(); ++i) {
      const ExprId e(i);
      if (IsView(fusion, e) || IsCall(fusion, e)) continue;
      for (size_t k = 0; k < fusion.operands(e).size(); ++k) {
        const ValId v = fusion.operands(e)[k];
        const bool looks_up = fusion.info(e).op_class == OpClass::Indexing && k == 0;
        if (!IsFromOutside(RootOf(v))) continue;
        if (looks_up) {
          reads_[RootOf(v)].insert(fusion.result(e));
        } else {
          Read(v);
        }
      }
    }
  }

  ValId RootOf(ValId v) const {  // What it is a view of.
    while (IsViewed(v)) v = Viewed(v);
    return v;
  }
  ValId SmallestOnTheWay(ValId v) const {
    ValId smallest = v;
    for (; IsViewed(v); v = Viewed(v)) {
      if (sizes_.Bytes(Viewed(v)) < sizes_.Bytes(smallest)) smallest = Viewed(v);
    }
    return smallest;
  }
  bool IsFromOutside(ValId root) const {
    return !fusion_.definition(root).valid() || IsCall(fusion_, fusion_.definition(root));
  }

  void Read(ValId v) { reads_[RootOf(v)].insert(SmallestOnTheWay(v)); }
  void Write(ValId v, int64_t bytes) { writes_[v] = std::max(writes_[v], bytes); }

  int64_t bytes() const {
    int64_t bytes = 0;
    for (const auto& [root, parts] : reads_) {
      int64_t read = 0;
      for (ValId part : parts) read += sizes_.Bytes(part);
      bytes += std::min(read, sizes_.Bytes(root));
    }
    for (const auto& [v, written] : writes_) bytes += written;
    return bytes;
  }

 private:
  bool IsViewed(ValId v) const {
    return fusion_.definition(v).valid() && IsView(fusion_, fusion_.definition(v));
  }
  ValId Viewed(ValId v) const { return fusion_.operands(fusion_.definition(v))[0]; }

  const Fusion& fusion_;
  const SizeHints& sizes_;
  absl::btree_map<ValId, absl::btree_set<ValId>> reads_;  // By what is read, the parts of it.
  absl::btree_map<ValId, int64_t> writes_;
};

absl::StatusOr<NamedGraph> Load(const std::string& path) {
  std::ifstream file(path);
  std::stringstream content;
  content << file.rdbuf();
  std::string text = content.str();
  Header header = ParseHeader(text);
  for (const char* key : {"sizes", "expect", "why"}) {
    if (header[key].empty())
      return absl::InvalidArgumentError(absl::StrCat("the header has no `", key, ":`"));
  }
  SEAM_ASSIGN_OR_RETURN(Fusion fusion, ParseFusion(text, {path}));
  SEAM_ASSIGN_OR_RETURN(SymbolSizes sizes, ParseSizes(header["sizes"]));
  SEAM_ASSIGN_OR_RETURN(const SymbolSizes run, ParseSizes(header["run"]));
  SEAM_ASSIGN_OR_RETURN(const SizeHints hints, SizeHints::Create(fusion, sizes));
  std::map<std::string, int64_t> run_sizes;
  for (const SymNode* s : fusion.env().symbols()) {
    const std::string name(s->name);
    const auto given = run.find(name);
    const int64_t size = given != run.end() ? given->second : 3 + 2 * (run_sizes.size() % 4);
    run_sizes[name] = std::clamp(size, s->range.lo, s->range.hi);
  }
  SEAM_ASSIGN_OR_RETURN(const CutFigures expected,
                        ParseFigures(header["expect"], [&](absl::string_view bytes) {
                          return ParseBytes(bytes, fusion, hints);
                        }));
  std::optional<std::pair<CutFigures, std::string>> today;
  if (const std::string& line = header["today"]; !line.empty()) {
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(line, absl::MaxSplits("; ", 1));
    SEAM_ASSIGN_OR_RETURN(
        const CutFigures figures,
        ParseFigures(parts.first, [](absl::string_view bytes) -> absl::StatusOr<int64_t> {
          int64_t count;
          if (absl::ConsumeSuffix(&bytes, " bytes") && absl::SimpleAtoi(bytes, &count))
            return count;
          return absl::InvalidArgumentError(absl::StrCat("`", bytes, "` is not `N bytes`"));
        }));
    today.emplace(figures, std::string(parts.second));
  }
  return NamedGraph{std::filesystem::path(path).stem().string(),
                    path,
                    std::move(text),
                    std::move(header),
                    std::move(fusion),
                    std::move(sizes),
                    std::move(run_sizes),
                    expected,
                    std::move(today)};
}

}  // namespace

std::string CutFigures::ToString() const {
  return absl::StrCat(kernels, kernels == 1 ? " kernel" : " kernels",
                      calls == 0 ? "" : absl::StrCat(", ", calls, calls == 1 ? " call" : " calls"),
                      ", ", bytes, " bytes");
}

absl::StatusOr<NamedGraph> LoadNamedGraph(const std::string& path) {
  absl::StatusOr<NamedGraph> graph = Load(path);
  if (graph.ok()) return graph;
  return absl::Status(graph.status().code(), absl::StrCat(path, ": ", graph.status().message()));
}

std::string WithToday(const NamedGraph& graph, const std::string& today) {
  std::string text;
  bool skipping = false;
  for (absl::string_view line : absl::StrSplit(graph.text, '\n')) {
    skipping = absl::StartsWith(line, "# today:") || (skipping && absl::StartsWith(line, "#   "));
    if (skipping) continue;
    absl::StrAppend(&text, line, "\n");
    if (!absl::StartsWith(line, "# expect:") || today.empty()) continue;
    std::string folded = "# today:";
    for (absl::string_view word : absl::StrSplit(today, ' ')) {
      if (folded.size() + word.size() >= 102) {
        absl::StrAppend(&text, folded, "\n");
        folded = "#  ";
      }
      absl::StrAppend(&folded, " ", word);
    }
    absl::StrAppend(&text, folded, "\n");
  }
  text.pop_back();  // The split made one line too many of the last newline.
  return text;
}

absl::StatusOr<CutFigures> FiguresOf(absl::Span<const GroupReport> reports,
                                     const SymbolSizes& all_sizes) {
  CutFigures figures;
  for (const GroupReport& report : reports) {
    if (report.scheduler == SchedulerKind::kLibrary) ++figures.calls;
    if (report.kernels.empty()) continue;
    figures.kernels += static_cast<int>(report.kernels.size());
    SEAM_ASSIGN_OR_RETURN(const Fusion group, ParseFusion(report.text));
    SymbolSizes sizes;
    for (const SymNode* s : group.env().symbols()) {
      const auto size = all_sizes.find(std::string(s->name));
      if (size != all_sizes.end()) sizes.insert(*size);
    }
    SEAM_ASSIGN_OR_RETURN(const SizeHints hints, SizeHints::Create(group, sizes));
    Traffic traffic(group, hints);
    for (ValId v : group.outputs()) {
      if (traffic.IsFromOutside(traffic.RootOf(v))) traffic.Read(v);
      traffic.Write(v, hints.Bytes(v));
    }
    figures.bytes += traffic.bytes();
  }
  return figures;
}

CutFigures FiguresOf(const SegmentedFusion& segmented, const SizeHints& sizes) {
  CutFigures figures;
  for (GroupId g : segmented.groups()) {
    if (!Launches(segmented, g)) continue;
    const bool call = segmented.scheduler(g) == SchedulerKind::kLibrary;
    ++(call ? figures.calls : figures.kernels);
    if (!call) figures.bytes += TrafficOf(segmented, sizes, g).bytes();
  }
  return figures;
}

int64_t LeastBytes(const Fusion& fusion, const SizeHints& sizes) {
  Traffic traffic(fusion, sizes);
  const auto write = [&](ValId v, int64_t bytes) {
    if (const ValId root = traffic.RootOf(v); !traffic.IsFromOutside(root))
      traffic.Write(root, bytes);
  };
  for (uint32_t i = 0; i < fusion.num_exprs(); ++i) {
    if (!IsCall(fusion, ExprId(i))) continue;
    for (ValId v : fusion.operands(ExprId(i))) write(v, sizes.Bytes(traffic.SmallestOnTheWay(v)));
  }
  for (ValId v : fusion.outputs()) write(v, sizes.Bytes(v));
  return traffic.bytes();
}

}  // namespace seam::testing
