#include "base/error.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <utility>

#include <sys/resource.h>
#include <unistd.h>

namespace ddprun {
namespace {

Errc errc_of(int errno_value) {
  if (errno_value == ENOENT || errno_value == ENOTDIR) return Errc::kNotFound;
  return Errc::kIo;
}

/// The soft limit of `resource` for this process, as text.
std::string limit_of(decltype(RLIMIT_NOFILE) resource) {
  rlimit limit{};
  if (::getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return "unlimited";
  return std::to_string(limit.rlim_cur);
}

/// What a person can do about it; empty if we do not know.
std::string remedy_of(int errno_value) {
  if (errno_value == EMFILE) {
    return fmt::format(
        "; this process may open {} files: raise the limit (ulimit -n)", limit_of(RLIMIT_NOFILE));
  }
  if (errno_value == ENFILE) {
    return "; too many files are open on this machine: raise the limit (fs.file-max)";
  }
  return "";
}

}  // namespace

Error make_error(Errc code, std::string detail) {
  return Error{.code = code, .detail = std::move(detail)};
}

Error make_errno_error(int errno_value, std::string_view what) {
  // glibc's strerror is thread-safe for known numbers.
  return make_error(
      errc_of(errno_value),
      fmt::format("{}: {}{}", what, std::strerror(errno_value), remedy_of(errno_value)));
}

Error make_process_error(int errno_value, std::string_view what) {
  Error error = make_errno_error(errno_value, what);
  if (errno_value != EAGAIN) return error;
  error.detail += fmt::format(
      "; this user may have {} processes and threads: raise the limit (ulimit -u), or that of the "
      "container (pids.max)",
      limit_of(RLIMIT_NPROC));
  return error;
}

Error with_context(std::string_view context, Error error) {
  error.detail = fmt::format("{}: {}", context, error.detail);
  return error;
}

void throw_exception_from_error(const Error& error, const boost::source_location& /*where*/) {
  throw std::logic_error("value() of a failed Result: " + error.detail);
}

}  // namespace ddprun
