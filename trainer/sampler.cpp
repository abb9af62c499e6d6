#include "trainer/sampler.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/torch.h>

namespace ddprun {

std::vector<std::int64_t> random_order(std::int64_t n, std::uint64_t seed) {
  const at::Generator generator = at::detail::createCPUGenerator(seed);
  const torch::Tensor order = torch::randperm(n, generator, torch::kInt64);
  const auto* first = order.const_data_ptr<std::int64_t>();
  return {first, first + n};
}

std::vector<std::int64_t> epoch_order(
    std::int64_t n, std::uint64_t sampler_seed, std::int64_t epoch) {
  return random_order(n, sampler_seed + static_cast<std::uint64_t>(epoch));
}

void draw_as_data_loader() {
  static_cast<void>(torch::empty({}, torch::kInt64).random_());
}

}  // namespace ddprun
