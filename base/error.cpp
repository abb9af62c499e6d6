#include "base/error.hpp"

#include "base/check.hpp"
#include "base/exit_status.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <utility>

#include <unistd.h>

namespace ddprun {
namespace {

class Category final : public boost::system::error_category {
 public:
  const char* name() const noexcept override { return "ddprun"; }

  std::string message(int value) const override {
    switch (static_cast<Errc>(value)) {
      case Errc::kInvalidArgument:
        return "invalid argument";
      case Errc::kNotFound:
        return "not found";
      case Errc::kNotExecutable:
        return "not executable";
      case Errc::kIo:
        return "input or output failed";
      case Errc::kCorrupt:
        return "corrupt data";
      case Errc::kTimedOut:
        return "timed out";
      case Errc::kPeerLost:
        return "peer lost";
      case Errc::kProtocol:
        return "protocol violated";
      case Errc::kLimit:
        return "limit exceeded";
      case Errc::kCancelled:
        return "cancelled";
    }
    return "unknown";
  }
};

Errc errc_of(int errno_value) {
  if (errno_value == ENOENT || errno_value == ENOTDIR) return Errc::kNotFound;
  return Errc::kIo;
}

}  // namespace

void check_failed(const char* claim, const char* file, int line) noexcept {
  std::fprintf(
      stderr,
      "ddprun: this is a defect of ddprun, please report it: %s does not hold (%s:%d)\n",
      claim,
      file,
      line);
  std::fflush(stderr);
  ::_exit(kExitDefect);
}

const boost::system::error_category& ddprun_category() noexcept {
  static const Category category;
  return category;
}

boost::system::error_code make_error_code(Errc code) noexcept {
  return {static_cast<int>(code), ddprun_category()};
}

Error make_error(Errc code, std::string detail) {
  return Error{.code = make_error_code(code), .detail = std::move(detail)};
}

Error make_errno_error(int errno_value, std::string_view what) {
  // strerror of glibc is thread-safe for the numbers it knows.
  return make_error(errc_of(errno_value), fmt::format("{}: {}", what, std::strerror(errno_value)));
}

Error with_context(std::string_view context, Error error) {
  error.detail = fmt::format("{}: {}", context, error.detail);
  return error;
}

void throw_exception_from_error(const Error& error, const boost::source_location& /*where*/) {
  throw std::logic_error("value() of a failed Result: " + error.detail);
}

}  // namespace ddprun
