#include "runtime/cuda/cubin_cache.h"

#include <xxhash.h>

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace seam::cuda {
namespace {

// A file is a Header, the four texts, and the checksum of all before it. Change the version with
// any change of this, or of how a request becomes a cubin.
constexpr uint32_t kFormatVersion = 1;
constexpr char kMagic[8] = {'S', 'E', 'A', 'M', 'C', 'U', 'B', '\n'};

struct Header {
  char magic[8];
  uint32_t version;
  int32_t registers;
  int32_t spill_store_bytes;
  int32_t spill_load_bytes;
  int64_t stack_bytes;
  uint64_t key_high;
  uint64_t key_low;
  int64_t static_smem_bytes;
  double compile_ms;
  uint64_t cubin_bytes;
  uint64_t entry_bytes;
  uint64_t arch_bytes;
  uint64_t log_bytes;
};
static_assert(sizeof(Header) == 96, "padding would be written uninitialised");

constexpr size_t kChecksumBytes = sizeof(XXH128_canonical_t);
constexpr char kWhat[] = "Compiled kernels";

XXH128_canonical_t Checksum(absl::string_view bytes) {
  XXH128_canonical_t checksum;
  XXH128_canonicalFromHash(&checksum, XXH3_128bits(bytes.data(), bytes.size()));
  return checksum;
}

absl::string_view BytesOf(const void* object, size_t bytes) {
  return absl::string_view(static_cast<const char*>(object), bytes);
}

std::string Encode(const CubinKey& key, const CompiledKernel& kernel) {
  Header header = {};
  std::memcpy(header.magic, kMagic, sizeof(kMagic));
  header.version = kFormatVersion;
  header.registers = kernel.registers;
  header.spill_store_bytes = kernel.spill_store_bytes;
  header.spill_load_bytes = kernel.spill_load_bytes;
  header.stack_bytes = kernel.stack_bytes;
  header.key_high = key.high;
  header.key_low = key.low;
  header.static_smem_bytes = kernel.static_smem_bytes;
  header.compile_ms = kernel.compile_ms;
  header.cubin_bytes = kernel.cubin.size();
  header.entry_bytes = kernel.entry.size();
  header.arch_bytes = kernel.arch.size();
  header.log_bytes = kernel.log.size();
  std::string file = absl::StrCat(BytesOf(&header, sizeof(header)), kernel.cubin, kernel.entry,
                                  kernel.arch, kernel.log);
  const XXH128_canonical_t checksum = Checksum(file);
  absl::StrAppend(&file, BytesOf(&checksum, sizeof(checksum)));
  return file;
}

std::optional<CompiledKernel> Decode(const CubinKey& key, absl::string_view file) {
  if (file.size() < sizeof(Header) + kChecksumBytes) return std::nullopt;
  Header header;
  std::memcpy(&header, file.data(), sizeof(header));
  const CubinKey kept = {header.key_high, header.key_low};
  if (std::memcmp(header.magic, kMagic, sizeof(kMagic)) != 0 || header.version != kFormatVersion ||
      !(kept == key)) {
    return std::nullopt;
  }
  const absl::string_view covered = file.substr(0, file.size() - kChecksumBytes);
  const XXH128_canonical_t checksum = Checksum(covered);
  if (std::memcmp(&checksum, file.data() + covered.size(), kChecksumBytes) != 0) {
    return std::nullopt;
  }
  absl::string_view rest = covered.substr(sizeof(Header));
  bool fits = true;
  auto take = [&](uint64_t bytes) {
    fits = fits && bytes <= rest.size();
    const absl::string_view text = rest.substr(0, fits ? bytes : 0);
    rest.remove_prefix(text.size());
    return std::string(text);
  };
  CompiledKernel kernel;
  kernel.cubin = take(header.cubin_bytes);
  kernel.entry = take(header.entry_bytes);
  kernel.arch = take(header.arch_bytes);
  kernel.log = take(header.log_bytes);
  if (!fits || !rest.empty()) return std::nullopt;
  kernel.registers = header.registers;
  kernel.spill_store_bytes = header.spill_store_bytes;
  kernel.spill_load_bytes = header.spill_load_bytes;
  kernel.stack_bytes = static_cast<int>(header.stack_bytes);
  kernel.static_smem_bytes = header.static_smem_bytes;
  kernel.compile_ms = header.compile_ms;
  kernel.from_cache = true;
  return kernel;
}

}  // namespace

CubinKey MakeCubinKey(const CompileRequest& request, absl::string_view compiler) {
  // Lengths before texts, so that no two requests make the same bytes.
  std::string bytes;
  auto add = [&](absl::string_view text) { absl::StrAppend(&bytes, text.size(), ":", text); };
  absl::StrAppend(&bytes, "seam cubin ", kFormatVersion, ";");
  add(compiler);
  add(request.arch);
  add(request.entry);
  absl::StrAppend(&bytes, request.max_registers, ";", request.options.size(), ";");
  for (const std::string& option : request.options) add(option);
  add(request.source);
  return FileKey::Of(bytes);
}

std::unique_ptr<CubinCache> CubinCache::FromEnvironment() {
  return std::unique_ptr<CubinCache>(new CubinCache(CacheLocation::FromEnvironment(kWhat)));
}

CubinCache::CubinCache(CacheLocation location) : files_(std::move(location), ".cubin", kWhat) {}

std::optional<CompiledKernel> CubinCache::Find(const CubinKey& key) {
  std::optional<CompiledKernel> kernel;
  const absl::Status found = files_.Find(key, [&](absl::string_view bytes) {
    kernel = Decode(key, bytes);
    return kernel.has_value();
  });
  return found.ok() ? std::move(kernel) : std::nullopt;
}

void CubinCache::Store(const CubinKey& key, const CompiledKernel& kernel) {
  files_.Store(key, Encode(key, kernel));
}

}  // namespace seam::cuda
