// Streams, events, captured graphs, and the memory that is ordered with them.
#include <cuda.h>

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "ir/status.h"
#include "runtime/cuda/driver.h"
#include "runtime/cuda/driver_functions.h"

namespace seam::cuda {
namespace {

// What a destructor calls; there is no one to tell of an error.
template <typename... Parameters, typename... Arguments>
void Destroy(const Device& device, CUresult (*function)(Parameters...), Arguments... arguments) {
  (void)Call(
      device, [] { return ""; }, function, arguments...);
}

}  // namespace

void DriverDeleter::operator()(CUmod_st* module) const {
  Destroy(*device, FunctionsOf(*device).ModuleUnload, module);
}
void DriverDeleter::operator()(CUstream_st* stream) const {
  Destroy(*device, FunctionsOf(*device).StreamDestroy, stream);
}
void DriverDeleter::operator()(CUevent_st* event) const {
  Destroy(*device, FunctionsOf(*device).EventDestroy, event);
}
void DriverDeleter::operator()(CUgraphExec_st* graph) const {
  Destroy(*device, FunctionsOf(*device).GraphExecDestroy, graph);
}

absl::StatusOr<Stream> Stream::Create(const Device* device) {
  CUstream stream = nullptr;
  SEAM_RETURN_IF_ERROR(Call(
      *device, [] { return "Creating a stream"; }, FunctionsOf(*device).StreamCreate, &stream,
      CU_STREAM_NON_BLOCKING));
  return Stream(Owned<CUstream_st>(stream, DriverDeleter{device}));
}

absl::Status Stream::Wait(const Event& event) const {
  return Call(
      device(), [] { return "Making a stream wait for an event"; },
      FunctionsOf(device()).StreamWaitEvent, stream_.get(), event.event_.get(), 0u);
}

absl::Status Stream::BeginCapture() const {
  return Call(
      device(), [] { return "Beginning to capture a stream"; },
      FunctionsOf(device()).StreamBeginCapture, stream_.get(), CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
}

absl::StatusOr<Graph> Stream::EndCapture() const {
  const DriverFunctions& f = FunctionsOf(device());
  CUgraph captured = nullptr;
  SEAM_RETURN_IF_ERROR(Call(
      device(), [] { return "Ending the capture of a stream"; }, f.StreamEndCapture, stream_.get(),
      &captured));
  size_t node_count = 0;
  CUgraphExec graph = nullptr;
  absl::Status status = Call(
      device(), [] { return "Counting the nodes of a captured graph"; }, f.GraphGetNodes, captured,
      nullptr, &node_count);
  if (status.ok()) {
    status = Call(
        device(),
        [&] { return absl::StrCat("Instantiating a captured graph of ", node_count, " nodes"); },
        f.GraphInstantiateWithFlags, &graph, captured, 0ull);
  }
  Destroy(device(), f.GraphDestroy, captured);
  if (!status.ok()) return status;
  return Graph(Owned<CUgraphExec_st>(graph, DriverDeleter{&device()}),
               static_cast<int>(node_count));
}

absl::Status Graph::Launch(StreamHandle stream) const {
  const Device& device = *graph_.get_deleter().device;
  return Call(
      device, [&] { return absl::StrCat("Launching a graph of ", node_count_, " nodes"); },
      FunctionsOf(device).GraphLaunch, graph_.get(), StreamOf(stream));
}

absl::StatusOr<Event> Event::Create(const Device* device) {
  CUevent event = nullptr;
  SEAM_RETURN_IF_ERROR(Call(
      *device, [] { return "Creating an event"; }, FunctionsOf(*device).EventCreate, &event,
      static_cast<unsigned>(CU_EVENT_DEFAULT)));
  return Event(Owned<CUevent_st>(event, DriverDeleter{device}));
}

absl::Status Event::Record(StreamHandle stream) const {
  const Device& device = *event_.get_deleter().device;
  return Call(
      device, [] { return "Recording an event"; }, FunctionsOf(device).EventRecord, event_.get(),
      StreamOf(stream));
}

absl::Status Event::Synchronize() const {
  const Device& device = *event_.get_deleter().device;
  return Call(
      device, [] { return "Waiting for an event"; }, FunctionsOf(device).EventSynchronize,
      event_.get());
}

absl::StatusOr<double> Event::ElapsedMs(const Event& start) const {
  const Device& device = *event_.get_deleter().device;
  float ms = 0;
  SEAM_RETURN_IF_ERROR(Call(
      device, [] { return "Taking the time between two events"; },
      FunctionsOf(device).EventElapsedTime, &ms, start.event_.get(), event_.get()));
  return ms;
}

absl::StatusOr<std::unique_ptr<PoolAllocator>> PoolAllocator::Create(const Device* device,
                                                                     bool use_pool) {
  CUmemoryPool pool = nullptr;
  if (use_pool) {
    CUmemPoolProps properties = {};
    properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    properties.location.id = device->ordinal();
    const DriverFunctions& f = FunctionsOf(*device);
    SEAM_RETURN_IF_ERROR(Call(
        *device, [] { return "Creating a memory pool"; }, f.MemPoolCreate, &pool, &properties));
    std::unique_ptr<PoolAllocator> allocator(new PoolAllocator(device, pool));
    // By default the pool would give everything back whenever a stream is waited for.
    cuuint64_t keep_bytes = UINT64_MAX;
    SEAM_RETURN_IF_ERROR(Call(
        *device, [] { return "Setting up a memory pool"; }, f.MemPoolSetAttribute, pool,
        CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep_bytes));
    return allocator;
  }
  return std::unique_ptr<PoolAllocator>(new PoolAllocator(device, pool));
}

PoolAllocator::~PoolAllocator() {
  if (pool_ != nullptr) Destroy(*device_, FunctionsOf(*device_).MemPoolDestroy, pool_);
}

absl::StatusOr<void*> PoolAllocator::Allocate(size_t bytes, StreamHandle stream) {
  if (bytes == 0) return nullptr;
  auto operation = [&] { return absl::StrCat("Allocating ", bytes, " bytes on the device"); };
  SEAM_ASSIGN_OR_RETURN(const bool capturing, device_->IsCapturing(stream));
  if (capturing) {
    return absl::FailedPreconditionError(
        absl::StrCat(operation(), ": the stream is being captured"));
  }
  const DriverFunctions& f = FunctionsOf(*device_);
  CUdeviceptr pointer = 0;
  auto allocate = [&] {
    return pool_ != nullptr ? Call(*device_, operation, f.MemAllocFromPoolAsync, &pointer, bytes,
                                   pool_, StreamOf(stream))
                            : Call(*device_, operation, f.MemAlloc, &pointer, bytes);
  };
  absl::Status status = allocate();
  if (absl::IsResourceExhausted(status) && pool_ != nullptr) {
    // What was freed on this stream may not be free yet, and what is free not in one piece.
    SEAM_RETURN_IF_ERROR(device_->Synchronize(stream));
    SEAM_RETURN_IF_ERROR(Trim(0));
    status = allocate();
  }
  if (absl::IsResourceExhausted(status)) {
    if (absl::StatusOr<Device::MemoryInfo> info = device_->memory_info(); info.ok()) {
      return absl::ResourceExhaustedError(absl::StrCat(
          status.message(), "; ", info->free_bytes, " of ", info->total_bytes, " bytes are free"));
    }
  }
  if (!status.ok()) return status;
  return reinterpret_cast<void*>(pointer);
}

void PoolAllocator::Free(void* pointer, StreamHandle stream) {
  if (pointer == nullptr) return;
  const DriverFunctions& f = FunctionsOf(*device_);
  if (pool_ != nullptr) {
    Destroy(*device_, f.MemFreeAsync, Address(pointer), StreamOf(stream));
  } else {
    (void)device_->Synchronize(stream);
    Destroy(*device_, f.MemFree, Address(pointer));
  }
}

absl::Status PoolAllocator::Trim(size_t keep_bytes) {
  if (pool_ == nullptr) return absl::OkStatus();
  return Call(
      *device_, [] { return "Trimming a memory pool"; }, FunctionsOf(*device_).MemPoolTrimTo, pool_,
      keep_bytes);
}

}  // namespace seam::cuda
