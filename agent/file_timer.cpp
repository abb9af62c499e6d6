#include "agent/file_timer.hpp"

#include "agent/descendants.hpp"
#include "base/descriptor.hpp"
#include "rendezvous/stream_of.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <optional>
#include <utility>

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

namespace ddprun {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kLineBytesMax = 4096;  // PIPE_BUF: a write of more is not whole anyway
constexpr mode_t kPipeMode = 0600;

double wall_s() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

std::string fresh_path() {
  const char* const temporary = std::getenv("TMPDIR");  // NOLINT(concurrency-mt-unsafe)
  const std::string base = temporary != nullptr && *temporary != '\0' ? temporary : "/tmp";
  return fmt::format("{}/ddprun_timer_{}", base, ::getpid());
}

/// None if the line is not what torch's client writes.
std::optional<FileTimerRequest> parse_request(std::string_view line) {
  const Json json = Json::parse(line, nullptr, false);
  if (!json.is_object()) return std::nullopt;
  const auto pid = json.find("pid");
  const auto scope = json.find("scope_id");
  const auto expires = json.find("expiration_time");
  const auto signal = json.find("signal");
  const bool is_whole = pid != json.end() && pid->is_number_integer() && scope != json.end() &&
                        scope->is_string() && expires != json.end() && expires->is_number() &&
                        signal != json.end() && signal->is_number_integer();
  if (!is_whole) return std::nullopt;
  return FileTimerRequest{
      .pid = pid->get<int>(),
      .scope = scope->get<std::string>(),
      .expires_s = expires->get<double>(),
      .signal = signal->get<int>()};
}

bool descends_from_us(int pid) {
  const auto ours = descendants_of(::getpid(), Search::kThorough);
  return std::ranges::find(ours, pid) != ours.end();
}

}  // namespace

Result<std::unique_ptr<FileTimer>> FileTimer::open(
    asio::io_context& context, std::string path, OnExpired on_expired) {
  if (path.empty()) path = fresh_path();
  // Opened for both, so that reading never ends.
  const bool made = ::mkfifo(path.c_str(), kPipeMode) == 0;
  Descriptor fifo;
  if (made) fifo = open_file(path.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC);
  if (!fifo) {
    const Error error = make_errno_error(errno, fmt::format("cannot make the FIFO {}", path));
    if (made) ::unlink(path.c_str());
    return make_error(
        Errc::kInvalidArgument,
        error.detail + "; set TORCHELASTIC_TIMER_FILE to a path that does not exist yet");
  }
  return std::unique_ptr<FileTimer>(
      new FileTimer(context, std::move(path), std::move(fifo), std::move(on_expired)));
}

FileTimer::FileTimer(
    asio::io_context& context, std::string path, Descriptor fifo, OnExpired on_expired)
    : path_(std::move(path)),
      fifo_(stream_of(context, std::move(fifo))),
      on_expired_(std::move(on_expired)),
      timer_(context, kNever) {}

FileTimer::~FileTimer() {
  ::unlink(path_.c_str());
}

asio::awaitable<void> FileTimer::serve() {
  std::string pending;
  std::string bytes(kLineBytesMax, '\0');
  for (;;) {
    const auto [error, got] = co_await fifo_.async_read_some(asio::buffer(bytes), kTuple);
    if (error) co_return;
    pending.append(bytes, 0, got);
    std::size_t end = 0;
    while ((end = pending.find('\n')) != std::string::npos) {
      take(std::string_view(pending).substr(0, end));
      pending.erase(0, end + 1);
    }
    if (pending.size() > kLineBytesMax) pending.clear();  // not a line of torch's client
    set_timer();
  }
}

asio::awaitable<void> FileTimer::keep_time() {
  for (;;) {
    const auto [re_armed] = co_await timer_.async_wait(kTuple);
    if (re_armed) continue;
    for (const FileTimerRequest& expired : timers_.take_expired(wall_s())) {
      if (!descends_from_us(expired.pid)) continue;
      on_expired_(expired);
      if (expired.signal > 0 && expired.signal < NSIG) ::kill(expired.pid, expired.signal);
    }
    set_timer();
  }
}

void FileTimer::take(std::string_view line) {
  const auto request = parse_request(line);
  if (request) return timers_.apply(*request);
  spdlog::warn("{}: not a timer request: {}", path_, line.substr(0, 100));
}

void FileTimer::set_timer() {
  const auto next = timers_.next_s();
  if (!next) {
    timer_.expires_at(kNever);
    return;
  }
  constexpr double kYear = 365.0 * 24 * 3600;
  const double left = std::clamp(*next - wall_s(), 0.0, kYear);
  timer_.expires_at(
      Clock::now() + std::chrono::duration_cast<Duration>(std::chrono::duration<double>(left)));
}

}  // namespace ddprun
