#include "runtime/cuda/driver.h"

#include <cuda.h>

#include "absl/strings/str_cat.h"
#include "ir/status.h"
#include "runtime/cuda/driver_functions.h"
#include "runtime/cuda/dynamic_library.h"

namespace seam::cuda {
namespace {

// Names carry the suffix of the interface that the headers of CUDA 12 and 13 declare, so that the
// same build finds the same functions in every driver from 12.0 on.
absl::Status FindFunctions(const DynamicLibrary& library, DriverFunctions* f) {
  absl::Status status;
  auto find = [&](const char* symbol, auto* function) {
    if (status.ok()) status = library.Find(symbol, function);
  };
  find("cuInit", &f->Init);
  find("cuDriverGetVersion", &f->DriverGetVersion);
  find("cuGetErrorName", &f->GetErrorName);
  find("cuGetErrorString", &f->GetErrorString);
  find("cuDeviceGetCount", &f->DeviceGetCount);
  find("cuDeviceGet", &f->DeviceGet);
  find("cuDeviceGetName", &f->DeviceGetName);
  find("cuDeviceGetAttribute", &f->DeviceGetAttribute);
  find("cuDeviceTotalMem_v2", &f->DeviceTotalMem);
  find("cuDevicePrimaryCtxRetain", &f->DevicePrimaryCtxRetain);
  find("cuCtxGetCurrent", &f->CtxGetCurrent);
  find("cuCtxPushCurrent_v2", &f->CtxPushCurrent);
  find("cuCtxPopCurrent_v2", &f->CtxPopCurrent);
  find("cuMemGetInfo_v2", &f->MemGetInfo);
  find("cuMemAlloc_v2", &f->MemAlloc);
  find("cuMemFree_v2", &f->MemFree);
  find("cuMemPoolCreate", &f->MemPoolCreate);
  find("cuMemPoolDestroy", &f->MemPoolDestroy);
  find("cuMemPoolSetAttribute", &f->MemPoolSetAttribute);
  find("cuMemPoolTrimTo", &f->MemPoolTrimTo);
  find("cuMemAllocFromPoolAsync", &f->MemAllocFromPoolAsync);
  find("cuMemFreeAsync", &f->MemFreeAsync);
  find("cuMemcpyHtoDAsync_v2", &f->MemcpyHtoDAsync);
  find("cuMemcpyDtoHAsync_v2", &f->MemcpyDtoHAsync);
  find("cuMemcpyDtoDAsync_v2", &f->MemcpyDtoDAsync);
  find("cuMemsetD8Async", &f->MemsetD8Async);
  find("cuStreamCreate", &f->StreamCreate);
  find("cuStreamDestroy_v2", &f->StreamDestroy);
  find("cuStreamSynchronize", &f->StreamSynchronize);
  find("cuStreamWaitEvent", &f->StreamWaitEvent);
  find("cuStreamIsCapturing", &f->StreamIsCapturing);
  find("cuStreamBeginCapture_v2", &f->StreamBeginCapture);
  find("cuStreamEndCapture", &f->StreamEndCapture);
  find("cuGraphGetNodes", &f->GraphGetNodes);
  find("cuGraphInstantiateWithFlags", &f->GraphInstantiateWithFlags);
  find("cuGraphDestroy", &f->GraphDestroy);
  find("cuGraphLaunch", &f->GraphLaunch);
  find("cuGraphExecDestroy", &f->GraphExecDestroy);
  find("cuEventCreate", &f->EventCreate);
  find("cuEventDestroy_v2", &f->EventDestroy);
  find("cuEventRecord", &f->EventRecord);
  find("cuEventSynchronize", &f->EventSynchronize);
  find("cuEventElapsedTime", &f->EventElapsedTime);
  find("cuModuleLoadData", &f->ModuleLoadData);
  find("cuModuleUnload", &f->ModuleUnload);
  find("cuModuleGetFunction", &f->ModuleGetFunction);
  find("cuFuncGetAttribute", &f->FuncGetAttribute);
  find("cuFuncSetAttribute", &f->FuncSetAttribute);
  find("cuLaunchKernelEx", &f->LaunchKernelEx);
  find("cuOccupancyMaxActiveBlocksPerMultiprocessor",
       &f->OccupancyMaxActiveBlocksPerMultiprocessor);
  find("cuOccupancyMaxActiveClusters", &f->OccupancyMaxActiveClusters);
  (void)library.Find("cuFuncGetParamInfo", &f->FuncGetParamInfo);  // Null where it is missing.
  return status;
}

constexpr int kOldestDriver = 12000;

std::string VersionText(int version) {
  return absl::StrCat(version / 1000, ".", version % 1000 / 10);
}

}  // namespace

absl::Status StatusOf(const DriverFunctions& f, CUresult result, absl::string_view operation) {
  if (result == CUDA_SUCCESS) return absl::OkStatus();
  const char* name = nullptr;
  const char* text = nullptr;
  if (f.GetErrorName(result, &name) != CUDA_SUCCESS || name == nullptr) name = "CUDA error";
  if (f.GetErrorString(result, &text) != CUDA_SUCCESS || text == nullptr) text = "no text";
  absl::StatusCode code = absl::StatusCode::kInternal;
  switch (result) {
    case CUDA_ERROR_OUT_OF_MEMORY:
    case CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES:
    case CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE:
      code = absl::StatusCode::kResourceExhausted;
      break;
    case CUDA_ERROR_INVALID_VALUE:
    case CUDA_ERROR_INVALID_HANDLE:
    case CUDA_ERROR_INVALID_CLUSTER_SIZE:
      code = absl::StatusCode::kInvalidArgument;
      break;
    case CUDA_ERROR_NOT_SUPPORTED:
      code = absl::StatusCode::kUnimplemented;
      break;
    case CUDA_ERROR_NOT_FOUND:
      code = absl::StatusCode::kNotFound;
      break;
    case CUDA_ERROR_NO_DEVICE:
    case CUDA_ERROR_STUB_LIBRARY:
    case CUDA_ERROR_DEINITIALIZED:
      code = absl::StatusCode::kUnavailable;
      break;
    case CUDA_ERROR_NO_BINARY_FOR_GPU:
    case CUDA_ERROR_NOT_READY:
    case CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED:
    case CUDA_ERROR_STREAM_CAPTURE_INVALIDATED:
    case CUDA_ERROR_STREAM_CAPTURE_UNMATCHED:
    case CUDA_ERROR_STREAM_CAPTURE_UNJOINED:
    case CUDA_ERROR_STREAM_CAPTURE_ISOLATION:
    case CUDA_ERROR_STREAM_CAPTURE_IMPLICIT:
    case CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD:
    case CUDA_ERROR_CAPTURED_EVENT:
      code = absl::StatusCode::kFailedPrecondition;
      break;
    default:
      break;
  }
  return absl::Status(
      code, absl::StrCat(operation, ": ", name, " ", static_cast<int>(result), " (", text, ")"));
}

Driver::Driver() : functions_(std::make_unique<DriverFunctions>()) {}
Driver::~Driver() = default;

absl::StatusOr<const Driver*> Driver::Get() {
  static const absl::StatusOr<const Driver*>* const opened = [] {
    absl::StatusOr<std::unique_ptr<const Driver>> driver = Open("libcuda.so.1");
    return driver.ok() ? new absl::StatusOr<const Driver*>(driver->release())
                       : new absl::StatusOr<const Driver*>(driver.status());
  }();
  return *opened;
}

absl::StatusOr<std::unique_ptr<const Driver>> Driver::Open(const std::string& path) {
  absl::StatusOr<DynamicLibrary> library = DynamicLibrary::Open(path);
  if (!library.ok()) {
    return absl::UnavailableError(absl::StrCat(
        "Kernels cannot run here: the CUDA driver could not be opened (",
        library.status().message(),
        "). Install NVIDIA's driver, 525 or newer, on a machine with its GPU; planning, compiling "
        "and simulating need none"));
  }
  std::unique_ptr<Driver> driver(new Driver());
  DriverFunctions& f = *driver->functions_;
  const absl::Status found = FindFunctions(*library, &f);
  const bool has_version =
      f.DriverGetVersion != nullptr && f.DriverGetVersion(&driver->version_) == CUDA_SUCCESS;
  if (has_version && driver->version_ < kOldestDriver) {
    return absl::UnavailableError(
        absl::StrCat("Kernels cannot run here: the CUDA driver (", path, ") serves CUDA ",
                     VersionText(driver->version_),
                     " and Seam needs 12.0: install NVIDIA's driver 525 or newer"));
  }
  if (!found.ok()) {
    return absl::UnavailableError(
        absl::StrCat("Kernels cannot run here: ", path, " is no CUDA driver: ", found.message()));
  }
  int device_count = 0;
  CUresult result = f.Init(0);
  if (result == CUDA_SUCCESS) result = f.DeviceGetCount(&device_count);
  if (result != CUDA_SUCCESS || device_count <= 0) {
    if (result == CUDA_SUCCESS) result = CUDA_ERROR_NO_DEVICE;
    return absl::UnavailableError(absl::StrCat(
        StatusOf(f, result, "Kernels cannot run here: the CUDA driver does not start").message(),
        ". Check that nvidia-smi lists a GPU and that CUDA_VISIBLE_DEVICES does not hide it"));
  }
  driver->devices_.resize(device_count);
  return driver;
}

absl::StatusOr<const Device*> Driver::device(int ordinal) const {
  if (ordinal < 0 || ordinal >= device_count()) {
    return absl::InvalidArgumentError(
        absl::StrCat("There is no CUDA device ", ordinal, ": the driver has ", device_count()));
  }
  std::lock_guard<std::mutex> lock(mutex_);
  std::unique_ptr<const Device>& slot = devices_[ordinal];
  if (slot == nullptr) {
    std::unique_ptr<Device> device(new Device(*this, ordinal));
    SEAM_RETURN_IF_ERROR(device->Initialize());
    slot = std::move(device);
  }
  return slot.get();
}

absl::Status Device::Initialize() {
  const DriverFunctions& f = driver_.functions();
  const std::string operation = absl::StrCat("Opening CUDA device ", ordinal_);
  CUdevice device = 0;
  CUresult result = f.DeviceGet(&device, ordinal_);
  auto attribute = [&](CUdevice_attribute which) {
    int value = 0;
    if (result == CUDA_SUCCESS) result = f.DeviceGetAttribute(&value, which, device);
    return value;
  };
  char name[256] = {};
  if (result == CUDA_SUCCESS) result = f.DeviceGetName(name, sizeof(name), device);
  size_t global_bytes = 0;
  if (result == CUDA_SUCCESS) result = f.DeviceTotalMem(&global_bytes, device);

  DeviceProperties& p = properties_;
  p.name = name;
  p.global_bytes = static_cast<int64_t>(global_bytes);
  p.compute_capability_major = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  p.compute_capability_minor = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  p.arch = absl::StrCat("sm_", p.compute_capability_major, p.compute_capability_minor,
                        p.compute_capability_major >= 9 ? "a" : "");
  p.multiprocessors = attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  p.l2_bytes = attribute(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
  p.smem_bytes_per_block = attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
  p.smem_bytes_per_multiprocessor =
      attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
  p.registers_per_multiprocessor = attribute(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR);
  p.threads_per_multiprocessor = attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
  p.memory_clock_khz = attribute(CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE);
  p.memory_bus_bits = attribute(CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH);
  p.peak_bytes_per_second = 2.0 * p.memory_clock_khz * 1e3 * p.memory_bus_bits / 8;
  p.cooperative_launch = attribute(CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH) != 0;
  p.memory_pools = attribute(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED) != 0;
  if (result == CUDA_SUCCESS) result = f.DevicePrimaryCtxRetain(&context_, device);
  return StatusOf(f, result, operation);
}

absl::StatusOr<Device::MemoryInfo> Device::memory_info() const {
  size_t free_bytes = 0, total_bytes = 0;
  SEAM_RETURN_IF_ERROR(Call(
      *this, [] { return "Asking for the free memory"; }, driver_.functions().MemGetInfo,
      &free_bytes, &total_bytes));
  return MemoryInfo{static_cast<int64_t>(free_bytes), static_cast<int64_t>(total_bytes)};
}

absl::Status Device::CopyToDevice(void* device, const void* host, size_t bytes,
                                  StreamHandle stream) const {
  if (bytes == 0) return absl::OkStatus();
  return Call(
      *this, [&] { return absl::StrCat("Copying ", bytes, " bytes to the device"); },
      driver_.functions().MemcpyHtoDAsync, Address(device), host, bytes, StreamOf(stream));
}

absl::Status Device::CopyToHost(void* host, const void* device, size_t bytes,
                                StreamHandle stream) const {
  if (bytes == 0) return absl::OkStatus();
  return Call(
      *this, [&] { return absl::StrCat("Copying ", bytes, " bytes to the host"); },
      driver_.functions().MemcpyDtoHAsync, host, Address(device), bytes, StreamOf(stream));
}

absl::Status Device::CopyOnDevice(void* to, const void* from, size_t bytes,
                                  StreamHandle stream) const {
  if (bytes == 0) return absl::OkStatus();
  return Call(
      *this, [&] { return absl::StrCat("Copying ", bytes, " bytes on the device"); },
      driver_.functions().MemcpyDtoDAsync, Address(to), Address(from), bytes, StreamOf(stream));
}

absl::Status Device::Fill(void* device, uint8_t value, size_t bytes, StreamHandle stream) const {
  if (bytes == 0) return absl::OkStatus();
  return Call(
      *this, [&] { return absl::StrCat("Filling ", bytes, " bytes on the device"); },
      driver_.functions().MemsetD8Async, Address(device), value, bytes, StreamOf(stream));
}

absl::Status Device::Synchronize(StreamHandle stream) const {
  return Call(
      *this, [] { return "Waiting for a stream"; }, driver_.functions().StreamSynchronize,
      StreamOf(stream));
}

absl::StatusOr<bool> Device::IsCapturing(StreamHandle stream) const {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  SEAM_RETURN_IF_ERROR(Call(
      *this, [] { return "Asking whether a stream is captured"; },
      driver_.functions().StreamIsCapturing, StreamOf(stream), &status));
  return status != CU_STREAM_CAPTURE_STATUS_NONE;
}

}  // namespace seam::cuda
