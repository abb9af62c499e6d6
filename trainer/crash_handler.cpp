#include "trainer/crash_handler.hpp"

#include "base/standard_streams.hpp"
#include "base/worker_contract.hpp"
#include "trainer/end_by_signal.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <string_view>

#include <execinfo.h>
#include <signal.h>  // NOLINT(modernize-deprecated-headers): sigaction and sigaltstack are POSIX
#include <unistd.h>

namespace ddprun {
namespace {

struct FatalSignal {
  int number;
  const char* name;
};

constexpr std::array kFatal = {
    FatalSignal{.number = SIGSEGV, .name = "SIGSEGV"},
    FatalSignal{.number = SIGBUS, .name = "SIGBUS"},
    FatalSignal{.number = SIGFPE, .name = "SIGFPE"},
    FatalSignal{.number = SIGILL, .name = "SIGILL"},
    FatalSignal{.number = SIGABRT, .name = "SIGABRT"}};

constexpr int kFramesMax = 64;
constexpr std::size_t kStackBytes = std::size_t{64} << 10U;
/// Looking up function names takes a lock of the dynamic linker, which a stuck thread may
/// hold.
constexpr unsigned kLimitS = 10;

// A signal handler can get its state only from globals.
std::atomic<pid_t> reporting_thread = 0;
std::atomic<int> reported_signal = 0;
static_assert(std::atomic<pid_t>::is_always_lock_free && std::atomic<int>::is_always_lock_free);

/// Makes only calls that are safe in a handler: fmt writes to the stack, and write_stderr() polls
/// and writes. backtrace() is safe after a first call, which install_crash_handler() makes.
void write_stack(int signal, const void* address) {
  const auto* const fatal = std::ranges::find(kFatal, signal, &FatalSignal::number);
  const char* const rank = std::getenv(contract::kRank);
  std::array<char, 256> line{};
  const auto end = fmt::format_to_n(
      line.data(),
      line.size(),
      "{}: rank {}: {} (address {}); stack of thread {}, whose names c++filt reads:\n",
      ::program_invocation_short_name,
      rank == nullptr ? "0" : rank,
      fatal == kFatal.end() ? "signal" : fatal->name,
      fmt::ptr(address),
      ::gettid());
  write_stderr({line.data(), std::min(end.size, line.size())});
  std::array<void*, kFramesMax> frames{};
  const int count = ::backtrace(frames.data(), kFramesMax);
  ::backtrace_symbols_fd(frames.data(), count, STDERR_FILENO);
}

void give_up(int /*alarm*/) {
  end_by_signal(reported_signal);
}

// NOLINTNEXTLINE(misc-const-correctness): sigaction's type
void report(int signal, siginfo_t* info, void* /*context*/) {
  pid_t nobody = 0;
  const pid_t self = ::gettid();
  if (!reporting_thread.compare_exchange_strong(nobody, self)) {
    if (nobody == self) end_by_signal(signal);  // the stack cannot be read
    while (true) {
      ::pause();  // another thread is writing its report, and ends the process
    }
  }
  reported_signal = signal;
  struct sigaction limit {};
  limit.sa_handler = give_up;
  ::sigaction(SIGALRM, &limit, nullptr);
  ::alarm(kLimitS);
  write_stack(signal, info->si_addr);
  end_by_signal(signal);
}

}  // namespace

void install_crash_handler() {
  alignas(std::max_align_t) static std::array<std::byte, kStackBytes> stack;
  const stack_t own{.ss_sp = stack.data(), .ss_flags = 0, .ss_size = stack.size()};
  ::sigaltstack(&own, nullptr);
  std::array<void*, 1> frame{};
  static_cast<void>(::backtrace(frame.data(), 1));  // its first call loads a library
  for (const FatalSignal& fatal : kFatal) {
    struct sigaction handler {};
    ::sigaction(fatal.number, nullptr, &handler);
    const bool is_taken = (handler.sa_flags & SA_SIGINFO) != 0 || handler.sa_handler != SIG_DFL;
    if (is_taken) continue;
    handler.sa_sigaction = report;
    handler.sa_flags = SA_SIGINFO | SA_ONSTACK;
    ::sigaction(fatal.number, &handler, nullptr);
  }
}

}  // namespace ddprun
