#pragma once

// How `ddpctl doctor` judges the network: the interfaces of this machine, and its connections with
// the doctors of the other nodes. Pure, like diagnosis.hpp.

#include "base/error.hpp"
#include "base/time.hpp"
#include "launcher/ctl/doctor/core/diagnosis.hpp"
#include "rendezvous/core/interface.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

/// Where the names of interfaces come from. Each source has its own syntax.
enum class NamedBy : std::uint8_t {
  kFlag,  // --interface: one exact name
  kGloo,  // GLOO_SOCKET_IFNAME: exact names
  kNccl,  // NCCL_SOCKET_IFNAME: prefixes; "=" before them: exact names; "^": all but these
};

/// Each named interface must exist, be up and have an address; for NCCL, one of them.
Finding judge_interface(
    NamedBy by, const std::string& named, std::span<const Interface> interfaces);

/// Used if no interface is named. `chosen` is the source address of packets to other machines;
/// empty: there is no route. Without other nodes none is needed.
Finding judge_route(
    std::span<const Interface> interfaces, const std::string& chosen, bool has_others);

/// Whether the job has other nodes.
enum class Others : std::uint8_t { kNo, kYes, kNotKnown };

/// This machine's own name, on which Gloo listens by default. With other nodes it must not resolve
/// to the loopback address, as it does on Debian; if it is not known whether there are any, that is
/// a warning.
Finding judge_host_name(
    const std::string& name, const Result<std::vector<std::string>>& addresses, Others others);

/// The connections between this node and another node of its step.
struct NodeConnectivity {
  std::string node;
  std::optional<Error> error;  // why it could not be reached; none: it was reached
  bool was_heard = false;      // whether it reached this node
  bool can_be_heard = true;    // false: a running job has this node's port
  // Which is running there and has its port, so that no doctor replied: its id, or empty.
  std::optional<std::string> job = std::nullopt;
  Duration ahead{};  // its clock minus ours, if it was reached
  Duration doubt{};  // maximum error of `ahead`: half of the round trip
};

/// One line for all nodes without a problem, and one for each cause of a problem.
/// REQUIRES: there is at least one node, and each node is a host as expand_hostlist()
/// yields it.
Findings judge_connectivity(std::span<const NodeConnectivity> results, std::uint16_t port);

/// The message that two doctors of a step send each other, in both directions.
struct Greeting {
  static constexpr std::size_t kBytesMax = 128;

  std::string step;  // "7782523.0"
  std::size_t node_id = 0;
  std::int64_t clock_ns = 0;  // since 1970, by the sender's clock when it sent this

  /// One line, with its newline.
  std::string to_line() const;

  /// Fails with kProtocol if the sender is not a doctor.
  static Result<Greeting> parse(std::string_view line);

  bool operator==(const Greeting&) const = default;
};

}  // namespace ddprun
