#include "trainer/core/model_cost.hpp"

#include <gtest/gtest.h>

namespace ddprun {
namespace {

// Literals from torch.utils.flop_counter for Python's models; tests/parity/models_test.py compares
// them again, for every kind.

TEST(ForwardFlops, OfNetsOfAFewLayersAreCountedByHand) {
  EXPECT_EQ(forward_flops(default_model(ModelKind::kDummy)), 2 * 1000);
  EXPECT_EQ(forward_flops(default_model(ModelKind::kLinear)), 2 * 784 * 10);
  EXPECT_EQ(
      forward_flops(default_model(ModelKind::kConvNet)),
      2 * 26 * 26 * 9 * 32 + 2 * 24 * 24 * 9 * 32 * 64 + 2 * 9216 * 128 + 2 * 128 * 10);
}

TEST(ForwardFlops, OfTorchvisionsModelsAreFlopCounters) {
  EXPECT_EQ(forward_flops(default_model(ModelKind::kResnet18)), 3'628'146'688);
  EXPECT_EQ(forward_flops(default_model(ModelKind::kResnet50)), 8'178'368'512);
  EXPECT_EQ(forward_flops(default_model(ModelKind::kVitB32)), 8'818'372'608);
}

TEST(ForwardFlops, GrowWithTheImage) {
  ModelOptions options = default_model(ModelKind::kResnet18);
  const std::int64_t at_224 = forward_flops(options);
  options.image.side = 448;
  // Four times the pixels, but one head.
  constexpr std::int64_t kHead = std::int64_t{2} * 512 * 1000;
  EXPECT_EQ(forward_flops(options) - kHead, 4 * (at_224 - kHead));
}

}  // namespace
}  // namespace ddprun
