// One walk over the statements: integers become text in index_text.h, values in prelude.h, accesses
// in memory_access.h; what is left here is fragments, statements and the frame around them.
#include "runtime/codegen/emitter.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "ir/status.h"
#include "runtime/codegen/fragment_uses.h"
#include "runtime/codegen/identifiers.h"
#include "runtime/codegen/index_text.h"
#include "runtime/codegen/memory_access.h"
#include "runtime/codegen/prelude.h"
#include "runtime/codegen/shared_divisions.h"
#include "scheduler/kernel/access.h"

namespace seam {
namespace {

using kernel::Block;
using kernel::CacheHint;
using kernel::Fragment;
using kernel::Kernel;
using kernel::Operand;
using kernel::Space;
using kernel::Stmt;

std::string OneLine(absl::string_view text) {
  return absl::StrReplaceAll(text, {{"\n", " "}, {"\r", " "}, {"\\", "/"}});
}

class Emitter {
 public:
  explicit Emitter(const Kernel& kernel)
      : kernel_(kernel), uses_(kernel), text_(kernel.index32, &names_) {}

  std::string Run() {
    names_.Unique(kernel_.name);
    text_.Enter();
    const std::string signature = Signature();
    Shared();
    text_.Line("seam_await_predecessor();");
    for (size_t f = 0; f < kernel_.fragments.size(); ++f) Declare(static_cast<int>(f));
    if (kernel_.NumPhases() == 1) {
      Statements(kernel_.body);
    } else {
      Phases();
    }
    const std::string body = absl::StrJoin(text_.Exit(), "\n");
    const std::string function =
        absl::StrCat(access_.Definitions(), signature, " {\n", body, "\n}\n");
    std::string comment;
    for (absl::string_view line : absl::StrSplit(kernel_.summary, '\n', absl::SkipEmpty())) {
      absl::StrAppend(&comment, "// ", OneLine(line), "\n");
    }
    return absl::StrCat(comment, PreludeFor(function), function);
  }

 private:
  struct FragmentText {
    std::string name;
    int elements_per_word = 0;  // Of a packed fragment of elements narrower than a word, else 0.
    int registers = 1;          // 1: a scalar variable, otherwise an array.
    const Stmt* declaration = nullptr;
    bool constant = false;   // Written by its declaration only.
    bool unrounded = false;  // Rounded by the stores.
  };

  std::string Signature() {
    std::vector<std::string> arguments;
    for (const kernel::Buffer& buffer : kernel_.buffers) {
      buffers_.push_back(names_.Unique(buffer.name));
      arguments.push_back(absl::StrCat(buffer.written ? "" : "const ",
                                       CudaStorageType(buffer.dtype),
                                       buffer.written ? "* " : "* __restrict__ ", buffers_.back()));
    }
    for (const SymInt parameter : kernel_.parameters) {
      const std::string name = names_.Unique(parameter.ToString());
      if (text_.IsWide(parameter)) {
        text_.Bind(parameter, name);
        arguments.push_back(absl::StrCat("long long ", name));
      } else {
        const std::string argument = names_.Unique(absl::StrCat(name, "_64"));
        text_.BindOnUse(parameter, name, absl::StrCat("(int)", argument));
        arguments.push_back(absl::StrCat("long long ", argument));
      }
    }
    if (kernel_.TakesTickets())
      arguments.push_back(absl::StrCat("unsigned* ", tickets_ = names_.Unique("tickets")));
    if (kernel_.NumPhases() > 1) {
      arguments.push_back(absl::StrCat("unsigned* ", arrivals_ = names_.Unique("arrivals")));
      arguments.push_back(absl::StrCat("int ", phase_ = names_.Unique("phase")));
    }
    text_.BindOnUse(kernel_.block_x, names_.Unique(kernel_.block_x.ToString()), "(int)blockIdx.x");
    text_.BindOnUse(kernel_.thread_x, names_.Unique(kernel_.thread_x.ToString()),
                    "(int)threadIdx.x");
    if (kernel_.together.is_symbolic()) {
      text_.BindOnUse(kernel_.together, names_.Unique(kernel_.together.ToString()),
                      phase_.empty() ? "1" : absl::StrCat("(int)(", phase_, " < 0)"));
    }
    return absl::StrCat(
        "extern \"C\" __global__ void __launch_bounds__(", kernel_.threads,
        kernel_.min_ctas_per_sm > 0 ? absl::StrCat(", ", kernel_.min_ctas_per_sm) : "", ")\n",
        kernel_.name, "(", absl::StrJoin(arguments, ", "), ")");
  }

  void Shared() {
    if (kernel_.shared.empty()) return;
    const std::string memory = names_.Unique("shared_memory");
    text_.Line(absl::StrCat("extern __shared__ uint4 ", memory, "[];"));
    for (size_t i = 0; i < kernel_.shared.size(); ++i) {
      const absl::string_view type = CudaStorageType(kernel_.shared[i].dtype);
      shared_.push_back(names_.Unique(kernel_.shared[i].name));
      text_.Line(absl::StrCat(type, "* const ", shared_[i], " = (", type, "*)(", memory, " + ",
                              kernel_.SharedOffset(static_cast<int>(i)) / 16, ");"));
    }
    if (kernel_.copy_barriers + kernel_.store_barriers == 0) return;
    barriers_ = names_.Unique("barriers");
    text_.Line(absl::StrCat("unsigned long long* const ", barriers_, " = (unsigned long long*)(",
                            memory, " + ",
                            kernel_.SharedOffset(static_cast<int>(shared_.size())) / 16, ");"));
    if (kernel_.copy_barriers > 0) {
      text_.Line(absl::StrCat("seam_open_barriers(", barriers_, ", ", kernel_.copy_barriers, ", ",
                              kernel_.copies_per_batch, ");"));
    }
    if (kernel_.store_barriers > 0) {
      text_.Line(absl::StrCat("seam_open_barriers(", barriers_, " + ", kernel_.copy_barriers, ", ",
                              kernel_.store_barriers, ", 1);"));
    }
  }

  void Declare(int f) {
    const Fragment& fragment = kernel_.fragments[f];
    FragmentText t;
    t.name = names_.Unique(fragment.name);
    const int bytes = DTypeBytes(fragment.dtype);
    t.registers = fragment.count;
    if (fragment.packed && bytes < 4) {
      t.elements_per_word = 4 / bytes;
      t.registers = (fragment.count * bytes + 3) / 4;
    }
    if (fragment.count == 1 && t.elements_per_word == 0) t.declaration = uses_.declaration(f);
    t.constant = t.declaration != nullptr && uses_.written_once(f);
    t.unrounded = uses_.rounded_by_stores(f);
    if (uses_.used(f) && t.declaration == nullptr) {
      text_.Line(absl::StrCat(RegisterType(t, fragment.dtype), " ", t.name,
                              t.registers > 1 ? absl::StrCat("[", t.registers, "]") : "", ";"));
    }
    fragments_.push_back(std::move(t));
  }

  static absl::string_view RegisterType(const FragmentText& t, DType dtype) {
    return t.elements_per_word > 0 ? "unsigned" : CudaRegisterType(dtype);
  }
  DType DTypeOf(int fragment) const { return kernel_.fragments[fragment].dtype; }
  DType TypeOf(const Operand& operand) const {
    return operand.fragment < 0 ? operand.dtype : DTypeOf(operand.fragment);
  }

  // The register variable at `slot`, in registers.
  std::string Register(const FragmentText& t, SymInt slot) {
    return t.registers == 1 ? t.name : absl::StrCat(t.name, "[", text_.Slot(slot), "]");
  }
  // A name or constant for one element.
  std::string Read(int fragment, SymInt slot) {
    const FragmentText& t = fragments_[fragment];
    if (t.elements_per_word == 0) return Register(t, slot);
    const DType dtype = DTypeOf(fragment);
    std::string word = Register(t, FloorDiv(slot, t.elements_per_word));
    const SymInt place = Mod(slot, t.elements_per_word);
    int element = 0;
    if (const std::optional<int64_t> known = place.maybe_int()) {
      element = static_cast<int>(*known);
    } else {
      word = absl::StrCat("(", word, " >> ", text_.Slot(place * (8 * DTypeBytes(dtype))), ")");
    }
    const std::string name = names_.Unique("e");
    text_.Line(absl::StrCat("const ", CudaRegisterType(dtype), " ", name, " = ",
                            ElementOf(dtype, {word}, element), ";"));
    return name;
  }
  std::string Read(const Operand& operand) {
    if (operand.fragment < 0) return CudaConstant(operand.dtype, operand.constant);
    return Read(operand.fragment, operand.slot);
  }
  // The dtype to which a value is rounded before it is written to the fragment.
  DType RoundedTo(int fragment) const {
    return fragments_[fragment].unrounded ? DType::F32 : DTypeOf(fragment);
  }
  void Write(int fragment, SymInt slot, absl::string_view value) {
    const FragmentText& t = fragments_[fragment];
    if (t.elements_per_word == 0) {
      const absl::string_view type = CudaRegisterType(DTypeOf(fragment));
      text_.Line(absl::StrCat(t.declaration != current_ ? ""
                              : t.constant              ? absl::StrCat("const ", type, " ")
                                                        : absl::StrCat(type, " "),
                              Register(t, slot), " = ", value, ";"));
      return;
    }
    const std::string name = names_.Unique("e");
    text_.Line(
        absl::StrCat("const ", CudaRegisterType(DTypeOf(fragment)), " ", name, " = ", value, ";"));
    InsertBits(fragment, slot, PackWords(DTypeOf(fragment), {name}, true)[0]);
  }
  void InsertBits(int fragment, SymInt slot, absl::string_view bits) {
    const FragmentText& t = fragments_[fragment];
    const std::string word = Register(t, FloorDiv(slot, t.elements_per_word));
    text_.Line(absl::StrCat(word, " = ",
                            access_.Insert(word, text_.Slot(Mod(slot, t.elements_per_word)),
                                           DTypeBytes(DTypeOf(fragment)), bits),
                            ";"));
  }

  void Statements(const Block& block) {
    for (const Stmt& stmt : block) Statement(stmt);
  }
  void Statement(const Stmt& stmt) {
    current_ = &stmt;
    std::visit([this](const auto& node) { Emit(node); }, stmt.node);
  }
  void Phases() {
    int number = 0;
    for (size_t begin = 0; begin < kernel_.body.size(); ++number) {
      if (number > 0) {
        text_.Line(absl::StrCat("if (", phase_, " < 0) seam_grid_barrier(", arrivals_, ");"));
      }
      text_.Enter();
      size_t end = begin;
      while (end < kernel_.body.size() &&
             !std::holds_alternative<kernel::GridSync>(kernel_.body[end].node)) {
        Statement(kernel_.body[end++]);
      }
      std::vector<std::string> body = text_.Exit();
      text_.Line(absl::StrCat("if (", phase_, " < 0 || ", phase_, " == ", number, ") {"));
      text_.Lines(std::move(body));
      text_.Line("}");
      begin = end + 1;
    }
  }
  // Lines of a block inside the current one. What it needs from here is declared here meanwhile, so
  // the line that opens the block must follow.
  std::vector<std::string> Nested(const Block& block, SymInt symbol = 0,
                                  const std::string& name = "") {
    text_.Enter();
    if (!name.empty()) text_.Bind(symbol, name);
    Statements(block);
    return text_.Exit();
  }
  // The variable of a loop's or LetSymbol's symbol.
  std::string VariableOf(SymInt symbol) {
    auto [it, inserted] = variables_.try_emplace(symbol.node());
    if (inserted) it->second = names_.Unique(symbol.ToString());
    return it->second;
  }

  // A loop over neighbouring elements of packed fragments that takes the larger or smaller of two,
  // or sets them to a constant: word by word. False if the loop is another one.
  bool InPairs(const kernel::For& node) {
    const auto* map =
        node.body.size() == 1 ? std::get_if<kernel::Map>(&node.body[0].node) : nullptr;
    const std::optional<int64_t> extent = node.extent.maybe_int();
    if (!node.unrolled || map == nullptr || !extent || *extent % 2 != 0) return false;
    const DType dtype = DTypeOf(map->fragment);
    const bool sets = map->op == OpKind::Copy && map->arguments[0].fragment < 0;
    const bool picks = map->op == OpKind::Maximum || map->op == OpKind::Minimum;
    if (!HasCudaPairs(dtype) || (!sets && !picks)) return false;
    // The words of the result and of the arguments, if elements fill words.
    std::vector<std::vector<std::string>> words;
    const auto fill_words = [&](int fragment, SymInt slot) {
      const SymInt first = slot - node.symbol;
      if (fragment < 0 || fragments_[fragment].elements_per_word != 2 ||
          DTypeOf(fragment) != dtype || kernel::DependsOn(first, node.symbol) ||
          !ProvablyDivisible(first, 2)) {
        return false;
      }
      std::vector<std::string>& names = words.emplace_back();
      for (int64_t w = 0; w < *extent / 2; ++w)
        names.push_back(Register(fragments_[fragment], FloorDiv(first, 2) + w));
      return true;
    };
    if (!fill_words(map->fragment, map->slot)) return false;
    for (const Operand& argument : map->arguments) {
      if (picks && !fill_words(argument.fragment, argument.slot)) return false;
    }
    for (int64_t w = 0; w < *extent / 2; ++w) {
      const std::string value =
          sets ? PackConstant(dtype, map->arguments[0].constant, 2)[0]
               : absl::StrCat("seam_", map->op == OpKind::Maximum ? "max" : "min", "_pair_",
                              DTypeName(dtype), "(", words[1][w], ", ", words[2][w], ")");
      text_.Line(absl::StrCat(words[0][w], " = ", value, ";"));
    }
    return true;
  }

  void Emit(const kernel::For& node) {
    if (InPairs(node)) return;
    const SharedDivisions shared(kernel_, node);
    if (shared.divisors().empty()) return Loop(node);
    // All turns by the quick way, then once more by the slow one if any of them needs it.
    std::vector<std::string> saved, flags;
    for (int fragment : shared.carried()) {
      saved.push_back(names_.Unique("before"));
      text_.Line(absl::StrCat("const ", CudaRegisterType(DTypeOf(fragment)), " ", saved.back(),
                              " = ", Read(fragment, 0), ";"));
    }
    for (const Operand& divisor : shared.divisors())
      flags.push_back(absl::StrCat("seam_divides", SignOf(divisor), "(", Read(divisor), ")"));
    exact_ = names_.Unique("exact");
    text_.Line(absl::StrCat("bool ", exact_, " = ", absl::StrJoin(flags, " & "), ";"));
    divisions_ = &shared;
    Loop(node);
    divisions_ = nullptr;
    text_.Enter();
    for (size_t i = 0; i < saved.size(); ++i) {
      text_.Line(absl::StrCat(Register(fragments_[shared.carried()[i]], 0), " = ", saved[i], ";"));
    }
    Loop(node);
    std::vector<std::string> again = text_.Exit();
    text_.Line(absl::StrCat("if (__builtin_expect(!", exact_, ", 0)) {"));
    text_.Lines(std::move(again));
    text_.Line("}");
  }
  // What is computed, a sum of squares or of exponentials, mostly is not negative, which saves an
  // instruction a quotient; what is all the same divides slowly.
  absl::string_view SignOf(const Operand& divisor) const {
    return divisor.fragment >= 0 && uses_.is_input(divisor.fragment) ? "_signed" : "";
  }

  void Loop(const kernel::For& node) {
    const std::string extent = text_.Name(node.extent);
    const std::string name = VariableOf(node.symbol);
    if (node.unrolled) unrolled_.insert(node.symbol.node());
    std::vector<std::string> body = Nested(node.body, node.symbol, name);
    if (node.unrolled) text_.Line("#pragma unroll");
    if (node.rolled) text_.Line("#pragma unroll 1");
    text_.Line(absl::StrCat("for (", text_.TypeOf(node.symbol), " ", name, " = 0; ", name, " < ",
                            extent, "; ++", name, ") {"));
    text_.Lines(std::move(body));
    text_.Line("}");
  }

  void Emit(const kernel::Leave& node) {
    text_.Line(absl::StrCat("if (", text_.Condition(node.condition), ") break;"));
  }
  void Emit(const kernel::If& node) {
    const std::string condition = text_.Condition(node.condition);
    const bool outside = std::exchange(in_loops_of_some_, in_loops_of_some_ || IsLoopOfSome(node));
    std::vector<std::string> body = Nested(node.body);
    in_loops_of_some_ = outside;
    std::vector<std::string> otherwise = Nested(node.otherwise);
    text_.Line(absl::StrCat("if (", condition, ") {"));
    text_.Lines(std::move(body));
    if (!node.otherwise.empty()) {
      text_.Line("} else {");
      text_.Lines(std::move(otherwise));
    }
    text_.Line("}");
  }

  // Whether only some threads of a CTA go through a loop. There the compiler makes branches of
  // loads that C++ makes conditional, and computes addresses in them: a loss over 4099 columns, an
  // element a thread, took 256 us instead of 140 (H100). Elsewhere such loads cost as much as they
  // gain.
  bool IsLoopOfSome(const kernel::If& node) const {
    return kernel::DependsOn(node.condition, kernel_.thread_x) &&
           absl::c_any_of(node.body, [](const kernel::Stmt& stmt) {
             const auto* loop = std::get_if<kernel::For>(&stmt.node);
             return loop != nullptr && !loop->unrolled;
           });
  }

  // The pieces in which an access moves its elements.
  struct Pieces {
    int bytes, count, elements;
  };
  template <typename Access>
  Pieces PiecesOf(const Access& node) const {
    const int element_bytes = DTypeBytes(DTypeOf(node.fragment));
    const int bytes = std::min(16, node.width * element_bytes);
    return {bytes, node.width * element_bytes / bytes, bytes / element_bytes};
  }
  template <typename Access>
  const std::string& Pointer(const Access& node) const {
    return node.space == Space::Global ? buffers_[node.array] : shared_[node.array];
  }
  template <typename Access>
  static CacheHint HintOf(const Access& node) {
    return node.space == Space::Global ? node.hint : CacheHint::Default;
  }
  // Whether whole words of a packed fragment are moved.
  template <typename Access>
  bool MovesWords(const Access& node, Pieces pieces) const {
    const int per_word = fragments_[node.fragment].elements_per_word;
    return per_word > 0 && pieces.bytes >= 4 && ProvablyDivisible(node.slot, per_word);
  }
  // The predicate as text, empty where it always holds.
  template <typename Access>
  std::string PredicateOf(const Access& node, int uses) {
    if (node.predicate.maybe_int().value_or(0) != 0) return "";
    return uses > 1 ? text_.Name(node.predicate) : text_.Condition(node.predicate);
  }

  void Emit(const kernel::Load& node) {
    const DType dtype = DTypeOf(node.fragment);
    const Pieces pieces = PiecesOf(node);
    const std::string& base = Pointer(node);
    const FragmentText& t = fragments_[node.fragment];
    const std::string index = text_.Name(node.index);
    const std::string predicate = PredicateOf(node, pieces.count);
    const bool written = node.space == Space::Shared || kernel_.buffers[node.array].written;
    if (node.width == 1 && HintOf(node) == CacheHint::Default && t.elements_per_word == 0) {
      const std::string value = CudaLoadConvert(dtype, absl::StrCat(base, "[", index, "]"));
      if (predicate.empty()) return Write(node.fragment, node.slot, value);
      if (!in_loops_of_some_ || written || pieces.bytes > 4) {
        return Write(node.fragment, node.slot,
                     absl::StrCat(predicate, " ? ", value, " : ", CudaConstant(dtype, node.fill)));
      }
      const std::string word = access_.LoadIf(predicate, absl::StrCat(base, " + ", index),
                                              pieces.bytes, PackConstant(dtype, node.fill, 1)[0]);
      return Write(node.fragment, node.slot, ElementOf(dtype, std::vector{word}, 0));
    }
    for (int k = 0; k < pieces.count; ++k) {
      if (node.start != kernel::Start::Aligned) {
        const bool inside = node.start == kernel::Start::Inside;
        Keep(node, k * pieces.elements, pieces,
             inside ? JoinedWords(node, predicate)
                    : UnalignedWords(node, k * pieces.elements, pieces, predicate));
        continue;
      }
      const std::string pointer =
          absl::StrCat(base, " + ", index, k == 0 ? "" : absl::StrCat(" + ", k * pieces.elements));
      const std::string load = access_.Load(pointer, pieces.bytes, HintOf(node), written);
      const std::string piece = names_.Unique("p");
      if (predicate.empty()) {
        text_.Line(absl::StrCat("const ", PieceType(pieces.bytes), " ", piece, " = ", load, ";"));
      } else {
        text_.Line(absl::StrCat(PieceType(pieces.bytes), " ", piece, " = ",
                                PieceOf(PackConstant(dtype, node.fill, pieces.elements)), ";"));
        text_.Line(absl::StrCat("if (", predicate, ") ", piece, " = ", load, ";"));
      }
      std::vector<std::string> words;
      for (int w = 0; w < std::max(1, pieces.bytes / 4); ++w)
        words.push_back(WordOf(piece, pieces.bytes, w));
      Keep(node, k * pieces.elements, pieces, words);
    }
  }

  // The words of a piece to its slots, from the one of element `part` on.
  void Keep(const kernel::Load& node, int part, Pieces pieces,
            const std::vector<std::string>& words) {
    const DType dtype = DTypeOf(node.fragment);
    const FragmentText& t = fragments_[node.fragment];
    const SymInt slot = node.slot + part;
    if (MovesWords(node, pieces)) {
      const SymInt first = FloorDiv(slot, t.elements_per_word);
      for (size_t w = 0; w < words.size(); ++w) {
        text_.Line(
            absl::StrCat(Register(t, first + static_cast<int64_t>(w)), " = ", words[w], ";"));
      }
    } else if (t.elements_per_word > 0) {
      for (int e = 0; e < pieces.elements; ++e) {
        const int shift = e % t.elements_per_word * 8 * DTypeBytes(dtype);
        const std::string& word = words[e / t.elements_per_word];
        InsertBits(node.fragment, slot + e, shift == 0 ? word : absl::StrCat(word, " >> ", shift));
      }
    } else {
      for (int e = 0; e < pieces.elements; ++e)
        Write(node.fragment, slot + e, ElementOf(dtype, words, e));
    }
  }

  // 16 bytes that start anywhere, cut out of the three aligned pieces of 8 that hold them, or of
  // two of 16. Each word by itself would keep the caches busy for longer, since neighbouring lanes'
  // words are 16 bytes apart; two pieces of 16 take more instructions to cut, and more registers,
  // and pay where f32 weights beside narrower data keep the caches busier than memory.
  std::vector<std::string> JoinedWords(const kernel::Load& node, const std::string& predicate) {
    const DType dtype = DTypeOf(node.fragment);
    const int bytes = DTypeBytes(dtype);
    const bool beside_narrower = absl::c_any_of(
        kernel_.buffers, [&](const kernel::Buffer& b) { return DTypeBytes(b.dtype) < bytes; });
    const int piece_bytes = bytes == 4 && beside_narrower ? 16 : 8;
    // Elsewhere compilers bring forward what is not filled, and kernels get slower.
    const bool fills = node.fills || piece_bytes < 16;
    const std::string first = text_.Name(FloorDiv(node.index * bytes, piece_bytes));
    const std::string fill = PieceOf(PackConstant(dtype, node.fill, piece_bytes / bytes));
    std::vector<std::string> pieces, declared, loads;
    for (int k = 0; k <= 16 / piece_bytes; ++k) {
      pieces.push_back(names_.Unique("p"));
      declared.push_back(fills ? absl::StrCat(pieces[k], " = ", k == 0 ? fill : pieces[0])
                               : pieces[k]);
      const std::string pointer =
          absl::StrCat("(const ", PieceType(piece_bytes), "*)", Pointer(node), " + ", first,
                       k == 0 ? "" : absl::StrCat(" + ", k));
      loads.push_back(absl::StrCat(pieces[k], " = ",
                                   access_.Load(pointer, piece_bytes, HintOf(node), false), ";"));
    }
    text_.Line(absl::StrCat(PieceType(piece_bytes), " ", absl::StrJoin(declared, ", "), ";"));
    const std::string all = absl::StrJoin(loads, " ");
    text_.Line(predicate.empty() ? all : absl::StrCat("if (", predicate, ") { ", all, " }"));
    const std::string bit = text_.Name(Mod(node.index, piece_bytes / bytes) * (8 * bytes));
    const std::string joined = names_.Unique("p");
    text_.Line(
        absl::StrCat("const uint4 ", joined, " = ", access_.Join(pieces, bit, bytes == 2), ";"));
    std::vector<std::string> words;
    for (int w = 0; w < 4; ++w) words.push_back(WordOf(joined, 16, w));
    return words;
  }

  // A piece that starts anywhere, cut out of the words that hold it. 16-bit elements that start
  // inside a word end inside another, of which only the last element is read: it may be the
  // buffer's. Words have numbers, not addresses, since those of neighbouring vectors differ by what
  // fits an instruction.
  std::vector<std::string> UnalignedWords(const kernel::Load& node, int part, Pieces pieces,
                                          const std::string& predicate) {
    const DType dtype = DTypeOf(node.fragment);
    const int bytes = DTypeBytes(dtype);
    const bool half = bytes == 2;
    const SymInt begin = node.index + part;
    const std::string& base = Pointer(node);
    const bool written = kernel_.buffers[node.array].written;
    std::vector<std::string> words, loads;
    const auto load = [&](absl::string_view pointer, int piece_bytes) {
      words.push_back(names_.Unique("w"));
      loads.push_back(absl::StrCat(words.back(), " = ",
                                   access_.Load(pointer, piece_bytes, HintOf(node), written), ";"));
    };
    const std::string first = text_.Name(FloorDiv(begin * bytes, 4));
    for (int w = 0; w < pieces.bytes / 4; ++w)
      load(absl::StrCat("(const unsigned*)", base, " + ", first, " + ", w), 4);
    if (half) load(absl::StrCat(base, " + ", text_.Name(begin + pieces.elements - 1)), 2);
    const std::vector<std::string> fill = PackConstant(dtype, node.fill, pieces.elements);
    std::string declared;
    for (size_t w = 0; w < words.size(); ++w)
      absl::StrAppend(&declared, w == 0 ? "" : ", ", words[w], " = ", fill[w % fill.size()]);
    text_.Line(absl::StrCat("unsigned ", declared, ";"));
    const std::string all = absl::StrJoin(loads, " ");
    text_.Line(predicate.empty() ? all : absl::StrCat("if (", predicate, ") { ", all, " }"));
    if (!half) return words;
    const std::string bits = text_.Name(Mod(begin, 2) * 16);
    for (size_t w = 0; w + 1 < words.size(); ++w) {
      text_.Line(absl::StrCat(words[w], " = __funnelshift_r(", words[w], ", ", words[w + 1], ", ",
                              bits, ");"));
    }
    words.pop_back();
    return words;
  }

  void Emit(const kernel::Store& node) {
    const DType dtype = DTypeOf(node.fragment);
    const Pieces pieces = PiecesOf(node);
    const std::string& base = Pointer(node);
    const FragmentText& t = fragments_[node.fragment];
    const std::string index = text_.Name(node.index);
    const std::string predicate = PredicateOf(node, pieces.count);
    const std::string condition = predicate.empty() ? "" : absl::StrCat("if (", predicate, ") ");
    if (node.width == 1 && HintOf(node) == CacheHint::Default && t.elements_per_word == 0) {
      std::string value = Read(node.fragment, node.slot);
      if (t.unrounded && dtype == DType::BF16) value = absl::StrCat("seam_round_bf16(", value, ")");
      text_.Line(
          absl::StrCat(condition, base, "[", index, "] = ", CudaStoreConvert(dtype, value), ";"));
      return;
    }
    for (int k = 0; k < pieces.count; ++k) {
      const SymInt slot = node.slot + k * pieces.elements;
      std::vector<std::string> words;
      if (MovesWords(node, pieces)) {
        const SymInt first = FloorDiv(slot, t.elements_per_word);
        for (int w = 0; w < pieces.bytes / 4; ++w) words.push_back(Register(t, first + w));
      } else {
        std::vector<std::string> elements;
        for (int e = 0; e < pieces.elements; ++e) elements.push_back(Read(node.fragment, slot + e));
        if (t.unrounded && dtype == DType::BF16) access_.UseRoundingPairs();
        words = PackWords(dtype, elements, !t.unrounded);
      }
      const std::string piece = names_.Unique("p");
      text_.Line(
          absl::StrCat("const ", PieceType(pieces.bytes), " ", piece, " = ", PieceOf(words), ";"));
      const std::string pointer =
          absl::StrCat(base, " + ", index, k == 0 ? "" : absl::StrCat(" + ", k * pieces.elements));
      text_.Line(
          absl::StrCat(condition, access_.Store(pointer, pieces.bytes, HintOf(node), piece), ";"));
    }
  }

  void Emit(const kernel::Map& node) {
    std::vector<std::string> arguments;
    for (const Operand& operand : node.arguments) arguments.push_back(Read(operand));
    if (divisions_ != nullptr && divisions_->Contains(node)) {
      Write(node.fragment, node.slot,
            node.precision == kernel::Precision::kLoose
                ? absl::StrCat(arguments[0], " * (1.0f / ", arguments[1], ")")
                : absl::StrCat("seam_quotient", SignOf(node.arguments[1]), "(", arguments[0], ", ",
                               arguments[1], ", ", exact_, ")"));
      return;
    }
    if (node.precision == kernel::Precision::kLoose && node.op != OpKind::Div) {
      const char* name = node.op == OpKind::Exp       ? "seam_loose_exp"
                         : node.op == OpKind::Sigmoid ? "seam_loose_sigmoid"
                                                      : "seam_loose_erf";
      return Write(node.fragment, node.slot, absl::StrCat(name, "(", arguments[0], ")"));
    }
    if (node.precision == kernel::Precision::kTerm) {
      const char* factor = node.op == OpKind::Exp ? " * 1.44269504088896341f" : "";
      return Write(node.fragment, node.slot,
                   absl::StrCat("seam_term_exp2(", arguments[0], factor, ")"));
    }
    // `where` chooses between its second and third operand.
    const DType in = TypeOf(node.arguments[node.op == OpKind::Where ? 1 : 0]);
    Write(node.fragment, node.slot,
          CudaExpression(node.op, in, RoundedTo(node.fragment), arguments));
  }
  void Emit(const kernel::IndexValue& node) {
    const DType from = text_.IsWide(node.value) ? DType::I64 : DType::I32;
    Write(node.fragment, node.slot,
          CudaExpression(OpKind::Cast, from, RoundedTo(node.fragment), {text_.Name(node.value)}));
  }
  void Emit(const kernel::LetSymbol& node) {
    const std::string name = VariableOf(node.symbol);
    const absl::string_view type = text_.TypeOf(node.symbol);
    text_.Line(absl::StrCat("const ", type, " ", name, " = (", type, ")", Read(node.value), ";"));
    text_.Bind(node.symbol, name);
  }
  void Emit(const kernel::Random& node) {
    const DType dtype = DTypeOf(node.fragment);
    const std::string seed = Read(node.seed), offset = Read(node.offset);
    // The generator gives the numbers of four neighbours (of two in f64) at once. Where the place
    // among them is known when loops are unrolled, an index that shows it lets the compiler see
    // that neighbours make the same call, and make it once.
    const int neighbours = dtype == DType::F64 ? 2 : 4;
    const SymInt place = Mod(node.index, neighbours);
    const std::vector<const SymNode*> symbols = FreeSymbols(place);
    const bool known = std::all_of(symbols.begin(), symbols.end(),
                                   [&](const SymNode* s) { return unrolled_.contains(s); });
    const std::string index =
        known ? absl::StrCat(neighbours, "LL * ", text_.Name(FloorDiv(node.index, neighbours)),
                             " + ", text_.Name(place))
              : text_.Name(node.index);
    Write(node.fragment, node.slot, CudaRandom(node.op, dtype, seed, offset, index));
  }
  void Emit(const kernel::ShuffleXor& node) {
    const bool boolean = DTypeOf(node.fragment) == DType::Bool;
    const std::string source = Read(node.source);
    Write(node.fragment, node.slot,
          absl::StrCat("__shfl_xor_sync(0xffffffffu, ", boolean ? "(int)" : "", source, ", ",
                       node.mask, ")", boolean ? " != 0" : ""));
  }
  // Counts from 0 again behind the last one.
  void Emit(const kernel::TakeTicket& node) {
    Write(node.fragment, node.slot,
          absl::StrCat("(int)atomicInc(", tickets_, ", ", text_.Name(node.total - 1), ")"));
  }
  void Emit(const kernel::AwaitTickets& node) {
    text_.Line(absl::StrCat("seam_await_tickets(", tickets_, ", (unsigned)", text_.Name(node.count),
                            ");"));
  }
  void Emit(const kernel::CtaSync&) { text_.Line("__syncthreads();"); }
  void Emit(const kernel::Pause& node) {
    text_.Line(absl::StrCat("seam_pause(", text_.Name(node.cycles), ");"));
  }
  void Emit(const kernel::ClusterSync& node) {
    text_.Line(node.orders ? "seam_cluster_sync();" : "seam_cluster_barrier();");
  }
  std::string StoreBarrier(SymInt barrier) {
    return absl::StrCat(barriers_, " + ", text_.Name(barrier + kernel_.copy_barriers));
  }
  void Emit(const kernel::RemoteStore& node) {
    const std::string index = text_.Name(node.index), cta = text_.Name(node.cta),
                      barrier = StoreBarrier(node.barrier);
    const std::string predicate = PredicateOf(node, 1);
    text_.Line(absl::StrCat(predicate.empty() ? "" : absl::StrCat("if (", predicate, ") "),
                            "seam_remote_store(", shared_[node.array], " + ", index, ", ",
                            Read(node.fragment, node.slot), ", ", barrier, ", ", cta, ");"));
  }
  void Emit(const kernel::AwaitStores& node) {
    text_.Line(absl::StrCat("seam_await_stores(", StoreBarrier(node.barrier), ", ", node.bytes,
                            ", ", text_.Name(Mod(node.round, 2)), ");"));
  }
  void Emit(const kernel::KeepPacked& node) {
    const FragmentText& t = fragments_[node.fragment];
    if (t.elements_per_word == 0) return;
    for (int r = 0; r < t.registers; ++r) {
      text_.Line(absl::StrCat("asm(\"\" : \"+r\"(", Register(t, r), "));"));
    }
  }
  // An instruction that needs a bit of each register, and that no value of them turns into more.
  void Emit(const kernel::AwaitLoaded& node) {
    std::string bits;
    for (int fragment : node.fragments) {
      const FragmentText& t = fragments_[fragment];
      for (int r = 0; r < t.registers; ++r) {
        const std::string name = Register(t, r);
        absl::StrAppend(&bits, bits.empty() ? "" : " | ",
                        t.elements_per_word > 0 ? name : absl::StrCat("seam_bits(", name, ")"));
      }
    }
    text_.Line(absl::StrCat("seam_await_loaded(", bits, ");"));
  }
  void Emit(const kernel::BulkCopy& node) {
    text_.Line(absl::StrCat("seam_bulk_copy(", shared_[node.array], " + ", text_.Name(node.to),
                            ", ", buffers_[node.buffer], " + ", text_.Name(node.from), ", ",
                            text_.Name(node.count), " * ",
                            DTypeBytes(kernel_.buffers[node.buffer].dtype), ", ", barriers_, " + ",
                            text_.Name(node.barrier), ");"));
  }
  void Emit(const kernel::AwaitCopies& node) {
    text_.Line(absl::StrCat("seam_await_copies(", barriers_, " + ", text_.Name(node.barrier), ", ",
                            text_.Name(Mod(node.round, 2)), ");"));
  }
  void Emit(const kernel::AsyncLoad& node) {
    const DType dtype = kernel_.buffers[node.buffer].dtype;
    const absl::string_view piece = PieceType(node.width * DTypeBytes(dtype));
    const std::string to = text_.Name(node.to), from = text_.Name(node.from);
    const std::string predicate = PredicateOf(node, 1);
    text_.Line(absl::StrCat(predicate.empty() ? "" : absl::StrCat("if (", predicate, ") "),
                            "seam_async_load((", piece, "*)(", shared_[node.array], " + ", to,
                            "), (const ", piece, "*)(", buffers_[node.buffer], " + ", from, "));"));
  }
  void Emit(const kernel::AwaitLoads&) { text_.Line("seam_await_loads();"); }
  void Emit(const kernel::GridSync&) {}  // Phases.
  void Emit(const kernel::Comment& node) { text_.Line(absl::StrCat("// ", OneLine(node.text))); }

  const Kernel& kernel_;
  const FragmentUses uses_;
  Identifiers names_;
  IndexText text_;
  AccessFunctions access_;
  std::vector<std::string> buffers_, shared_;
  std::string barriers_;  // Of bulk copies, then of remote stores.
  std::vector<FragmentText> fragments_;
  absl::flat_hash_map<const SymNode*, std::string> variables_;  // Of loops and LetSymbols.
  absl::flat_hash_set<const SymNode*> unrolled_;                // Symbols of unrolled loops.
  std::string arrivals_, phase_;  // Arguments of a kernel of several phases.
  std::string tickets_;           // And of one that takes tickets.
  const Stmt* current_ = nullptr;
  const SharedDivisions* divisions_ = nullptr;  // Of the loop that is being emitted the quick way,
  std::string exact_;                           // whose flag this is.
  bool in_loops_of_some_ = false;
};

}  // namespace

absl::StatusOr<std::string> EmitCuda(const Kernel& kernel) {
  SEAM_RETURN_IF_ERROR(VerifyKernel(kernel));
  return Emitter(kernel).Run();
}

}  // namespace seam
