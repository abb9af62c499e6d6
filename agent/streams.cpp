#include "agent/streams.hpp"

#include "agent/console.hpp"
#include "agent/core/prefix.hpp"
#include "agent/core/tail.hpp"
#include "agent/stream_pump.hpp"
#include "base/environment.hpp"
#include "base/file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include <sys/stat.h>
#include <unistd.h>

namespace ddprun {
namespace {

using namespace std::chrono_literals;

constexpr int kOut = 1;
constexpr int kErr = 2;
/// How long a report waits for the worker's last output.
constexpr Duration kDrainPatience = 200ms;
/// At the end, for what was read from the pipes until the deadline.
constexpr Duration kDiskPatience = 500ms;

/// Whether lines of several writers can mix there: not in /dev/null. A terminal must stay the
/// worker's own stream, since programs check for one.
bool may_mix(int descriptor) {
  struct stat about {};
  return ::fstat(descriptor, &about) == 0 && !S_ISCHR(about.st_mode);
}

}  // namespace

std::string last_bytes(int file, std::size_t bytes_max) {
  struct stat about {};
  if (::fstat(file, &about) != 0) return {};
  std::string text(bytes_max, '\0');
  const off_t from = std::max<off_t>(0, about.st_size - static_cast<off_t>(text.size()));
  const ssize_t got = ::pread(file, text.data(), text.size(), from);
  text.resize(got < 0 ? 0 : static_cast<std::size_t>(got));
  return text;
}

Result<std::unique_ptr<Streams>> Streams::open(
    const LaunchPlan& plan, LaunchDirectory directory, Consoles& consoles) {
  std::unique_ptr<Streams> streams(new Streams(plan, consoles, std::move(directory)));
  auto pump = StreamPump::create(streams->disk_is_reported_);
  if (!pump) return pump.error();
  streams->pump_ = *std::move(pump);
  return streams;
}

Streams::Streams(const LaunchPlan& plan, Consoles& consoles, LaunchDirectory directory)
    : plan_(plan.streams),
      role_(plan.role),
      host_(host_name()),
      consoles_(consoles),
      directory_(std::move(directory)),
      shares_stdout_(plan.workers > 1 && plan.streams.console_ranks.size() != 1),
      may_outlive_us_(plan.leftovers.mode == LeftoverMode::kKeep) {
  if (plan_.prefix_template.empty()) plan_.prefix_template = kDefaultPrefixTemplate;
}

Streams::~Streams() {
  if (pump_) finish(Clock::now());
}

Result<StreamsOrder> Streams::order(const WorkerId& worker) {
  forget_before(worker.attempt - 1);
  StreamsOrder order;
  if (!directory_.path.empty()) order.directory = directory_of(worker);
  auto out = order_one(worker, kOut);
  if (!out) return out.error();
  auto err = order_one(worker, kErr);
  if (!err) return err.error();
  order.out = *std::move(out);
  order.err = *std::move(err);
  order.pump = pump_;
  order.has_own_pump = order.out.is_teed() || order.err.is_teed();
  if (order.has_own_pump) {
    auto pump = pump_for(worker);
    if (!pump) return pump.error();
    order.pump = *std::move(pump);
  }
  return order;
}

/// What the worker gets as descriptor `number`.
Result<StreamOrder> Streams::order_one(const WorkerId& worker, int number) {
  const bool is_out = number == kOut;
  const StreamMode mode = is_out ? modes(worker.local_rank).out : modes(worker.local_rank).err;
  const bool shown = reaches_console(worker.local_rank);
  StreamOrder order;
  order.piped.worker = worker;
  order.piped.keeps_tail = !is_out;
  if (mode == StreamMode::kInherit) {
    if (!shown && (is_out || may_outlive_us_)) {
      order.log = "/dev/null";
      return order;
    }
    const bool has_ours = is_out ? may_outlive_us_ || !(shares_stdout_ && may_mix(kOut))
                                 : has_own_stderr(worker.local_rank);
    order.is_piped = !has_ours;
    if (shown) order.piped.use = ConsoleUse::kPassed;
  } else {
    order.log = directory_of(worker) / (is_out ? "stdout.log" : "stderr.log");
    has_logs_ = true;
    (is_out ? logs_[worker].out : logs_[worker].err) = order.log;
    order.is_piped = mode != StreamMode::kFile;
    if (shown) order.piped.use = ConsoleUse::kPrefixed;
    order.piped.prefix = expand_prefix(
        plan_.prefix_template,
        {.role = role_, .rank = worker.rank, .local_rank = worker.local_rank, .host = host_});
    order.piped.filters = is_out ? plan_.duplicate_out : plan_.duplicate_err;
    if (!order.piped.filters.empty()) {
      const char* const name = is_out ? "filtered_stdout.log" : "filtered_stderr.log";
      order.filtered = directory_of(worker).parent_path() / name;
    }
  }
  if (order.is_piped) {
    if (const auto shows = show_on(order.piped, number); !shows) return shows.error();
  }
  return order;
}

Result<void> Streams::show_on(PipedStream& piped, int number) {
  if (piped.use == ConsoleUse::kHidden) return {};
  auto console = consoles_.of(number);
  if (!console) return console.error();
  piped.console = *std::move(console);
  return {};
}

Result<std::shared_ptr<StreamPump>> Streams::pump_for(const WorkerId& worker) {
  auto pump = StreamPump::create(disk_is_reported_);
  if (pump) own_pumps_.push_back({.worker = worker, .pump = *pump});
  return pump;
}

const std::shared_ptr<StreamPump>& Streams::pump_of(const WorkerId& worker) const {
  const auto own = std::ranges::find(own_pumps_, worker, &OwnPump::worker);
  return own == own_pumps_.end() ? pump_ : own->pump;
}

void Streams::forget_before(int attempt) {
  pump_->forget_before(attempt);
  std::erase_if(logs_, [&](const auto& log) { return log.first.attempt < attempt; });
  std::erase_if(own_pumps_, [&](const OwnPump& own) {
    return own.worker.attempt < attempt && own.pump->wait_until_finished(Clock::now());
  });
}

std::string Streams::error_file_of(const WorkerId& worker) const {
  if (directory_.path.empty()) return {};
  return directory_of(worker) / "error.json";
}

LastLines Streams::last_lines(const WorkerId& worker, int lines_max) const {
  const auto logs = logs_.find(worker);
  const bool is_file = modes(worker.local_rank).err == StreamMode::kFile;
  if (is_file && logs != logs_.end()) {
    return [path = logs->second.err, lines_max] {
      const auto file = open_regular(path);  // a worker may have replaced the file
      return failure_lines_of(file ? last_bytes(file->get(), kTailBytes) : "", lines_max);
    };
  }
  return [pump = pump_of(worker), worker, lines_max] {
    return failure_lines_of(pump->tail(worker, Clock::now() + kDrainPatience), lines_max);
  };
}

bool Streams::shows_stderr(int local_rank) const {
  return modes(local_rank).err != StreamMode::kFile && reaches_console(local_rank);
}

bool Streams::has_own_stderr(int local_rank) const {
  // A process that outlives ddprun would get SIGPIPE when it writes to ddprun's pipe.
  const bool is_direct = may_outlive_us_ || ::isatty(kErr) == 1;
  const bool inherits = modes(local_rank).err == StreamMode::kInherit;
  return is_direct && inherits && reaches_console(local_rank);
}

std::string Streams::log_of(const WorkerId& worker) const {
  const auto logs = logs_.find(worker);
  if (logs == logs_.end()) return {};
  const auto& [out, err] = logs->second;
  if (out.empty() || err.empty()) return out + err;
  return directory_of(worker);
}

void Streams::finish(TimePoint deadline) {
  pump_->finish_by(deadline);
  for (const OwnPump& own : own_pumps_) {
    own.pump->finish_by(deadline);
  }
  const TimePoint patience = deadline + kDiskPatience;
  static_cast<void>(pump_->wait_until_finished(patience));
  for (const OwnPump& own : own_pumps_) {
    static_cast<void>(own.pump->wait_until_finished(patience));
  }
}

LaunchDirectory Streams::removable(bool succeeded) const {
  return succeeded && !has_logs_ ? directory_ : LaunchDirectory();
}

StreamsPlan::Modes Streams::modes(int local_rank) const {
  return plan_.no_files ? StreamsPlan::Modes{} : plan_.modes(local_rank);
}

std::filesystem::path Streams::directory_of(const WorkerId& worker) const {
  return directory_.path / fmt::format("attempt_{}", worker.attempt) /
         std::to_string(worker.local_rank);
}

bool Streams::reaches_console(int local_rank) const {
  return plan_.console_ranks.empty() || plan_.console_ranks.contains(local_rank);
}

}  // namespace ddprun
