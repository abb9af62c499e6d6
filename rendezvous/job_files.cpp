#include "rendezvous/job_files.hpp"

#include "base/descriptor.hpp"
#include "base/file.hpp"
#include "base/parse.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <optional>
#include <string_view>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace ddprun {
namespace {

namespace fs = std::filesystem;

constexpr mode_t kDirectoryMode = 0700;
constexpr mode_t kFileMode = 0600;
constexpr std::size_t kBytesMax = 64 << 10;
constexpr std::string_view kSuffix = ".job";

std::string variable(const char* name) {
  const char* const value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe)
  return value == nullptr ? "" : value;
}

std::string one_line(std::string text) {
  std::ranges::replace(text, '\n', ' ');
  return text;
}

/// When the process started, in the kernel's ticks since the machine did: with its number, it is
/// that process and no later one. Empty if there is no such process.
std::string start_of(std::int64_t pid) {
  const auto stat = read_file(fmt::format("/proc/{}/stat", pid), kBytesMax);
  if (!stat) return {};
  // The name stands in parentheses and may hold any byte, so what follows the last one counts.
  const std::size_t name_ends = stat->rfind(')');
  if (name_ends == std::string::npos) return {};
  const auto fields = split(std::string_view(*stat).substr(name_ends + 1), ' ');
  constexpr std::size_t kStartTime = 20;  // field 22 of proc(5), of which two stand before
  if (fields.size() <= kStartTime) return {};
  const bool has_ended = fields[1] == "Z" || fields[1] == "X";  // and nobody has reaped it yet
  return has_ended ? std::string() : std::string(fields[kStartTime]);
}

/// The directory, if it is one and nobody else may write there: what another user made in the
/// temporary directory is a trap, or chance. Fails with kNotFound or kIo.
Result<Descriptor> open_ours(const fs::path& directory) {
  Descriptor opened = open_file(directory.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  struct stat about {};
  if (!opened || ::fstat(opened.get(), &about) != 0) {
    return make_errno_error(errno, fmt::format("cannot open {}", directory.string()));
  }
  constexpr mode_t kOthersMayWrite = S_IWGRP | S_IWOTH;
  if (about.st_uid == ::geteuid() && (about.st_mode & kOthersMayWrite) == 0) return opened;
  return make_error(
      Errc::kIo, fmt::format("{}: is not a directory of this user alone", directory.string()));
}

/// None: it is no job file, or its process has ended.
std::optional<JobFile> read_living(const fs::path& path) {
  const auto text = read_file(path, kBytesMax);
  if (!text) return std::nullopt;
  const auto lines = split(*text, '\n');
  if (lines.size() < 5) return std::nullopt;
  const auto pid = parse_int<std::int64_t>(lines[0]);
  const bool lives = pid && *pid > 0 && !lines[1].empty() && start_of(*pid) == lines[1];
  if (!lives) return std::nullopt;
  return JobFile{
      .job = std::string(lines[2]),
      .address = std::string(lines[3]),
      .command = std::string(lines[4]),
      .pid = *pid};
}

/// What the names of files begin with that are made in this PID namespace.
std::string own_prefix() {
  struct stat about {};
  const bool is_known = ::stat("/proc/self/ns/pid", &about) == 0;
  return fmt::format("{}-", is_known ? about.st_ino : 0);
}

/// Of agents of this PID namespace that were killed.
void remove_remains(const fs::path& directory) {
  const std::string prefix = own_prefix();
  std::error_code error;
  fs::directory_iterator entry(directory, error);
  for (const fs::directory_iterator end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    const bool is_judged = name.starts_with(prefix) && name.ends_with(kSuffix);
    if (is_judged && !read_living(entry->path())) ::unlink(entry->path().c_str());
  }
}

/// Replaces the file `name` there. Another job of this user may remove the directory meanwhile,
/// being the last in it.
Result<void> write_file(
    const fs::path& directory, const std::string& name, const std::string& text) {
  constexpr int kTries = 10;
  const std::string beside = name + ".tmp";
  for (int tries = 0; tries < kTries; ++tries) {
    static_cast<void>(::mkdir(directory.c_str(), kDirectoryMode));  // opening it tells
    auto opened = open_ours(directory);
    if (!opened && opened.error().is(Errc::kNotFound)) continue;
    if (!opened) return opened.error();
    const Descriptor file(::openat(
        opened->get(),
        beside.c_str(),
        O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC,
        kFileMode));
    const bool written =
        file && write_all(file.get(), text) &&
        ::renameat(opened->get(), beside.c_str(), opened->get(), name.c_str()) == 0;
    if (written) return {};
    if (errno != ENOENT) break;
  }
  return make_errno_error(errno, fmt::format("cannot write {}", (directory / name).string()));
}

}  // namespace

fs::path job_files_directory() {
  const std::string runtime = variable("XDG_RUNTIME_DIR");
  std::error_code error;
  const bool is_usable =
      !runtime.empty() && fs::is_directory(runtime, error) && ::access(runtime.c_str(), W_OK) == 0;
  if (is_usable) return fs::path(runtime) / "ddprun";
  const std::string temporary = variable("TMPDIR");
  return fs::path(temporary.empty() ? "/tmp" : temporary) / fmt::format("ddprun-{}", ::geteuid());
}

Result<std::vector<JobFile>> read_job_files(const fs::path& directory) {
  std::vector<JobFile> jobs;
  const auto opened = open_ours(directory);
  if (!opened && opened.error().is(Errc::kNotFound)) return jobs;
  if (!opened) return opened.error();
  std::error_code error;
  fs::directory_iterator entry(directory, error);
  for (const fs::directory_iterator end; !error && entry != end; entry.increment(error)) {
    if (!entry->path().filename().string().ends_with(kSuffix)) continue;
    if (auto job = read_living(entry->path())) jobs.push_back(*std::move(job));
  }
  std::ranges::sort(jobs, {}, &JobFile::pid);
  return jobs;
}

void OwnJobFile::remove() {
  if (path_.empty()) return;
  ::unlink(path_.c_str());
  ::rmdir(path_.parent_path().c_str());  // fails while another job has a file there
}

Result<void> OwnJobFile::write(const fs::path& directory, const JobFile& file) {
  if (!path_.empty() && file == written_) return {};
  const std::string name = fmt::format("{}{}{}", own_prefix(), file.pid, kSuffix);
  const std::string text = fmt::format(
      "{}\n{}\n{}\n{}\n{}\n",
      file.pid,
      start_of(file.pid),
      one_line(file.job),
      one_line(file.address),
      one_line(file.command).substr(0, kBytesMax / 2));
  auto written = write_file(directory, name, text);
  if (!written) return written;
  if (path_.empty()) remove_remains(directory);
  path_ = directory / name;
  written_ = file;
  return {};
}

}  // namespace ddprun
