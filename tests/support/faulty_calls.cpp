// A library to preload: makes a few system calls of a process and its forks fail, by a seed.
//
//   DDPRUN_FAULT_SEED=N      0: none fails
//   DDPRUN_FAULT_NODE=N      tells the processes of one seed apart
//   DDPRUN_FAULT_LOG=FILE    a line for each call that fails, and for each descriptor that main
//   leaves open DDPRUN_FAULT_TRACE=1     also a backtrace of each, for a person with addr2line
//
// Which calls fail depends on the seed, the node, the process's depth (0: the guard, 1: the agent),
// the kind of call and how many of that kind the process made before. Programs that are started by
// exec are left alone: the variables, and the preload itself, are taken out of the environment.
//
// A call fails only as the kernel lets it fail. A non-blocking socket never says EAGAIN without a
// cause, nor gives or takes less than it could: epoll would not report it as ready again.
// EPOLL_CTL_MOD and timerfd_settime never lack memory.

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

#include <dirent.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <unistd.h>

extern "C" {
void* __libc_malloc(std::size_t bytes);                      // NOLINT
void* __libc_calloc(std::size_t number, std::size_t bytes);  // NOLINT
void* __libc_realloc(void* block, std::size_t bytes);        // NOLINT
}

namespace {

enum Kind : std::uint8_t {
  kOpen,
  kRead,
  kWrite,
  kReceive,
  kSend,
  kSocket,
  kSocketPair,
  kAccept,
  kConnect,
  kEpollCreate,
  kEpollAdd,
  kEpollWait,
  kTimer,
  kEvent,
  kSignal,
  kPipe,
  kFork,
  kThread,
  kMakeDirectory,
  kMap,
  kAllocate,
  kKinds
};
constexpr std::array<const char*, kKinds> kNames = {
    "open",           "read",    "write",    "receive",      "send",      "socket",
    "socketpair",     "accept",  "connect",  "epoll_create", "epoll_ctl", "epoll_wait",
    "timerfd_create", "eventfd", "signalfd", "pipe",         "fork",      "pthread_create",
    "mkdir",          "mmap",    "malloc"};

constexpr int kShort = -1;   // in place of an errno
constexpr int kDeepest = 1;  // the agent; deeper are its children before exec

bool armed = false;
bool traces = false;
int depth = 0;
int log_file = -1;
std::uint64_t seed = 0;
std::uint64_t node = 0;
std::atomic<int> left{0};  // faults
std::array<std::atomic<std::uint64_t>, kKinds> ordinals{};
thread_local bool is_inside = false;

/// SplitMix64.
std::uint64_t mix(std::uint64_t value) {
  value += 0x9E3779B97F4A7C15U;
  value = (value ^ (value >> 30U)) * 0xBF58476D1CE4E5B9U;
  value = (value ^ (value >> 27U)) * 0x94D049BB133111EBU;
  return value ^ (value >> 31U);
}

std::uint64_t chance(std::uint64_t purpose, std::uint64_t number) {
  return mix(
      mix(mix(mix(mix(seed) + node) + static_cast<std::uint64_t>(depth)) + purpose) + number);
}

constexpr std::uint64_t kOfProcess = 1'000;

/// One call in so many fails: rarely the calls of the beginning too, mostly those of any time.
std::uint64_t period(Kind kind) {
  constexpr std::array<std::uint64_t, 5> kPeriods = {4, 15, 60, 250, 1'000};
  const std::uint64_t often = kPeriods.at(chance(kOfProcess, 1) % kPeriods.size());
  return kind == kAllocate ? 200 * often : often;
}

/// In half of the processes any kind of call fails, in the others only a few kinds.
bool may_fail(Kind kind) {
  if (chance(kOfProcess, 2) % 4 == 0) return false;  // this process is left alone
  if (kind == kAllocate && chance(kOfProcess, 3) % 4 != 0) return false;
  return chance(kOfProcess, 4) % 2 == 0 || chance(kOfProcess, 10 + kind) % 4 == 0;
}

void begin_process() {
  for (auto& ordinal : ordinals)
    ordinal = 0;
  left = seed == 0 || depth > kDeepest ? 0 : 1 + static_cast<int>(chance(kOfProcess, 5) % 6);
}

template <class... Values>
void log_line(const char* format, Values... values) {
  std::array<char, 512> line{};
  const int size = std::snprintf(line.data(), line.size(), format, values...);
  const auto file = log_file;
  static const auto real =
      reinterpret_cast<ssize_t (*)(int, const void*, std::size_t)>(::dlsym(RTLD_NEXT, "write"));
  if (size > 0 && file >= 0)
    static_cast<void>(real(file, line.data(), static_cast<std::size_t>(size)));
}

/// 0, or how the call is to fail: an errno, or kShort.
int fault(Kind kind, std::initializer_list<int> ways) {
  if (!armed || is_inside || depth > kDeepest || ways.size() == 0) return 0;
  const int before = errno;
  const std::uint64_t ordinal = ordinals.at(kind)++;
  if (left <= 0 || !may_fail(kind)) return 0;
  const std::uint64_t drawn = chance(kind, ordinal);
  if (drawn % period(kind) != 0 || left-- <= 0) return 0;
  const int way = *(ways.begin() + (drawn >> 32U) % ways.size());
  is_inside = true;
  log_line(
      "fault node=%d depth=%d %s #%llu %s\n",
      static_cast<int>(node),
      depth,
      kNames.at(kind),
      static_cast<unsigned long long>(ordinal),
      way == kShort ? "short" : strerrorname_np(way));
  if (traces) {
    std::array<void*, 24> frames{};
    ::backtrace_symbols_fd(
        frames.data(), ::backtrace(frames.data(), static_cast<int>(frames.size())), log_file);
  }
  is_inside = false;
  errno = before;
  return way;
}

template <class Function>
Function* real(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));  // NOLINT
}

int refuse(int way) {
  errno = way;
  return -1;
}

bool is_stream(int descriptor) {
  struct stat about {};
  if (::fstat(descriptor, &about) != 0) return false;
  if (S_ISREG(about.st_mode) || S_ISFIFO(about.st_mode)) return true;
  int type = 0;
  socklen_t size = sizeof type;
  return S_ISSOCK(about.st_mode) &&
         ::getsockopt(descriptor, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_STREAM;
}

bool is_socket(int descriptor) {
  struct stat about {};
  return ::fstat(descriptor, &about) == 0 && S_ISSOCK(about.st_mode);
}

bool is_file(int descriptor) {
  struct stat about {};
  return ::fstat(descriptor, &about) == 0 && S_ISREG(about.st_mode);
}

bool blocks(int descriptor) {
  const int flags = ::fcntl(descriptor, F_GETFL);
  return flags >= 0 && (flags & O_NONBLOCK) == 0;
}

/// Whether a call may take less than there is. Who gets less from a non-blocking socket may take it
/// for drained, by epoll(7).
bool takes_part(int descriptor) {
  return is_stream(descriptor) && (!is_socket(descriptor) || blocks(descriptor));
}

int fault_of_read(int descriptor) {
  if (!armed) return 0;
  if (takes_part(descriptor)) return fault(kRead, {EINTR, ENOMEM, kShort, kShort});
  return fault(kRead, {EINTR});
}

int fault_of_write(int descriptor) {
  if (!armed || descriptor == log_file) return 0;
  if (descriptor == STDERR_FILENO || descriptor == STDOUT_FILENO)
    return fault(kWrite, {EINTR, kShort});
  if (is_file(descriptor)) return fault(kWrite, {EINTR, ENOSPC, ENOSPC, kShort, kShort});
  if (is_stream(descriptor) && blocks(descriptor)) return fault(kWrite, {EINTR, kShort});
  return fault(kWrite, {EINTR});
}

int fault_of_open(int flags) {
  if ((flags & (O_CREAT | O_TMPFILE)) != 0)
    return fault(kOpen, {EMFILE, ENFILE, ENOMEM, ENOSPC, EINTR});
  return fault(kOpen, {EMFILE, ENFILE, ENOMEM, EINTR});
}

std::size_t part_of(std::size_t size) {
  return std::max<std::size_t>(size / 2, std::min<std::size_t>(size, 1));
}

/// The first piece only, or half of it.
ssize_t short_vector(
    const iovec* pieces, int count, int descriptor, ssize_t (*call)(int, const iovec*, int)) {
  if (count <= 0) return call(descriptor, pieces, count);
  iovec first = pieces[0];
  if (count == 1) first.iov_len = part_of(first.iov_len);
  return call(descriptor, &first, 1);
}

int (*real_main)(int, char**, char**);  // NOLINT

int threads() {
  int count = 0;
  if (DIR* const tasks = ::opendir("/proc/self/task")) {
    while (const dirent* const task = ::readdir(tasks))
      count += task->d_name[0] == '.' ? 0 : 1;
    ::closedir(tasks);
  }
  return count;
}

/// Threads that main leaves behind, such as one that asks the name service, own what they use until
/// they end.
void await_threads() {
  constexpr int kTries = 400;
  constexpr int kPauseMs = 5;
  for (int tries = 0; tries < kTries && threads() > 1; ++tries) {
    ::poll(nullptr, 0, kPauseMs);
  }
}

/// Descriptors that main has left open, of those that it opened.
void report_descriptors() {
  is_inside = true;
  await_threads();
  for (int descriptor = 3; descriptor < 1'024; ++descriptor) {
    if (descriptor == log_file || ::fcntl(descriptor, F_GETFD) < 0) continue;
    std::array<char, 64> path{};
    std::array<char, 128> target{};
    static_cast<void>(std::snprintf(path.data(), path.size(), "/proc/self/fd/%d", descriptor));
    [[maybe_unused]] const ssize_t got = ::readlink(path.data(), target.data(), target.size() - 1);
    log_line(
        "open node=%d depth=%d %d %s\n", static_cast<int>(node), depth, descriptor, target.data());
  }
  is_inside = false;
}

int armed_main(int argc, char** argv, char** environment) {
  armed = true;
  const int status = real_main(argc, argv, environment);
  if (depth <= kDeepest) report_descriptors();
  return status;
}

std::uint64_t number_from(const char* variable) {
  const char* const text = std::getenv(variable);  // NOLINT(concurrency-mt-unsafe)
  return text == nullptr ? 0 : std::strtoull(text, nullptr, 10);
}

__attribute__((constructor)) void begin() {
  seed = number_from("DDPRUN_FAULT_SEED");
  node = number_from("DDPRUN_FAULT_NODE");
  traces = number_from("DDPRUN_FAULT_TRACE") != 0;
  if (const char* const path = std::getenv("DDPRUN_FAULT_LOG")) {  // NOLINT(concurrency-mt-unsafe)
    constexpr int kOutOfTheWay = 900;
    const int opened = ::open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    log_file = ::fcntl(opened, F_DUPFD_CLOEXEC, kOutOfTheWay);
    ::close(opened);
  }
  for (const char* const name :
       {"LD_PRELOAD",
        "DDPRUN_FAULT_SEED",
        "DDPRUN_FAULT_NODE",
        "DDPRUN_FAULT_LOG",
        "DDPRUN_FAULT_TRACE"}) {
    ::unsetenv(name);  // NOLINT(concurrency-mt-unsafe)
  }
  begin_process();
}

}  // namespace

// The signatures are the C library's.
// NOLINTBEGIN(misc-const-correctness)
extern "C" {

int __libc_start_main(  // NOLINT
    int (*main)(int, char**, char**),
    int argc,
    char** argv,
    void (*init)(),
    void (*fini)(),
    void (*rtld_fini)(),
    void* stack_end) {
  real_main = main;
  return real<decltype(__libc_start_main)>("__libc_start_main")(
      armed_main, argc, argv, init, fini, rtld_fini, stack_end);
}

pid_t fork() {
  if (const int way = fault(kFork, {EAGAIN, ENOMEM})) return refuse(way);
  const pid_t child = real<pid_t()>("fork")();
  if (child == 0) {
    ++depth;
    begin_process();
  }
  return child;
}

/// As emulators do it: with memory of its own, so that what it does here counts for nobody else.
pid_t vfork() {
  return fork();
}

int pthread_create(
    pthread_t* thread, const pthread_attr_t* attributes, void* (*body)(void*), void* argument) {
  if (fault(kThread, {EAGAIN}) != 0) return EAGAIN;
  return real<decltype(pthread_create)>("pthread_create")(thread, attributes, body, argument);
}

#define OPEN(name)                                                                           \
  int name(const char* path, int flags, ...) {                                               \
    mode_t mode = 0;                                                                         \
    va_list more;                                                                            \
    va_start(more, flags);                                                                   \
    if ((flags & (O_CREAT | O_TMPFILE)) != 0) mode = static_cast<mode_t>(va_arg(more, int)); \
    va_end(more);                                                                            \
    if (const int way = fault_of_open(flags)) return refuse(way);                            \
    return real<int(const char*, int, ...)>(#name)(path, flags, mode);                       \
  }
OPEN(open)
OPEN(open64)
#undef OPEN

#define OPEN_AT(name)                                                                        \
  int name(int directory, const char* path, int flags, ...) {                                \
    mode_t mode = 0;                                                                         \
    va_list more;                                                                            \
    va_start(more, flags);                                                                   \
    if ((flags & (O_CREAT | O_TMPFILE)) != 0) mode = static_cast<mode_t>(va_arg(more, int)); \
    va_end(more);                                                                            \
    if (const int way = fault_of_open(flags)) return refuse(way);                            \
    return real<int(int, const char*, int, ...)>(#name)(directory, path, flags, mode);       \
  }
OPEN_AT(openat)
OPEN_AT(openat64)
#undef OPEN_AT

ssize_t read(int descriptor, void* to, std::size_t size) {
  const int way = fault_of_read(descriptor);
  if (way > 0) return refuse(way);
  return real<decltype(read)>("read")(descriptor, to, way == kShort ? part_of(size) : size);
}

ssize_t write(int descriptor, const void* from, std::size_t size) {
  const int way = fault_of_write(descriptor);
  if (way > 0) return refuse(way);
  return real<decltype(write)>("write")(descriptor, from, way == kShort ? part_of(size) : size);
}

ssize_t readv(int descriptor, const iovec* pieces, int count) {
  const int way = fault_of_read(descriptor);
  if (way > 0) return refuse(way);
  const auto call = real<decltype(readv)>("readv");
  return way == kShort ? short_vector(pieces, count, descriptor, call)
                       : call(descriptor, pieces, count);
}

ssize_t writev(int descriptor, const iovec* pieces, int count) {
  const int way = fault_of_write(descriptor);
  if (way > 0) return refuse(way);
  const auto call = real<decltype(writev)>("writev");
  return way == kShort ? short_vector(pieces, count, descriptor, call)
                       : call(descriptor, pieces, count);
}

ssize_t recv(int descriptor, void* to, std::size_t size, int flags) {
  const bool may_be_short =
      (flags & (MSG_DONTWAIT | MSG_PEEK | MSG_WAITALL)) == 0 && takes_part(descriptor);
  const int way = may_be_short ? fault(kReceive, {EINTR, ENOMEM, kShort, kShort})
                               : fault(kReceive, {EINTR, ENOMEM});
  if (way > 0) return refuse(way);
  return real<decltype(recv)>("recv")(descriptor, to, way == kShort ? part_of(size) : size, flags);
}

ssize_t recvmsg(int descriptor, msghdr* message, int flags) {
  if (const int way = fault(kReceive, {EINTR, ENOMEM})) return refuse(way);
  return real<decltype(recvmsg)>("recvmsg")(descriptor, message, flags);
}

ssize_t send(int descriptor, const void* from, std::size_t size, int flags) {
  const bool may_be_short =
      (flags & MSG_DONTWAIT) == 0 && is_stream(descriptor) && blocks(descriptor);
  const int way =
      may_be_short ? fault(kSend, {EINTR, ENOMEM, kShort}) : fault(kSend, {EINTR, ENOMEM});
  if (way > 0) return refuse(way);
  return real<decltype(send)>("send")(
      descriptor, from, way == kShort ? part_of(size) : size, flags);
}

ssize_t sendmsg(int descriptor, const msghdr* message, int flags) {
  if (const int way = fault(kSend, {EINTR, ENOMEM})) return refuse(way);
  return real<decltype(sendmsg)>("sendmsg")(descriptor, message, flags);
}

int socket(int domain, int type, int protocol) {
  if (const int way = fault(kSocket, {EMFILE, ENFILE, ENOMEM})) return refuse(way);
  return real<decltype(socket)>("socket")(domain, type, protocol);
}

int socketpair(int domain, int type, int protocol, int* ends) {
  if (const int way = fault(kSocketPair, {EMFILE, ENFILE, ENOMEM})) return refuse(way);
  return real<decltype(socketpair)>("socketpair")(domain, type, protocol, ends);
}

int accept(int listener, sockaddr* address, socklen_t* size) {
  if (const int way = fault(kAccept, {EMFILE, ENFILE, ENOMEM, EINTR})) return refuse(way);
  return real<decltype(accept)>("accept")(listener, address, size);
}

int accept4(int listener, sockaddr* address, socklen_t* size, int flags) {
  if (const int way = fault(kAccept, {EMFILE, ENFILE, ENOMEM, EINTR})) return refuse(way);
  return real<decltype(accept4)>("accept4")(listener, address, size, flags);
}

int connect(int descriptor, const sockaddr* address, socklen_t size) {
  if (const int way = fault(kConnect, {ENOMEM})) return refuse(way);
  return real<decltype(connect)>("connect")(descriptor, address, size);
}

int epoll_create(int size) {
  if (const int way = fault(kEpollCreate, {EMFILE, ENFILE, ENOMEM})) return refuse(way);
  return real<decltype(epoll_create)>("epoll_create")(size);
}

int epoll_create1(int flags) {
  if (const int way = fault(kEpollCreate, {EMFILE, ENFILE, ENOMEM})) return refuse(way);
  return real<decltype(epoll_create1)>("epoll_create1")(flags);
}

int epoll_ctl(int epoll, int operation, int descriptor, epoll_event* event) {
  if (operation == EPOLL_CTL_ADD) {
    if (const int way = fault(kEpollAdd, {ENOMEM, ENOSPC})) return refuse(way);
  }
  return real<decltype(epoll_ctl)>("epoll_ctl")(epoll, operation, descriptor, event);
}

int epoll_wait(int epoll, epoll_event* events, int count, int timeout_ms) {
  if (const int way = fault(kEpollWait, {EINTR})) return refuse(way);
  return real<decltype(epoll_wait)>("epoll_wait")(epoll, events, count, timeout_ms);
}

int timerfd_create(int clock, int flags) {
  if (const int way = fault(kTimer, {EMFILE, ENFILE, ENOMEM})) return refuse(way);
  return real<decltype(timerfd_create)>("timerfd_create")(clock, flags);
}

int eventfd(unsigned count, int flags) {
  if (const int way = fault(kEvent, {EMFILE, ENFILE, ENOMEM})) return refuse(way);
  return real<decltype(eventfd)>("eventfd")(count, flags);
}

int signalfd(int descriptor, const sigset_t* mask, int flags) {
  if (const int way = fault(kSignal, {EMFILE, ENFILE, ENOMEM})) return refuse(way);
  return real<decltype(signalfd)>("signalfd")(descriptor, mask, flags);
}

int pipe(int* ends) {
  if (const int way = fault(kPipe, {EMFILE, ENFILE, ENOMEM})) return refuse(way);
  return real<decltype(pipe)>("pipe")(ends);
}

int pipe2(int* ends, int flags) {
  if (const int way = fault(kPipe, {EMFILE, ENFILE, ENOMEM})) return refuse(way);
  return real<decltype(pipe2)>("pipe2")(ends, flags);
}

int mkdir(const char* path, mode_t mode) {
  if (const int way = fault(kMakeDirectory, {ENOSPC, ENOMEM})) return refuse(way);
  return real<decltype(mkdir)>("mkdir")(path, mode);
}

char* mkdtemp(char* name) {
  if (const int way = fault(kMakeDirectory, {ENOSPC, ENOMEM})) {
    errno = way;
    return nullptr;
  }
  return real<decltype(mkdtemp)>("mkdtemp")(name);
}

void* mmap(void* at, std::size_t size, int protection, int flags, int descriptor, off_t offset) {
  if (const int way = fault(kMap, {ENOMEM})) {
    errno = way;
    return MAP_FAILED;
  }
  return real<decltype(mmap)>("mmap")(at, size, protection, flags, descriptor, offset);
}

// dlsym itself allocates, so these are not found by it.
void* malloc(std::size_t bytes) {
  if (const int way = fault(kAllocate, {ENOMEM})) {
    errno = way;
    return nullptr;
  }
  return __libc_malloc(bytes);
}

void* calloc(std::size_t number, std::size_t bytes) {
  return __libc_calloc(number, bytes);
}

void* realloc(void* block, std::size_t bytes) {
  return __libc_realloc(block, bytes);
}

}  // extern "C"
// NOLINTEND(misc-const-correctness)
