// The emitter: text that NVRTC accepts for old and new architectures, without local memory, the
// same every time, with the accesses and the hoisting that the kernel asks for. What it computes is
// in emitter_device_test.cc.
#include "runtime/codegen/emitter.h"

#include <elf.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/backend.h"
#include "runtime/cuda/compiler.h"
#include "tests/support/sample_kernels.h"
#include "tests/support/sanitized.h"

namespace seam::testing {
namespace {

using kernel::CacheHint;
using kernel::CtaSync;
using kernel::For;
using kernel::If;
using kernel::IndexValue;
using kernel::Kernel;
using kernel::LetSymbol;
using kernel::Load;
using kernel::Map;
using kernel::Operand;
using kernel::Random;
using kernel::ShuffleXor;
using kernel::Space;
using kernel::Store;
using ::testing::HasSubstr;
using ::testing::Not;

std::string Text(const Kernel& k) {
  const absl::StatusOr<std::string> text = EmitCuda(k);
  EXPECT_TRUE(text.ok()) << text.status() << "\n" << PrintKernel(k);
  return text.ok() ? *text : "";
}

size_t Count(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

// The opcodes of a kernel's machine code, in order: the low 12 bits of each 16 bytes.
std::vector<int> Opcodes(const std::string& cubin, const std::string& kernel) {
  Elf64_Ehdr header;
  std::memcpy(&header, cubin.data(), sizeof header);
  std::vector<Elf64_Shdr> sections(header.e_shnum);
  std::memcpy(sections.data(), cubin.data() + header.e_shoff, sections.size() * sizeof sections[0]);
  const char* const names = cubin.data() + sections[header.e_shstrndx].sh_offset;
  std::vector<int> opcodes;
  for (const Elf64_Shdr& section : sections) {
    if (names + section.sh_name != absl::StrCat(".text.", kernel)) continue;
    for (size_t at = 0; at < section.sh_size; at += 16) {
      uint16_t low;
      std::memcpy(&low, cubin.data() + section.sh_offset + at, sizeof low);
      opcodes.push_back(low & 0xfff);
    }
  }
  return opcodes;
}

// What the compiler may move does not come before griddepcontrol.wait. Source of the opcodes:
// nvdisasm of CUDA 13.
void ExpectWaitsFirst(const std::string& cubin, const std::string& kernel) {
  constexpr int kWait = 0x82e;  // ACQBULK
  // LDG, STG, UBLKCP, LDGSTS, RED, ATOMG.
  const std::vector<int> accesses = {0x981, 0x986, 0x3ba, 0xfae, 0x98e, 0x9a8};
  const std::vector<int> opcodes = Opcodes(cubin, kernel);
  const auto wait = std::find(opcodes.begin(), opcodes.end(), kWait);
  const auto access =
      std::find_first_of(opcodes.begin(), opcodes.end(), accesses.begin(), accesses.end());
  EXPECT_NE(wait, opcodes.end()) << kernel;
  EXPECT_LE(wait - opcodes.begin(), access - opcodes.begin()) << kernel;
}

// Every kernel compiles for these architectures, keeps its fragments in registers, and waits for
// the launch before it where it may begin early.
void ExpectCompiles(const std::vector<Kernel>& kernels,
                    const std::vector<const char*>& archs = {"sm_75", "sm_90a"}) {
  const auto nvrtc = cuda::Nvrtc::Get();
  if (!nvrtc.ok()) GTEST_SKIP() << nvrtc.status();
  std::vector<cuda::CompileRequest> requests;
  testing::Part part;
  for (const Kernel& k : kernels) {
    if (!part.TakesNext()) continue;
    for (const char* arch : archs) {
      if (!(*nvrtc)->CheckArch(arch).ok()) continue;
      requests.push_back({k.name, Text(k), arch, {}, k.name, 0});
    }
  }
  const auto compiled = cuda::CompileAll(requests, nullptr, 0);
  for (size_t i = 0; i < compiled.size(); ++i) {
    ASSERT_TRUE(compiled[i].ok()) << compiled[i].status() << "\n" << requests[i].source;
    EXPECT_EQ(compiled[i]->stack_bytes, 0) << requests[i].source;
    EXPECT_EQ(compiled[i]->spill_store_bytes, 0) << requests[i].source;
    if (requests[i].arch == "sm_90a") ExpectWaitsFirst(compiled[i]->cubin, requests[i].entry);
  }
}

TEST(EmitterTest, Reductions) {
  std::vector<Kernel> kernels;
  for (const bool index32 : {false, true}) {
    for (const DType dtype : {DType::F32, DType::BF16, DType::F8E5M2}) {
      for (const int vector : {1, 8}) {
        kernels.push_back(RowSumKernel(dtype, vector));
        kernels.back().index32 = index32;
      }
    }
    kernels.push_back(ColumnSumKernel());
    kernels.back().index32 = index32;
    kernels.back().min_ctas_per_sm = 2;
  }
  ExpectCompiles(kernels);
  EXPECT_THAT(Text(kernels.back()), HasSubstr("__launch_bounds__(128, 2)"));
  EXPECT_THAT(Text(kernels[0]), HasSubstr("__launch_bounds__(128)\nrow_sum("));
}

TEST(EmitterTest, CopyOfEveryDType) {
  std::vector<Kernel> kernels;
  for (int d = 0; d < kNumDTypes; ++d) {
    const DType dtype = static_cast<DType>(d);
    for (const bool packed : {false, true}) {
      for (const int vector : {2, 16}) {
        kernels.push_back(VectorCopyKernel(
            dtype, vector, vector == 2 ? CacheHint::EvictLast : CacheHint::Default, packed));
      }
    }
  }
  ExpectCompiles(kernels);
}

TEST(EmitterTest, EveryCacheHintAndPieceSize) {
  std::vector<Kernel> kernels;
  for (const CacheHint hint :
       {CacheHint::Streaming, CacheHint::EvictFirst, CacheHint::EvictLast, CacheHint::ReadOnly}) {
    for (const int vector : {1, 2, 4, 8, 16}) {
      kernels.push_back(VectorCopyKernel(DType::I8, vector, hint));
      // A buffer that the kernel writes is read by instructions that stay in their place.
      kernels.push_back(VectorCopyKernel(DType::I8, vector, hint));
      kernels.back().buffers[0].written = true;
    }
  }
  ExpectCompiles(kernels);
  EXPECT_THAT(Text(kernels[0]), HasSubstr("asm(\"ld.global.cs.u8"));
  EXPECT_THAT(Text(kernels[1]), HasSubstr("asm volatile(\"ld.global.cs.u8"));
  EXPECT_THAT(Text(kernels[8]), HasSubstr("ld.global.cs.v4.u32"));
  EXPECT_THAT(Text(VectorCopyKernel(DType::F32, 4, CacheHint::ReadOnly)),
              HasSubstr("ld.global.nc.v4.u32"));
  Kernel written = VectorCopyKernel(DType::F32, 4, CacheHint::ReadOnly);
  written.buffers[0].written = true;
  EXPECT_THAT(Text(written), Not(HasSubstr("ld.global.nc")));
}

TEST(EmitterTest, VectorsMoveSixteenBytesAtATime) {
  const std::string text = Text(VectorCopyKernel(DType::F32, 8));
  EXPECT_EQ(Count(text, "= *(const uint4*)(x + "), 2);
  EXPECT_EQ(Count(text, "*(uint4*)(y + "), 2);
  EXPECT_THAT(Text(VectorCopyKernel(DType::BF16, 4)), HasSubstr("*(const uint2*)(x + "));
  EXPECT_THAT(Text(VectorCopyKernel(DType::I8, 4)), HasSubstr("*(const unsigned*)(x + "));
  // Packed words go through untouched.
  const std::string packed = Text(VectorCopyKernel(DType::BF16, 8, CacheHint::Default, true));
  EXPECT_THAT(packed, HasSubstr("unsigned f[4];"));
  EXPECT_THAT(packed, HasSubstr("uint4{f[0], f[1], f[2], f[3]}"));
}

// Every word of the fragment is new to the compiler, and nothing beside them.
TEST(EmitterTest, PackedWordsAreKept) {
  Kernel kernel = VectorCopyKernel(DType::BF16, 8, CacheHint::Default, true);
  kernel.body.insert(kernel.body.begin() + 1, {kernel::KeepPacked{0}});
  const std::string text = Text(kernel);
  for (int word = 0; word < 4; ++word) {
    EXPECT_THAT(text, HasSubstr(absl::StrCat("asm(\"\" : \"+r\"(f[", word, "]));")));
  }
  EXPECT_THAT(text, Not(HasSubstr("(f[4]")));
}

// A loop over neighbouring elements of packed fragments becomes a statement a word, where elements
// fill words.
TEST(EmitterTest, ExtremaOfPairs) {
  std::vector<Kernel> kernels;
  for (const DType dtype : {DType::BF16, DType::F16}) {
    for (const OpKind op : {OpKind::Maximum, OpKind::Minimum}) {
      for (const int first : {0, 1}) {
        Kernel k = VectorCopyKernel(dtype, 8, CacheHint::Default, true);
        k.name = absl::StrCat("pairs_", kernels.size());
        k.fragments.push_back({"top", dtype, 8, true});
        const SymInt v = k.env->FreshSymbol("v", 0, 3);
        const auto loop = [&](kernel::Map map) {
          return kernel::For{v, 4, true, {{std::move(map)}}};
        };
        const kernel::Block more = {
            {loop({OpKind::Copy, 1, v, {kernel::Operand::Const(dtype, FloatScalar(1))}})},
            {loop({op, 1, v, {kernel::Operand::Reg(1, v), kernel::Operand::Reg(0, v + first)}})},
            {loop({OpKind::Copy, 0, v, {kernel::Operand::Reg(1, v)}})}};
        k.body.insert(k.body.begin() + 1, more.begin(), more.end());
        kernels.push_back(std::move(k));
      }
    }
  }
  ExpectCompiles(kernels);
  const std::string even = Text(kernels[0]), odd = Text(kernels[1]);
  EXPECT_THAT(even, HasSubstr("top[0] = 0x3f803f80u;"));
  EXPECT_THAT(even, HasSubstr("top[1] = seam_max_pair_bf16(top[1], f[1]);"));
  EXPECT_THAT(odd, Not(HasSubstr("seam_max_pair")));
  EXPECT_THAT(Text(kernels[6]), HasSubstr("= seam_min_pair_f16(top[0], f[0]);"));
}

// One instruction asks for something of every register, of packed words as they are.
TEST(EmitterTest, WhatLoadsBringIsAwaited) {
  std::vector<Kernel> kernels;
  for (DType dtype : {DType::BF16, DType::F32, DType::F64, DType::I64, DType::I32, DType::Bool}) {
    kernels.push_back(VectorCopyKernel(dtype, 2));
    kernels.back().name = absl::StrCat("await_", DTypeName(dtype));
    kernels.back().body.insert(kernels.back().body.begin() + 1, {kernel::AwaitLoaded{{0}}});
  }
  EXPECT_THAT(Text(kernels[1]), HasSubstr("seam_await_loaded(seam_bits(f[0]) | seam_bits(f[1]));"));
  ExpectCompiles(kernels);
  Kernel packed = VectorCopyKernel(DType::BF16, 8, CacheHint::Default, true);
  packed.body.insert(packed.body.begin() + 1, {kernel::AwaitLoaded{{0}}});
  EXPECT_THAT(Text(packed), HasSubstr("seam_await_loaded(f[0] | f[1] | f[2] | f[3]);"));
}

// Of an element, where only some threads go through a loop and nobody writes what they load.
TEST(EmitterTest, LoadsOfSomeThreadsAreOneInstruction) {
  std::vector<Kernel> kernels;
  const auto text = [&](DType dtype, bool of_threads, bool unrolled, bool written) {
    KernelDraft d(absl::StrCat("some_", kernels.size()));
    const int x = d.Buffer("x", dtype, 1024, written), y = d.Buffer("y", dtype, 128, true);
    const int sum = d.Fragment("sum", dtype), in = d.Fragment("in", dtype);
    const SymInt step = d.Symbol("step", 8);
    const Scalar one = IsFloat(dtype) ? FloatScalar(1) : IntScalar(1);
    Emit(&d.k.body, Map{OpKind::Copy, sum, 0, {Operand::Const(dtype, one)}});
    For loop{step, 8, unrolled, {}};
    const SymInt index = 128 * step + d.thread;
    Emit(&loop.body,
         Load{in, 0, 1, Space::Global, x, index, SymLt(index, 1000), one, CacheHint::Default});
    Emit(&loop.body, Map{OpKind::Maximum, sum, 0, {Operand::Reg(sum), Operand::Reg(in)}});
    If branch{of_threads ? SymLt(d.thread, 100) : SymLt(d.block, 100), {}, {}};
    Emit(&branch.body, std::move(loop));
    Emit(&d.k.body, std::move(branch));
    Emit(&d.k.body, Store{sum, 0, 1, Space::Global, y, d.thread});
    kernels.push_back(d.k);
    return Text(d.k);
  };
  EXPECT_THAT(text(DType::F32, true, false, false),
              HasSubstr("= __uint_as_float(access_load_if_4("));
  EXPECT_THAT(text(DType::BF16, true, false, false), HasSubstr(", 0x3f80u)"));  // 1 in bf16.
  EXPECT_THAT(text(DType::F16, true, false, false), HasSubstr("access_load_if_2("));
  EXPECT_THAT(text(DType::U8, true, false, false), HasSubstr("access_load_if_1("));
  EXPECT_THAT(text(DType::I32, true, false, false), HasSubstr("access_load_if_4("));
  for (const std::string& other :
       {text(DType::F64, true, false, false), text(DType::F32, false, false, false),
        text(DType::F32, true, true, false), text(DType::F32, true, false, true)}) {
    EXPECT_THAT(other, Not(HasSubstr("access_load_if")));
  }
  ExpectCompiles(kernels);
}

TEST(EmitterTest, OneConversionRoundsTwoBf16) {
  KernelDraft d("convert");
  const int x = d.Buffer("x", DType::F32, 256, false), y = d.Buffer("y", DType::BF16, 256, true);
  const int in = d.Fragment("in", DType::F32, 2), out = d.Fragment("out", DType::BF16, 2);
  const SymInt v = d.Symbol("v", 2);
  Emit(&d.k.body, Load{in, 0, 2, Space::Global, x, 2 * d.thread});
  For loop{v, 2, true, {}};
  Emit(&loop.body, Map{OpKind::Cast, out, v, {Operand::Reg(in, v)}});
  Emit(&d.k.body, std::move(loop));
  Emit(&d.k.body, Store{out, 0, 2, Space::Global, y, 2 * d.thread});
  EXPECT_THAT(Text(d.k), HasSubstr("cvt.rn.bf16x2.f32"));
  EXPECT_THAT(Text(d.k), HasSubstr("out[v] = in[v];"));
  ExpectCompiles({d.k});
  // A value that is also computed with is rounded where it is defined.
  Emit(&d.k.body, Map{OpKind::Add, out, 0, {Operand::Reg(out), Operand::Reg(out, 1)}});
  EXPECT_THAT(Text(d.k), HasSubstr("out[v] = seam_round_bf16(in[v]);"));
}

TEST(EmitterTest, DivisionsAreOutsideTheLoop) {
  KernelDraft d("hoist");
  const SymInt n = d.Parameter("n", 1, 1000);
  const int x = d.Buffer("x", DType::F32, 1 << 20, false),
            y = d.Buffer("y", DType::F32, 1 << 20, true);
  const int f = d.Fragment("f", DType::F32);
  const SymInt i = d.Symbol("i", n);
  const SymInt index =
      FloorDiv(d.thread + 128 * d.block, n) * 1000 + Mod(d.thread + 128 * d.block, n) + 7 * i;
  For loop{i, n, false, {}};
  Emit(&loop.body, Load{f, 0, 1, Space::Global, x, index});
  Emit(&loop.body, Store{f, 0, 1, Space::Global, y, index});
  Emit(&d.k.body, std::move(loop));
  for (const bool index32 : {false, true}) {
    d.k.index32 = index32;
    const std::string text = Text(d.k);
    const size_t at = text.find("for (");
    ASSERT_NE(at, std::string::npos);
    EXPECT_EQ(Count(text.substr(0, at), " / "), 1) << text;
    EXPECT_EQ(Count(text.substr(at), " / ") + Count(text.substr(at), " % "), 0) << text;
    EXPECT_EQ(Count(text.substr(at), " = i_3 + 7"), 1) << text;  // One index for both accesses.
    if (index32) {
      EXPECT_EQ(Count(text, "const long long"), 0) << text;
    }
  }
  ExpectCompiles({d.k});
}

// A loop that divides by what is the same in all turns: quick quotients, and all of them again
// where one is out of range, from where the loop began.
TEST(EmitterTest, LoopsShareADivisor) {
  KernelDraft d("share");
  const int x = d.Buffer("x", DType::F32, 512, false), y = d.Buffer("y", DType::F32, 512, true);
  const int in = d.Fragment("in", DType::F32, 4), out = d.Fragment("out", DType::F32, 4);
  const int by = d.Fragment("by", DType::F32), total = d.Fragment("total", DType::F32);
  const SymInt v = d.Symbol("v", 4);
  d.k.shared.push_back({"rows", DType::F32, 512});
  // Where the quotients go meanwhile: nowhere, or to memory.
  std::optional<Space> to;
  const auto division = [&](Operand divisor, bool sums) {
    d.k.body.clear();
    Emit(&d.k.body, Load{in, 0, 4, Space::Global, x, 4 * d.thread});
    Emit(&d.k.body, Load{by, 0, 1, Space::Global, x, d.thread});
    Emit(&d.k.body, Map{OpKind::Copy, total, 0, {Operand::Reg(by)}});
    For loop{v, 4, true, {}};
    Emit(&loop.body, Map{OpKind::Div, out, v, {Operand::Reg(in, v), divisor}});
    if (sums) {
      Emit(&loop.body, Map{OpKind::Add, total, 0, {Operand::Reg(total), Operand::Reg(out, v)}});
    }
    if (to) Emit(&loop.body, Store{out, v, 1, *to, *to == Space::Global ? y : 0, 4 * d.thread + v});
    Emit(&d.k.body, std::move(loop));
    Emit(&d.k.body, Map{OpKind::Add, out, 0, {Operand::Reg(out), Operand::Reg(total)}});
    Emit(&d.k.body, Store{out, 0, 4, Space::Global, y, 4 * d.thread});
    ExpectCompiles({d.k});
    return Text(d.k);
  };
  std::string text = division(Operand::Reg(by), true);
  EXPECT_THAT(text, HasSubstr("bool exact = seam_divides_signed(by);"));  // It was loaded.
  EXPECT_THAT(text, HasSubstr("out[v] = seam_quotient_signed(in[v], by, exact);"));
  const size_t again = text.find("if (__builtin_expect(!exact, 0)) {");
  ASSERT_NE(again, std::string::npos) << text;
  EXPECT_THAT(text.substr(again), HasSubstr("total = before;"));
  EXPECT_THAT(text.substr(again), HasSubstr("out[v] = in[v] / by;"));
  EXPECT_THAT(division(Operand::Const(DType::F32, FloatScalar(3)), false),
              HasSubstr("seam_quotient("));
  for (const Operand divisor :
       {Operand::Const(DType::F32, FloatScalar(-0.25)), Operand::Const(DType::F32, FloatScalar(0)),
        Operand::Reg(in, v), Operand::Reg(total)}) {
    EXPECT_EQ(Count(division(divisor, true), "seam_quotient"), 0);
  }
  // Other threads see shared memory behind a barrier: the right quotients.
  to = Space::Shared;
  EXPECT_THAT(division(Operand::Reg(by), true),
              HasSubstr("= seam_quotient_signed(in[v], by, exact);"));
  to = Space::Global;
  EXPECT_EQ(Count(division(Operand::Reg(by), true), "seam_quotient"), 0);
}

// A divisor that was loaded, in this type or another, may be negative; one that was computed mostly
// is not, and its quotients are cheaper.
TEST(EmitterTest, SharedDivisorsThatMayBeNegative) {
  KernelDraft d("signs");
  const int x = d.Buffer("x", DType::F32, 512, false), y = d.Buffer("y", DType::F32, 512, true);
  const int n = d.Buffer("n", DType::F16, 512, false);
  const int in = d.Fragment("in", DType::F32, 4), out = d.Fragment("out", DType::F32, 4);
  const int narrow = d.Fragment("narrow", DType::F16), by = d.Fragment("by", DType::F32);
  const int root = d.Fragment("root", DType::F32), copy = d.Fragment("copy", DType::F32);
  const SymInt v = d.Symbol("v", 4);
  Emit(&d.k.body, Load{in, 0, 4, Space::Global, x, 4 * d.thread});
  Emit(&d.k.body, Load{narrow, 0, 1, Space::Global, n, d.thread});
  Emit(&d.k.body, Map{OpKind::Cast, by, 0, {Operand::Reg(narrow)}});
  Emit(&d.k.body, Map{OpKind::Copy, copy, 0, {Operand::Reg(by)}});
  Emit(&d.k.body, Map{OpKind::Sqrt, root, 0, {Operand::Reg(by)}});
  for (const int divisor : {by, copy, root}) {
    For loop{v, 4, true, {}};
    Emit(&loop.body, Map{OpKind::Div, out, v, {Operand::Reg(in, v), Operand::Reg(divisor)}});
    Emit(&d.k.body, std::move(loop));
    Emit(&d.k.body, Store{out, 0, 4, Space::Global, y, 4 * d.thread});
  }
  ExpectCompiles({d.k});
  const std::string text = Text(d.k);
  EXPECT_EQ(Count(text, "= seam_quotient_signed(in[v], "), 2) << text;
  EXPECT_EQ(Count(text, "= seam_quotient(in[v], root"), 1) << text;
}

// Four aligned neighbours share one call of the generator, which is most of the code.
TEST(EmitterTest, NeighboursShareTheirRandomNumbers) {
  const auto nvrtc = cuda::Nvrtc::Get();
  if (!nvrtc.ok()) GTEST_SKIP() << nvrtc.status();
  size_t bytes[2];
  for (const int64_t shift : {0, 1}) {
    KernelDraft d("draw");
    const SymInt n = d.Parameter("n", 1);
    const int y = d.Buffer("y", DType::F32, 4 * n, true);
    const int f = d.Fragment("f", DType::F32, 4);
    const SymInt v = d.Symbol("v", 4), first = 4 * (d.block * 128 + d.thread);
    For loop{v, 4, true, {}};
    Emit(&loop.body, Random{OpKind::RandomUniform, f, v, Operand::Const(DType::I64, IntScalar(1)),
                            Operand::Const(DType::I64, IntScalar(2)), first + v + shift * n});
    Emit(&d.k.body, std::move(loop));
    Emit(&d.k.body, Store{f, 0, 4, Space::Global, y, first, SymLt(first, 4 * n)});
    const auto compiled = (*nvrtc)->Compile({"draw", Text(d.k), "sm_90a", {}, "draw", 0});
    ASSERT_TRUE(compiled.ok()) << compiled.status();
    bytes[shift] = compiled->cubin.size();
  }
  const size_t frame = 4096;  // Some 4 KB of either are no code.
  EXPECT_LT(4 * (bytes[0] - frame), 3 * (bytes[1] - frame));
}

TEST(EmitterTest, NamesAreMadeUniqueAndLegal) {
  KernelDraft d("names");
  const SymInt n = d.Parameter("int", 0, 100);
  const int x = d.Buffer("float", DType::F32, n, false), y = d.Buffer("expf", DType::F32, n, true);
  d.Buffer("thread", DType::F32, n, false);
  d.Buffer("a.b c", DType::F32, n, false);
  d.Buffer("a.b_c", DType::F32, n, false);
  d.Buffer("", DType::F32, n, false);
  d.Buffer("seam_max", DType::F32, n, false);
  d.Buffer("9", DType::F32, n, false);
  const int a = d.Fragment("names", DType::F32), b = d.Fragment("i", DType::F32),
            c = d.Fragment("uint4", DType::F32);
  Emit(&d.k.body, Load{a, 0, 1, Space::Global, x, d.thread, SymLt(d.thread, n)});
  Emit(&d.k.body, Map{OpKind::Exp, b, 0, {Operand::Reg(a)}});
  Emit(&d.k.body, Map{OpKind::Maximum, c, 0, {Operand::Reg(a), Operand::Reg(b)}});
  Emit(&d.k.body, Store{c, 0, 1, Space::Global, y, d.thread, SymLt(d.thread, n)});
  ExpectCompiles({d.k});
}

TEST(EmitterTest, CommentsCannotLeaveTheirLine) {
  KernelDraft d("comment");
  d.k.summary = "a backslash at the end \\\nand more\r\n";
  Emit(&d.k.body, kernel::Comment{"one \\"});
  Emit(&d.k.body, kernel::Comment{"two\nsyntax error here"});
  ExpectCompiles({d.k});
}

// Every statement that the samples lack, on every dtype that it takes.
TEST(EmitterTest, RemainingStatements) {
  std::vector<Kernel> kernels;
  for (int t = 0; t < kNumDTypes; ++t) {
    const DType dtype = static_cast<DType>(t);
    for (const bool packed : {false, true}) {
      KernelDraft d("statements");
      const int y = d.Buffer("y", dtype, 1024, true), at = d.Buffer("at", DType::I32, 1024, false);
      const int s = d.Shared("s", dtype, 128);
      const int f = d.Fragment("f", dtype, 3, packed),
                index = d.Fragment("index", DType::I32, 1, packed);
      const SymInt let = d.Symbol("let", 8), i = d.Symbol("i", 3);
      Emit(&d.k.body, IndexValue{f, 0, d.thread * 3});
      Emit(&d.k.body, ShuffleXor{f, 1, Operand::Reg(f), 5});
      Emit(&d.k.body, Map{OpKind::Copy, f, 2, {Operand::Reg(f, 1)}});
      Emit(&d.k.body, Store{f, 2, 1, Space::Shared, s, d.thread});
      Emit(&d.k.body, CtaSync{});
      Emit(&d.k.body, Load{f, 1, 1, Space::Shared, s, 127 - d.thread});
      Emit(&d.k.body, Load{index, 0, 1, Space::Global, at, d.thread});
      Emit(&d.k.body, LetSymbol{let, Operand::Reg(index)});
      if (IsFloat(dtype)) {
        Emit(&d.k.body,
             Random{OpKind::RandomUniform, f, 0, Operand::Const(DType::I64, IntScalar(1)),
                    Operand::Const(DType::I64, IntScalar(2)), let + d.thread});
        Emit(&d.k.body,
             Random{OpKind::RandomNormal, f, 2, Operand::Const(DType::I64, IntScalar(INT64_MIN)),
                    Operand::Const(DType::I64, IntScalar(2)), let});
      }
      For loop{i, 3, true, {}};
      Emit(&loop.body, Store{f, i, 1, Space::Global, y, 8 * d.thread + let * 0 + i, SymLt(let, 5)});
      Emit(&d.k.body, std::move(loop));
      kernels.push_back(std::move(d.k));
    }
  }
  ExpectCompiles(kernels);
}

// Phases are told apart by an argument, so that they may also be launched one after the other.
TEST(EmitterTest, Phases) {
  const Kernel k = ExchangeKernel(3);
  const std::string text = Text(k);
  EXPECT_THAT(text, HasSubstr("exchange(int* w, int* y, unsigned* arrivals, int phase)"));
  EXPECT_EQ(Count(text, "  if (phase < 0) seam_grid_barrier(arrivals);"), 2);
  for (int phase = 0; phase < 3; ++phase)
    EXPECT_THAT(text, HasSubstr(absl::StrCat("  if (phase < 0 || phase == ", phase, ") {")));
  EXPECT_THAT(Text(ColumnSumKernel()), Not(HasSubstr("phase")));
  const std::string lasting = Text(LastingKernel(3));
  EXPECT_THAT(lasting, HasSubstr("const int together = (int)(phase < 0);"));
  EXPECT_THAT(Text(LastingKernel(3, false)), Not(HasSubstr("together")));
  ExpectCompiles({k, LastingKernel(3)});
}

TEST(EmitterTest, Tickets) {
  const Kernel k = TicketKernel(3, 20);
  const std::string text = Text(k);
  EXPECT_THAT(text, HasSubstr("tickets(int* y, unsigned* tickets_1)"));
  EXPECT_THAT(text, HasSubstr("next = (int)atomicInc(tickets_1, 22);"));
  EXPECT_THAT(text, HasSubstr("if (20 <= at) break;"));
  Kernel paced = k;
  paced.body.push_back({kernel::AwaitTickets{3}});
  EXPECT_THAT(Text(paced), HasSubstr("seam_await_tickets(tickets_1, (unsigned)3);"));
  Kernel late = k;
  late.body.insert(late.body.begin(), {kernel::Pause{late.block_x * 7}});
  EXPECT_THAT(Text(late), HasSubstr("const long long i = 7LL * block;\n  seam_pause(i);"));
  ExpectCompiles({k, paced, late});
}

// An instruction from sm_80 on; before, a load and a store.
TEST(EmitterTest, AsyncLoads) {
  std::vector<Kernel> kernels;
  for (const auto& [dtype, width] : std::vector<std::pair<DType, int>>{
           {DType::F32, 4}, {DType::F64, 1}, {DType::BF16, 2}, {DType::I8, 16}}) {
    kernels.push_back(LoadsAheadKernel(dtype, width, 3));
  }
  const std::string text = Text(kernels[0]);
  EXPECT_THAT(text, HasSubstr(") seam_async_load((uint4*)(s + "));
  EXPECT_THAT(text, HasSubstr("), (const uint4*)(x + "));
  EXPECT_EQ(Count(text, " seam_async_load((uint4*)"), 2);
  EXPECT_EQ(Count(text, "  seam_await_loads();"), 1);
  EXPECT_THAT(text, HasSubstr("cp.async.wait_all;"));
  EXPECT_THAT(Text(kernels[1]), HasSubstr("seam_async_load((uint2*)(s + "));
  EXPECT_THAT(Text(kernels[2]), HasSubstr("seam_async_load((unsigned*)(s + "));
  EXPECT_THAT(Text(ColumnSumKernel()), Not(HasSubstr("cp.async")));
  ExpectCompiles(kernels, {"sm_75", "sm_80", "sm_90a"});
}

// Where there are no clusters the backends refuse such a kernel.
TEST(EmitterTest, Clusters) {
  std::vector<Kernel> kernels = {ClusterKernel(DType::I32, 3, 2, 4),
                                 ClusterKernel(DType::I64, 3, 16, 4),
                                 ClusterKernel(DType::I32, 3, 2, 4)};
  kernels[2].body[0].node = kernel::ClusterSync{.orders = true};
  EXPECT_THAT(Text(kernels[0]), HasSubstr("barrier.cluster.arrive.relaxed.aligned;"));
  EXPECT_THAT(Text(kernels[2]), HasSubstr("barrier.cluster.arrive.aligned;"));
  EXPECT_THAT(Text(kernels[2]), Not(HasSubstr("relaxed")));
  EXPECT_THAT(Text(kernels[0]), HasSubstr(" seam_remote_store(s + "));
  EXPECT_THAT(Text(kernels[0]), HasSubstr("seam_await_stores(barriers + "));
  ExpectCompiles(kernels, {"sm_90a"});
  CompileOptions options;
  options.load = false;
  options.device = "a100";
  const absl::StatusOr<std::unique_ptr<Backend>> backend = MakeCudaBackend(options);
  ASSERT_TRUE(backend.ok()) << backend.status();
  const Kernel* const pointers[] = {&kernels[0]};
  const absl::Status refused = (*backend)->Load(pointers).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("kernel cluster runs in clusters of 2 CTAs, of which sm_80 has at most 1"));
}

// The same kernel gives the same text, whatever its environment held before.
TEST(EmitterTest, Deterministic) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    EXPECT_EQ(Text(MakeRandomIndexKernel(seed, seed % 2).kernel),
              Text(MakeRandomIndexKernel(seed, seed % 2).kernel));
  }
  KernelDraft a("k"), b("k");
  const auto finish = [](KernelDraft* d, SymInt n, SymInt m) {
    const int y = d->Buffer("y", DType::F32, n * m, true), f = d->Fragment("f", DType::F32);
    Emit(&d->k.body, IndexValue{f, 0, 0});
    Emit(&d->k.body,
         Store{f, 0, 1, Space::Global, y, d->thread * n + d->block * m + n * m + FloorDiv(n, m)});
    return Text(d->k);
  };
  const SymInt a_n = a.Parameter("n", 1), a_m = a.Parameter("m", 1);
  const SymInt b_n = b.Parameter("n", 1), b_m = b.Parameter("m", 1);
  const SymInt earlier = FloorDiv(b_n, b_m) + b_n * b_m + b_m * b.block;
  EXPECT_TRUE(earlier.is_valid());
  EXPECT_EQ(finish(&a, a_n, a_m), finish(&b, b_n, b_m));
}

TEST(EmitterTest, RefusesWhatDoesNotVerify) {
  Kernel k = ColumnSumKernel();
  k.threads = 33;
  EXPECT_EQ(EmitCuda(k).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace seam::testing
