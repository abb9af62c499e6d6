// The guard with an agent that makes no decisions: the agent of this program executes its
// arguments, word by word, from left to right, and then waits for its end.
//
//   worker PROGRAM WORD… ;   starts a worker, which inherits the lifeline
//   line PORT                connects to 127.0.0.1:PORT, and holds that as this node's lifeline
//   ends PORT N              connects N times, and holds those as lifelines of other nodes
//   drop                     releases the oldest of these connections, and closes it
//   lease MS                 processes may run for MS from now, until the time that is printed
//                            (boot time in ns); "none": forever
//   running 0|1              whether workers are reported as running
//   read FILE                waits for one byte from a FIFO
//   stop                     stops itself, as a debugger would
//   hungry                   once it has nothing else to do, an allocation ends it by SIGABRT; it
//                            then prints "hungry"
//   exit N                   ends with status N
//
// An allocation ends the guard by SIGABRT, from the first fork of an agent on.

#include "agent/guard_client.hpp"
#include "agent/process.hpp"
#include "base/descriptor.hpp"
#include "base/log.hpp"
#include "base/task_scope.hpp"
#include "rendezvous/listener.hpp"
#include "tests/support/no_allocation.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <exception>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

namespace {

using namespace ddprun;

std::vector<std::string> environment() {
  std::vector<std::string> entries;
  for (char* const* entry = environ; *entry != nullptr; ++entry) {
    entries.emplace_back(*entry);
  }
  return entries;
}

class Script {
 public:
  Script(GuardClient& guard, int argc, char** argv)
      : guard_(guard), words_(argv + 1, argv + argc) {}

  asio::awaitable<void> play() {
    while (next_ < words_.size()) {
      perform(word());
      co_await asio::post(asio::use_awaitable);  // sends all orders of a moment together
    }
  }

  bool is_hungry() const { return is_hungry_; }

 private:
  const std::string& word() { return words_.at(next_++); }
  int number() { return std::atoi(word().c_str()); }

  void perform(const std::string& what) {
    if (what == "worker") {
      start_worker();
    } else if (what == "line") {
      if (!guard_.hold_line(connect_to(word()))) std::abort();
      line_ = lines_.back().get();
    } else if (what == "ends") {
      const std::string& port = word();
      for (int left = number(); left > 0; --left) {
        guard_.hold_end(connect_to(port));
      }
    } else if (what == "drop") {
      guard_.let_go(lines_.front().get());
      lines_.pop_front();
    } else if (what == "lease") {
      allow(word());
    } else if (what == "running") {
      guard_.workers_run(number() != 0);
    } else if (what == "read") {
      read_byte(word());
    } else if (what == "stop") {
      ::raise(SIGSTOP);
    } else if (what == "hungry") {
      is_hungry_ = true;
    } else if (what == "exit") {
      std::exit(number());
    } else {
      std::abort();
    }
  }

  int connect_to(const std::string& port) {
    Descriptor line(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<std::uint16_t>(std::atoi(port.c_str())));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(line.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0) std::abort();
    lines_.push_back(std::move(line));
    return lines_.back().get();
  }

  void allow(const std::string& ms) {
    if (ms == "none") return guard_.allow_until(kNever);
    const TimePoint until = Clock::now() + std::chrono::milliseconds(std::atoi(ms.c_str()));
    std::printf("%lld\n", static_cast<long long>(until.time_since_epoch().count()));
    std::fflush(stdout);
    guard_.allow_until(until);
  }

  static void read_byte(const std::string& path) {
    const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    char byte = 0;
    if (::read(file.get(), &byte, 1) != 1) std::abort();
  }

  void start_worker() {
    SpawnRequest request;
    for (std::string next = word(); next != ";"; next = word()) {
      request.command.push_back(next);
    }
    request.environment = environment();
    if (line_ >= 0) request.keep.push_back(line_);
    auto worker = spawn(request);
    if (!worker) std::abort();
    workers_.push_back(*std::move(worker));
  }

  GuardClient& guard_;
  std::vector<std::string> words_;
  std::size_t next_ = 0;
  int line_ = -1;
  bool is_hungry_ = false;
  std::deque<Descriptor> lines_;
  std::vector<Process> workers_;
};

asio::awaitable<void> be_the_agent(GuardClient& guard, Script& script) {
  TaskScope all(co_await asio::this_coro::executor);
  all.spawn(guard.serve());
  all.spawn(guard.end_with_it());
  all.spawn(script.play());
  co_await all.join();
}

int run(int argc, char** argv) {
  sigset_t signals;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, SIGTERM);
  ::sigaddset(&signals, SIGRTMIN);  // of which several may be pending
  sigset_t blocked = signals;
  ::sigaddset(&blocked, SIGCHLD);
  ::sigprocmask(SIG_BLOCK, &blocked, nullptr);
  if (::pthread_atfork(nullptr, forbid_allocation, allow_allocation) != 0) return 98;
  auto process = fork_agent(signals);
  allow_allocation();
  if (const auto* guard = std::get_if<GuardEnded>(&process)) return guard->exit_status;
  ::sigprocmask(SIG_UNBLOCK, &signals, nullptr);  // handled only by the guard
  raise_descriptor_limit();
  asio::io_context context(1);
  GuardClient guard(context, std::move(std::get<AgentBegins>(process)));
  Script script(guard, argc, argv);
  asio::co_spawn(context, be_the_agent(guard, script), [](const std::exception_ptr&) {});
  while (!script.is_hungry() && context.run_one() > 0) {}
  if (script.is_hungry()) {
    context.poll();
    forbid_allocation();
    write_all(STDOUT_FILENO, "hungry\n");
  }
  context.run();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (!start_log("ddprun", "")) return 98;
    return run(argc, argv);
  } catch (const std::exception&) {
    return 98;  // a broken test
  }
}
