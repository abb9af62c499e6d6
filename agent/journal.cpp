#include "agent/journal.hpp"

#include <boost/asio/post.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

namespace ddprun {
namespace {

using Json = nlohmann::ordered_json;

constexpr mode_t kMode = 0644;
constexpr int kGeneration = 1;  // one node has one leader for ever

bool write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

/// `at` as wall-clock seconds. Only for people: the wall clock may jump.
double wall_seconds(TimePoint at) {
  const auto wall = std::chrono::system_clock::now().time_since_epoch() - (Clock::now() - at);
  return std::chrono::duration<double>(wall).count();
}

std::string to_line(const JournalEntry& entry, std::int64_t sequence) {
  Json json;
  json["sequence"] = sequence;
  json["time_s"] = wall_seconds(entry.at);
  json["boottime_ns"] = entry.at.time_since_epoch().count();
  json["generation"] = kGeneration;
  json["round"] = entry.attempt + 1;
  json["attempt"] = entry.attempt;
  json["event"] = entry.event;
  if (entry.rank) json["rank"] = *entry.rank;
  if (entry.local_rank) json["local_rank"] = *entry.local_rank;
  if (entry.pid) json["pid"] = *entry.pid;
  if (entry.end && entry.end->signal != 0) json["ended_by_signal"] = entry.end->signal;
  if (entry.end && entry.end->signal == 0) json["exit_code"] = entry.end->code;
  if (entry.signal) json["signal"] = *entry.signal;
  if (entry.exit_status) json["exit_status"] = *entry.exit_status;
  if (!entry.text.empty()) json["text"] = entry.text;
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

Journal::Journal(std::filesystem::path path) : path_(std::move(path)) {}

Journal::~Journal() {
  finish();
}

void Journal::record(const JournalEntry& entry) {
  const std::int64_t sequence = ++sequence_;
  if (path_.empty()) return;
  post([this, entry, sequence] { append(to_line(entry, sequence)); });
}

void Journal::tell(std::function<std::string()> compose) {
  post([compose = std::move(compose)] {
    // Nobody is left to be told that stderr is gone.
    static_cast<void>(write_all(STDERR_FILENO, compose()));
  });
}

void Journal::finish() {
  if (writer_) writer_->join();
  writer_.reset();
}

void Journal::post(std::function<void()> task) {
  if (!writer_) writer_.emplace(1);
  boost::asio::post(*writer_, std::move(task));
}

void Journal::append(const std::string& line) {
  if (broken_) return;
  if (!file_) {
    file_ = Descriptor(::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, kMode));
  }
  if (file_ && write_all(file_.get(), line)) return;
  broken_ = true;
  const std::string warning = fmt::format(
      "ddprun: cannot write {}: {}; no more events are recorded\n",
      path_.string(),
      std::strerror(errno));
  static_cast<void>(write_all(STDERR_FILENO, warning));
}

}  // namespace ddprun
