#pragma once

// A server in a process of its own, for a bench to load.

#include "base/error.hpp"

#include <cstdint>
#include <functional>

#include <sys/types.h>

namespace ddprun {

class BenchServer {
 public:
  /// Tells the port that it listens on.
  using Listens = std::function<void(std::uint16_t port)>;
  /// Serves for ever. Returns only if it cannot.
  using Serve = std::function<Result<void>(const Listens& listens)>;

  /// Forks a process that serves. Fails with kIo if it does not come to listen; it says why.
  /// REQUIRES: this process has one thread.
  static Result<BenchServer> start(const Serve& serve);

  /// Kills it.
  ~BenchServer();
  BenchServer(BenchServer&& other) noexcept;
  BenchServer& operator=(BenchServer&&) = delete;
  BenchServer(const BenchServer&) = delete;
  BenchServer& operator=(const BenchServer&) = delete;

  pid_t pid() const { return pid_; }
  std::uint16_t port() const { return port_; }

 private:
  BenchServer(pid_t pid, std::uint16_t port) : pid_(pid), port_(port) {}

  pid_t pid_ = -1;
  std::uint16_t port_ = 0;
};

}  // namespace ddprun
