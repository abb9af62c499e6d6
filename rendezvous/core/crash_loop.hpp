#pragma once

#include "base/suspicion.hpp"
#include "base/time.hpp"
#include "rendezvous/core/messages.hpp"

#include <algorithm>
#include <chrono>

namespace ddprun {

/// An attempt that fails sooner after its start than this has *crashed on start*, if one of its
/// workers ended it by its own exit. A signal, a lost peer and a lost node may come at any time and
/// say nothing of the next attempt.
inline constexpr Duration kStartLimit = std::chrono::seconds(5);

/// The longest pause before a restart.
inline constexpr Duration kRestartPauseMax = std::chrono::seconds(30);

/// Attempts that crashed on start, one after the other, and how long the next one therefore waits:
/// a job that cannot run does not use its restarts up in a second, and what it waits for (a file
/// system, a licence, memory) has time to come.
class CrashLoop {
 public:
  /// An attempt has failed: by what, how long after its start, and whether one of its workers had
  /// reached the store by then.
  void failed(const FailureNews& culprit, Duration ran_for, bool reached_store) {
    if (!is_crash(culprit, ran_for)) {
      in_a_row_ = 0;
      return;
    }
    const bool has_same_line =
        !last_.last_line || !culprit.last_line || last_.last_line == culprit.last_line;
    repeats_ = ended_alike(culprit, reached_store) && has_same_line;
    last_ = culprit;
    last_reached_store_ = reached_store;
    ++in_a_row_;
  }

  /// What the culprit said is known by now.
  void learned(const FailureNews& failure) {
    const bool is_last = in_a_row_ > 0 && failure.is_of_same_worker(last_);
    if (is_last && failure.last_line) last_.last_line = failure.last_line;
  }

  /// Whether the last line of `culprit` is not known yet, and decides what repeats() says of it.
  bool needs_last_line(const FailureNews& culprit, Duration ran_for, bool reached_store) const {
    const bool is_unknown = last_.last_line && !culprit.last_line && culprit.pid != 0;
    return is_unknown && is_crash(culprit, ran_for) && ended_alike(culprit, reached_store);
  }

  /// How many crashed, up to the attempt that failed last.
  int in_a_row() const { return in_a_row_; }

  /// The last two crashed at the same place: with the same exit status and, as far as is known,
  /// the same last line, before any worker had reached the store. A third is not likely to do
  /// better.
  bool repeats() const { return in_a_row_ > 1 && repeats_; }

  /// Before the next attempt: none after one crash, then 1, 2, 4 … 30 s.
  Duration pause() const {
    constexpr int kDoublings = 5;  // by then it is the longest
    if (in_a_row_ < 2) return {};
    const auto doubled = std::chrono::seconds(1 << std::min(in_a_row_ - 2, kDoublings));
    return std::min<Duration>(doubled, kRestartPauseMax);
  }

 private:
  static bool is_crash(const FailureNews& culprit, Duration ran_for) {
    const bool has_exited = culprit.signal == 0 && culprit.suspicion() != Suspicion::kLostPeer;
    return has_exited && ran_for < kStartLimit;
  }

  bool ended_alike(const FailureNews& culprit, bool reached_store) const {
    const bool reached_none = !reached_store && !last_reached_store_;
    return in_a_row_ > 0 && reached_none && culprit.exit_status == last_.exit_status;
  }

  int in_a_row_ = 0;
  FailureNews last_;  // if in_a_row_ > 0
  bool last_reached_store_ = false;
  bool repeats_ = false;
};

}  // namespace ddprun
