#pragma once

// What `ddpctl doctor` makes of the network: the interfaces of this machine, and how it met the
// doctors of the other nodes. Pure, as diagnosis.hpp is.

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

/// Who said which interfaces are to be used. They mean different things by it.
enum class NamedBy : std::uint8_t {
  kFlag,  // --interface: one exact name
  kGloo,  // GLOO_SOCKET_IFNAME: exact names
  kNccl,  // NCCL_SOCKET_IFNAME: beginnings of names; "=" before them: exact; "^": all but these
};

/// Each interface that is named has to be there, up and with an address; for NCCL, one of them.
Finding judge_interface(
    NamedBy by, const std::string& named, std::span<const Interface> interfaces);

/// Of those that nobody has named. `chosen` is the address from which packets to other machines
/// leave; empty: there is no route. Without other nodes none is needed.
Finding judge_route(
    std::span<const Interface> interfaces, const std::string& chosen, bool has_others);

/// Whether the job has other nodes.
enum class Others : std::uint8_t { kNo, kYes, kNotKnown };

/// This machine's own name, to which Gloo listens unless told otherwise; with other nodes it must
/// not stand for the loopback, as it does on Debian. Where nobody knows of others it is a warning.
Finding judge_host_name(
    const std::string& name, const Result<std::vector<std::string>>& addresses, Others others);

/// How this node met another one of its step.
struct Encounter {
  std::string node;
  std::optional<Error> error;  // why it was not reached; none: it was
  bool was_heard = false;      // whether it reached us
  Duration ahead{};            // of its clock, once it was reached
  Duration doubt{};            // by which `ahead` may be wrong: half of the way there and back
};

/// What is well is told in one line for all nodes; what is wrong in one for each cause.
/// REQUIRES: there is one encounter at least, and each node is a host as expand_hostlist() gives
/// it.
Findings judge_encounters(std::span<const Encounter> encounters, std::uint16_t port);

/// What the doctors of a step say to each other, in both directions.
struct Greeting {
  static constexpr std::size_t kBytesMax = 128;

  std::string step;  // "7782523.0"
  std::size_t node_id = 0;
  std::int64_t clock_ns = 0;  // since 1970, of the speaker, when it spoke

  /// One line, with its end.
  std::string to_line() const;

  /// Fails with kProtocol where something else than a doctor speaks.
  static Result<Greeting> parse(std::string_view line);

  bool operator==(const Greeting&) const = default;
};

}  // namespace ddprun
