#include "runtime/codegen/identifiers.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "ir/ops.h"

namespace seam {
namespace {

// Keywords of C++20, and the names that CUDA or its compiler predefines.
constexpr absl::string_view kReserved =
    "alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t "
    "char32_t class "
    "compl concept const consteval constexpr constinit const_cast continue co_await co_return "
    "co_yield decltype "
    "default delete do double dynamic_cast else enum explicit export extern false float for friend "
    "goto if inline "
    "int long mutable namespace new noexcept not not_eq nullptr operator or or_eq private "
    "protected public register "
    "reinterpret_cast requires return short signed sizeof static static_assert static_cast struct "
    "switch template "
    "this thread_local throw true try typedef typeid typename union unsigned using virtual void "
    "volatile wchar_t "
    "while xor xor_eq uint2 uint4 threadIdx blockIdx blockDim gridDim warpSize NULL linux unix "
    "main";

}  // namespace

bool IsWordChar(char c) { return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_'; }

Identifiers::Identifiers() {
  static const auto& reserved = *[] {
    auto* words = new absl::flat_hash_set<std::string>;
    for (absl::string_view word : absl::StrSplit(kReserved, ' ')) words->emplace(word);
    // Functions in the operations' CUDA text, in f64 and in f32.
    for (const OpInfo& op : AllOps()) {
      for (const char* text : {op.cuda_float, op.cuda_integer}) {
        std::string word;
        for (const char* c = text == nullptr ? "" : text;; ++c) {
          if (IsWordChar(*c)) {
            word += *c;
            continue;
          }
          if (!word.empty()) words->insert({word, word + "f"});
          word.clear();
          if (*c == '\0') break;
        }
      }
    }
    return words;
  }();
  taken_ = reserved;
}

std::string Identifiers::Unique(absl::string_view wanted) {
  std::string name;
  for (const char c : wanted) name += IsWordChar(c) ? c : '_';
  if (name.empty() || absl::ascii_isdigit(name[0]) || absl::StartsWith(name, "seam_") ||
      absl::StartsWith(name, "__") ||
      (name[0] == '_' && name.size() > 1 && absl::ascii_isupper(name[1]))) {
    name = absl::StrCat("v", name);
  }
  std::string unique = name;
  for (int i = 1; !taken_.insert(unique).second; ++i) unique = absl::StrCat(name, "_", i);
  return unique;
}

}  // namespace seam
