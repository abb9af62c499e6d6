#include "trainer/compression.hpp"

#include <torch/csrc/distributed/c10d/comm.hpp>
#include <torch/csrc/distributed/c10d/default_comm_hooks.hpp>

#include <memory>
#include <vector>

namespace ddprun {
namespace {

class Bf16Hook final : public c10d::CppCommHookInterface<ProcessGroup> {
 public:
  using CppCommHookInterface::CppCommHookInterface;

  c10::intrusive_ptr<c10::ivalue::Future> runHook(c10d::GradBucket& bucket) override {
    const torch::Tensor& wide = bucket.getBuffer();
    std::vector<torch::Tensor> narrow{wide.to(torch::kBFloat16).div_(state_->getSize())};
    const auto summed = state_->allreduce(narrow)->getFuture();
    return summed->then(
        [wide](c10::ivalue::Future& done) {
          std::vector<torch::Tensor> sum = done.value().toTensorVector();
          wide.copy_(sum[0]);
          return c10::IValue(std::vector<torch::Tensor>{wide});
        },
        summed->elementType());
  }
};

}  // namespace

void compress_gradients(
    c10d::Reducer& reducer, const ProcessGroup& group, Compression compression) {
  switch (compression) {
    case Compression::kNone:
      return;
    case Compression::kFp16:
      reducer.register_builtin_comm_hook(c10d::BuiltinCommHookType::FP16_COMPRESS);
      return;
    case Compression::kBf16:
      reducer.register_comm_hook(std::make_unique<Bf16Hook>(group));
      return;
  }
}

}  // namespace ddprun
