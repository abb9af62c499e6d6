#include "agent/worker_streams.hpp"

#include "agent/launch_directory.hpp"
#include "base/file.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>

namespace ddprun {
namespace {

constexpr mode_t kLogMode = 0666;  // less the umask, as for every program
/// The capacity of a worker's pipe; the most that an ordinary user may ask for.
constexpr int kPipeBytes = 1024 * 1024;

Result<Descriptor> open_log(const std::filesystem::path& path) {
  // O_APPEND, so that children of the worker and a truncating log rotation do no harm.
  Descriptor log = open_file(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, kLogMode);
  if (!log) return make_errno_error(errno, fmt::format("cannot write the log {}", path.string()));
  return log;
}

Result<Pipe> make_pipe_of(int bytes) {
  auto pipe = make_pipe();
  if (!pipe) return pipe;
  // Only our end: the worker's must block when it is full.
  ::fcntl(pipe->read_end.get(), F_SETFL, O_NONBLOCK);
  // Fails if the user has too many large pipes; a small one is slower, not wrong.
  if (bytes > 0) ::fcntl(pipe->read_end.get(), F_SETPIPE_SZ, bytes);
  return pipe;
}

/// What the worker gets; empty: our own stream.
Result<Descriptor> open_stream(StreamOrder order, StreamPump& pump) {
  Descriptor log;
  if (!order.log.empty()) {
    auto opened = open_log(order.log);
    if (!opened) return opened;
    log = *std::move(opened);
  }
  if (!order.is_piped) return log;
  if (!order.filtered.empty()) {
    auto filtered = open_log(order.filtered);
    if (!filtered) return filtered;
    order.piped.filtered = *std::move(filtered);
  }
  auto pipe = make_pipe_of(log ? kPipeBytes : 0);
  if (!pipe) return pipe.error();
  order.piped.log = std::move(log);
  order.piped.log_path = order.log;
  order.piped.pipe = std::move(pipe->read_end);
  if (const auto added = pump.add(std::move(order.piped)); !added) return added.error();
  return std::move(pipe->write_end);
}

}  // namespace

Result<WorkerStreams> open_streams(StreamsOrder order) {
  if (!order.directory.empty()) {
    if (const auto made = make_directories(order.directory); !made) return made.error();
  }
  WorkerStreams streams;
  auto out = open_stream(std::move(order.out), *order.pump);
  auto err = out ? open_stream(std::move(order.err), *order.pump) : Descriptor();
  if (order.has_own_pump) order.pump->expect_no_more();
  if (!out) return out.error();
  if (!err) return err.error();
  streams.out = *std::move(out);
  streams.err = *std::move(err);
  return streams;
}

}  // namespace ddprun
