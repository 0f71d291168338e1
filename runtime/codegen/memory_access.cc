#include "runtime/codegen/memory_access.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/codegen/prelude.h"

namespace seam {
namespace {

using kernel::CacheHint;

constexpr const char* kComponents[] = {"x", "y", "z", "w"};

int WordsOf(int bytes) { return std::max(1, bytes / 4); }

// The type through which a piece in memory is addressed.
absl::string_view PointerType(int bytes) {
  return bytes == 1 ? "unsigned char" : bytes == 2 ? "unsigned short" : PieceType(bytes);
}

// The PTX of a hint: what follows "ld.global" or "st.global", and whether it carries a policy for
// the L2 cache.
struct HintText {
  const char* name;
  const char* load;
  const char* store;
  const char* policy;
};
HintText TextOf(CacheHint hint) {
  switch (hint) {
    case CacheHint::Streaming:
      return {"streaming", ".cs", ".cs", nullptr};
    case CacheHint::EvictFirst:
      return {"evict_first", ".L1::evict_first", ".L1::evict_first", "evict_first"};
    case CacheHint::EvictLast:
      return {"evict_last", ".L1::evict_last", ".L1::evict_last", "evict_last"};
    case CacheHint::ReadOnly:
      return {"read_only", ".nc", "", nullptr};
    case CacheHint::Default:
      break;
  }
  return {"", "", "", nullptr};
}

// ".v4.u32" and the like.
std::string SuffixOf(int bytes) {
  return bytes >= 8 ? absl::StrCat(".v", bytes / 4, ".u32") : absl::StrCat(".u", 8 * bytes);
}

// "%0" or "{%0, %1}".
std::string RegisterList(int words, int first) {
  std::vector<std::string> names;
  for (int w = 0; w < words; ++w) names.push_back(absl::StrCat("%", first + w));
  const std::string joined = absl::StrJoin(names, ", ");
  return words == 1 ? joined : absl::StrCat("{", joined, "}");
}

// The policy, and the instruction that uses it; older architectures have none and ignore the hint.
std::string Assembly(const HintText& hint, absl::string_view instruction,
                     absl::string_view modifier, absl::string_view suffix,
                     absl::string_view operands_before, absl::string_view operands_after,
                     absl::string_view constraints, absl::string_view keyword) {
  const auto line = [&](absl::string_view modifiers, absl::string_view policy) {
    return absl::StrCat(instruction, modifiers, suffix, " ", operands_before, operands_after,
                        policy, ";");
  };
  if (hint.policy == nullptr) {
    return absl::StrCat("  ", keyword, "(\"", line(modifier, ""), "\" ", constraints, ");\n");
  }
  return absl::StrCat(
      "#if __CUDA_ARCH__ >= 800\n  ", keyword,
      "(\"{ .reg .b64 policy; createpolicy.fractional.L2::", hint.policy, ".b64 policy, 1.0; ",
      line(absl::StrCat(modifier, ".L2::cache_hint"), ", policy"), " }\" ", constraints,
      ");\n#else\n  ", keyword, "(\"", line("", ""), "\" ", constraints, ");\n#endif\n");
}

}  // namespace

absl::string_view PieceType(int bytes) {
  return bytes <= 4 ? "unsigned" : bytes == 8 ? "uint2" : "uint4";
}

std::string WordOf(absl::string_view piece, int bytes, int w) {
  return bytes <= 4 ? std::string(piece) : absl::StrCat(piece, ".", kComponents[w]);
}

std::string PieceOf(absl::Span<const std::string> words) {
  if (words.size() == 1) return words[0];
  return absl::StrCat(PieceType(4 * static_cast<int>(words.size())), "{",
                      absl::StrJoin(words, ", "), "}");
}

std::string ElementOf(DType dtype, absl::Span<const std::string> words, int e) {
  const int bytes = DTypeBytes(dtype);
  if (bytes == 8) {
    const std::string& low = words[2 * e];
    const std::string& high = words[2 * e + 1];
    if (dtype == DType::F64)
      return absl::StrCat("__hiloint2double((int)", high, ", (int)", low, ")");
    return absl::StrCat("(long long)((unsigned long long)", high, " << 32 | ", low, ")");
  }
  if (bytes == 4)
    return absl::StrCat(dtype == DType::F32 ? "__uint_as_float(" : "(int)(", words[e], ")");
  const int per_word = 4 / bytes;
  const std::string& word = words[e / per_word];
  if (HasCudaPairs(dtype)) {
    const int pair = e % per_word / 2;
    return CudaLoadPairElement(dtype, pair == 0 ? word : absl::StrCat("(", word, " >> 16)"), e % 2);
  }
  const int shift = e % per_word * 8 * bytes;
  const std::string shifted = shift == 0 ? word : absl::StrCat("(", word, " >> ", shift, ")");
  return CudaLoadConvert(dtype, absl::StrCat("(", CudaStorageType(dtype), ")", shifted));
}

std::vector<std::string> PackWords(DType dtype, absl::Span<const std::string> elements,
                                   bool rounded) {
  const int bytes = DTypeBytes(dtype);
  const bool round =
      !rounded && dtype == DType::BF16;  // The other conversions round by themselves.
  std::vector<std::string> words;
  if (bytes == 8) {
    for (const std::string& x : elements) {
      if (dtype == DType::F64) {
        words.push_back(absl::StrCat("(unsigned)__double2loint(", x, ")"));
        words.push_back(absl::StrCat("(unsigned)__double2hiint(", x, ")"));
      } else {
        words.push_back(absl::StrCat("(unsigned)", x));
        words.push_back(absl::StrCat("(unsigned)(", x, " >> 32)"));
      }
    }
    return words;
  }
  if (bytes == 4) {
    for (const std::string& x : elements) {
      words.push_back(dtype == DType::F32 ? absl::StrCat("__float_as_uint(", x, ")")
                                          : absl::StrCat("(unsigned)", x));
    }
    return words;
  }
  // Parts of a word with their places, pairs where there are instructions for them.
  const size_t per_word = 4 / bytes;
  for (size_t begin = 0; begin < elements.size(); begin += per_word) {
    const size_t end = std::min(begin + per_word, elements.size());
    std::vector<std::string> parts;
    for (size_t i = begin; i < end;) {
      const bool pair = HasCudaPairs(dtype) && i + 1 < end;
      const size_t shift = (i - begin) * 8 * bytes;
      std::string part;
      if (pair) {
        part = round ? absl::StrCat("access_round_pair(", elements[i], ", ", elements[i + 1], ")")
                     : CudaStorePair(dtype, elements[i], elements[i + 1]);
      } else if (HasCudaPairs(dtype)) {
        const std::string value =
            round ? absl::StrCat("seam_round_bf16(", elements[i], ")") : elements[i];
        part = absl::StrCat("(unsigned)", CudaStoreConvert(dtype, value));
      } else {
        part = absl::StrCat("((unsigned)", elements[i], bytes == 1 ? " & 0xffu)" : " & 0xffffu)");
      }
      parts.push_back(shift == 0 ? part : absl::StrCat(part, " << ", shift));
      i += pair ? 2 : 1;
    }
    words.push_back(absl::StrJoin(parts, " | "));
  }
  return words;
}

std::vector<std::string> PackConstant(DType dtype, Scalar value, int count) {
  const uint64_t bits = EncodeBits(dtype, value);
  const int bytes = DTypeBytes(dtype);
  const auto word = [](uint64_t w) {
    return w == 0 ? "0u" : absl::StrCat("0x", absl::Hex(w & 0xffffffffu), "u");
  };
  std::vector<std::string> words;
  if (bytes == 8) {
    for (int i = 0; i < count; ++i) {
      words.push_back(word(bits));
      words.push_back(word(bits >> 32));
    }
    return words;
  }
  const int per_word = 4 / bytes;
  for (int begin = 0; begin < count; begin += per_word) {
    uint64_t w = 0;
    for (int i = begin; i < std::min(begin + per_word, count); ++i)
      w |= bits << ((i - begin) * 8 * bytes);
    words.push_back(word(w));
  }
  return words;
}

std::string AccessFunctions::Load(absl::string_view pointer, int bytes, CacheHint hint,
                                  bool written) {
  if (hint == CacheHint::ReadOnly && written) hint = CacheHint::Default;
  if (hint == CacheHint::Default) {
    return absl::StrCat("*(const ", PointerType(bytes), "*)(", pointer, ")");
  }
  const HintText text = TextOf(hint);
  const std::string name =
      absl::StrCat("access_load_", text.name, written ? "_written_" : "_", bytes);
  const int words = WordsOf(bytes);
  std::string outputs;
  for (int w = 0; w < words; ++w) {
    absl::StrAppend(&outputs, w == 0 ? "" : ", ", "\"=r\"(", WordOf("piece", bytes, w), ")");
  }
  // Where nobody writes, equal loads may be merged and moved.
  const std::string constraints =
      absl::StrCat(": ", outputs, " : \"l\"(pointer)", written ? " : \"memory\"" : "");
  definitions_.insert(absl::StrCat(
      "__device__ __forceinline__ ", PieceType(bytes), " ", name, "(const void* pointer) {\n  ",
      PieceType(bytes), " piece;\n",
      Assembly(text, "ld.global", text.load, SuffixOf(bytes), RegisterList(words, 0),
               absl::StrCat(", [%", words, "]"), constraints, written ? "asm volatile" : "asm"),
      "  return piece;\n}\n"));
  return absl::StrCat(name, "(", pointer, ")");
}

std::string AccessFunctions::LoadIf(absl::string_view predicate, absl::string_view pointer,
                                    int bytes, absl::string_view otherwise) {
  const std::string name = absl::StrCat("access_load_if_", bytes);
  definitions_.insert(
      absl::StrCat("__device__ __forceinline__ unsigned ", name,
                   "(bool there, const void* pointer, unsigned piece) {\n#if __CUDA_ARCH__ >= 800\n"
                   "  asm(\"{ .reg .pred there; setp.ne.u32 there, %2, 0; @there ld.global.nc",
                   SuffixOf(bytes),
                   " %0, [%1]; }\" : \"+r\"(piece) : \"l\"(pointer), \"r\"((unsigned)there));\n",
                   "#else\n  if (there) piece = *(const ", PointerType(bytes),
                   "*)pointer;\n#endif\n", "  return piece;\n}\n"));
  return absl::StrCat(name, "(", predicate, ", ", pointer, ", ", otherwise, ")");
}

std::string AccessFunctions::Join(absl::Span<const std::string> pieces, absl::string_view bit,
                                  bool halves) {
  const auto call = [&](absl::string_view name) {
    return absl::StrCat(name, "(", absl::StrJoin(pieces, ", "), ", ", bit, ")");
  };
  if (pieces.size() == 2) {
    definitions_.insert(
        R"(__device__ __forceinline__ uint4 access_join_wide(uint4 p, uint4 q, int bit) {
  const bool two = (bit & 64) != 0, one = (bit & 32) != 0;
  const unsigned a = two ? p.z : p.x, b = two ? p.w : p.y, c = two ? q.x : p.z;
  const unsigned d = two ? q.y : p.w, e = two ? q.z : q.x;
  return uint4{one ? b : a, one ? c : b, one ? d : c, one ? e : d};
}
)");
    return call("access_join_wide");
  }
  definitions_.insert(
      R"(__device__ __forceinline__ uint4 access_join(uint2 p, uint2 q, uint2 r, int bit) {
  const bool odd = (bit & 32) != 0;
  return uint4{odd ? p.y : p.x, odd ? q.x : p.y, odd ? q.y : q.x, odd ? r.x : q.y};
}
)");
  if (halves) {
    definitions_.insert(
        R"(__device__ __forceinline__ uint4 access_join_halves(uint2 p, uint2 q, uint2 r, int bit) {
  const uint4 w = access_join(p, q, r, bit);
  const unsigned last = (bit & 32) != 0 ? r.y : r.x, rest = bit & 16;
  return uint4{__funnelshift_r(w.x, w.y, rest), __funnelshift_r(w.y, w.z, rest),
               __funnelshift_r(w.z, w.w, rest), __funnelshift_r(w.w, last, rest)};
}
)");
  }
  return call(halves ? "access_join_halves" : "access_join");
}

std::string AccessFunctions::Store(absl::string_view pointer, int bytes, CacheHint hint,
                                   absl::string_view piece) {
  if (hint == CacheHint::Default || hint == CacheHint::ReadOnly) {
    return absl::StrCat("*(", PointerType(bytes), "*)(", pointer, ") = ", piece);
  }
  const HintText text = TextOf(hint);
  const std::string name = absl::StrCat("access_store_", text.name, "_", bytes);
  const int words = WordsOf(bytes);
  std::string inputs = "\"l\"(pointer)";
  for (int w = 0; w < words; ++w)
    absl::StrAppend(&inputs, ", \"r\"(", WordOf("piece", bytes, w), ")");
  definitions_.insert(absl::StrCat(
      "__device__ __forceinline__ void ", name, "(void* pointer, ", PieceType(bytes), " piece) {\n",
      Assembly(text, "st.global", text.store, SuffixOf(bytes), "[%0], ", RegisterList(words, 1),
               absl::StrCat(": : ", inputs, " : \"memory\""), "asm volatile"),
      "}\n"));
  return absl::StrCat(name, "(", pointer, ", ", piece, ")");
}

std::string AccessFunctions::Insert(absl::string_view word, absl::string_view place,
                                    int element_bytes, absl::string_view bits) {
  const int width = 8 * element_bytes;
  const std::string name = absl::StrCat("access_insert_", width);
  const std::string mask = element_bytes == 1 ? "0xffu" : "0xffffu";
  definitions_.insert(absl::StrCat(
      "__device__ __forceinline__ unsigned ", name,
      "(unsigned word, int place, unsigned bits) {\n  const int shift = ", width,
      " * place;\n  return (word & ~(", mask, " << shift)) | (bits & ", mask, ") << shift;\n}\n"));
  return absl::StrCat(name, "(", word, ", ", place, ", ", bits, ")");
}

void AccessFunctions::UseRoundingPairs() {
  definitions_.insert(
      R"(__device__ __forceinline__ unsigned access_round_pair(float first, float second) {
#if __CUDA_ARCH__ >= 800
  unsigned word;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(second), "f"(first));
  return word;
#else
  return seam_bf16_pair(seam_round_bf16(first), seam_round_bf16(second));
#endif
}
)");
}

std::string AccessFunctions::Definitions() const { return absl::StrJoin(definitions_, ""); }

}  // namespace seam
