#pragma once

// Which program has a TCP port of this machine, and whether it is a job's ddprun.

#include "base/endpoint.hpp"
#include "base/time.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ddprun {

struct PortOwner {
  std::string program;            // as ps shows it; empty: this user may not read it in /proc
  int pid = 0;                    // 0: the same, or there was no time to find it
  std::string user;               // the id of its user
  std::vector<Endpoint> listens;  // numeric, to connect to; empty: it does not listen
  // Of its sockets: they identify this run of the program.
  std::vector<std::string> inodes;

  /// "python3 (pid 812)".
  std::string to_string() const;
};

/// The program that listens on `port`, else one that has a connection there; none if there is none.
/// Reads the sockets in /proc, and then looks through all processes for the one that has them, for
/// at most `patience`: with ten thousand processes or descriptors that takes long. If it is not
/// found by then, the owner is known by its user and its sockets only. Blocks.
std::optional<PortOwner> owner_of(std::uint16_t port, Duration patience);

/// While nothing else waits for this process. Sanitized programs on busy machines need much of it.
constexpr Duration kOwnerPatience = std::chrono::seconds(2);
/// On a thread that answers heartbeats.
constexpr Duration kOwnerPatienceOnLoop = std::chrono::milliseconds(100);

/// Whether a program that does not answer, and whose name cannot be read, may be ddprun.
enum class IfHidden : std::uint8_t { kMayBe, kIsNone };

/// Whether `owner` may host a job of several nodes: it says so when it is asked for its status, or
/// it does not answer by `deadline` and may be ddprun, by its name or by `hidden`. `nodes_max` is
/// that of the job that is looked for. Blocks.
bool may_host_job(const PortOwner& owner, int nodes_max, IfHidden hidden, TimePoint deadline);

}  // namespace ddprun
