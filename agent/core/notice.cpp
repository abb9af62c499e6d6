#include "agent/core/notice.hpp"

#include "base/signal_name.hpp"
#include "base/time.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>

namespace ddprun {

std::optional<double> deadline_after(int signal, double now, const NoticePlan& plan) {
  if (plan.grace) return now + to_seconds(*plan.grace);
  if (signal == SIGTERM) {
    // The end of the job's time is no deadline after SIGTERM: SIGKILL may come long before it.
    if (!plan.kill_wait) return std::nullopt;
    return now + to_seconds(*plan.kill_wait);
  }
  if (!plan.job_end) return std::nullopt;
  return std::max(now, static_cast<double>(*plan.job_end));
}

std::string notice_json(int signal, double now, const NoticePlan& plan) {
  const auto deadline = deadline_after(signal, now, plan);
  return fmt::format(
      "{{\"signal\":\"{}\",\"time_s\":{:.3f},\"deadline_s\":{}}}\n",
      signal_name(signal),
      now,
      deadline ? fmt::format("{:.3f}", *deadline) : "null");
}

}  // namespace ddprun
