#include "agent/resumption.hpp"

#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

namespace ddprun {
namespace {

constexpr Duration kStoodStill = std::chrono::seconds(1);

}  // namespace

Resumption::Resumption() {
  sigset_t signals;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, SIGCONT);
  ::sigprocmask(SIG_BLOCK, &signals, nullptr);
  signals_ = Descriptor(::signalfd(-1, &signals, SFD_NONBLOCK | SFD_CLOEXEC));
}

bool Resumption::take() {
  signalfd_siginfo info{};
  return ::read(signals_.get(), &info, sizeof info) == sizeof info;
}

bool Resumption::is_late(TimePoint due, TimePoint now) {
  return now >= due && now - due >= kStoodStill;
}

}  // namespace ddprun
