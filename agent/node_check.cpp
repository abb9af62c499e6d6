#include "agent/node_check.hpp"

#include "agent/process.hpp"
#include "agent/streams.hpp"
#include "base/parse.hpp"

#include <fmt/format.h>

#include <csignal>
#include <cstddef>
#include <utility>

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
  if (is_running()) kill_group(pid_);
}

void NodeCheck::begin(OnDone on_done) {
  // In memory: the thread that starts it answers heartbeats, and waits for no disk.
  output_ = Descriptor(::memfd_create("ddprun-node-check", MFD_CLOEXEC));
  SpawnRequest request;
  request.command = plan_.arguments;
  request.environment = environment_;
  request.out = output_.get();
  request.err = output_.get();
  auto process = spawn(request);
  if (!process) return on_done(process.error().detail);
  on_done_ = std::move(on_done);
  pid_ = process->pid;
  is_late_ = false;
  reaper_.reap_too(pid_, [this, pid = pid_](ProcessEnd end) {
    if (pid == pid_) ended(end);
  });
  limit_.expires_at(Clock::now() + plan_.limit);
}

void NodeCheck::abandon() {
  if (!is_running()) return;
  kill_group(pid_);
  pid_ = 0;
  on_done_ = nullptr;
  limit_.expires_at(kNever);
}

asio::awaitable<void> NodeCheck::keep_time() {
  for (;;) {
    const auto [re_armed] = co_await limit_.async_wait(kTuple);
    if (re_armed) continue;
    limit_.expires_at(kNever);
    if (!is_running()) continue;
    is_late_ = true;
    kill_group(pid_);
  }
}

void NodeCheck::ended(ProcessEnd end) {
  limit_.expires_at(kNever);
  pid_ = 0;
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
