#pragma once

// Virtual time and random numbers: the next event is the earliest planned one, and nothing else in
// a simulated cluster decides anything. One seed is one run. In a steady world every delay is the
// middle of its range, and nothing happens that is less likely than not.

#include "base/time.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <queue>
#include <random>
#include <utility>
#include <vector>

namespace ddprun::sim {

class World {
 public:
  explicit World(std::uint64_t seed) : dice_(seed) {}
  /// A world without chance, for traces that people read.
  static World steady() {
    World world(1);
    world.is_steady_ = true;
    return world;
  }

  TimePoint now() const { return now_; }
  std::uint64_t happened() const { return happened_; }

  /// Runs `what` after `delay`, after anything planned earlier for the same instant.
  void in(Duration delay, std::function<void()> what) {
    if (free_.empty()) {
      free_.push_back(whats_.size());
      whats_.emplace_back();
    }
    whats_[free_.back()] = std::move(what);
    plans_.push({.at = now_ + delay, .sequence = ++sequence_, .what = free_.back()});
    free_.pop_back();
  }
  void at(TimePoint when, std::function<void()> what) {
    in(std::max(Duration::zero(), when - now_), std::move(what));
  }

  /// Runs until `end`, or until `is_over`, or for `events_max`. Returns false at that limit.
  bool run(TimePoint end, std::uint64_t events_max, const std::function<bool()>& is_over) {
    while (!plans_.empty() && plans_.top().at <= end && !is_over()) {
      if (++happened_ > events_max) return false;
      const Plan next = plans_.top();
      plans_.pop();
      now_ = next.at;
      const auto what = std::exchange(whats_[next.what], nullptr);
      free_.push_back(next.what);
      what();
    }
    return true;
  }

  /// least <= number <= most
  int roll(int least, int most) {
    if (is_steady_) return (least + most) / 2;
    return std::uniform_int_distribution<>(least, most)(dice_);
  }
  bool chance(int percent) { return roll(1, 100) <= percent; }
  Duration between(Duration least, Duration most) {
    if (is_steady_) return (least + most) / 2;
    return Duration(
        std::uniform_int_distribution<Duration::rep>(least.count(), most.count())(dice_));
  }
  std::uint64_t number() { return dice_(); }

 private:
  struct Plan {
    TimePoint at;
    std::uint64_t sequence = 0;
    std::size_t what = 0;  // of whats_: the queue moves its elements often

    bool operator<(const Plan& other) const {  // the earliest on top
      return at != other.at ? at > other.at : sequence > other.sequence;
    }
  };

  std::mt19937_64 dice_;
  bool is_steady_ = false;
  TimePoint now_{std::chrono::hours(1)};
  std::uint64_t sequence_ = 0;
  std::uint64_t happened_ = 0;
  std::priority_queue<Plan> plans_;
  std::vector<std::function<void()>> whats_;
  std::vector<std::size_t> free_;  // of whats_
};

}  // namespace ddprun::sim
