#pragma once

#include "trainer/core/augment.hpp"

#include <ATen/core/Generator.h>

namespace ddprun {

/// The numbers that torchvision's transforms draw from a generator of torch, and its state after
/// them: the default generator's are those of a DataLoader without workers.
class TorchDraws final : public Draws {
 public:
  explicit TorchDraws(at::Generator generator);

  std::int64_t below(std::int64_t n) override;
  float uniform(float low, float high) override;
  float log_uniform(float low, float high) override;

 private:
  at::Generator generator_;
};

}  // namespace ddprun
