#include "trainer/notice_watch.hpp"

#include "base/quiet_thread.hpp"
#include "base/worker_contract.hpp"
#include "trainer/end_by_signal.hpp"

#include <cerrno>
#include <csignal>
#include <ctime>
#include <utility>

#include <fcntl.h>
#include <signal.h>  // NOLINT(modernize-deprecated-headers): sigtimedwait and friends are POSIX
#include <unistd.h>

namespace ddprun {
namespace {

/// How long before ddprun's notice a signal from another sender may come. A person may have sent it
/// to this worker only, which cannot stop without the others.
constexpr std::time_t kConfirmedWithinS = 5;

sigset_t notices() {
  sigset_t signals;
  ::sigemptyset(&signals);
  for (int signal = 1; signal < NSIG; ++signal) {
    if (contract::is_notice(signal)) ::sigaddset(&signals, signal);
  }
  return signals;
}

}  // namespace

Result<std::unique_ptr<NoticeWatch>> NoticeWatch::begin(
    const std::optional<std::string>& notice_file) {
  Descriptor file;
  if (notice_file && !notice_file->empty()) {
    file = Descriptor(::open(notice_file->c_str(), O_RDONLY | O_CLOEXEC));
    if (!file) {
      return make_errno_error(
          errno, std::string(contract::kNoticeFile) + "='" + *notice_file + "'");
    }
  }
  const sigset_t signals = notices();
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);  // inherited by all later threads
  std::unique_ptr<NoticeWatch> watch(new NoticeWatch(std::move(file)));
  const auto started = start_quiet_thread(
      watch->thread_, "cannot wait for signals", [watch = watch.get()] { watch->listen(); });
  if (!started) return started.error();
  return watch;
}

/// The thread waits forever; the process ends without it.
NoticeWatch::~NoticeWatch() {
  if (thread_.joinable()) thread_.detach();
}

bool NoticeWatch::is_confirmed() const {
  char first = 0;
  return !file_ || ::pread(file_.get(), &first, 1, 0) == 1;
}

void NoticeWatch::listen() {
  const sigset_t signals = notices();
  const timespec patience{.tv_sec = kConfirmedWithinS, .tv_nsec = 0};
  for (;;) {
    siginfo_t info{};
    const bool is_open = has_come() && !is_confirmed();
    const int signal =
        is_open ? ::sigtimedwait(&signals, &info, &patience) : ::sigwaitinfo(&signals, &info);
    if (signal < 0) {
      if (errno == EAGAIN && !is_confirmed()) end_by_signal(SIGTERM);
      continue;
    }
    if (!heeds_.load(std::memory_order_relaxed)) end_by_signal(signal);
    const bool is_ddprun = file_ && info.si_code == SI_USER && info.si_pid == ::getppid();
    if (is_ddprun && !is_confirmed()) end_by_signal(signal);
    // From a person: there is no ddprun that would kill this process.
    if (signal == SIGINT && has_come() && !file_) end_by_signal(signal);
    has_come_.store(true, std::memory_order_relaxed);
  }
}

}  // namespace ddprun
