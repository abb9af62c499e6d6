#pragma once

#include "trainer/core/augment.hpp"

#include <ATen/core/Generator.h>

namespace ddprun {

/// The random numbers that torchvision's transforms draw from a torch generator, with the same
/// state afterwards: with the default generator, those of a DataLoader without workers.
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
