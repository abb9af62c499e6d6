#pragma once

#include "trainer/cuda/gpu_health.hpp"
#include "trainer/cuda/nvtx_ranges.hpp"
#include "trainer/device.hpp"

#include <ATen/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <deque>
#include <memory>
#include <optional>

namespace ddprun {

/// An NVIDIA GPU, with CUDA and NCCL. Copies have their own stream beside the compute stream, and
/// wait for nothing (T22).
class CudaDevice final : public Device {
 public:
  /// Makes GPU `index` the current one of this thread. Throws as torch does.
  explicit CudaDevice(int index);
  ~CudaDevice() override;
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;

  at::Device place() const override;
  void join(c10d::ProcessGroup& group, std::chrono::milliseconds timeout) override;
  void leave() override;
  bool copies() const override { return true; }
  at::Tensor make_host_tensor(at::IntArrayRef shape) override;
  at::Tensor begin_copy(const at::Tensor& host) override;
  void await_copies() override;
  void synchronise() override;
  void begin_capture() override;
  void end_capture() override;
  std::optional<GpuFigures> figures() override;

 private:
  /// The memory of a copy that may still be read.
  struct Copy {
    at::Tensor host;
    at::Tensor here;
    at::cuda::CUDAEvent done;
  };

  void forget_done_copies();

  const c10::DeviceIndex index_;
  const c10::cuda::CUDAStream copy_stream_;
  std::deque<Copy> copies_;             // in the order of their start
  std::unique_ptr<NvtxRanges> ranges_;  // during a capture
  GpuHealth health_;
  c10::intrusive_ptr<c10d::Backend> nccl_;  // null outside a group
};

}  // namespace ddprun
