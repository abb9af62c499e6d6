#include "trainer/data/batch_pump.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <list>
#include <mutex>
#include <numeric>
#include <semaphore>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <unistd.h>

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
    {
      const std::scoped_lock lock(mutex_);
      writers_.insert(::gettid());
    }
    if (gate != nullptr) gate->acquire();
    if (broken.contains(key.sample)) {
      return make_error(Errc::kCorrupt, "file " + std::to_string(key.sample));
    }
    std::ranges::fill(out, static_cast<float>(1000 * key.epoch + key.sample));
    return {};
  }

  /// The threads that have written. The kernel does not reuse a thread id so soon.
  std::set<pid_t> writers() const {
    const std::scoped_lock lock(mutex_);
    return writers_;
  }

  mutable std::atomic<int> writes = 0;
  std::set<std::int64_t> broken;
  std::counting_semaphore<>* gate = nullptr;  // each write takes one

 private:
  std::int64_t size_;
  mutable std::mutex mutex_;
  mutable std::set<pid_t> writers_;
};

/// A consumer that keeps all batches.
class Consumer {
 public:
  Consumer(const SampleSource& source, PumpPlan plan)
      : pump_(source, plan, [this](std::int64_t floats) {
          memory_.emplace_back(static_cast<std::size_t>(floats), -1.0F);
          return std::span(memory_.back());
        }) {}

  bool start(std::vector<std::int64_t> samples, std::int64_t epoch = 0) {
    delivered_ = std::ssize(memory_);
    epoch_ = epoch;
    return static_cast<bool>(pump_.start(std::move(samples), epoch));
  }
  void stop() { pump_.stop(); }

  /// The samples of the next batch, which are in the memory given for it.
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
      EXPECT_EQ(floats[at], static_cast<float>(1000 * epoch_ + (**samples)[at / kFloats]));
    }
    return {(**samples).begin(), (**samples).end()};
  }

  std::size_t allocated() const { return memory_.size(); }

  std::string error;

 private:
  std::list<std::vector<float>> memory_;  // its elements do not move
  std::ptrdiff_t delivered_ = 0;
  std::int64_t epoch_ = 0;
  BatchPump pump_;
};

PumpPlan plan_of(std::int64_t batch_size, int workers, int ahead = 2) {
  return {.batch_size = batch_size, .workers = workers, .batches_ahead = ahead};
}

std::vector<std::int64_t> first(std::int64_t n) {
  std::vector<std::int64_t> samples(static_cast<std::size_t>(n));
  std::iota(samples.begin(), samples.end(), 0);
  return samples;
}

class BatchPumpOf : public ::testing::TestWithParam<int> {};

TEST_P(BatchPumpOf, DeliversBatchesInOrderTheLastOneShort) {
  const Numbers source(100);
  Consumer consumer(source, plan_of(3, GetParam()));
  ASSERT_TRUE(consumer.start({5, 99, 5, 0, 1, 2, 7}));
  EXPECT_THAT(consumer.next(), ElementsAre(5, 99, 5));
  EXPECT_THAT(consumer.next(), ElementsAre(0, 1, 2));
  EXPECT_THAT(consumer.next(), ElementsAre(7));
  EXPECT_THAT(consumer.next(), ElementsAre());
  EXPECT_THAT(consumer.next(), ElementsAre());
  EXPECT_EQ(source.writes, 7);
}

TEST_P(BatchPumpOf, WritesEverySampleOnce) {
  const Numbers source(997);
  Consumer consumer(source, plan_of(64, GetParam()));
  ASSERT_TRUE(consumer.start(first(997)));
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
  Consumer consumer(source, plan_of(3, GetParam()));
  ASSERT_TRUE(consumer.start(first(0)));
  EXPECT_THAT(consumer.next(), ElementsAre());
  EXPECT_EQ(consumer.error, "");
}

TEST_P(BatchPumpOf, NamesTheFirstBrokenSampleAndStops) {
  Numbers source(100);
  source.broken = {37, 33, 39, 70};
  Consumer consumer(source, plan_of(10, GetParam()));
  ASSERT_TRUE(consumer.start(first(100)));
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
    Consumer consumer(source, plan_of(9, GetParam()));
    if (taken == 0) continue;  // not even started
    ASSERT_TRUE(consumer.start(first(100)));
    for (int batch = 1; batch < taken; ++batch) {
      EXPECT_FALSE(consumer.next().empty());
    }
  }
}

TEST_P(BatchPumpOf, BeginsEpochAfterEpoch) {
  const Numbers source(100);
  Consumer consumer(source, plan_of(10, GetParam()));
  for (std::int64_t epoch = 0; epoch < 50; ++epoch) {
    ASSERT_TRUE(consumer.start({epoch, 7, 99, 3}, epoch));
    EXPECT_THAT(consumer.next(), ElementsAre(epoch, 7, 99, 3));
    EXPECT_THAT(consumer.next(), ElementsAre());
  }
}

TEST_P(BatchPumpOf, BeginsAnEpochWhateverIsLeftOfTheOneBefore) {
  const Numbers source(100);
  Consumer consumer(source, plan_of(9, GetParam(), 3));
  for (int taken = 0; taken < 12; ++taken) {
    ASSERT_TRUE(consumer.start(first(100), taken));
    for (int batch = 0; batch < taken; ++batch) {
      EXPECT_FALSE(consumer.next().empty());
    }
  }
}

TEST_P(BatchPumpOf, ContinuesAfterABrokenSample) {
  Numbers source(100);
  source.broken = {3};
  Consumer consumer(source, plan_of(10, GetParam()));
  ASSERT_TRUE(consumer.start(first(100)));
  EXPECT_THAT(consumer.next(), ElementsAre());
  EXPECT_EQ(consumer.error, "file 3");
  ASSERT_TRUE(consumer.start({1, 2}));
  EXPECT_THAT(consumer.next(), ElementsAre(1, 2));
}

TEST_P(BatchPumpOf, WritesNothingMoreOnceItHasStopped) {
  const Numbers source(1000);
  Consumer consumer(source, plan_of(100, GetParam(), 4));
  ASSERT_TRUE(consumer.start(first(1000)));
  consumer.stop();
  const int writes = source.writes;
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  EXPECT_EQ(source.writes, writes);
  EXPECT_THAT(consumer.next(), ElementsAre());
}

INSTANTIATE_TEST_SUITE_P(Workers, BatchPumpOf, ::testing::Values(0, 1, 2, 8));

TEST(BatchPump, HasMemoryForAsManyBatchesAsItFillsAheadOfTheOneInUseAndNoMore) {
  const Numbers source(100);
  Consumer consumer(source, plan_of(10, 2, 3));
  ASSERT_TRUE(consumer.start(first(100)));
  EXPECT_EQ(consumer.allocated(), 3U);
  EXPECT_EQ(consumer.next().size(), 10U);
  EXPECT_EQ(consumer.allocated(), 4U);
  EXPECT_EQ(consumer.next().size(), 10U);
  EXPECT_EQ(consumer.allocated(), 5U);
}

TEST(BatchPump, SharesOutOneBatchAmongItsThreads) {
  // No thread may continue: if one thread did a whole batch, only one would wait at the gate.
  std::counting_semaphore<> gate(0);
  Numbers source(8);
  source.gate = &gate;
  Consumer consumer(source, plan_of(8, 4, 1));
  ASSERT_TRUE(consumer.start(first(8)));
  while (source.writes < 4) {
    std::this_thread::yield();
  }
  gate.release(8);
  EXPECT_EQ(consumer.next().size(), 8U);
}

TEST(BatchPump, WorksSoManyBatchesAheadOfTheOneInUse) {
  const Numbers source(100);
  Consumer consumer(source, plan_of(10, 2, 2));
  ASSERT_TRUE(consumer.start(first(100)));
  while (source.writes < 20) {
    std::this_thread::yield();
  }
  EXPECT_EQ(consumer.next().size(), 10U);
  while (source.writes < 30) {
    std::this_thread::yield();
  }
}

TEST(BatchPump, KeepsItsThreadsFromEpochToEpoch) {
  const Numbers source(8);
  Consumer consumer(source, plan_of(8, 2));
  for (std::int64_t epoch = 0; epoch < 20; ++epoch) {
    ASSERT_TRUE(consumer.start(first(8), epoch));
    EXPECT_EQ(consumer.next().size(), 8U);
  }
  EXPECT_LE(source.writers().size(), 2U);
}

TEST(BatchPump, TellsTheSourceTheEpoch) {
  const Numbers source(1);
  std::vector<float> memory(kFloats);
  BatchPump pump(source, plan_of(1, 0), [&](std::int64_t) { return std::span(memory); });
  ASSERT_TRUE(pump.start({0}, 4));
  ASSERT_TRUE(pump.next());
  EXPECT_THAT(memory, Each(4000.0F));
}

}  // namespace
}  // namespace ddprun
