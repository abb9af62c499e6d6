// A worker that proves when its round ran:
//
//   round_worker LOG STOP [NOTES]
//
// Every millisecond (or every ROUND_WORKER_PERIOD_MS) it appends a line to LOG, "NS TERM
// ROUND NODE RANK PID TOKEN", where NS is CLOCK_BOOTTIME before the line is written, and NODE the
// host's name. Several workers may share a file: a line is one write. It ends with 0 once the
// file STOP exists. When it has begun, it writes one line of the same form to NOTES, a file or
// FIFO.
//
// TOKEN is a value on which the workers of a round agree in its store, to distinguish rounds with
// the same numbers. Lines written before it is known, or in a round without a store, have none.
// Blanks pad a line.

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <thread>

#include <fcntl.h>
#include <netdb.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

namespace {

constexpr int kBrokenTest = 98;
constexpr long kMillisecondNs = 1'000'000;
constexpr long kSecondNs = 1'000'000'000;
constexpr std::size_t kTokenSize = 16;
constexpr std::size_t kLineSize = 128;  // divides a page
constexpr timeval kStorePatience{.tv_sec = 2, .tv_usec = 0};

[[noreturn]] void broken(const char* what) {
  std::fprintf(stderr, "round_worker: %s: %s\n", what, std::strerror(errno));
  ::_exit(kBrokenTest);
}

timespec now(clockid_t clock) {
  timespec spec{};
  ::clock_gettime(clock, &spec);
  return spec;
}

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "0" : value;
}

int open_to_append(const char* path) {
  const int file = ::open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
  if (file < 0) broken(path);
  return file;
}

long long boottime_ns() {
  const timespec time = now(CLOCK_BOOTTIME);
  return static_cast<long long>(time.tv_sec) * kSecondNs + time.tv_nsec;
}

/// Writes one line: the time, then the part that is the same in every line of this process. All
/// lines have the same length, so no line crosses a page boundary: there SIGKILL may cut a write in
/// two, and the next line would be appended to the first half.
void tell(int file, const std::string& who, long long ns = boottime_ns()) {
  std::string line = std::to_string(ns) + who;
  if (line.size() >= kLineSize) broken("a line is too long");
  line.resize(kLineSize - 1, ' ');
  line += '\n';
  if (::write(file, line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
    broken("cannot write");
  }
}

std::string who_we_are() {
  char host[256] = {};
  ::gethostname(host, sizeof host - 1);
  return " " + variable("DDPRUN_TERM") + " " + variable("DDPRUN_ROUND") + " " + host + " " +
         variable("RANK") + " " + std::to_string(::getpid());
}

/// The addresses of the store. Asks for IPv4 alone first: a name service that forwards unknown
/// names may take half a minute to report that a name has no IPv6 address.
addrinfo* store_addresses() {
  addrinfo* found = nullptr;
  for (const int family : {AF_INET, AF_INET6}) {
    addrinfo hints{};
    hints.ai_family = family;
    hints.ai_socktype = SOCK_STREAM;
    if (::getaddrinfo(
            variable("MASTER_ADDR").c_str(), variable("MASTER_PORT").c_str(), &hints, &found) ==
        0) {
      return found;
    }
  }
  return nullptr;
}

int connected_to_store() {
  addrinfo* const found = store_addresses();
  int store = -1;
  for (const addrinfo* each = found; each != nullptr && store < 0; each = each->ai_next) {
    store = ::socket(each->ai_family, each->ai_socktype | SOCK_CLOEXEC, 0);
    ::setsockopt(store, SOL_SOCKET, SO_SNDTIMEO, &kStorePatience, sizeof kStorePatience);
    ::setsockopt(store, SOL_SOCKET, SO_RCVTIMEO, &kStorePatience, sizeof kStorePatience);
    if (::connect(store, each->ai_addr, each->ai_addrlen) != 0) {
      ::close(store);
      store = -1;
    }
  }
  if (found != nullptr) ::freeaddrinfo(found);
  return store;
}

template <class Number>
std::string bytes_of(Number number) {
  std::string bytes(sizeof number, '\0');
  std::memcpy(bytes.data(), &number, sizeof number);
  return bytes;
}

std::string counted(const std::string& text) {
  return bytes_of(std::uint64_t{text.size()}) + text;
}

std::string random_token() {
  std::uint64_t number = 0;
  if (::getrandom(&number, sizeof number, 0) != sizeof number) broken("getrandom");
  char token[kTokenSize + 1] = {};
  std::snprintf(token, sizeof token, "%016llx", static_cast<unsigned long long>(number));
  return token;
}

/// With a leading blank, as in a line; empty if the store does not reply. Uses the protocol of c10d
/// (docs/store.md): VALIDATE, then COMPARE_SET of a key that is absent at first.
std::string agreed_token() {
  const int store = connected_to_store();
  if (store < 0) return "";
  const std::string request = std::string(1, '\0') + bytes_of(std::uint32_t{0x3C85F7CE}) + '\2' +
                              counted("/round_worker") + counted("") + counted(random_token());
  std::string answer(sizeof(std::uint64_t) + kTokenSize, '\0');
  const bool has_answered = ::send(store, request.data(), request.size(), MSG_NOSIGNAL) ==
                                static_cast<ssize_t>(request.size()) &&
                            ::recv(store, answer.data(), answer.size(), MSG_WAITALL) ==
                                static_cast<ssize_t>(answer.size());
  ::close(store);
  return has_answered ? " " + answer.substr(sizeof(std::uint64_t)) : "";
}

/// From ROUND_WORKER_PERIOD_MS: drills with many workers leave the processors to ddprun.
long period_ns() {
  const char* const text = std::getenv("ROUND_WORKER_PERIOD_MS");
  return kMillisecondNs * (text == nullptr ? 1 : std::strtol(text, nullptr, 10));
}

/// A period after `due`; periods missed during a freeze are skipped.
timespec next_after(timespec due, long period) {
  due.tv_nsec += period;
  due.tv_sec += due.tv_nsec / kSecondNs;
  due.tv_nsec %= kSecondNs;
  const timespec time = now(CLOCK_MONOTONIC);
  const bool is_late =
      time.tv_sec > due.tv_sec || (time.tv_sec == due.tv_sec && time.tv_nsec > due.tv_nsec);
  return is_late ? time : due;
}

}  // namespace

int main(int argc, char* const* argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: round_worker LOG STOP [NOTES]\n");
    return kBrokenTest;
  }
  const std::string who = who_we_are();
  const int log = open_to_append(argv[1]);
  const long long begun_ns = boottime_ns();
  tell(log, who, begun_ns);
  // In a thread, so that lines are written even while a store does not reply.
  std::string token;
  std::atomic<bool> knows_token = false;
  std::thread([&] {
    token = agreed_token();
    if (argc > 3) tell(open_to_append(argv[3]), who + token, begun_ns);
    knows_token = true;
  }).detach();
  const long period = period_ns();
  for (timespec due = now(CLOCK_MONOTONIC); ::access(argv[2], F_OK) != 0;
       due = next_after(due, period)) {
    tell(log, knows_token ? who + token : who);
    ::clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, nullptr);
  }
  // So that a worker that saw STOP has a line from after that moment.
  tell(log, knows_token ? who + token : who);
  ::_exit(0);
}
