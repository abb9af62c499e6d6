#pragma once

// SearchReport: what the calls of a search for a leader have come to, and what people are told of
// it: while it takes long, and when it ends in vain.

#include "base/time.hpp"
#include "rendezvous/core/effects.hpp"
#include "rendezvous/core/messages.hpp"
#include "rendezvous/core/policy.hpp"
#include "rendezvous/core/voter.hpp"
#include "rendezvous/core/worker_lease.hpp"

#include <optional>
#include <string>
#include <vector>

namespace ddprun {

/// Where an endpoint is given by name, the name may lead to what has this job's old address now:
/// name services keep what they were told for 5 s where pods come and go (the cache of Kubernetes'
/// name service). Another job that answers there is not taken for the one that has the endpoint
/// before.
inline constexpr Duration kOldAddressWait = std::chrono::seconds(6);

class SearchReport {
 public:
  /// What it takes outlives it.
  SearchReport(const RendezvousPolicy& policy, const Voter& voter, WorkerLease& workers)
      : policy_(policy), voter_(voter), workers_(workers) {}

  // What the calls come to. --------------------------------------------------------------------

  /// The newest call to a node that may lead was in vain.
  void failed(std::string why) { in_vain_ = std::move(why); }
  /// A node of the job was called, and waits for a leader as well.
  void answered() { is_answered_ = true; }
  /// Whether a call got through, and no node of any job answered.
  void set_taken(bool is_taken) { is_taken_ = is_taken; }
  /// `at` was called, and something answered: a program that is not ddprun, or ddprun.
  void note_foreign(const Endpoint& at, bool is_foreign, TimePoint now);
  /// Another program has had the only endpoint for as long as the node that was to listen there
  /// needed to find it out as well.
  bool is_endpoint_foreign(TimePoint now) const;
  /// Another job has that endpoint, which is ours: its leader called here.
  void endpoint_has_leader(const Endpoint& leader) { foreign_leader_ = leader; }
  /// Another job refused this node.
  void note_stranger(TimePoint now) {
    if (!stranger_since_) stranger_since_ = now;
  }
  /// Our own job may be at another endpoint than `at`, where a stranger answered, or come to it.
  bool may_be_elsewhere(const Endpoint& at, TimePoint now) const;
  /// Once: that the stranger, which refused with `why`, may have our job's old address.
  void report_old_address(const std::string& why, TimePoint now, Effects& out) const;
  /// Why no leader can be elected, as it is known here or at the node where this one waits.
  const QuorumLoss& loss() const { return loss_; }
  void set_loss(const QuorumLoss& loss) { loss_ = loss; }
  void forget_loss();
  /// A leader was found.
  void end();
  /// No survivor is heard any more: what the calls to them came to does not matter.
  void forget_survivors();

  // For people. --------------------------------------------------------------------------------

  /// REQUIRES: no leader since `since`.
  void report(const std::vector<Endpoint>& survivors, TimePoint since, TimePoint now, Effects& out);
  /// It has taken so long that people are told.
  bool has_waited_long(TimePoint since, TimePoint now) const {
    return !workers_.are_running() && now >= reports_loss_at(since);
  }
  TimePoint reports_loss_at(TimePoint since) const;
  /// How long a node stays without a leader, before it ends.
  Duration timeout() const;
  /// Why it ends after that.
  std::string why_given_up(const std::vector<Endpoint>& survivors) const;
  std::string why_foreign() const;

 private:
  bool may_be_old_address(TimePoint now) const {
    return policy_.endpoint_has_name && stranger_since_ && now < *stranger_since_ + kOldAddressWait;
  }
  void report_quorum_loss(TimePoint since, TimePoint now, Effects& out);

  const RendezvousPolicy& policy_;
  const Voter& voter_;
  WorkerLease& workers_;
  std::string in_vain_;
  bool is_answered_ = false;
  bool is_taken_ = false;
  std::optional<TimePoint> foreign_since_;
  std::optional<TimePoint> stranger_since_;
  std::optional<Endpoint> foreign_leader_;
  QuorumLoss loss_;
  bool has_reported_waiting_ = false;
  bool has_reported_loss_ = false;
};

}  // namespace ddprun
