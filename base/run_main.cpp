#include "base/run_main.hpp"

#include "base/exit_status.hpp"
#include "base/standard_streams.hpp"

#include <array>
#include <cerrno>
#include <cstdio>
#include <new>

#include <unistd.h>

namespace ddprun {
namespace {

constexpr char kDefect[] = "internal error, please report it";

void report_line(std::string_view program, const char* what, const char* why) noexcept {
  std::array<char, 1024> text{};
  const auto size = static_cast<int>(program.size());
  std::snprintf(text.data(), text.size() - 1, "%.*s: %s: %s", size, program.data(), what, why);
  write_stderr(text.data());
  write_stderr("\n");
}

[[noreturn]] void report_and_end() {
  const std::string_view program = program_invocation_short_name;
  const std::exception_ptr thrown = std::current_exception();
  int status = kExitDefect;
  try {
    if (thrown) std::rethrow_exception(thrown);
    report_line(program, kDefect, "std::terminate() was called");
  } catch (const std::exception& uncaught) {
    status = report_unexpected(program, uncaught);
  }
  ::_exit(status);
}

}  // namespace

int report_unexpected(std::string_view program, const std::exception& thrown) noexcept {
  if (dynamic_cast<const std::bad_alloc*>(&thrown) == nullptr) {
    report_line(program, kDefect, thrown.what());
    return kExitDefect;
  }
  report_line(
      program,
      "out of memory",
      "try again, or raise the limit (ulimit -v, or that of the container); exit status 75");
  return kExitTryAgain;
}

void report_uncaught_exceptions() noexcept {
  std::set_terminate(&report_and_end);
}

}  // namespace ddprun
