#pragma once

// Gloo listens on the address that this node's host name resolves to. Decides whether other nodes
// can reach that address, and which interface the workers are told to use if they cannot.

#include "base/error.hpp"
#include "rendezvous/core/interface.hpp"

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

/// Whether a numeric address is a loopback address: every machine has it for itself.
bool is_loopback(std::string_view address);

/// The one of `interfaces` that has `address`; null: none.
const Interface* interface_of(const std::string& address, std::span<const Interface> interfaces);

struct InterfaceChoice {
  std::string name;  // of the interface
  std::string why;   // why the host name cannot be used: a clause for people
};

/// What this node's own host name resolves to.
struct HostName {
  std::string name;
  Result<std::vector<std::string>> addresses;  // numeric, in the order of the name service
};

/// The interface to tell the workers, if other nodes cannot reach this node by its host name: the
/// one that has `own_address`, the numeric address by which this node and the leader reach each
/// other. Gloo takes the first address of the host name that is this node's. Other nodes cannot
/// reach it if it is a loopback or link-local address, or belongs to a bridge that does not lead to
/// the leader (every machine with Docker has 172.17.0.1), or if there is none. None if they can, or
/// if the leader is reached by the loopback: then all nodes are on one machine.
std::optional<InterfaceChoice> choose_interface(
    const HostName& host, const std::string& own_address, std::span<const Interface> interfaces);

}  // namespace ddprun
