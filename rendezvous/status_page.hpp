#pragma once

#include "base/time.hpp"
#include "rendezvous/core/rendezvous_node.hpp"
#include "rendezvous/http_session.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace ddprun {

/// The page /status of `node`: the job's status as JSON if it leads, a redirect to the leader (307)
/// if it knows one, else 503. `version` is that of ddprun.
HttpPage status_page(const RendezvousNode& node, std::string version, TimePoint now);

/// The pages /status of one node for all who ask. A leader makes one at most once in a heartbeat
/// interval, and whenever the round or its phase has changed: to make one takes as long as there
/// are nodes, on the thread that answers heartbeats, and anybody may ask.
class StatusPages {
 public:
  /// `node` outlives it.
  StatusPages(const RendezvousNode& node, std::string version)
      : node_(&node), version_(std::move(version)) {}

  /// REQUIRES: `now` never goes back.
  HttpPage page(TimePoint now);

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
  std::optional<Made> made_;
};

}  // namespace ddprun
