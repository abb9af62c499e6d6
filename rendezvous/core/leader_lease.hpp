#pragma once

// LeaderLease: until when a leader may act (E2), and what it may grant its nodes (E3). A node that
// has confirmed a reply votes for no other for a lease from when that reply was sent. While a
// majority of the voter set has, no other node can lead.

#include "base/time.hpp"
#include "rendezvous/core/messages.hpp"
#include "rendezvous/core/quorum.hpp"

#include <boost/container/flat_map.hpp>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace ddprun {

/// More than twelve members: what a lease is computed from, and the times that come of it, which
/// refresh() sets together.
class LeaderLease {
 public:
  struct Timing {
    Duration lease{};
    Duration margin{};
  };

  /// `self` leads from `now` on, if a majority of each of `voter_sets` replies.
  LeaderLease(
      Incarnation self, Timing timing, std::vector<KnownVoterSet> voter_sets, TimePoint now);

  /// A connection of that node begins; its first heartbeat confirms that it was welcomed.
  void join(Incarnation node, const VoterState& voter_state, TimePoint now);
  void heartbeat(Incarnation node, const Heartbeat& heartbeat, TimePoint now);
  void confirm(Incarnation node, const Confirm& confirm, TimePoint now);
  /// The reply to the newest heartbeat: no more than our majority holds, to which `node` belongs
  /// once this arrives there. From when that heartbeat came. REQUIRES: it has joined.
  HeartbeatReply answer(Incarnation node);
  /// When the newest reply was sent that it surely got; none: not one since it joined.
  std::optional<TimePoint> answered_at(Incarnation node) const {
    const auto found = confirmed_.find(node);
    return found == confirmed_.end() ? std::nullopt : found->second.sent;
  }
  /// Of a node that is not here any more. It counts in its voter set.
  void forget(Incarnation node) { confirmed_.erase(node); }
  /// Its death is proved: subtracted, if what it last confirmed still kept it from voting (E6).
  void died(Incarnation node, TimePoint now);

  /// From here on a majority of this voter set is needed for grants as well.
  void offer(KnownVoterSet voters, TimePoint now);
  void cancel_offer() { offered_.reset(); }
  /// What was offered is started: from here on it is the only voter set. REQUIRES: there is one.
  void start(TimePoint now);

  /// Yields whether this node may act now.
  bool renew(TimePoint now);

  /// Until when this node may act; kNever: no other could lead.
  TimePoint until() const { return until_; }
  TimePoint grants_until() const { return grants_until_; }
  /// By then no node runs workers on what was granted. It may be later than until().
  TimePoint granted_until() const { return granted_until_; }
  /// A majority has replied once. Until then there is some time for it to do so.
  bool is_confirmed() const { return is_confirmed_; }
  /// This node may not act any more, nor ever again.
  bool is_over() const { return is_over_; }
  /// When renew() is due, if nothing happens before.
  TimePoint deadline() const { return is_confirmed_ ? until_ : confirm_by_; }

  /// When it last spoke to a node that may trust in it since: no proof of its death that comes a
  /// lease and a margin later counts as one in time (E6).
  TimePoint spoke_at() const { return spoke_at_; }

  /// The newest that was started, then those that may have been.
  const std::vector<KnownVoterSet>& voter_sets() const { return voter_sets_; }
  /// All of them have come to this leader at some time.
  bool has_seen_all() const {
    return std::ranges::all_of(
        voter_sets_, [](const KnownVoterSet& voters) { return unseen_in(voters) <= 0; });
  }
  /// Whether `has_agreed`, by incarnation, holds for a majority of every one.
  bool majority_is(const auto& has_agreed) const {
    return std::ranges::all_of(
        voter_sets_, [&](const KnownVoterSet& voters) { return is_quorum(voters, has_agreed); });
  }
  /// The same with the one on offer.
  bool majority_is_with_offer(const auto& has_agreed) const {
    return majority_is(has_agreed) && offered_ && is_quorum(*offered_, has_agreed);
  }

 private:
  struct Confirmed {
    std::int64_t heartbeat = 0;  // the newest
    TimePoint heartbeat_at;
    std::optional<TimePoint> sent;                            // the newest reply it surely has
    std::vector<std::pair<std::int64_t, TimePoint>> answers;  // sent, not confirmed yet
  };

  Duration next_heartbeat(Incarnation node, TimePoint arrived) const;
  void note_heard(Confirmed& confirmed, std::int64_t heard, TimePoint now);
  QuorumHold held_of(const KnownVoterSet& voters) const;
  TimePoint grantable(const KnownVoterSet& voters, const QuorumHold& held, Incarnation node) const;
  void refresh(TimePoint now);

  Incarnation self_{};
  Timing timing_;
  std::vector<KnownVoterSet> voter_sets_;  // a majority of each is needed
  std::optional<KnownVoterSet> offered_;
  boost::container::flat_map<Incarnation, Confirmed>
      confirmed_;  // of all who are here, ourselves included
  TimePoint confirm_by_;
  TimePoint until_;
  TimePoint grants_until_;
  TimePoint granted_until_;
  std::vector<QuorumHold> held_;  // as of then, of each voter set
  QuorumHold offered_held_;       // of the one on offer
  TimePoint refreshed_at_;
  TimePoint spoke_at_;
  bool is_confirmed_ = false;
  bool is_over_ = false;
};

}  // namespace ddprun
