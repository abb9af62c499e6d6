#include "agent/node_check.hpp"

#include "agent/process.hpp"
#include "agent/streams.hpp"
#include "base/parse.hpp"

#include <fmt/format.h>

#include <csignal>
#include <cstddef>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>

namespace ddprun {
namespace {

constexpr std::size_t kReadBytesMax = 4'096;
constexpr std::size_t kShownBytesMax = 200;

/// It leads a session, so its group has its number.
void kill_group(pid_t pid) {
  ::kill(-pid, SIGKILL);
  ::kill(pid, SIGKILL);
}

}  // namespace

NodeCheck::NodeCheck(
    asio::io_context& context,
    const NodeCheckPlan& plan,
    std::vector<std::string> environment,
    WorkerGroup& reaper)
    : plan_(plan), environment_(std::move(environment)), reaper_(reaper), limit_(context, kNever) {}

NodeCheck::~NodeCheck() {
  if (is_running() && pid_ != 0) kill_group(pid_);
}

void NodeCheck::begin(OnDone on_done) {
  // In memory: the thread that answers heartbeats reads it, and waits for no disk.
  output_ = Descriptor(::memfd_create("ddprun-node-check", MFD_CLOEXEC));
  StartOrder order;
  // A duplicate, since the check may be abandoned, and the file closed, before the process is made.
  order.kept.emplace_back(::fcntl(output_.get(), F_DUPFD_CLOEXEC, 0));
  order.request.command = plan_.arguments;
  order.request.environment = environment_;
  order.request.out = order.kept.front().get();
  order.request.err = order.request.out;
  on_done_ = std::move(on_done);
  pid_ = 0;
  is_late_ = false;
  const std::int64_t number = ++checks_;
  start_ = reaper_.start_too(
      std::move(order),
      [this, number](const Result<pid_t>& pid) { started(number, pid); },
      [this, number](ProcessEnd end) {
        if (is_present(number)) ended(end);
      });
  limit_.expires_at(Clock::now() + plan_.limit);
}

void NodeCheck::started(std::int64_t number, const Result<pid_t>& pid) {
  if (pid && !is_present(number)) return kill_group(*pid);
  if (!is_present(number)) return;
  if (!pid) return conclude(pid.error().detail);
  pid_ = *pid;
}

void NodeCheck::abandon() {
  if (!is_running()) return;
  kill();
  on_done_ = nullptr;
  limit_.expires_at(kNever);
}

/// If its process is just being made, started() does it.
void NodeCheck::kill() {
  if (pid_ == 0) {
    reaper_.cancel_start_too(start_);
  } else {
    kill_group(pid_);
  }
}

asio::awaitable<void> NodeCheck::keep_time() {
  for (;;) {
    const auto [re_armed] = co_await limit_.async_wait(kTuple);
    if (re_armed) continue;
    limit_.expires_at(kNever);
    if (!is_running()) continue;
    is_late_ = true;
    kill();
    if (pid_ == 0) ended({});  // a start that waits for a disk may never end
  }
}

void NodeCheck::ended(ProcessEnd end) {
  std::string why;
  if (is_late_) {
    why = fmt::format("its check took longer than {:g} s", to_seconds(plan_.limit));
  } else if (!end.ok()) {
    why = fmt::format("its check {}", end.to_string());
  }
  if (!why.empty()) {
    const std::string said = last_line();
    why += said.empty() ? fmt::format(" ({})", plan_.text) : fmt::format(": {}", said);
  }
  conclude(std::move(why));
}

void NodeCheck::conclude(std::string why) {
  limit_.expires_at(kNever);
  pid_ = 0;
  output_.reset();
  std::exchange(on_done_, nullptr)(std::move(why));
}

/// Of what it wrote, without bytes that a terminal would take for orders.
std::string NodeCheck::last_line() const {
  const std::string text = last_bytes(output_.get(), kReadBytesMax);
  std::string line(split(trim(text), '\n').back().substr(0, kShownBytesMax));
  for (char& byte : line) {
    const auto code = static_cast<unsigned char>(byte);
    if (code < 0x20 || code >= 0x7f) byte = '?';
  }
  return line;
}

}  // namespace ddprun
