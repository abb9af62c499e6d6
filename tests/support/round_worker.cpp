// A worker that proves when its round ran:
//
//   round_worker LOG STOP [NOTES]
//
// Every millisecond it appends a line to LOG, "NS GENERATION ROUND NODE RANK PID", where NS is
// CLOCK_BOOTTIME before the line is written, and NODE the host's name. Several of them may share a
// file: a line is one write. It ends with 0 once the file STOP exists. To NOTES, a file or FIFO, it
// tells once that it has begun, by a line of the same form.

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>

#include <fcntl.h>
#include <unistd.h>

namespace {

constexpr int kBrokenTest = 98;
constexpr long kPeriodNs = 1'000'000;
constexpr long kSecondNs = 1'000'000'000;

[[noreturn]] void broken(const char* what) {
  std::fprintf(stderr, "round_worker: %s: %s\n", what, std::strerror(errno));
  ::_exit(kBrokenTest);
}

timespec now(clockid_t clock) {
  timespec spec{};
  ::clock_gettime(clock, &spec);
  return spec;
}

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "0" : value;
}

int open_to_append(const char* path) {
  const int file = ::open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
  if (file < 0) broken(path);
  return file;
}

/// One line, with what stands in every line of this process behind the time.
void tell(int file, const std::string& who) {
  const timespec time = now(CLOCK_BOOTTIME);
  const long long ns = static_cast<long long>(time.tv_sec) * kSecondNs + time.tv_nsec;
  const std::string line = std::to_string(ns) + who;
  if (::write(file, line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
    broken("cannot write");
  }
}

std::string who_we_are() {
  char host[256] = {};
  ::gethostname(host, sizeof host - 1);
  return " " + variable("DDPRUN_GENERATION") + " " + variable("DDPRUN_ROUND") + " " + host + " " +
         variable("RANK") + " " + std::to_string(::getpid()) + "\n";
}

/// A millisecond after `due`; after a freeze those that were missed are left out.
timespec next_after(timespec due) {
  due.tv_nsec += kPeriodNs;
  if (due.tv_nsec >= kSecondNs) {
    due.tv_nsec -= kSecondNs;
    due.tv_sec += 1;
  }
  const timespec time = now(CLOCK_MONOTONIC);
  const bool is_late =
      time.tv_sec > due.tv_sec || (time.tv_sec == due.tv_sec && time.tv_nsec > due.tv_nsec);
  return is_late ? time : due;
}

}  // namespace

int main(int argc, char* const* argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: round_worker LOG STOP [NOTES]\n");
    return kBrokenTest;
  }
  const std::string who = who_we_are();
  const int log = open_to_append(argv[1]);
  tell(log, who);
  if (argc > 3) tell(open_to_append(argv[3]), who);
  for (timespec due = now(CLOCK_MONOTONIC); ::access(argv[2], F_OK) != 0; due = next_after(due)) {
    tell(log, who);
    ::clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, nullptr);
  }
  tell(log, who);  // so that whoever saw STOP is known to have run behind it
  return 0;
}
