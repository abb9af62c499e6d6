#include "trainer/data/loader.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <vector>

namespace ddprun {
namespace {

/// Each float is the sample's number.
class Numbers final : public SampleSource {
 public:
  explicit Numbers(std::int64_t size) : size_(size) {}

  std::int64_t size() const override { return size_; }
  SampleShape shape() const override { return {.channels = 2, .height = 3, .width = 4}; }
  std::int64_t label(std::int64_t sample) const override { return sample * 10; }
  Result<void> write(const SampleKey& key, std::span<float> out) const override {
    std::ranges::fill(out, static_cast<float>(key.sample));
    return {};
  }

 private:
  std::int64_t size_;
};

std::vector<std::int64_t> first(std::int64_t n) {
  std::vector<std::int64_t> samples(static_cast<std::size_t>(n));
  std::iota(samples.begin(), samples.end(), 0);
  return samples;
}

class LoaderOf : public ::testing::TestWithParam<int> {};

TEST_P(LoaderOf, GivesAllSamplesInOrderWithTheirLabels) {
  const Numbers source(10);
  Loader loader(source, {.batch_size = 4, .workers = GetParam()});
  ASSERT_TRUE(loader.start(first(10)));
  std::vector<std::int64_t> labels;
  std::vector<std::int64_t> sizes;
  for (;;) {
    const auto batch = loader.next();
    ASSERT_TRUE(batch);
    if (!batch->has_value()) break;
    const Batch& got = **batch;
    EXPECT_TRUE(got.images.flatten(1).mul(10).eq(got.labels.view({-1, 1})).all().item<bool>());
    EXPECT_EQ(got.images.sizes(), (std::vector<std::int64_t>{got.size(), 2, 3, 4}));
    const auto* const label = got.labels.const_data_ptr<std::int64_t>();
    labels.insert(labels.end(), label, label + got.size());
    sizes.push_back(got.size());
  }
  EXPECT_THAT(sizes, ::testing::ElementsAre(4, 4, 2));
  EXPECT_THAT(labels, ::testing::ElementsAre(0, 10, 20, 30, 40, 50, 60, 70, 80, 90));
}

TEST_P(LoaderOf, NeverWritesToABatchThatIsHeld) {
  const Numbers source(200);
  Loader loader(source, {.batch_size = 2, .workers = GetParam()});
  ASSERT_TRUE(loader.start(first(200)));
  const torch::Tensor weight = torch::ones({1}).requires_grad_();
  std::vector<torch::Tensor> whole;
  std::vector<torch::Tensor> views;
  std::vector<torch::Tensor> products;  // whose graphs hold the images
  for (int step = 0; step < 100; ++step) {
    auto batch = loader.next();
    ASSERT_TRUE(batch && batch->has_value());
    const torch::Tensor& images = (**batch).images;
    if (step % 3 == 0) whole.push_back(images);
    if (step % 3 == 1) views.push_back(images.select(0, 1).select(0, 0));
    if (step % 3 == 2) products.push_back((weight * images).sum());
  }
  for (std::size_t i = 0; i < whole.size(); ++i) {
    EXPECT_EQ(whole[i].min().item<float>(), static_cast<float>(6 * i));
  }
  for (std::size_t i = 0; i < views.size(); ++i) {
    EXPECT_EQ(views[i].max().item<float>(), static_cast<float>(6 * i + 3));
  }
  for (std::size_t i = 0; i < products.size(); ++i) {
    const auto gradient = torch::autograd::grad({products[i]}, {weight});
    constexpr std::size_t kFloats = 24;  // of each of the two samples
    EXPECT_EQ(gradient[0].item<float>(), static_cast<float>(kFloats * (12 * i + 9)));
  }
}

TEST_P(LoaderOf, UsesTheMemoryOfABatchAgainThatNobodyHolds) {
  const Numbers source(100);
  Loader loader(source, {.batch_size = 2, .workers = GetParam()});
  ASSERT_TRUE(loader.start(first(100)));
  std::set<const void*> places;
  for (;;) {
    const auto batch = loader.next();
    ASSERT_TRUE(batch);
    if (!batch->has_value()) break;
    places.insert((**batch).images.const_data_ptr());
  }
  EXPECT_LE(places.size(), 4U);  // two being filled, one in use, one just released
}

TEST_P(LoaderOf, KeepsItsMemoryFromEpochToEpoch) {
  const Numbers source(100);
  Loader loader(source, {.batch_size = 2, .workers = GetParam()});
  std::set<const void*> places;
  for (std::int64_t epoch = 0; epoch < 20; ++epoch) {
    ASSERT_TRUE(loader.start(first(100), epoch));
    const std::int64_t taken = epoch % 2 == 0 ? 50 : 7;  // every other epoch is left halfway
    for (std::int64_t batch = 0; batch < taken; ++batch) {
      const auto next = loader.next();
      ASSERT_TRUE(next && next->has_value());
      const torch::Tensor& images = (**next).images;
      EXPECT_EQ(images.min().item<float>(), static_cast<float>(2 * batch));
      places.insert(images.const_data_ptr());
    }
  }
  EXPECT_LE(places.size(), 4U);
}

INSTANTIATE_TEST_SUITE_P(Workers, LoaderOf, ::testing::Values(0, 1, 3));

}  // namespace
}  // namespace ddprun
