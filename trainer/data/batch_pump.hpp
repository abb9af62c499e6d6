#pragma once

// Fills batches ahead of the one in use, with threads that divide a batch sample by sample, so that
// all of them work on the first batch. Knows no tensors: the caller provides the memory of each
// batch.

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

/// The settings of a pump.
struct PumpPlan {
  std::int64_t batch_size = 1;
  int workers = 0;        // threads; 0: next() does the work itself
  int batches_ahead = 2;  // filled while the consumer uses one; at least 1
};

class BatchPump {
 public:
  /// Allocates the floats of a batch; called by start() and next(), on their thread, in order.
  using Allocate = std::function<std::span<float>(std::int64_t floats)>;

  /// REQUIRES: source outlives this; batch_size and batches_ahead are at least 1.
  BatchPump(const SampleSource& source, PumpPlan plan, Allocate allocate);

  /// Waits for the samples in progress, and for no more.
  ~BatchPump();
  BatchPump(const BatchPump&) = delete;
  BatchPump& operator=(const BatchPump&) = delete;

  /// Begins an epoch of these samples, in this order; the last batch may be short. Ends an epoch in
  /// progress as stop() does. The threads start with the first epoch, and stay. Fails with kIo if
  /// the system allows no more threads. REQUIRES: all samples are in the source.
  Result<void> start(std::vector<std::int64_t> samples, std::int64_t epoch = 0);

  /// Ends the epoch: waits for the samples in progress; the allocated memory is not written to
  /// after that.
  void stop();

  /// The samples of the next batch, once they are in the memory allocated for it; none after the
  /// last batch of the epoch. Fails with the error of the first sample of the batch that could not
  /// be written, and then has no batch until the next start().
  Result<std::optional<std::span<const std::int64_t>>> next();

 private:
  /// A batch between its allocation and its delivery.
  struct Slot {
    std::span<float> floats;
    std::span<const std::int64_t> samples;
    std::size_t claimed = 0;  // samples taken by some thread
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

  // Per epoch. Changed only while no thread is at work.
  std::vector<std::int64_t> samples_;
  std::int64_t epoch_ = 0;
  std::size_t allocated_ = 0;  // samples that have a slot

  std::mutex mutex_;
  std::condition_variable work_is_there_;
  std::condition_variable work_is_done_;  // a batch is full, or no thread is at work
  bool is_over_ = false;                  // the epoch: no thread takes more of it
  bool is_ending_ = false;                // the pump
  int at_work_ = 0;                       // claims in progress
  std::deque<Slot> window_;               // the front is delivered next; guarded by mutex_

  std::vector<std::thread> threads_;
};

}  // namespace ddprun
