#include "agent/core/file_timers.hpp"

#include <algorithm>

namespace ddprun {

void FileTimers::apply(const FileTimerRequest& request) {
  const auto key = std::pair(request.pid, request.scope);
  if (request.expires_s < 0) {
    timers_.erase(key);
  } else if (timers_.size() < kMax || timers_.contains(key)) {
    timers_.insert_or_assign(key, request);
  }
}

std::vector<FileTimerRequest> FileTimers::take_expired(double now_s) {
  std::vector<FileTimerRequest> expired;
  std::erase_if(timers_, [&](const auto& timer) {
    if (timer.second.expires_s > now_s) return false;
    expired.push_back(timer.second);
    return true;
  });
  std::ranges::stable_sort(expired, {}, &FileTimerRequest::expires_s);
  return expired;
}

std::optional<double> FileTimers::next_s() const {
  const auto by_time = [](const auto& timer) { return timer.second.expires_s; };
  const auto next = std::ranges::min_element(timers_, {}, by_time);
  if (next == timers_.end()) return std::nullopt;
  return next->second.expires_s;
}

void FileTimers::forget(int pid) {
  std::erase_if(timers_, [pid](const auto& timer) { return timer.first.first == pid; });
}

}  // namespace ddprun
