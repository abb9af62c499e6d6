#include "bench/server.hpp"

#include "base/descriptor.hpp"
#include "base/exit_status.hpp"
#include "base/file.hpp"
#include "base/log.hpp"

#include <array>
#include <cerrno>
#include <csignal>
#include <exception>
#include <utility>

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace ddprun {
namespace {

[[noreturn]] void serve_in_child(const BenchServer::Serve& serve, pid_t parent, int to_parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(kExitTryAgain);  // it had ended before
  const auto listens = [to_parent](std::uint16_t port) {
    std::array<char, 2> bytes{static_cast<char>(port >> 8U), static_cast<char>(port & 0xFFU)};
    write_all(to_parent, {bytes.data(), bytes.size()});
  };
  try {
    const auto served = serve(listens);
    if (!served) report("the server: {}", served.error().detail);
  } catch (const std::exception& defect) {
    report("the server: {}", defect.what());
  }
  ::_exit(kExitTryAgain);
}

}  // namespace

Result<BenchServer> BenchServer::start(const Serve& serve) {
  auto pipe = make_pipe();
  if (!pipe) return pipe.error();
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return make_process_error(errno, "the server");
  if (pid == 0) serve_in_child(serve, parent, pipe->write_end.get());
  pipe->write_end.reset();
  BenchServer server(pid, 0);
  std::array<unsigned char, 2> port{};
  ssize_t got = 0;
  do {
    got = ::read(pipe->read_end.get(), port.data(), port.size());
  } while (got < 0 && errno == EINTR);
  if (got != 2) return make_error(Errc::kIo, "the server has ended before it listened");
  server.port_ = static_cast<std::uint16_t>(port[0] << 8U | port[1]);
  return server;
}

BenchServer::BenchServer(BenchServer&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), port_(other.port_) {}

BenchServer::~BenchServer() {
  if (pid_ < 0) return;
  ::kill(pid_, SIGKILL);
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {}
}

}  // namespace ddprun
