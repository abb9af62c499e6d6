// A worker that executes its arguments, word by word, from left to right:
//
//   exit N           ends with status N             crash          ends by SIGABRT
//   raise SIGNAL     sends itself a signal          ignore SIGNAL  ignores it from here on
//   on SIGNAL N      exits with N on that signal    hang           waits for signals forever
//   out TEXT         one line to stdout             err TEXT       one line to stderr
//   spam N BYTES     N lines of BYTES to stdout     flood BYTES    BYTES to stdout, no newline
//   close            closes stdout and stderr       env            prints the environment
//   note FILE TEXT   appends "TEXT rank=R local_rank=L attempt=A pid=P entered_ns=N" to a file or
//                    FIFO; entered_ns is when main was entered (CLOCK_BOOTTIME)
//   child TEXT FILE  a child in this process group that ignores SIGTERM and hangs; notes its pid
//   daemon TEXT FILE a grandchild in its own session that ignores SIGTERM, SIGHUP and SIGINT
//                    and hangs; waits until it has noted its pid
//   chain N          N processes, each the child of the one before and in its own session; waits
//                    until all run
//   crowd N          N children that hang
//   headless TEXT FILE  a child in its own session whose first thread has ended, and another hangs;
//                    notes its pid
//   hold FILE        opens a FIFO for writing, and keeps it open, as do all that it forks later
//   read FILE        waits for one byte from a FIFO
//   attempt N        hangs unless this is attempt N
//   rank N           hangs unless this is rank N
//   restarted N      ends with status N unless this is attempt 0
//
// An unknown word ends it with status 99.

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

constexpr int kUnknownWord = 99;
constexpr int kBrokenTest = 98;

long long g_entered_ns = 0;
volatile sig_atomic_t g_exit_codes[NSIG];

long long now_ns() {
  timespec spec{};
  ::clock_gettime(CLOCK_BOOTTIME, &spec);
  return static_cast<long long>(spec.tv_sec) * 1'000'000'000 + spec.tv_nsec;
}

[[noreturn]] void broken(const char* what) {
  std::fprintf(stderr, "fake_worker: %s: %s\n", what, std::strerror(errno));
  ::_exit(kBrokenTest);
}

const char* variable(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : value;
}

int signal_number(std::string_view name) {
  for (int number = 1; number < NSIG; ++number) {
    const char* known = ::sigabbrev_np(number);
    if (known != nullptr && name == std::string("SIG") + known) return number;
  }
  errno = EINVAL;
  broken("signal");
}

void write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) broken("write");
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

void note(const char* path, const char* text) {
  std::array<char, 512> line{};
  std::snprintf(
      line.data(),
      line.size(),
      "%s rank=%s local_rank=%s attempt=%s pid=%d entered_ns=%lld\n",
      text,
      variable("RANK", "?"),
      variable("LOCAL_RANK", "?"),
      variable("TORCHELASTIC_RESTART_COUNT", "?"),
      ::getpid(),
      g_entered_ns);
  const int file = ::open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
  if (file < 0) broken(path);
  write_all(file, line.data());
  ::close(file);
}

[[noreturn]] void hang() {
  for (;;) {
    ::pause();
  }
}

void be_a_child(const char* text, const char* path) {
  if (::fork() != 0) return;
  ::signal(SIGTERM, SIG_IGN);
  note(path, text);
  hang();
}

void be_a_daemon(const char* text, const char* path) {
  std::array<int, 2> ready{};
  if (::pipe(ready.data()) != 0) broken("pipe");
  const pid_t middle = ::fork();
  if (middle == 0) {
    ::setsid();
    if (::fork() != 0) ::_exit(0);
    for (const int number : {SIGTERM, SIGHUP, SIGINT}) {
      ::signal(number, SIG_IGN);
    }
    note(path, text);
    write_all(ready[1], "x");
    ::close(ready[1]);
    hang();
  }
  ::waitpid(middle, nullptr, 0);
  char byte = 0;
  if (::read(ready[0], &byte, 1) != 1) broken("daemon");
}

void be_a_chain(int length) {
  std::array<int, 2> ready{};
  if (::pipe(ready.data()) != 0) broken("pipe");
  for (int left = length; left > 0; --left) {
    const pid_t next = ::fork();
    if (next < 0) broken("fork");
    if (next > 0 && left < length) hang();
    if (next > 0) {
      char byte = 0;
      if (::read(ready[0], &byte, 1) != 1) broken("chain");
      return;
    }
    ::setsid();
  }
  write_all(ready[1], "x");
  hang();
}

void be_a_crowd(int size) {
  for (int left = size; left > 0; --left) {
    const pid_t child = ::fork();
    if (child < 0) broken("fork");
    if (child == 0) hang();
  }
}

void be_headless(const char* text, const char* path) {
  if (::fork() != 0) return;
  ::setsid();
  std::thread([text, path, first = ::pthread_self()] {
    ::pthread_join(first, nullptr);
    note(path, text);
    hang();
  }).detach();
  ::pthread_exit(nullptr);
}

void flood(long long bytes) {
  const std::string block(1 << 16, 'x');
  for (; bytes > 0; bytes -= static_cast<long long>(block.size())) {
    const auto size = std::min(static_cast<std::size_t>(bytes), block.size());
    write_all(STDOUT_FILENO, std::string_view(block).substr(0, size));
  }
}

void spam(long long lines, std::size_t bytes) {
  const std::string rank = variable("RANK", "?");
  for (long long i = 0; i < lines; ++i) {
    std::string line = rank + ":" + std::to_string(i) + ":";
    line.resize(std::max(bytes, line.size() + 1) - 1, 'a');
    write_all(STDOUT_FILENO, line + "\n");
  }
}

void read_byte(const char* path) {
  const int file = ::open(path, O_RDONLY | O_CLOEXEC);
  char byte = 0;
  if (file < 0 || ::read(file, &byte, 1) != 1) broken(path);
  ::close(file);
}

void exit_on(int number, int code) {
  g_exit_codes[number] = code;
  ::signal(number, [](int came) { ::_exit(g_exit_codes[came]); });
}

/// The words that are not executed yet.
class Script {
 public:
  Script(int argc, char** argv) : next_(argv + 1), end_(argv + argc) {}

  bool done() const { return next_ == end_; }

  const char* word() {
    if (done()) {
      errno = EINVAL;
      broken("a word is missing");
    }
    return *next_++;
  }

  int number() { return std::atoi(word()); }

 private:
  char** next_;
  char** end_;
};

bool is(const char* variable_name, const char* wanted) {
  return std::strcmp(variable(variable_name, ""), wanted) == 0;
}

void do_process_word(std::string_view word, Script& script) {
  if (word == "raise") {
    ::raise(signal_number(script.word()));
  } else if (word == "ignore") {
    ::signal(signal_number(script.word()), SIG_IGN);
  } else if (word == "on") {
    const int number = signal_number(script.word());
    exit_on(number, script.number());
  } else if (word == "hang") {
    hang();
  } else if (word == "child") {
    const char* text = script.word();
    be_a_child(text, script.word());
  } else if (word == "daemon") {
    const char* text = script.word();
    be_a_daemon(text, script.word());
  } else if (word == "chain") {
    be_a_chain(script.number());
  } else if (word == "headless") {
    const char* text = script.word();
    be_headless(text, script.word());
  } else if (word == "crowd") {
    be_a_crowd(script.number());
  } else if (word == "hold") {
    const char* path = script.word();
    if (::open(path, O_WRONLY | O_CLOEXEC) < 0) broken(path);
  } else if (word == "attempt") {
    if (!is("TORCHELASTIC_RESTART_COUNT", script.word())) hang();
  } else if (word == "rank") {
    if (!is("RANK", script.word())) hang();
  } else if (word == "restarted") {
    const int code = script.number();
    if (!is("TORCHELASTIC_RESTART_COUNT", "0")) ::_exit(code);
  } else {
    std::fprintf(stderr, "fake_worker: unknown word '%s'\n", std::string(word).c_str());
    ::_exit(kUnknownWord);
  }
}

void do_word(std::string_view word, Script& script) {
  if (word == "exit") {
    std::exit(script.number());
  } else if (word == "crash") {
    ::abort();
  } else if (word == "out") {
    write_all(STDOUT_FILENO, std::string(script.word()) + "\n");
  } else if (word == "err") {
    write_all(STDERR_FILENO, std::string(script.word()) + "\n");
  } else if (word == "spam") {
    const int lines = script.number();
    spam(lines, static_cast<std::size_t>(script.number()));
  } else if (word == "flood") {
    flood(std::atoll(script.word()));
  } else if (word == "close") {
    ::close(STDOUT_FILENO);
    ::close(STDERR_FILENO);
  } else if (word == "env") {
    for (char* const* entry = environ; *entry != nullptr; ++entry) {
      write_all(STDOUT_FILENO, std::string(*entry) + "\n");
    }
  } else if (word == "note") {
    const char* path = script.word();
    note(path, script.word());
  } else if (word == "read") {
    read_byte(script.word());
  } else {
    do_process_word(word, script);
  }
}

}  // namespace

int main(int argc, char** argv) {
  g_entered_ns = now_ns();
  Script script(argc, argv);
  while (!script.done()) {
    do_word(script.word(), script);
  }
  return 0;
}
