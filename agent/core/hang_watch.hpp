#pragma once

// HangWatch: when training is taken for hung. No worker of this node has made a step for the limit
// of --hang-timeout; by default that is ten times the slowest of the last steps, and at least a
// minute. Before the first steps of an attempt nothing is expected, nor in an announced pause.

#include "agent/core/launch_plan.hpp"
#include "base/time.hpp"
#include "base/worker_contract.hpp"

#include <cstdint>
#include <optional>
#include <span>

namespace ddprun {

class HangWatch {
 public:
  static constexpr Duration kLeast = std::chrono::seconds(60);  // `auto` waits no less
  static constexpr int kTimesSlowest = 10;
  /// How often it waits once more for what may go on by itself.
  static constexpr int kPatience = 9;

  explicit HangWatch(HangPlan plan) : plan_(plan) {}

  /// Workers are started, and write to new slots.
  void begin_round(std::int64_t now);
  /// Nothing is expected of them any more.
  void end_round() {
    is_running_ = false;
    due_.reset();
  }
  /// Before `now` nothing was expected of them: they were suspended, or are being debugged.
  void excuse(std::int64_t now);

  enum class Finding : std::uint8_t { kNothing, kSilent, kResumed };

  /// Looks at the slots. kSilent: no step was made for the limit; judged() is to be called once it
  /// is known what the workers do. kResumed: a step was made after they were found hung. All times
  /// are those of the slots, in nanoseconds.
  Finding look(std::span<const contract::StepSlot> slots, std::int64_t now);

  enum class Judgement : std::uint8_t {
    kHangs,
    kComputes,   // a worker that does not wait computes, so it may be evaluating: for `auto` only
    kElsewhere,  // all wait for another node, which may have announced a pause
  };

  /// What the workers do. Yields whether they are taken for hung.
  bool judged(Judgement judgement, std::int64_t now);

  /// When to look again; none: never, or once it is judged.
  std::optional<std::int64_t> due() const { return due_; }

  /// After kSilent.
  Duration silent_for(std::int64_t now) const { return Duration(now - stepped_at_); }
  Duration slowest() const { return Duration(slowest_); }

 private:
  std::int64_t limit() const;

  HangPlan plan_;
  bool is_running_ = false;
  std::optional<std::int64_t> due_;
  std::int64_t stepped_at_ = 0;  // the last step of any worker; 0: none was made
  std::int64_t excused_until_ = 0;
  std::int64_t slowest_ = 0;
  int waited_ = 0;        // since that step, though it was silent
  bool is_hung_ = false;  // since that step
};

}  // namespace ddprun
