#pragma once

#include "base/time.hpp"
#include "rendezvous/core/auth_proof.hpp"
#include "rendezvous/core/rendezvous_node.hpp"
#include "rendezvous/http_sessions.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ddprun {

/// The page /status of `node`: the job's status as JSON if it leads, a redirect to the leader (307)
/// if it knows one, else 503. `version` is that of ddprun, `own_steps` of the workers of this node.
HttpPage status_page(
    const RendezvousNode& node,
    std::string version,
    const std::vector<StepReport>& own_steps,
    TimePoint now);

/// The pages /status of one node for all who ask. A leader makes one at most once in a heartbeat
/// interval, and whenever the round or its phase has changed: to make one takes as long as there
/// are nodes, on the thread that answers heartbeats, and anybody may ask.
class StatusPages {
 public:
  using ReadSteps = std::function<std::vector<StepReport>()>;

  /// `node` outlives it. `own_steps` yields those of the workers of this node.
  StatusPages(const RendezvousNode& node, std::string version, ReadSteps own_steps)
      : node_(&node), version_(std::move(version)), own_steps_(std::move(own_steps)) {}

  /// REQUIRES: `now` never goes back.
  HttpPage page(TimePoint now);

  /// The page for a request with this header Authorization (empty: none) to a node with `key`: the
  /// whole one if it proves enough, else the public one, with a challenge.
  HttpPage page_for(const AuthKey& key, std::string_view authorization, TimePoint now);

  /// The page for those who prove nothing, if nodes authenticate each other: the job's state alone
  /// if the node leads, 401 if it knows the leader, else 503. It has no name, address or number of
  /// a node or process.
  HttpPage public_page(TimePoint now) const;

 private:
  /// What people wait for.
  struct Stage {
    std::int64_t term = 0;
    RoundId round;
    Coordinator::Phase phase{};
    bool has_verdict = false;

    bool operator==(const Stage&) const = default;
  };
  struct Made {
    TimePoint at;
    Stage stage;
    HttpPage page;
  };

  const RendezvousNode* node_;
  std::string version_;
  ReadSteps own_steps_;
  std::optional<Made> made_;
};

}  // namespace ddprun
