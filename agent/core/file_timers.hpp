#pragma once

// The timers that workers set by TORCHELASTIC_TIMER_FILE (torch.distributed.elastic.timer), and
// which of them are over. A worker that hangs does not release its timer.

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ddprun {

/// A line of that file: a timer of one worker, set or released. A worker may have several, by
/// scope.
struct FileTimerRequest {
  int pid = 0;
  std::string scope;
  double expires_s = 0;  // since 1970; negative: released
  int signal = 0;        // that the worker is sent then; <= 0: none, it is only told
};

class FileTimers {
 public:
  static constexpr std::size_t kMax = 65'536;

  /// Sets, replaces or releases a timer. Beyond kMax it sets no more.
  void apply(const FileTimerRequest& request);

  /// Takes out the timers that are over at `now_s`, in order of time.
  std::vector<FileTimerRequest> take_expired(double now_s);

  /// When the next one is over, in seconds since 1970; none: there is none.
  std::optional<double> next_s() const;

  /// Forgets those of a process that has ended.
  void forget(int pid);

 private:
  std::map<std::pair<int, std::string>, FileTimerRequest> timers_;  // by pid and scope
};

}  // namespace ddprun
