// Internal to runtime/cuda: the driver's functions as found in the opened library, and the one way
// to call them. Include <cuda.h> before it; no header of Seam does.
#pragma once

#ifndef CUDA_VERSION
#error "include <cuda.h> first"
#endif

#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "runtime/cuda/driver.h"

namespace seam::cuda {

struct DriverFunctions {
  decltype(&::cuInit) Init = nullptr;
  decltype(&::cuDriverGetVersion) DriverGetVersion = nullptr;
  decltype(&::cuGetErrorName) GetErrorName = nullptr;
  decltype(&::cuGetErrorString) GetErrorString = nullptr;
  decltype(&::cuDeviceGetCount) DeviceGetCount = nullptr;
  decltype(&::cuDeviceGet) DeviceGet = nullptr;
  decltype(&::cuDeviceGetName) DeviceGetName = nullptr;
  decltype(&::cuDeviceGetAttribute) DeviceGetAttribute = nullptr;
  decltype(&::cuDeviceTotalMem) DeviceTotalMem = nullptr;
  decltype(&::cuDevicePrimaryCtxRetain) DevicePrimaryCtxRetain = nullptr;
  decltype(&::cuCtxGetCurrent) CtxGetCurrent = nullptr;
  decltype(&::cuCtxPushCurrent) CtxPushCurrent = nullptr;
  decltype(&::cuCtxPopCurrent) CtxPopCurrent = nullptr;
  decltype(&::cuMemGetInfo) MemGetInfo = nullptr;
  decltype(&::cuMemAlloc) MemAlloc = nullptr;
  decltype(&::cuMemFree) MemFree = nullptr;
  decltype(&::cuMemPoolCreate) MemPoolCreate = nullptr;
  decltype(&::cuMemPoolDestroy) MemPoolDestroy = nullptr;
  decltype(&::cuMemPoolSetAttribute) MemPoolSetAttribute = nullptr;
  decltype(&::cuMemPoolTrimTo) MemPoolTrimTo = nullptr;
  decltype(&::cuMemAllocFromPoolAsync) MemAllocFromPoolAsync = nullptr;
  decltype(&::cuMemFreeAsync) MemFreeAsync = nullptr;
  decltype(&::cuMemcpyHtoDAsync) MemcpyHtoDAsync = nullptr;
  decltype(&::cuMemcpyDtoHAsync) MemcpyDtoHAsync = nullptr;
  decltype(&::cuMemcpyDtoDAsync) MemcpyDtoDAsync = nullptr;
  decltype(&::cuMemsetD8Async) MemsetD8Async = nullptr;
  decltype(&::cuStreamCreate) StreamCreate = nullptr;
  decltype(&::cuStreamDestroy) StreamDestroy = nullptr;
  decltype(&::cuStreamSynchronize) StreamSynchronize = nullptr;
  decltype(&::cuStreamWaitEvent) StreamWaitEvent = nullptr;
  decltype(&::cuStreamIsCapturing) StreamIsCapturing = nullptr;
  decltype(&::cuStreamBeginCapture) StreamBeginCapture = nullptr;
  decltype(&::cuStreamEndCapture) StreamEndCapture = nullptr;
  decltype(&::cuGraphGetNodes) GraphGetNodes = nullptr;
  decltype(&::cuGraphInstantiateWithFlags) GraphInstantiateWithFlags = nullptr;
  decltype(&::cuGraphDestroy) GraphDestroy = nullptr;
  decltype(&::cuGraphLaunch) GraphLaunch = nullptr;
  decltype(&::cuGraphExecDestroy) GraphExecDestroy = nullptr;
  decltype(&::cuEventCreate) EventCreate = nullptr;
  decltype(&::cuEventDestroy) EventDestroy = nullptr;
  decltype(&::cuEventRecord) EventRecord = nullptr;
  decltype(&::cuEventSynchronize) EventSynchronize = nullptr;
  decltype(&::cuEventElapsedTime) EventElapsedTime = nullptr;
  decltype(&::cuModuleLoadData) ModuleLoadData = nullptr;
  decltype(&::cuModuleUnload) ModuleUnload = nullptr;
  decltype(&::cuModuleGetFunction) ModuleGetFunction = nullptr;
  decltype(&::cuFuncGetAttribute) FuncGetAttribute = nullptr;
  decltype(&::cuFuncSetAttribute) FuncSetAttribute = nullptr;
  decltype(&::cuLaunchKernelEx) LaunchKernelEx = nullptr;
  decltype(&::cuOccupancyMaxActiveBlocksPerMultiprocessor)
      OccupancyMaxActiveBlocksPerMultiprocessor = nullptr;
  decltype(&::cuOccupancyMaxActiveClusters) OccupancyMaxActiveClusters = nullptr;
  // From CUDA 12.4 on; null before. Older headers do not declare it.
  CUresult (*FuncGetParamInfo)(CUfunction, size_t, size_t*, size_t*) = nullptr;
};

// "<operation>: CUDA_ERROR_X 1 (text)", or OK for CUDA_SUCCESS.
absl::Status StatusOf(const DriverFunctions& functions, CUresult result,
                      absl::string_view operation);

// Makes a device's primary context current on this thread while it lives. Costs one look where it
// is current already, as it is in programs that use the CUDA runtime.
class CurrentContext {
 public:
  explicit CurrentContext(const Device& device) : functions_(device.driver().functions()) {
    CUcontext current = nullptr;
    result_ = functions_.CtxGetCurrent(&current);
    if (result_ == CUDA_SUCCESS && current != device.context()) {
      result_ = functions_.CtxPushCurrent(device.context());
      pushed_ = result_ == CUDA_SUCCESS;
    }
  }
  ~CurrentContext() {
    CUcontext popped = nullptr;
    if (pushed_) functions_.CtxPopCurrent(&popped);
  }
  CurrentContext(const CurrentContext&) = delete;
  CurrentContext& operator=(const CurrentContext&) = delete;

  CUresult result() const { return result_; }

 private:
  const DriverFunctions& functions_;
  CUresult result_;
  bool pushed_ = false;
};

// Calls one driver function with the context of `device` current. `operation()` gives the words
// for an error; it is asked only then.
template <typename Operation, typename... Parameters, typename... Arguments>
absl::Status Call(const Device& device, const Operation& operation,
                  CUresult (*function)(Parameters...), Arguments&&... arguments) {
  CUresult result;
  {
    CurrentContext context(device);
    result = context.result();
    if (result == CUDA_SUCCESS) result = function(std::forward<Arguments>(arguments)...);
  }
  if (result == CUDA_SUCCESS) return absl::OkStatus();
  return StatusOf(device.driver().functions(), result, operation());
}

inline const DriverFunctions& FunctionsOf(const Device& device) {
  return device.driver().functions();
}
inline CUdeviceptr Address(const void* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }
inline CUstream StreamOf(StreamHandle stream) { return static_cast<CUstream>(stream); }

}  // namespace seam::cuda
