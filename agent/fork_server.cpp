#include "agent/fork_server.hpp"

#include "agent/_steps_text.hpp"
#include "agent/core/python_command.hpp"
#include "agent/core/worker_environment.hpp"
#include "agent/fork_server_text.hpp"
#include "base/check.hpp"
#include "rendezvous/stream_of.hpp"

#include <boost/asio/buffer.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/write.hpp>
#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <utility>

#include <fcntl.h>
#include <sys/socket.h>

namespace ddprun {
namespace {

using namespace std::chrono_literals;

/// A large package from a slow network file system takes a minute.
constexpr auto kImportsPatience = 5min;
constexpr auto kLastWordsPatience = 1s;
constexpr std::size_t kImportsAnswerBytesMax = 1'000;
constexpr char kCannotStart[] = "cannot start the fork server";

/// Reads the program from stdin, and leaves what follows it there.
constexpr char kBootstrap[] =
    "import os\n"
    "size, text = int(os.read(0, 8)), b''\n"
    "while len(text) < size: text += os.read(0, size - len(text))\n"
    "exec(compile(text, '<ddprun>', 'exec'))\n";

/// The worker's command, as the server is to read it.
std::vector<std::string> worker_command(const LaunchPlan& plan) {
  std::vector<std::string> command = {with_local_rank(plan.command.program, 0)};
  for (const std::string& argument : plan.command.arguments) {
    command.push_back(with_local_rank(argument, 0));
  }
  return command;
}

}  // namespace

Result<std::unique_ptr<ForkServer>> ForkServer::open(
    asio::io_context& context, const LaunchPlan& plan, Callbacks callbacks) {
  DDPRUN_CHECK(!plan.preload.empty());
  if (!plan.command.wrap.empty()) {
    return make_error(Errc::kInvalidArgument, "--wrap runs the workers through another program");
  }
  const auto options = interpreter_options(plan.command);
  if (!options) return make_error(Errc::kInvalidArgument, "the program is no Python script");
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return make_errno_error(errno, kCannotStart);
  }
  Descriptor ours(ends[0]);
  Descriptor theirs(ends[1]);
  // A duplicate: Asio closes what it is given, and the other thread may still use it.
  Descriptor answers(::fcntl(ours.get(), F_DUPFD_CLOEXEC, 0));
  if (!answers) return make_errno_error(errno, kCannotStart);
  return std::unique_ptr<ForkServer>(new ForkServer(
      context,
      plan,
      *options,
      std::move(callbacks),
      {.theirs = std::move(theirs),
       .answers = std::move(answers),
       .channel = std::make_shared<ForkChannel>(std::move(ours))}));
}

ForkServer::ForkServer(
    asio::io_context& context,
    const LaunchPlan& plan,
    int interpreter_options,
    Callbacks callbacks,
    Socket socket)
    : plan_(plan),
      interpreter_options_(interpreter_options),
      callbacks_(std::move(callbacks)),
      theirs_(std::move(socket.theirs)),
      answers_(stream_of(context, std::move(socket.answers))),
      channel_(std::move(socket.channel)),
      limit_(context, kNever) {}

ForkServer::~ForkServer() {
  if (pid_ != 0) ::kill(-pid_, SIGKILL);
}

StartOrder ForkServer::order(std::vector<std::string> environment, std::uint64_t open_files_max) {
  DDPRUN_CHECK(theirs_);
  const std::vector<std::string> command = worker_command(plan_);
  std::vector<std::string> fields = {
      plan_.preload, fmt::to_string(interpreter_options_), std::string(kStepsText)};
  add_command(command, environment, fields);
  text_ = fmt::format("{:08}{}{}", kForkServerText.size(), kForkServerText, fork_message(fields));

  StartOrder order;
  order.request.command.assign(command.begin(), command.begin() + 1 + interpreter_options_);
  order.request.command.insert(order.request.command.end(), {"-c", kBootstrap});
  order.request.environment = std::move(environment);
  order.request.open_files_max = open_files_max;
  order.request.in = theirs_.get();
  order.kept.push_back(std::move(theirs_));
  return order;
}

void ForkServer::started(const Result<pid_t>& pid) {
  if (!pid) return lose(pid.error().detail);
  pid_ = *pid;
}

void ForkServer::ended(ProcessEnd end) {
  pid_ = 0;
  end_ = end;
  // What it said before is read first; a process of its own may keep the socket open.
  if (state_ == State::kImporting) limit_.expires_at(Clock::now() + kLastWordsPatience);
  if (state_ == State::kReady) {
    lose(channel_->is_lost() ? channel_->why_lost() : fmt::format("it {}", end.to_string()));
  }
}

asio::awaitable<void> ForkServer::await_imports() {
  limit_.expires_at(Clock::now() + kImportsPatience);
  const auto answer = co_await ask();
  if (answer == "ready") {
    state_ = State::kReady;
    limit_.expires_at(kNever);
    callbacks_.ready();
    co_return;
  }
  if (answer) co_return lose(*answer);
  // Its end has closed the socket, and will be known in a moment.
  while (state_ == State::kImporting && !end_ && !is_late_) {
    co_await limit_.async_wait(kTuple);
  }
  lose(
      end_ ? fmt::format("it {} during its imports", end_->to_string())
           : fmt::format("its imports take longer than {:g} s", to_seconds(kImportsPatience)));
}

/// One line; none: it has ended, or its time is over.
asio::awaitable<std::optional<std::string>> ForkServer::ask() {
  const auto [unread, written] = co_await asio::async_write(answers_, asio::buffer(text_), kTuple);
  if (unread) co_return std::nullopt;
  std::string answer;
  const auto [error, size] = co_await asio::async_read_until(
      answers_, asio::dynamic_buffer(answer, kImportsAnswerBytesMax), '\n', kTuple);
  if (error) co_return std::nullopt;
  co_return answer.substr(0, size - 1);
}

asio::awaitable<void> ForkServer::keep_time() {
  for (;;) {
    const auto [re_armed] = co_await limit_.async_wait(kTuple);
    if (re_armed) continue;
    is_late_ = true;
    limit_.expires_at(kNever);
    answers_.cancel();
  }
}

std::shared_ptr<ForkChannel> ForkServer::channel() const {
  return state_ == State::kReady ? channel_ : nullptr;
}

void ForkServer::heed_lost_channel() {
  if (state_ != State::kReady || !channel_->is_lost()) return;
  lose(channel_->why_lost());
}

void ForkServer::lose(const std::string& why) {
  if (state_ == State::kLost) return;
  state_ = State::kLost;
  if (pid_ != 0) ::kill(-pid_, SIGKILL);
  callbacks_.lost(why);
}

}  // namespace ddprun
