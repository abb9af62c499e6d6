#include "trainer/data/batch_pump.hpp"

#include "base/check.hpp"
#include "base/quiet_thread.hpp"

#include <algorithm>
#include <utility>

namespace ddprun {

BatchPump::BatchPump(const SampleSource& source, PumpPlan plan, Allocate allocate)
    : source_(source),
      plan_(plan),
      allocate_(std::move(allocate)),
      sample_floats_(static_cast<std::size_t>(source.shape().floats())) {
  DDPRUN_CHECK(plan_.batch_size >= 1 && plan_.batches_ahead >= 1 && plan_.workers >= 0);
}

BatchPump::~BatchPump() {
  {
    const std::scoped_lock lock(mutex_);
    is_ending_ = true;
  }
  work_is_there_.notify_all();
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

void BatchPump::stop() {
  std::unique_lock lock(mutex_);
  is_over_ = true;
  work_is_done_.wait(lock, [this] { return at_work_ == 0; });
  window_.clear();
}

Result<void> BatchPump::start(std::vector<std::int64_t> samples, std::int64_t epoch) {
  stop();
  samples_ = std::move(samples);
  epoch_ = epoch;
  allocated_ = 0;
  {
    const std::scoped_lock lock(mutex_);
    is_over_ = false;
  }
  if (plan_.workers > 0) fill_window();
  // No reallocation later, so that threads stay joinable if another one fails to start.
  threads_.reserve(static_cast<std::size_t>(plan_.workers));
  while (std::ssize(threads_) < plan_.workers) {
    auto started = start_quiet_thread(
        threads_.emplace_back(), "cannot start a thread that loads data", [this] { work(); });
    if (!started) return started;
  }
  return {};
}

Result<std::optional<std::span<const std::int64_t>>> BatchPump::next() {
  if (plan_.workers == 0) fill_window();
  std::unique_lock lock(mutex_);
  if (window_.empty() || is_over_) return std::optional<std::span<const std::int64_t>>();
  Slot& slot = window_.front();
  if (plan_.workers == 0) {
    lock.unlock();
    while (const std::optional<Claim> part = claim()) {
      fulfil(*part);
    }
    lock.lock();
  }
  work_is_done_.wait(lock, [&] { return slot.written == slot.samples.size(); });
  if (slot.error) {
    is_over_ = true;
    return *std::move(slot.error);
  }
  const std::span<const std::int64_t> samples = slot.samples;
  window_.pop_front();
  lock.unlock();
  if (plan_.workers > 0) fill_window();  // these are made while the consumer uses this one
  return std::optional(samples);
}

/// Allocates the batches that may be worked on, on the consumer's thread, which decides how.
/// References to slots stay valid: a deque grows and shrinks only at its ends.
void BatchPump::fill_window() {
  const std::size_t ahead = plan_.workers == 0 ? 1 : static_cast<std::size_t>(plan_.batches_ahead);
  const std::span<const std::int64_t> samples(samples_);
  for (;;) {
    {
      const std::scoped_lock lock(mutex_);
      if (is_over_ || window_.size() >= ahead || allocated_ == samples.size()) return;
    }
    Slot slot;
    slot.samples = samples.subspan(
        allocated_,
        std::min(static_cast<std::size_t>(plan_.batch_size), samples.size() - allocated_));
    const std::size_t floats = slot.samples.size() * sample_floats_;
    slot.floats = allocate_(static_cast<std::int64_t>(floats));
    DDPRUN_CHECK(slot.floats.size() == floats);
    allocated_ += slot.samples.size();
    {
      const std::scoped_lock lock(mutex_);
      window_.push_back(std::move(slot));
    }
    work_is_there_.notify_all();
  }
}

void BatchPump::work() {
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      work_is_there_.wait(lock, [this] { return is_ending_ || has_unclaimed(); });
      if (is_ending_) return;
    }
    const std::optional<Claim> part = claim();
    if (part) fulfil(*part);
  }
}

bool BatchPump::has_unclaimed() const {
  const auto is_left = [](const Slot& slot) { return slot.claimed < slot.samples.size(); };
  return !is_over_ && std::ranges::any_of(window_, is_left);
}

/// The next unclaimed samples of the earliest unfinished batch. Few at a time, so that the threads
/// finish a batch together; more if there are many for each thread.
std::optional<BatchPump::Claim> BatchPump::claim() {
  constexpr std::size_t kPartsPerThread = 8;
  constexpr std::size_t kPartMax = 16;
  const std::size_t threads = static_cast<std::size_t>(std::max(plan_.workers, 1));
  const std::scoped_lock lock(mutex_);
  if (is_over_) return std::nullopt;
  for (Slot& slot : window_) {
    const std::size_t left = slot.samples.size() - slot.claimed;
    if (left == 0) continue;
    const std::size_t share = slot.samples.size() / (threads * kPartsPerThread);
    const Claim part{
        .slot = &slot,
        .first = slot.claimed,
        .count = std::min(left, std::clamp<std::size_t>(share, 1, kPartMax))};
    slot.claimed += part.count;
    ++at_work_;
    return part;
  }
  return std::nullopt;
}

void BatchPump::fulfil(const Claim& claim) {
  Slot& slot = *claim.slot;
  std::optional<Error> error;
  std::size_t failed_at = 0;
  for (std::size_t at = claim.first; at < claim.first + claim.count && !error; ++at) {
    const auto written = source_.write(
        {.sample = slot.samples[at], .epoch = epoch_},
        slot.floats.subspan(at * sample_floats_, sample_floats_));
    if (written) continue;
    error = written.error();
    failed_at = at;
  }
  bool is_awaited = false;
  {
    const std::scoped_lock lock(mutex_);
    slot.written += claim.count;
    // The reported sample does not depend on which thread is first.
    if (error && (!slot.error || failed_at < slot.failed_at)) {
      slot.error = std::move(error);
      slot.failed_at = failed_at;
    }
    --at_work_;
    is_awaited = slot.written == slot.samples.size() || at_work_ == 0;
  }
  if (is_awaited) work_is_done_.notify_one();
}

}  // namespace ddprun
