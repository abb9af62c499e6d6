#include "agent/journal.hpp"

#include "base/descriptor.hpp"
#include "base/log.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cerrno>
#include <chrono>
#include <future>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

namespace ddprun {
namespace {

using Json = nlohmann::ordered_json;

constexpr mode_t kJournalMode = 0644;
/// How long a report waits for a disk.
constexpr auto kReadPatience = std::chrono::seconds(2);

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
  if (entry.end && entry.end->out_of_memory) json["out_of_memory"] = true;
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

/// For the disk's thread.
struct Journal::File {
  explicit File(std::filesystem::path where) : path(std::move(where)) {}

  const std::filesystem::path path;  // empty: none
  Descriptor descriptor;
  bool broken = false;

  void open() {
    descriptor = open_file(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, kJournalMode);
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
  constexpr std::string_view kCannotStart = "cannot start a thread for events and reports";
  auto disk = WriterThread::start(kCannotStart);
  if (!disk) return disk.error();
  auto reports = WriterThread::start(kCannotStart);
  if (!reports) return reports.error();
  auto file = std::make_shared<File>(std::move(path));
  // Before there are workers: later their pipes may have taken the last free descriptor.
  if (!file->path.empty()) (*disk)->post([file] { file->open(); });
  return std::unique_ptr<Journal>(
      new Journal(std::move(file), *std::move(disk), *std::move(reports)));
}

Journal::Journal(
    std::shared_ptr<File> file,
    std::unique_ptr<WriterThread> disk,
    std::unique_ptr<WriterThread> reports)
    : file_(std::move(file)), disk_(std::move(disk)), reports_(std::move(reports)) {}

Journal::~Journal() = default;

void Journal::record(const JournalEntry& entry) {
  const std::int64_t sequence = ++sequence_;
  if (file_->path.empty()) return;
  disk_->post([file = file_, entry, sequence] { file->append(to_line(entry, sequence)); });
}

void Journal::report(std::string text) {
  reports_->post([text = std::move(text)] { ddprun::report("{}", text); });
}

void Journal::report_lines(std::string lines) {
  reports_->post([lines = std::move(lines)] { ddprun::report_lines(lines); });
}

void Journal::report_read(std::function<std::string()> read, std::function<std::string()> without) {
  // Posted at once, so that what is read was not changed by later work.
  const auto task = std::make_shared<std::packaged_task<std::string()>>(std::move(read));
  const auto answer = task->get_future().share();
  const auto until = Clock::now() + kReadPatience;
  disk_->post([task] { (*task)(); });
  reports_->post([task, answer, until, without = std::move(without)] {
    const bool has_come = answer.wait_for(until - Clock::now()) == std::future_status::ready;
    ddprun::report_lines(has_come ? answer.get() : without());
  });
}

bool Journal::flush(TimePoint deadline) {
  const bool is_reported = reports_->flush(deadline);
  return disk_->flush(deadline) && is_reported;
}

}  // namespace ddprun
