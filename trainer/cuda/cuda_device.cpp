#include "trainer/cuda/cuda_device.hpp"

#include <ATen/cuda/CUDAContext.h>
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <cuda_runtime_api.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include <array>
#include <string>
#include <utility>

// From cuda_profiler_api.h, which torch's wheels lack.
// NOLINTBEGIN(readability-identifier-naming)
extern "C" {
cudaError_t cudaProfilerStart();
cudaError_t cudaProfilerStop();
}
// NOLINTEND(readability-identifier-naming)

namespace ddprun {
namespace {

/// A value of torch's own allocator; 0 is the sum over its pools.
std::int64_t total_of(const c10::CachingAllocator::StatArray& stat) {
  return stat[static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE)].current;
}

std::int64_t peak_of(const c10::CachingAllocator::StatArray& stat) {
  return stat[static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE)].peak;
}

/// "0000:1B:00.0", by which NVML finds it regardless of CUDA_VISIBLE_DEVICES.
std::string bus_id(int index) {
  constexpr int kBytes = 32;
  std::array<char, kBytes> text{};
  C10_CUDA_CHECK(cudaDeviceGetPCIBusId(text.data(), kBytes, index));
  return text.data();
}

/// Must run before the members below: streams and copies belong to the thread's current GPU.
c10::DeviceIndex chosen(int index) {
  const auto device = static_cast<c10::DeviceIndex>(index);
  c10::cuda::set_device(device);
  return device;
}

}  // namespace

CudaDevice::CudaDevice(int index)
    : index_(chosen(index)),
      copy_stream_(c10::cuda::getStreamFromPool(/*isHighPriority=*/false, index_)),
      health_(bus_id(index)) {}

CudaDevice::~CudaDevice() = default;

at::Device CudaDevice::place() const {
  return {at::kCUDA, index_};
}

void CudaDevice::join(c10d::ProcessGroup& group, std::chrono::milliseconds timeout) {
  constexpr auto kNccl = c10d::ProcessGroup::BackendType::NCCL;
  // NCCL's keys are separate from Gloo's, as with Python's "cpu:gloo,cuda:nccl".
  const auto store = c10::make_intrusive<c10d::PrefixStore>("cuda", group.getStore());
  auto options = c10d::ProcessGroupNCCL::Options::create();
  options->timeout = timeout;
  nccl_ = c10::make_intrusive<c10d::ProcessGroupNCCL>(
      store, group.getRank(), group.getSize(), std::move(options));
  group.setBoundDeviceId(place());
  group.setBackend(at::kCUDA, kNccl, nccl_);
  group.setDefaultBackend(kNccl);
}

void CudaDevice::leave() {
  if (nccl_) nccl_->shutdown();  // else its destructor warns, and aborts as if it hung
  nccl_.reset();
}

at::Tensor CudaDevice::make_host_tensor(at::IntArrayRef shape) {
  return at::empty(shape, at::TensorOptions().dtype(at::kFloat).pinned_memory(true));
}

at::Tensor CudaDevice::begin_copy(const at::Tensor& host) {
  forget_done_copies();
  const at::Tensor pinned = host.is_pinned() ? host : host.pin_memory();
  at::Tensor here;
  at::cuda::CUDAEvent done;
  {
    const c10::cuda::CUDAStreamGuard guard(copy_stream_);
    here = pinned.to(place(), /*non_blocking=*/true);
    done.record(copy_stream_);
  }
  copies_.push_back({.host = pinned, .here = here, .done = std::move(done)});
  return here;
}

void CudaDevice::await_copies() {
  const c10::cuda::CUDAStream calculating = c10::cuda::getCurrentCUDAStream(index_);
  for (Copy& copy : copies_) {
    copy.done.block(calculating);
    // The memory was allocated on the copy stream; it must not be reused there while the compute
    // stream still reads it.
    if (copy.here.defined()) {
      c10::cuda::CUDACachingAllocator::recordStream(copy.here.storage().data_ptr(), calculating);
    }
    copy.here = at::Tensor();
  }
  forget_done_copies();
}

/// Drops copies whose memory is no longer read.
void CudaDevice::forget_done_copies() {
  while (!copies_.empty() && !copies_.front().here.defined() && copies_.front().done.query()) {
    copies_.pop_front();
  }
}

void CudaDevice::synchronise() {
  c10::cuda::device_synchronize();
}

void CudaDevice::begin_capture() {
  C10_CUDA_CHECK(cudaProfilerStart());
  ranges_ = std::make_unique<NvtxRanges>();
}

void CudaDevice::end_capture() {
  ranges_.reset();
  synchronise();  // otherwise the last kernels are missing
  C10_CUDA_CHECK(cudaProfilerStop());
}

std::optional<GpuFigures> CudaDevice::figures() {
  const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(index_);
  GpuFigures figures = health_.figures();
  figures.allocated_bytes = total_of(stats.allocated_bytes);
  figures.reserved_bytes = total_of(stats.reserved_bytes);
  figures.max_allocated_bytes = peak_of(stats.allocated_bytes);
  return figures;
}

}  // namespace ddprun
