#include "agent/death_timer.hpp"

#include "base/log.hpp"

#include <cerrno>
#include <cstring>

#include <signal.h>

namespace ddprun {

DeathTimer::DeathTimer() {
  sigevent event{};
  event.sigev_notify = SIGEV_SIGNAL;
  event.sigev_signo = SIGKILL;
  timer_t timer{};
  if (::timer_create(CLOCK_BOOTTIME, &event, &timer) == 0) {
    timer_ = timer;
    return;
  }
  const int why = errno;
  spdlog::warn(
      "phase=unguarded: no timer: {}{}: if this whole node is frozen and resumes, its workers run "
      "on for a moment",
      std::strerror(why),
      why == EAGAIN ? " (the user's limit of pending signals, ulimit -i, is reached)" : "");
}

DeathTimer::~DeathTimer() {
  if (timer_) ::timer_delete(*timer_);
}

void DeathTimer::set(TimePoint when) {
  const itimerspec expiry = expiry_at(when);
  if (timer_) ::timer_settime(*timer_, TIMER_ABSTIME, &expiry, nullptr);
}

}  // namespace ddprun
