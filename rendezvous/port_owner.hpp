#pragma once

// Which program has a TCP port of this machine, and whether it is a job's ddprun.

#include "base/endpoint.hpp"
#include "base/time.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ddprun {

struct PortOwner {
  std::string program;            // as ps names it; empty: /proc does not tell this user
  int pid = 0;                    // 0: the same
  std::string user;               // the id of its user
  std::vector<Endpoint> listens;  // numeric, to connect to; empty: it has the port and no listener
  // Of its sockets: another program has others, and the same one that is started again.
  std::vector<std::string> inodes;

  /// "python3 (pid 812)".
  std::string to_string() const;
};

/// The program that has `port`, listening if one does; none if the port is free, or bound by a
/// program that neither listens nor has a connection there. Reads /proc, which takes milliseconds.
std::optional<PortOwner> owner_of(std::uint16_t port);

/// Whether a program that says nothing, and whose name /proc does not tell, may be a ddprun.
enum class IfHidden : std::uint8_t { kMayBe, kIsNone };

/// Whether a job of several nodes may be found at `owner`'s port: its listener says so when it is
/// asked for its status, or it does not answer by `deadline` and may be a ddprun nonetheless, by
/// its name or as `hidden` says. `nodes_max` is that of the job that is looked for. Blocks.
bool may_host_job(const PortOwner& owner, int nodes_max, IfHidden hidden, TimePoint deadline);

}  // namespace ddprun
