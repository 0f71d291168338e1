// Loading machine code and launching its kernels.
#include <cuda.h>
#include <elf.h>

#include <cstring>
#include <limits>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "ir/status.h"
#include "runtime/cuda/driver.h"
#include "runtime/cuda/driver_functions.h"

namespace seam::cuda {
namespace {

// Whether a cubin for `arch` runs on the device. Plain code runs on later minor versions of its
// major version, the "f" variant likewise within its family, the "a" variant on its own version
// only. True if `arch` is not understood: then the driver decides.
// Source: CUDA C++ Programming Guide, "Binary Compatibility" and "Feature Set Compiler Targets".
bool RunsOn(absl::string_view arch, const DeviceProperties& device) {
  const bool is_specific = absl::ConsumeSuffix(&arch, "a");
  if (!is_specific) absl::ConsumeSuffix(&arch, "f");
  int number = 0;
  if (!absl::ConsumePrefix(&arch, "sm_") || !absl::SimpleAtoi(arch, &number)) return true;
  const int major = number / 10, minor = number % 10;
  return major == device.compute_capability_major &&
         (is_specific ? minor == device.compute_capability_minor
                      : minor <= device.compute_capability_minor);
}

// The driver takes a cubin without its size and trusts it; this finds text that is none or that
// was cut off.
bool IsWholeElf(absl::string_view cubin) {
  Elf64_Ehdr header;
  if (cubin.size() < sizeof(header)) return false;
  std::memcpy(&header, cubin.data(), sizeof(header));
  auto fits = [&](uint64_t offset, uint64_t bytes) {
    return offset <= cubin.size() && bytes <= cubin.size() - offset;
  };
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
      header.e_machine != EM_CUDA || header.e_shentsize != sizeof(Elf64_Shdr) ||
      header.e_shnum == 0 || !fits(header.e_shoff, uint64_t{header.e_shnum} * sizeof(Elf64_Shdr)) ||
      !fits(header.e_phoff, uint64_t{header.e_phnum} * header.e_phentsize)) {
    return false;
  }
  for (int i = 0; i < header.e_shnum; ++i) {
    Elf64_Shdr section;
    std::memcpy(&section, cubin.data() + header.e_shoff + i * sizeof(section), sizeof(section));
    if (section.sh_type != SHT_NOBITS && !fits(section.sh_offset, section.sh_size)) return false;
  }
  return true;
}

std::string Extents(const std::array<uint32_t, 3>& e) {
  return absl::StrCat("[", e[0], ", ", e[1], ", ", e[2], "]");
}

bool HasCluster(const LaunchConfig& config) {
  return config.cluster != std::array<uint32_t, 3>{0, 0, 0};
}

std::string Describe(const std::string& kernel, const LaunchConfig& config) {
  std::string out = absl::StrCat("Launching ", kernel, " with grid ", Extents(config.grid),
                                 ", block ", Extents(config.block));
  if (HasCluster(config)) absl::StrAppend(&out, ", cluster ", Extents(config.cluster));
  if (config.dynamic_smem_bytes != 0) {
    absl::StrAppend(&out, ", ", config.dynamic_smem_bytes, " bytes of dynamic shared memory");
  }
  if (config.cooperative) absl::StrAppend(&out, ", cooperative");
  return out;
}

// A LaunchConfig in the driver's form, which points into itself.
struct DriverLaunch {
  DriverLaunch(const LaunchConfig& from, StreamHandle stream) {
    config.gridDimX = from.grid[0];
    config.gridDimY = from.grid[1];
    config.gridDimZ = from.grid[2];
    config.blockDimX = from.block[0];
    config.blockDimY = from.block[1];
    config.blockDimZ = from.block[2];
    config.sharedMemBytes = static_cast<unsigned>(from.dynamic_smem_bytes);
    config.hStream = StreamOf(stream);
    config.attrs = attributes;
    if (HasCluster(from)) {
      CUlaunchAttribute& attribute = Add(CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
      attribute.value.clusterDim.x = from.cluster[0];
      attribute.value.clusterDim.y = from.cluster[1];
      attribute.value.clusterDim.z = from.cluster[2];
    }
    if (from.cooperative) Add(CU_LAUNCH_ATTRIBUTE_COOPERATIVE).value.cooperative = 1;
    if (from.programmatic_dependent_launch) {
      Add(CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION)
          .value.programmaticStreamSerializationAllowed = 1;
    }
  }
  DriverLaunch(const DriverLaunch&) = delete;
  DriverLaunch& operator=(const DriverLaunch&) = delete;

  CUlaunchConfig config = {};

 private:
  CUlaunchAttribute& Add(CUlaunchAttributeID id) {
    CUlaunchAttribute& attribute = attributes[config.numAttrs++];
    attribute.id = id;
    return attribute;
  }
  CUlaunchAttribute attributes[3] = {};
};

absl::Status CheckSmem(const std::string& kernel, int64_t bytes) {
  if (bytes >= 0 && bytes <= std::numeric_limits<int>::max()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("Kernel ", kernel, ": ", bytes, " bytes of dynamic shared memory"));
}

}  // namespace

absl::StatusOr<Module> Module::Load(const Device* device, absl::string_view cubin,
                                    absl::string_view arch) {
  const DeviceProperties& properties = device->properties();
  auto wrong_arch = [&] {
    return absl::FailedPreconditionError(absl::StrCat(
        "Loading a module: its machine code is for ", arch, " and device ", device->ordinal(), " (",
        properties.name, ") is sm_", properties.compute_capability_major,
        properties.compute_capability_minor, ": compile for ", properties.arch));
  };
  if (!RunsOn(arch, properties)) return wrong_arch();
  if (!IsWholeElf(cubin)) {
    return absl::InvalidArgumentError(
        absl::StrCat("Loading a module: ", cubin.size(), " bytes that are no whole cubin"));
  }
  const DriverFunctions& f = FunctionsOf(*device);
  CUmodule module = nullptr;
  auto operation = [&] {
    return absl::StrCat("Loading a module of ", cubin.size(), " bytes for ", arch,
                        " (the driver serves CUDA ", device->driver().version() / 1000, ".",
                        device->driver().version() % 1000 / 10, ")");
  };
  SEAM_RETURN_IF_ERROR(Call(*device, operation, f.ModuleLoadData, &module, cubin.data()));
  return Module(Owned<CUmod_st>(module, DriverDeleter{device}));
}

absl::StatusOr<Kernel> Module::GetKernel(const std::string& name) const {
  const Device* device = module_.get_deleter().device;
  const DriverFunctions& f = FunctionsOf(*device);
  CUfunction function = nullptr;
  auto operation = [&] { return absl::StrCat("Looking up the kernel ", name); };
  SEAM_RETURN_IF_ERROR(
      Call(*device, operation, f.ModuleGetFunction, &function, module_.get(), name.c_str()));
  Kernel kernel(device, function, name);
  auto attribute = [&](CUfunction_attribute which, auto* value) {
    int number = 0;
    SEAM_RETURN_IF_ERROR(Call(*device, operation, f.FuncGetAttribute, &number, which, function));
    *value = number;
    return absl::OkStatus();
  };
  Kernel::Attributes& a = kernel.attributes_;
  SEAM_RETURN_IF_ERROR(attribute(CU_FUNC_ATTRIBUTE_NUM_REGS, &a.registers));
  SEAM_RETURN_IF_ERROR(attribute(CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, &a.local_bytes));
  SEAM_RETURN_IF_ERROR(attribute(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, &a.static_smem_bytes));
  SEAM_RETURN_IF_ERROR(
      attribute(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, &a.max_threads_per_block));
  if (f.FuncGetParamInfo != nullptr) {
    kernel.parameter_count_ = 0;
    size_t offset = 0, bytes = 0;
    while (Call(*device, operation, f.FuncGetParamInfo, function,
                static_cast<size_t>(kernel.parameter_count_), &offset, &bytes)
               .ok()) {
      ++kernel.parameter_count_;
    }
  }
  return kernel;
}

absl::Status Kernel::SetMaxDynamicSmemBytes(int64_t bytes) const {
  SEAM_RETURN_IF_ERROR(CheckSmem(name_, bytes));
  return Call(
      *device_,
      [&] {
        return absl::StrCat("Allowing ", name_, " ", bytes, " bytes of dynamic shared memory (",
                            attributes_.static_smem_bytes, " are static, a block has at most ",
                            device_->properties().smem_bytes_per_block, ")");
      },
      FunctionsOf(*device_).FuncSetAttribute, handle_,
      CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, static_cast<int>(bytes));
}

absl::Status Kernel::AllowLargeClusters() const {
  return Call(
      *device_, [&] { return absl::StrCat("Allowing ", name_, " clusters above 8 blocks"); },
      FunctionsOf(*device_).FuncSetAttribute, handle_,
      CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1);
}

absl::StatusOr<int> Kernel::MaxBlocksPerMultiprocessor(int block_threads,
                                                       int64_t dynamic_smem_bytes) const {
  SEAM_RETURN_IF_ERROR(CheckSmem(name_, dynamic_smem_bytes));
  int blocks = 0;
  SEAM_RETURN_IF_ERROR(Call(
      *device_,
      [&] {
        return absl::StrCat("Asking for the occupancy of ", name_, " with ", block_threads,
                            " threads");
      },
      FunctionsOf(*device_).OccupancyMaxActiveBlocksPerMultiprocessor, &blocks, handle_,
      block_threads, static_cast<size_t>(dynamic_smem_bytes)));
  return blocks;
}

absl::StatusOr<int> Kernel::MaxActiveClusters(const LaunchConfig& config) const {
  SEAM_RETURN_IF_ERROR(CheckSmem(name_, config.dynamic_smem_bytes));
  DriverLaunch launch(config, nullptr);
  int clusters = 0;
  SEAM_RETURN_IF_ERROR(Call(
      *device_,
      [&] { return absl::StrCat("Asking for the clusters that fit, ", Describe(name_, config)); },
      FunctionsOf(*device_).OccupancyMaxActiveClusters, &clusters, handle_, &launch.config));
  return clusters;
}

absl::Status Kernel::Launch(const LaunchConfig& config, StreamHandle stream,
                            absl::Span<void* const> params) const {
  SEAM_RETURN_IF_ERROR(CheckSmem(name_, config.dynamic_smem_bytes));
  if (parameter_count_ >= 0 && static_cast<size_t>(parameter_count_) != params.size()) {
    return absl::InvalidArgumentError(absl::StrCat(Describe(name_, config), ": it takes ",
                                                   parameter_count_, " parameters, not ",
                                                   params.size()));
  }
  for (size_t i = 0; i < params.size(); ++i) {
    if (params[i] == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat(Describe(name_, config), ": the value of parameter ", i, " is null"));
    }
  }
  DriverLaunch launch(config, stream);
  return Call(
      *device_, [&] { return Describe(name_, config); }, FunctionsOf(*device_).LaunchKernelEx,
      &launch.config, handle_, const_cast<void**>(params.data()), nullptr);
}

}  // namespace seam::cuda
