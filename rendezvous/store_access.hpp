#pragma once

#include <cstdint>
#include <set>
#include <string>

namespace ddprun {

/// Which hosts may open store connections. What a client writes there, workers may unpickle: so one
/// that is not a worker of the round can run programs in those that are.
struct StoreAccess {
  enum class Who : std::uint8_t {
    kThisMachine,  // both ends of the connection are here
    kNodes,        // also `hosts`
    kEveryone,
  };
  Who who = Who::kThisMachine;
  std::set<std::string> hosts;  // numeric addresses

  /// Whether the client on `socket` may use the store; true if it has gone.
  bool admits(int socket) const;
};

}  // namespace ddprun
