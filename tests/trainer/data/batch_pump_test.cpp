#include "trainer/data/batch_pump.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <list>
#include <numeric>
#include <semaphore>
#include <set>
#include <string>
#include <vector>

namespace ddprun {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

constexpr std::int64_t kFloats = 3;  // of a sample

/// Writes each sample's number and epoch, fails for some, and counts.
class Numbers final : public SampleSource {
 public:
  explicit Numbers(std::int64_t size) : size_(size) {}

  std::int64_t size() const override { return size_; }
  SampleShape shape() const override { return {.channels = kFloats}; }
  std::int64_t label(std::int64_t sample) const override { return sample; }
  Result<void> write(const SampleKey& key, std::span<float> out) const override {
    ++writes;
    if (gate != nullptr) gate->acquire();
    if (broken.contains(key.sample)) {
      return make_error(Errc::kCorrupt, "file " + std::to_string(key.sample));
    }
    std::ranges::fill(out, static_cast<float>(1000 * key.epoch + key.sample));
    return {};
  }

  mutable std::atomic<int> writes = 0;
  std::set<std::int64_t> broken;
  std::counting_semaphore<>* gate = nullptr;  // each write takes one

 private:
  std::int64_t size_;
};

/// A consumer who keeps all batches.
class Consumer {
 public:
  Consumer(const SampleSource& source, PumpPlan plan)
      : pump_(source, std::move(plan), [this](std::int64_t floats) {
          memory_.emplace_back(static_cast<std::size_t>(floats), -1.0F);
          return std::span(memory_.back());
        }) {}

  bool start() { return static_cast<bool>(pump_.start()); }

  /// The samples of the next batch, which lie in the memory given for it.
  std::vector<std::int64_t> next() {
    const auto samples = pump_.next();
    if (!samples) {
      error = samples.error().detail;
      return {};
    }
    if (!samples->has_value()) return {};
    const std::vector<float>& floats = *std::next(memory_.begin(), delivered_++);
    EXPECT_EQ(std::ssize(floats), std::ssize(**samples) * kFloats);
    for (std::size_t at = 0; at < floats.size(); ++at) {
      EXPECT_EQ(floats[at], static_cast<float>((**samples)[at / kFloats]));
    }
    return {(**samples).begin(), (**samples).end()};
  }

  std::size_t allocated() const { return memory_.size(); }

  std::string error;

 private:
  std::list<std::vector<float>> memory_;  // its elements stay where they are
  std::ptrdiff_t delivered_ = 0;
  BatchPump pump_;
};

PumpPlan plan_of(std::int64_t samples, std::int64_t batch_size, int workers, int ahead = 2) {
  PumpPlan plan{
      .samples = {}, .batch_size = batch_size, .workers = workers, .batches_ahead = ahead};
  plan.samples.resize(static_cast<std::size_t>(samples));
  std::iota(plan.samples.begin(), plan.samples.end(), 0);
  return plan;
}

class BatchPumpOf : public ::testing::TestWithParam<int> {};

TEST_P(BatchPumpOf, DeliversBatchesInOrderTheLastOneShort) {
  const Numbers source(100);
  PumpPlan plan = plan_of(0, 3, GetParam());
  plan.samples = {5, 99, 5, 0, 1, 2, 7};
  Consumer consumer(source, plan);
  ASSERT_TRUE(consumer.start());
  EXPECT_THAT(consumer.next(), ElementsAre(5, 99, 5));
  EXPECT_THAT(consumer.next(), ElementsAre(0, 1, 2));
  EXPECT_THAT(consumer.next(), ElementsAre(7));
  EXPECT_THAT(consumer.next(), ElementsAre());
  EXPECT_THAT(consumer.next(), ElementsAre());
  EXPECT_EQ(source.writes, 7);
}

TEST_P(BatchPumpOf, WritesEverySampleOnce) {
  const Numbers source(997);
  Consumer consumer(source, plan_of(997, 64, GetParam()));
  ASSERT_TRUE(consumer.start());
  std::int64_t expected = 0;
  for (;;) {
    const auto samples = consumer.next();
    if (samples.empty()) break;
    for (const std::int64_t sample : samples) {
      EXPECT_EQ(sample, expected++);
    }
  }
  EXPECT_EQ(expected, 997);
  EXPECT_EQ(source.writes, 997);
}

TEST_P(BatchPumpOf, HasNothingToDoWithoutSamples) {
  const Numbers source(1);
  Consumer consumer(source, plan_of(0, 3, GetParam()));
  ASSERT_TRUE(consumer.start());
  EXPECT_THAT(consumer.next(), ElementsAre());
  EXPECT_EQ(consumer.error, "");
}

TEST_P(BatchPumpOf, NamesTheFirstBrokenSampleAndStops) {
  Numbers source(100);
  source.broken = {37, 33, 39, 70};
  Consumer consumer(source, plan_of(100, 10, GetParam()));
  ASSERT_TRUE(consumer.start());
  for (int batch = 0; batch < 3; ++batch) {
    EXPECT_EQ(consumer.next().size(), 10U);
  }
  EXPECT_EQ(consumer.next().size(), 0U);
  EXPECT_EQ(consumer.error, "file 33");
  consumer.error.clear();
  EXPECT_THAT(consumer.next(), ElementsAre());
  EXPECT_EQ(consumer.error, "");
}

TEST_P(BatchPumpOf, EndsAtAnyMoment) {
  for (int taken = 0; taken < 12; ++taken) {
    const Numbers source(100);
    Consumer consumer(source, plan_of(100, 9, GetParam()));
    if (taken == 0) continue;  // not even started
    ASSERT_TRUE(consumer.start());
    for (int batch = 1; batch < taken; ++batch) {
      EXPECT_FALSE(consumer.next().empty());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Workers, BatchPumpOf, ::testing::Values(0, 1, 2, 8));

TEST(BatchPump, HasMemoryForNoMoreBatchesThanItMayFillAhead) {
  const Numbers source(100);
  Consumer consumer(source, plan_of(100, 10, 2, 3));
  ASSERT_TRUE(consumer.start());
  EXPECT_EQ(consumer.allocated(), 3U);
  EXPECT_EQ(consumer.next().size(), 10U);
  EXPECT_EQ(consumer.allocated(), 3U);
  EXPECT_EQ(consumer.next().size(), 10U);
  EXPECT_EQ(consumer.allocated(), 4U);
}

TEST(BatchPump, SharesOutOneBatchAmongItsThreads) {
  // Nobody may go on: were a batch the work of one thread, only one would stand at the gate.
  std::counting_semaphore<> gate(0);
  Numbers source(8);
  source.gate = &gate;
  Consumer consumer(source, plan_of(8, 8, 4, 1));
  ASSERT_TRUE(consumer.start());
  while (source.writes < 4) {
    std::this_thread::yield();
  }
  gate.release(8);
  EXPECT_EQ(consumer.next().size(), 8U);
}

TEST(BatchPump, WorksAheadOfItsConsumer) {
  const Numbers source(100);
  Consumer consumer(source, plan_of(100, 10, 2, 2));
  ASSERT_TRUE(consumer.start());
  while (source.writes < 20) {
    std::this_thread::yield();
  }
  EXPECT_EQ(consumer.next().size(), 10U);
}

TEST(BatchPump, TellsTheSourceTheEpoch) {
  const Numbers source(1);
  std::vector<float> memory(kFloats);
  PumpPlan plan = plan_of(1, 1, 0);
  plan.epoch = 4;
  BatchPump pump(source, plan, [&](std::int64_t) { return std::span(memory); });
  ASSERT_TRUE(pump.start());
  ASSERT_TRUE(pump.next());
  EXPECT_THAT(memory, Each(4000.0F));
}

}  // namespace
}  // namespace ddprun
