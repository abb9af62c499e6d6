#pragma once

// RendezvousNode: everything that one agent decides about the others, without sockets, processes
// and clocks: which node to call, which to obey, when to stop, when to lead. It is made of
//
//   Member       this node's side: joins, obeys, keeps its lease, votes          (member.hpp)
//   Election     gathers votes from its callers, once the leader is lost         (election.hpp)
//   Coordinator  decides for all, while this node leads                          (coordinator.hpp)
//   Notices      calls that only report a leader or a survivor                   (notices.hpp)
//   Admission    which callers are refused                                       (admission.hpp)
//
// Member and Coordinator exchange the same messages as with other nodes. RendezvousNode itself
// decides where a caller belongs, and which instance of the job this node takes part in. The shell
// performs the effects in order and keeps one timer, set to next_deadline(). The simulation
// (tests/sim) drives the very same class.

#include "base/time.hpp"
#include "rendezvous/core/admission.hpp"
#include "rendezvous/core/candidate.hpp"
#include "rendezvous/core/coordinator.hpp"
#include "rendezvous/core/effects.hpp"
#include "rendezvous/core/election.hpp"
#include "rendezvous/core/member.hpp"
#include "rendezvous/core/messages.hpp"
#include "rendezvous/core/notices.hpp"
#include "rendezvous/core/policy.hpp"

#include <optional>
#include <string>
#include <variant>

namespace ddprun {

class RendezvousNode {
 public:
  // What happened.
  struct Begin {
    std::string unfit;  // why this node had better run no workers; empty: it may
  };
  struct BecameHost {  // the endpoint turned out to be this node's, after Begin, and is listened on
    Endpoint listens;  // as in RendezvousPolicy::node
    Endpoint master;   // as in RendezvousPolicy
  };
  struct Connected {  // a Call of ours was taken
    Link link{};
  };
  struct Received {  // on a call of ours, or from a node that called us
    Link link{};
    Message message;
  };
  struct Closed {  // ended or refused, by the other side or by the network
    Link link{};
    std::string why;  // a clause for people
    // Our call was taken, and ended without a message, which is what other programs do: a ddprun
    // answers a hello, says why not, or keeps silent.
    bool is_foreign = false;
  };
  struct LifelineOpened {  // to us, while we lead
    Incarnation node{};
    Leadership leadership;  // that it was opened to
  };
  struct LifelineEnded {  // nothing of that node runs any more
    Incarnation node{};
  };
  struct LifelineDropped {  // to us; that node may run
    Incarnation node{};
  };
  struct Goodbye {  // nothing of that leader's node runs any more
    Leadership leadership;
  };
  struct FenceHeld {  // answers effects::ClaimFence
    Incarnation instance{};
    RoundId round;
    Incarnation holder{};
  };
  struct Workers {  // news of our own
    WorkerNews news;
  };
  struct FailureRead {  // the last output of our worker that ended the round
    FailureText text;
  };
  struct StoreReached {};  // a worker of the round that this node started has spoken to its store
  struct Signalled {
    int signal = 0;  // SIGKILL, after another: the job ends without a grace
    bool whole_job = false;
  };
  struct Tick {};  // next_deadline() has passed; one that comes early does no harm
  using Event = std::variant<
      Begin,
      BecameHost,
      Connected,
      Received,
      Closed,
      LifelineOpened,
      LifelineEnded,
      LifelineDropped,
      Goodbye,
      FenceHeld,
      Workers,
      FailureRead,
      StoreReached,
      Signalled,
      Tick>;

  explicit RendezvousNode(RendezvousPolicy policy);
  ~RendezvousNode() = default;
  RendezvousNode(const RendezvousNode&) = delete;
  RendezvousNode& operator=(const RendezvousNode&) = delete;

  /// Advances by one event and appends what follows. REQUIRES: `now` never goes back. Links of
  /// callers are even and > 0, each used once; those of our own calls are odd, and chosen here.
  void apply(const Event& event, TimePoint now, Effects& out);

  /// When the next Tick is due, if nothing else happens before.
  std::optional<TimePoint> next_deadline() const;

  const RendezvousPolicy& policy() const { return policy_; }
  const Member& member() const { return member_; }
  /// While this node leads.
  const Coordinator* coordinator() const { return coordinator_ ? &*coordinator_ : nullptr; }

 private:
  void on(const Begin& event, TimePoint now);
  void on(const BecameHost& event, TimePoint now);
  void on(const Connected& event, TimePoint now);
  void on(const Received& event, TimePoint now);
  void on(const Closed& event, TimePoint now);
  void on(const LifelineOpened& event, TimePoint now);
  void on(const LifelineEnded& event, TimePoint now);
  void on(const LifelineDropped& event, TimePoint now);
  void on(const Goodbye& event, TimePoint now);
  void on(const FenceHeld& event, TimePoint now);
  void on(const Workers& event, TimePoint now);
  void on(const FailureRead& event, TimePoint now);
  void on(const StoreReached& event, TimePoint now);
  void on(const Signalled& event, TimePoint now);
  void on(const Tick& event, TimePoint now);

  // Callers (rendezvous_node_callers.cpp).
  void greet(Link link, const Hello& hello, TimePoint now);
  void greet_by(Coordinator& leads, Link link, const Hello& hello, TimePoint now);
  void greet_survivor(Link link, const Hello& hello, TimePoint now);
  void on_redirect(Link link, const Redirect& redirect, TimePoint now);
  void on_survivor(Link link, const Survivor& survivor, TimePoint now);
  void refuse(Link link, const Hello& hello, Refuse why);
  void redirect(Link link);
  void probe_namesakes(const NodeInfo& caller, TimePoint now);
  Admission::Role role() const;
  std::optional<Redirect> leader() const;

  // The instance.
  bool may_bootstrap() const;
  void bootstrap(TimePoint now);
  void give_way(TimePoint now);
  std::string doubled_by(const std::string& where) const;
  /// From a node that knows of it.
  void hears_of_instance(TimePoint now) { heard_of_instance_at_ = now; }
  bool waits_for_instance() const;
  TimePoint forgets_instance_at() const {
    return heard_of_instance_at_ ? *heard_of_instance_at_ + policy_.search_timeout : kNever;
  }
  void forget_instance(TimePoint now);
  std::optional<QuorumLoss> loss_of_instance(TimePoint now) const;

  // Leadership.
  void mind_election(TimePoint now);
  void lead(const ElectionResult& election_result, TimePoint now);
  void set_own_lease(TimePoint now);
  void mind_leadership(TimePoint now, Effects& out);
  void hang_up_on_nodes(Effects& out) const;

  void route(TimePoint now, Effects& out);

  RendezvousPolicy policy_;  // only BecameHost changes it
  Member member_;
  std::optional<Coordinator> coordinator_;
  Election election_;
  Notices notices_;
  Admission admission_;
  bool hosts_ = false;  // the endpoint
  // The last time, of an instance of this job in which a round was started; none: never.
  std::optional<TimePoint> heard_of_instance_at_;
  // Another job has called here as if the endpoint were its own.
  std::optional<TimePoint> stranger_since_;

  Effects from_member_;
  Effects from_coordinator_;
  Effects routed_;  // of one of these, while they are passed on: each keeps its memory
};

}  // namespace ddprun
