#pragma once

// The timers that workers set by TORCHELASTIC_TIMER_FILE (torch.distributed.elastic.timer), and
// which of them have expired. A worker that hangs does not release its timer.

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ddprun {

/// A line of that file: one worker sets or releases a timer. A worker may have several, identified
/// by scope.
struct FileTimerRequest {
  int pid = 0;
  std::string scope;
  double expires_s = 0;  // since 1970; negative: released
  int signal = 0;  // sent to the worker when it expires; <= 0: none, the expiry is only reported
};

class FileTimers {
 public:
  static constexpr std::size_t kMax = 65'536;

  /// Sets, replaces or releases a timer. Ignores new timers beyond kMax.
  void apply(const FileTimerRequest& request);

  /// Removes and returns the timers that have expired at `now_s`, ordered by time.
  std::vector<FileTimerRequest> take_expired(double now_s);

  /// When the next one expires, in seconds since 1970; none: no timer is set.
  std::optional<double> next_s() const;

  /// Forgets the timers of a process that has ended.
  void forget(int pid);

 private:
  std::map<std::pair<int, std::string>, FileTimerRequest> timers_;  // by pid and scope
};

}  // namespace ddprun
