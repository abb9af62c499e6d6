#include "agent/proc.hpp"

#include "base/parse.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <span>

#include <dirent.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace ddprun {
namespace {

/// The path of a file of /proc, composed in place.
class Path {
 public:
  template <class... Args>
  explicit Path(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to_n(text_.data(), text_.size() - 1, format, std::forward<Args>(args)...);
  }

  const char* c_str() const { return text_.data(); }

 private:
  std::array<char, 64> text_{};  // longer than any of them
};

/// As read(2), and again if a signal interrupts it. 0 also for an error.
std::size_t read_some(const Descriptor& file, std::span<char> into) {
  ssize_t got = 0;
  do {
    got = ::read(file.get(), into.data(), into.size());
  } while (got < 0 && errno == EINTR);
  return static_cast<std::size_t>(std::max<ssize_t>(got, 0));
}

/// What a file contains, as far as it fits. Empty if it cannot be read.
std::string_view read_into(std::span<char> buffer, const Path& path) {
  const Descriptor file = open_file(path.c_str(), O_RDONLY | O_CLOEXEC);
  std::size_t size = 0;
  while (file && size < buffer.size()) {
    const std::size_t got = read_some(file, buffer.subspan(size));
    if (got == 0) break;
    size += got;
  }
  return {buffer.data(), size};
}

/// Takes `skipped` words and one more off `text`, and yields the last one.
std::string_view take_word(std::string_view& text, int skipped = 0) {
  std::string_view word;
  for (int left = skipped; left >= 0; --left) {
    text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
    word = text.substr(0, text.find(' '));
    text.remove_prefix(word.size());
  }
  return word;
}

std::optional<ProcStat> read_stat(const Path& path) {
  std::array<char, 1024> buffer{};
  std::string_view text = read_into(buffer, path);
  // The name stands in parentheses and may hold any byte. Then: state, parent, group, session,
  // terminal, its group, flags, ten numbers, threads.
  const std::size_t end_of_name = text.rfind(')');
  if (end_of_name == std::string_view::npos) return std::nullopt;
  text.remove_prefix(end_of_name + 1);
  const std::string_view state = take_word(text);
  const auto parent = parse_int<pid_t>(take_word(text));
  constexpr unsigned kExiting = 0x4;  // PF_EXITING of linux/sched.h
  const unsigned flags = parse_int<unsigned>(take_word(text, 4)).value_or(0);
  const int threads = parse_int<int>(take_word(text, 10)).value_or(1);
  const bool is_first_thread_ended = state == "Z" || state == "X";
  return ProcStat{
      .parent = parent.value_or(0),
      .is_ended = is_first_thread_ended && threads <= 1,
      .is_ending = is_first_thread_ended || (flags & kExiting) != 0,
      .is_uninterruptible = state == "D"};
}

}  // namespace

ProcNumbers::ProcNumbers(const char* directory)
    : directory_(open_file(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {}

std::optional<pid_t> ProcNumbers::next() {
  for (;;) {
    const std::string_view name = next_name();
    if (name.empty()) return std::nullopt;
    if (const auto number = parse_int<pid_t>(name)) return number;
  }
}

std::string_view ProcNumbers::next_name() {
  if (at_ == size_) {
    // Not readdir, whose buffer is on the heap.
    const long got = ::syscall(SYS_getdents64, directory_.get(), entries_.data(), entries_.size());
    if (got <= 0) return {};
    size_ = static_cast<std::size_t>(got);
    at_ = 0;
  }
  const char* const entry = entries_.data() + at_;
  unsigned short length = 0;
  std::memcpy(&length, entry + offsetof(dirent64, d_reclen), sizeof length);
  at_ += length;
  return entry + offsetof(dirent64, d_name);
}

std::optional<ProcStat> stat_of(pid_t pid) {
  return read_stat(Path("/proc/{}/stat", pid));
}

bool is_ending(pid_t pid) {
  const auto stat = stat_of(pid);
  return stat && stat->is_ending;
}

std::optional<KernelName> uninterruptible_wait(pid_t pid) {
  ProcNumbers threads(Path("/proc/{}/task", pid).c_str());
  while (const auto thread = threads.next()) {
    const auto stat = read_stat(Path("/proc/{}/task/{}/stat", pid, *thread));
    if (stat && stat->is_uninterruptible) return wait_channel(*thread);
  }
  return std::nullopt;
}

KernelName wait_channel(pid_t pid) {
  KernelName name{};
  const auto text = read_into(std::span(name).first(name.size() - 1), Path("/proc/{}/wchan", pid));
  return text.empty() || text == "0" ? KernelName{"?"} : name;
}

bool lists_children() {
  const pid_t self = ::getpid();
  return ::access(Path("/proc/{}/task/{}/children", self, self).c_str(), R_OK) == 0;
}

ProcChildren::ProcChildren(pid_t parent)
    : parent_(parent), threads_(Path("/proc/{}/task", parent).c_str()) {}

std::optional<pid_t> ProcChildren::next() {
  pid_t number = 0;  // each is followed by a blank
  for (;;) {
    if (at_ == size_ && !read_more()) return std::nullopt;
    const char byte = text_.at(at_++);
    if (byte >= '0' && byte <= '9') {
      number = number * 10 + (byte - '0');
    } else if (number > 0) {
      return number;
    }
  }
}

bool ProcChildren::read_more() {
  for (;;) {
    at_ = 0;
    size_ = list_ ? read_some(list_, text_) : 0;
    if (size_ > 0) return true;
    const auto thread = threads_.next();
    if (!thread) return false;
    list_ = open_file(
        Path("/proc/{}/task/{}/children", parent_, *thread).c_str(), O_RDONLY | O_CLOEXEC);
  }
}

}  // namespace ddprun
