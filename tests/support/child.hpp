#pragma once

// A process that a test starts, reads from, and may kill.

#include "base/check.hpp"
#include "base/descriptor.hpp"

#include <array>
#include <cerrno>
#include <csignal>
#include <string>
#include <string_view>
#include <vector>

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

namespace ddprun {

class Child {
 public:
  /// Runs `command` with `settings` ("NAME=value") added to our environment; its stdout and stderr
  /// are read together.
  Child(const std::vector<std::string>& command, const std::vector<std::string>& settings) {
    std::array<int, 2> ends{};
    DDPRUN_CHECK(::pipe2(ends.data(), O_CLOEXEC) == 0);
    output_ = Descriptor(ends[0]);
    const Descriptor theirs(ends[1]);
    std::vector<const char*> environment;
    environment.reserve(settings.size());
    for (const std::string& setting : settings) {
      environment.push_back(setting.c_str());
    }
    for (char* const* old = environ; *old != nullptr; ++old) {
      environment.push_back(*old);
    }
    environment.push_back(nullptr);
    std::vector<const char*> arguments;
    arguments.reserve(command.size() + 1);
    for (const std::string& argument : command) {
      arguments.push_back(argument.c_str());
    }
    arguments.push_back(nullptr);

    posix_spawn_file_actions_t actions;
    DDPRUN_CHECK(::posix_spawn_file_actions_init(&actions) == 0);
    ::posix_spawn_file_actions_adddup2(&actions, theirs.get(), STDOUT_FILENO);
    ::posix_spawn_file_actions_adddup2(&actions, theirs.get(), STDERR_FILENO);
    // The C interface lacks const; it changes neither list.
    const int failed = ::posix_spawn(
        &pid_,
        arguments.front(),
        &actions,
        nullptr,
        const_cast<char* const*>(arguments.data()),     // NOLINT
        const_cast<char* const*>(environment.data()));  // NOLINT
    ::posix_spawn_file_actions_destroy(&actions);
    DDPRUN_CHECK(failed == 0);
  }
  ~Child() {
    if (pid_ <= 0) return;
    kill(SIGKILL);
    wait();
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  void kill(int signal) const { ::kill(pid_, signal); }

  /// Waits for its end; then text() has all its output.
  int wait() {
    while (read_some()) {}
    int status = 0;
    DDPRUN_CHECK(::waitpid(pid_, &status, 0) == pid_);
    pid_ = 0;
    return status;
  }

  /// Waits until it has stopped itself or ended: true if it stopped.
  bool wait_until_stopped() {
    siginfo_t happened{};
    DDPRUN_CHECK(
        ::waitid(P_PID, static_cast<id_t>(pid_), &happened, WSTOPPED | WEXITED | WNOWAIT) == 0);
    return happened.si_code == CLD_STOPPED;
  }

  /// Reads its output until `word` is in text(): false if it ended before.
  bool listen_for(std::string_view word) {
    while (text_.find(word) == std::string::npos) {
      if (!read_some()) return false;
    }
    return true;
  }

  /// Reads its output until `timer` fires: false if it ended before.
  bool listen_until(int timer) {
    for (;;) {
      std::array<pollfd, 2> waits = {
          {{.fd = output_.get(), .events = POLLIN, .revents = 0},
           {.fd = timer, .events = POLLIN, .revents = 0}}};
      if (::poll(waits.data(), waits.size(), -1) < 0) continue;
      if (waits[1].revents != 0) return true;
      if (waits[0].revents != 0 && !read_some()) return false;
    }
  }

  const std::string& text() const { return text_; }

 private:
  bool read_some() {
    std::array<char, 4096> chunk{};
    const ssize_t got = ::read(output_.get(), chunk.data(), chunk.size());
    if (got > 0) text_.append(chunk.data(), static_cast<std::size_t>(got));
    return got > 0 || (got < 0 && errno == EINTR);
  }

  pid_t pid_ = 0;
  Descriptor output_;
  std::string text_;
};

}  // namespace ddprun
