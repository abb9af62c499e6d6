#include "agent/journal.hpp"

#include "base/descriptor.hpp"
#include "base/log.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cerrno>
#include <chrono>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

namespace ddprun {
namespace {

using Json = nlohmann::ordered_json;

constexpr mode_t kJournalMode = 0644;

/// `at` as wall-clock seconds, for display only: the wall clock may jump.
double wall_seconds(TimePoint at) {
  const auto wall = std::chrono::system_clock::now().time_since_epoch() - (Clock::now() - at);
  return std::chrono::duration<double>(wall).count();
}

std::string to_line(const JournalEntry& entry, std::int64_t sequence) {
  Json json;
  json["sequence"] = sequence;
  json["time_s"] = wall_seconds(entry.at);
  json["boottime_ns"] = entry.at.time_since_epoch().count();
  json["term"] = entry.round.term;
  json["round"] = entry.round.number;
  json["attempt"] = entry.attempt;
  json["event"] = entry.event;
  if (entry.rank) json["rank"] = *entry.rank;
  if (entry.local_rank) json["local_rank"] = *entry.local_rank;
  if (entry.pid) json["pid"] = *entry.pid;
  if (entry.end && entry.end->signal != 0) json["ended_by_signal"] = entry.end->signal;
  if (entry.end && entry.end->signal == 0) json["exit_code"] = entry.end->code;
  if (entry.signal) json["signal"] = *entry.signal;
  if (entry.exit_status) json["exit_status"] = *entry.exit_status;
  if (!entry.host.empty()) json["host"] = entry.host;
  if (!entry.lost_nodes.empty()) json["lost_nodes"] = entry.lost_nodes;
  if (!entry.python.empty()) json["python"] = entry.python;
  if (!entry.text.empty()) json["text"] = entry.text;
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

/// Once the writer has started, only its thread uses this.
struct Journal::File {
  std::filesystem::path path;  // empty: none
  Descriptor descriptor;
  bool broken = false;

  void open() {
    descriptor =
        Descriptor(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, kJournalMode));
    if (!descriptor) give_up();
  }

  void append(const std::string& line) {
    if (!broken && !write_all(descriptor.get(), line)) give_up();
  }

  void give_up() {
    broken = true;
    const Error error = make_errno_error(errno, fmt::format("cannot write {}", path.string()));
    ddprun::report("{}; no more events are recorded", error.detail);
  }
};

Result<std::unique_ptr<Journal>> Journal::open(std::filesystem::path path) {
  auto writer = WriterThread::start("cannot start a thread for events and reports");
  if (!writer) return writer.error();
  auto file = std::make_shared<File>();
  file->path = std::move(path);
  // Opened before there are workers: later their pipes may have taken the last free descriptor.
  if (!file->path.empty()) file->open();
  return std::unique_ptr<Journal>(new Journal(std::move(file), *std::move(writer)));
}

Journal::Journal(std::shared_ptr<File> file, std::unique_ptr<WriterThread> writer)
    : file_(std::move(file)), writer_(std::move(writer)) {}

Journal::~Journal() = default;

void Journal::record(const JournalEntry& entry) {
  const std::int64_t sequence = ++sequence_;
  if (file_->path.empty()) return;
  writer_->post([file = file_, entry, sequence] { file->append(to_line(entry, sequence)); });
}

void Journal::report(std::string text) {
  writer_->post([text = std::move(text)] { ddprun::report("{}", text); });
}

void Journal::report_lines(std::string lines) {
  writer_->post([lines = std::move(lines)] { ddprun::report_lines(lines); });
}

bool Journal::flush(TimePoint deadline) {
  return writer_->flush(deadline);
}

}  // namespace ddprun
