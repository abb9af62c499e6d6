#pragma once

// The agent's end of the socket to the fork server (fork_server.hpp). A message is its size, four
// bytes in the machine's order, and fields that each end with a NUL; descriptors come with the
// size. agent/fork_server.py is the other end.

#include "agent/process.hpp"
#include "base/descriptor.hpp"
#include "base/error.hpp"

#include <atomic>
#include <optional>
#include <string>
#include <vector>

namespace ddprun {

/// A message of these fields. REQUIRES: none contains a NUL.
std::string fork_message(const std::vector<std::string>& fields);

/// Adds a command, with its program, and all of its environment to the fields of a message.
void add_command(
    const std::vector<std::string>& command,
    const std::vector<std::string>& environment,
    std::vector<std::string>& fields);

class ForkChannel {
 public:
  explicit ForkChannel(Descriptor socket) : socket_(std::move(socket)) {}

  /// A worker of this request, as spawn() would start it; none: it is to be executed. Waits for the
  /// server a few seconds at most. For one thread at a time. REQUIRES: the program is the server's
  /// interpreter, and the request does not wait.
  std::optional<Process> fork(const SpawnRequest& request);

  /// Whether a worker could not be forked: nothing more is asked of the server. For any thread.
  bool is_lost() const { return is_lost_; }
  /// Why. REQUIRES: is_lost().
  const std::string& why_lost() const { return why_lost_; }

 private:
  bool send(const SpawnRequest& request);
  std::string receive();
  std::optional<Process> lose(std::string why);

  Descriptor socket_;
  std::string why_lost_;  // written once, before is_lost_ is
  std::atomic<bool> is_lost_ = false;
};

}  // namespace ddprun
