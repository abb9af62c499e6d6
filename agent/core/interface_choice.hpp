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

/// Of a numeric address: every machine has it for itself.
bool is_loopback(std::string_view address);

/// That one of `interfaces` that has `address`; null: none.
const Interface* interface_of(const std::string& address, std::span<const Interface> interfaces);

struct InterfaceChoice {
  std::string name;  // of the interface
  std::string why;   // the host name does not serve: a clause for people
};

/// What this node's own host name leads to.
struct HostName {
  std::string name;
  Result<std::vector<std::string>> addresses;  // numeric, in the order of the name service
};

/// The interface that has `own_address`, the numeric address by which this node and the leader
/// reach each other, if the host name does not serve: Gloo takes the first of its addresses that is
/// this node's, and that one is a loopback or link-local address, or belongs to a bridge that does
/// not lead to the leader (every machine with Docker has 172.17.0.1), or there is none. None if the
/// host name serves, or if the leader is reached by the loopback: then all nodes are on one
/// machine.
std::optional<InterfaceChoice> choose_interface(
    const HostName& host, const std::string& own_address, std::span<const Interface> interfaces);

}  // namespace ddprun
