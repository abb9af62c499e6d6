#pragma once

#include "base/suspicion.hpp"
#include "base/time.hpp"
#include "rendezvous/core/messages.hpp"

#include <algorithm>
#include <chrono>
#include <optional>

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
    const bool has_exited = culprit.signal == 0 && culprit.suspicion() != Suspicion::kLostPeer;
    if (!has_exited || ran_for >= kStartLimit) {
      in_a_row_ = 0;
      return;
    }
    repeats_ = in_a_row_ > 0 && !reached_store && culprit.exit_status == unreached_;
    unreached_.reset();
    if (!reached_store) unreached_ = culprit.exit_status;
    ++in_a_row_;
  }

  /// How many crashed, up to the attempt that failed last.
  int in_a_row() const { return in_a_row_; }

  /// The last two crashed alike: with the same exit status, before any worker had reached the
  /// store. A third is not likely to do better.
  bool repeats() const { return in_a_row_ > 1 && repeats_; }

  /// Before the next attempt: none after one crash, then 1, 2, 4 … 30 s.
  Duration pause() const {
    constexpr int kDoublings = 5;  // by then it is the longest
    if (in_a_row_ < 2) return {};
    const auto doubled = std::chrono::seconds(1 << std::min(in_a_row_ - 2, kDoublings));
    return std::min<Duration>(doubled, kRestartPauseMax);
  }

 private:
  int in_a_row_ = 0;
  std::optional<int> unreached_;  // the exit status of the last, if no worker reached the store
  bool repeats_ = false;
};

}  // namespace ddprun
