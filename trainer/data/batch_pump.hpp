#pragma once

// Fills batches ahead of the one in use, by threads that share out a batch sample by sample: the
// first batch comes as soon as all of them together have made it. Knows no tensor: whoever drives
// it says where a batch lies in memory.

#include "base/error.hpp"
#include "trainer/data/sample_source.hpp"

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

namespace ddprun {

/// How a pump works.
struct PumpPlan {
  std::int64_t batch_size = 1;
  int workers = 0;        // threads; 0: next() does the work itself
  int batches_ahead = 2;  // being filled while the consumer uses one; at least 1
};

class BatchPump {
 public:
  /// Where the floats of a batch go; called by start() and next(), on their thread, in order.
  using Allocate = std::function<std::span<float>(std::int64_t floats)>;

  /// REQUIRES: source outlives this; batch_size and batches_ahead are at least 1.
  BatchPump(const SampleSource& source, PumpPlan plan, Allocate allocate);

  /// Waits for the samples at which threads are, and for no more.
  ~BatchPump();
  BatchPump(const BatchPump&) = delete;
  BatchPump& operator=(const BatchPump&) = delete;

  /// Begins an epoch of these samples, in this order; the last batch may be short. One that is
  /// under way ends as by stop(). The threads start with the first epoch, and stay. Fails with kIo
  /// where the system allows no more of them. REQUIRES: all samples lie in the source.
  Result<void> start(std::vector<std::int64_t> samples, std::int64_t epoch = 0);

  /// Ends the epoch: waits for the samples at which threads are, and no memory that was allocated
  /// is written to after that.
  void stop();

  /// The samples of the next batch, once they lie in the memory allocated for it; none behind the
  /// last of the epoch. Fails with the error of the first sample of the batch that could not be
  /// written, and has no batch after that until the next start().
  Result<std::optional<std::span<const std::int64_t>>> next();

 private:
  /// A batch between its allocation and its delivery.
  struct Slot {
    std::span<float> floats;
    std::span<const std::int64_t> samples;
    std::size_t claimed = 0;  // samples that somebody has taken on
    std::size_t written = 0;  // claimed <= samples.size(), written <= claimed
    std::size_t failed_at = 0;
    std::optional<Error> error;  // of the sample at failed_at
  };
  struct Claim {
    Slot* slot = nullptr;
    std::size_t first = 0;
    std::size_t count = 0;
  };

  void fill_window();
  void work();
  bool has_unclaimed() const;  // with mutex_ held
  std::optional<Claim> claim();
  void fulfil(const Claim& claim);

  const SampleSource& source_;
  const PumpPlan plan_;
  const Allocate allocate_;
  const std::size_t sample_floats_;

  // Of the epoch. Changed while no thread is at work, and no other time.
  std::vector<std::int64_t> samples_;
  std::int64_t epoch_ = 0;
  std::size_t allocated_ = 0;  // samples that have been given a slot

  std::mutex mutex_;
  std::condition_variable work_is_there_;
  std::condition_variable work_is_done_;  // a batch is full, or nobody is at work
  bool is_over_ = false;                  // the epoch: nobody takes on more of it
  bool is_ending_ = false;                // the pump
  int at_work_ = 0;                       // claims that are not fulfilled
  std::deque<Slot> window_;               // the front is delivered next; guarded by mutex_

  std::vector<std::thread> threads_;
};

}  // namespace ddprun
