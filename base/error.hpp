#pragma once

#include <boost/system/result.hpp>

#include <string>
#include <string_view>

namespace ddprun {

/// What went wrong, as coarse as callers branch on. Anything finer belongs in Error::detail.
enum class Errc {
  kInvalidArgument = 1,  // a flag, file content or environment variable is invalid
  kNotFound,             // the named file, key or program does not exist
  kNotExecutable,        // it exists, but is not executable
  kIo,                   // the operating system refused: disk full, permission, descriptor limit
  kCorrupt,              // the data differ from what was written
  kTimedOut,             // the deadline passed; the operation may or may not have taken effect
  kPeerLost,             // the connection ended before the reply arrived
  kProtocol,             // the peer sent bytes we refuse to interpret; retrying will not help
  kLimit,                // it would exceed a documented limit
  kCancelled,            // the caller asked us to stop
  kBadNumbers,           // a training went wrong: the loss is NaN, or ranks differ
};

/// An expected failure: a code for programs, one clause for people.
struct Error {
  Errc code = Errc::kInvalidArgument;
  std::string detail;  // e.g. "--nnodes '4:2': the minimum exceeds the maximum"

  bool is(Errc errc) const { return code == errc; }
};

Error make_error(Errc code, std::string detail);

/// kIo, kNotFound or kNotExecutable by `errno_value`, with its text after `what`: "what: No such
/// file or directory". For the limit of open files, that limit and the remedy follow.
Error make_errno_error(int errno_value, std::string_view what);

/// The same if a process or a thread could not be created: EAGAIN then means the limit of
/// processes.
Error make_process_error(int errno_value, std::string_view what);

/// The same failure, with the context of the caller: "context: detail".
Error with_context(std::string_view context, Error error);

// Boost calls this if value() is called on an error: a bug in the caller, so it throws.
[[noreturn]] void throw_exception_from_error(
    const Error& error, const boost::source_location& where);

/// A T, or the reason why there is none. The compiler warns if a Result is ignored.
template <class T>
class [[nodiscard]] Result : public boost::system::result<T, Error> {
 public:
  using boost::system::result<T, Error>::result;
};

}  // namespace ddprun
