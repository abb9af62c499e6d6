#include "agent/streams.hpp"

#include "agent/console.hpp"
#include "agent/core/file_name.hpp"
#include "agent/core/prefix.hpp"
#include "agent/core/tail.hpp"
#include "agent/stream_pump.hpp"
#include "base/environment.hpp"
#include "base/file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace ddprun {
namespace {

using namespace std::chrono_literals;

constexpr int kOut = 1;
constexpr int kErr = 2;
constexpr mode_t kDirectoryMode = 0777;  // less the umask, as for every program
constexpr mode_t kFileMode = 0666;
/// The capacity of a worker's pipe; the most that an ordinary user may ask for.
constexpr int kPipeBytes = 1024 * 1024;
/// How long a report waits for the worker's last output.
constexpr Duration kDrainPatience = 200ms;

/// Why a directory that was asked for cannot be written: the value is wrong if another try gives
/// the same result, else the machine is the cause.
Error directory_error(int errno_value, const std::filesystem::path& directory) {
  Error error = make_errno_error(
      errno_value, fmt::format("cannot write the log directory {}", directory.string()));
  const bool is_value = errno_value == EACCES || errno_value == EPERM || errno_value == EROFS ||
                        errno_value == ENOTDIR || errno_value == EEXIST ||
                        errno_value == ENAMETOOLONG || errno_value == ENOENT;
  if (!is_value) return error;
  return make_error(
      Errc::kInvalidArgument, error.detail + "; give a directory that you may write as --log-dir");
}

Result<void> make_directories(const std::filesystem::path& directory) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) return directory_error(error.value(), directory);
  return {};
}

/// A new directory whose name begins with `beginning`, with the permissions of the umask.
Result<std::filesystem::path> make_unique_directory(const std::filesystem::path& beginning) {
  std::string name = beginning.string() + "XXXXXX";
  if (::mkdtemp(name.data()) == nullptr) {
    return directory_error(errno, beginning.parent_path());
  }
  const mode_t mask = ::umask(0);  // can only be read by setting it; no thread runs yet
  ::umask(mask);
  ::chmod(name.c_str(), kDirectoryMode & ~mask);  // mkdtemp's 0700 would hide logs from the group
  return name;
}

Result<Descriptor> open_log(const std::filesystem::path& path) {
  // O_APPEND, so that children of the worker and a truncating log rotation do no harm.
  Descriptor log(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, kFileMode));
  if (!log) return make_errno_error(errno, fmt::format("cannot write the log {}", path.string()));
  return log;
}

Result<Pipe> make_pipe_of(int bytes) {
  auto pipe = make_pipe();
  if (!pipe) return pipe;
  // Only our end: the worker's must block when it is full.
  ::fcntl(pipe->read_end.get(), F_SETFL, O_NONBLOCK);
  // Fails if the user has too many large pipes; a small one is slower, not wrong.
  if (bytes > 0) ::fcntl(pipe->read_end.get(), F_SETPIPE_SZ, bytes);
  return pipe;
}

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

Result<std::unique_ptr<Streams>> Streams::open(const LaunchPlan& plan, Consoles& consoles) {
  auto pump = StreamPump::create(consoles.wake());
  if (!pump) return pump.error();
  std::filesystem::path directory;
  const bool is_ours = !plan.streams.log_directory;
  if (!plan.streams.no_files) {
    std::filesystem::path base = plan.streams.log_directory.value_or("");
    if (is_ours) {
      const char* const temporary = std::getenv("TMPDIR");  // NOLINT(concurrency-mt-unsafe)
      base = temporary != nullptr && *temporary != '\0' ? temporary : "/tmp";
      auto made = make_unique_directory(base / "torchelastic_");
      if (!made) return with_context("$TMPDIR", made.error());
      base = *made;
    } else if (auto const made = make_directories(base); !made) {
      return made.error();
    }
    auto made =
        make_unique_directory(std::filesystem::absolute(base) / (as_file_name(plan.run_id) + "_"));
    if (!made) return made.error();
    directory = std::move(*made);
  }
  std::unique_ptr<Streams> streams(new Streams(plan, consoles, std::move(directory), is_ours));
  streams->pump_ = std::move(*pump);
  return streams;
}

Streams::Streams(
    const LaunchPlan& plan, Consoles& consoles, std::filesystem::path directory, bool is_ours)
    : plan_(plan.streams),
      role_(plan.role),
      host_(host_name()),
      consoles_(consoles),
      directory_(std::move(directory)),
      shares_stdout_(plan.workers > 1 && plan.streams.console_ranks.size() != 1),
      may_outlive_us_(plan.leftovers.mode == LeftoverMode::kKeep),
      is_ours_(is_ours && !directory_.empty()) {
  if (plan_.prefix_template.empty()) plan_.prefix_template = kDefaultPrefixTemplate;
}

Streams::~Streams() {
  pump_->finish(Clock::now());
}

Result<WorkerStreams> Streams::attach(const WorkerId& worker) {
  pump_->forget_before(worker.attempt - 1);
  std::erase_if(logs_, [&](const auto& log) { return log.first.attempt < worker.attempt - 1; });
  WorkerStreams streams;
  if (!directory_.empty()) {
    const auto directory = directory_of(worker);
    if (auto const made = make_directories(directory); !made) return made.error();
    streams.error_file = directory / "error.json";
  }
  auto out = attach_one(worker, kOut);
  if (!out) return out.error();
  auto err = attach_one(worker, kErr);
  if (!err) return err.error();
  streams.out = std::move(*out);
  streams.err = std::move(*err);
  return streams;
}

/// What the worker gets as descriptor `number`; empty: our own.
Result<Descriptor> Streams::attach_one(const WorkerId& worker, int number) {
  const bool is_out = number == kOut;
  const StreamMode mode = is_out ? modes(worker.local_rank).out : modes(worker.local_rank).err;
  const bool shown = reaches_console(worker.local_rank);
  PipedStream piped;
  piped.worker = worker;
  piped.keeps_tail = !is_out;
  if (mode == StreamMode::kInherit) {
    if (!shown && (is_out || may_outlive_us_)) return open_log("/dev/null");
    const bool has_ours = is_out ? may_outlive_us_ || !(shares_stdout_ && may_mix(kOut))
                                 : has_own_stderr(worker.local_rank);
    if (has_ours) return Descriptor();
    if (shown) piped.use = ConsoleUse::kPassed;
    return attach_pipe(std::move(piped), number);
  }

  const auto path = directory_of(worker) / (is_out ? "stdout.log" : "stderr.log");
  auto log = open_log(path);
  if (!log) return log.error();
  has_logs_ = true;
  (is_out ? logs_[worker].out : logs_[worker].err) = path;
  if (mode == StreamMode::kFile) return std::move(*log);

  piped.log = std::move(*log);
  piped.log_path = path;
  if (shown) piped.use = ConsoleUse::kPrefixed;
  piped.prefix = expand_prefix(
      plan_.prefix_template,
      {.role = role_, .rank = worker.rank, .local_rank = worker.local_rank, .host = host_});
  piped.filters = is_out ? plan_.duplicate_out : plan_.duplicate_err;
  if (!piped.filters.empty()) {
    const char* const name = is_out ? "filtered_stdout.log" : "filtered_stderr.log";
    auto filtered = open_log(directory_of(worker).parent_path() / name);
    if (!filtered) return filtered.error();
    piped.filtered = std::move(*filtered);
  }
  return attach_pipe(std::move(piped), number);
}

/// The end of a new pipe that the worker gets as descriptor `number`.
Result<Descriptor> Streams::attach_pipe(PipedStream piped, int number) {
  if (piped.use != ConsoleUse::kHidden) {
    auto console = consoles_.of(number);
    if (!console) return console.error();
    piped.console = *std::move(console);
  }
  auto pipe = make_pipe_of(piped.log ? kPipeBytes : 0);
  if (!pipe) return pipe.error();
  piped.pipe = std::move(pipe->read_end);
  if (auto const added = pump_->add(std::move(piped)); !added) return added.error();
  return std::move(pipe->write_end);
}

LastLines Streams::last_lines(const WorkerId& worker, int lines_max) const {
  const auto logs = logs_.find(worker);
  const bool is_file = modes(worker.local_rank).err == StreamMode::kFile;
  if (is_file && logs != logs_.end()) {
    return [path = logs->second.err, lines_max] {
      const auto file = open_regular(path);  // a worker may have replaced the file
      return last_lines_of(file ? last_bytes(file->get(), kTailBytes) : "", lines_max);
    };
  }
  return [pump = pump_, worker, lines_max] {
    return last_lines_of(pump->tail(worker, Clock::now() + kDrainPatience), lines_max);
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
  pump_->finish(deadline);
}

void Streams::tidy_up(bool succeeded) {
  if (!succeeded || !is_ours_ || has_logs_) return;
  std::error_code ignored;  // leaving it under $TMPDIR is not a failure of the job
  std::filesystem::remove_all(directory_.parent_path(), ignored);
}

StreamsPlan::Modes Streams::modes(int local_rank) const {
  return plan_.no_files ? StreamsPlan::Modes{} : plan_.modes(local_rank);
}

std::filesystem::path Streams::directory_of(const WorkerId& worker) const {
  return directory_ / fmt::format("attempt_{}", worker.attempt) / std::to_string(worker.local_rank);
}

bool Streams::reaches_console(int local_rank) const {
  return plan_.console_ranks.empty() || plan_.console_ranks.contains(local_rank);
}

}  // namespace ddprun
