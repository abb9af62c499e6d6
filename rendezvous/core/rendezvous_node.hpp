#pragma once

// RendezvousNode: everything that one agent decides about the others, with sockets, processes and
// clocks left out: whom to call, whom to obey, when to stop, when to lead. It is made of
//
//   Member       this node's side: joins, obeys, keeps its lease, votes         (member.hpp)
//   Candidate    gathers votes once the leader is lost                          (candidate.hpp)
//   Coordinator  decides for all, while this node leads                         (coordinator.hpp)
//
// which speak to one another by the same messages as to other nodes. The shell performs the effects
// in order and keeps one timer, set to next_deadline(). The simulation (tests/sim) drives the very
// same class.

#include "base/once_per.hpp"
#include "rendezvous/core/candidate.hpp"
#include "rendezvous/core/coordinator.hpp"
#include "rendezvous/core/effects.hpp"
#include "rendezvous/core/member.hpp"
#include "rendezvous/core/messages.hpp"
#include "rendezvous/core/policy.hpp"
#include "rendezvous/core/quorum_loss.hpp"

#include <deque>
#include <map>
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
  struct Received {  // on a call of ours, or from somebody who called us
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
  void on(const Goodbye& event, TimePoint now);
  void on(const FenceHeld& event, TimePoint now);
  void on(const Workers& event, TimePoint now);
  void on(const FailureRead& event, TimePoint now);
  void on(const StoreReached& event, TimePoint now);
  void on(const Signalled& event, TimePoint now);
  void on(const Tick& event, TimePoint now);

  /// Somebody who called while there is no leader.
  struct Caller {
    Hello hello;
    std::optional<PreVote> pre_vote;
    std::optional<Wait> told;
    TimePoint until;  // whoever lives has said something by then, or has hung up
  };

  std::optional<Refuse> objection(const Hello& hello) const;
  std::optional<Refuse> objection_to_flags(const Hello& hello) const;
  bool refuse(Link link, const Hello& hello, Refuse why);
  std::optional<Redirect> leader() const;
  void begin_to_refuse(TimePoint now);
  void report_that_it_cannot_host(Link link, const Hello& hello);
  void mind_refusals(TimePoint now, Effects& out);
  void bootstrap(TimePoint now);
  bool may_bootstrap() const;
  void hears_of_instance(TimePoint now);
  bool is_newcomer() const;
  bool waits_for_instance() const;
  void forget_instance(TimePoint now);
  void greet(Link link, const Hello& hello, TimePoint now);
  void greet_survivor(Link link, const Hello& hello, TimePoint now);
  void told(Link link, const Redirect& redirect, TimePoint now);
  void probe_namesakes(const NodeInfo& caller, TimePoint now);
  void notify(const Endpoint& to, TimePoint now);
  void mind_replacements(TimePoint now);
  void give_way(TimePoint now);
  std::string doubled_by(const std::string& where) const;
  Candidate::Setting candidate_setting(TimePoint now) const;
  void lead(const ElectionResult& election_result, TimePoint now);
  void mind_turn(TimePoint now);
  void mind_callers(TimePoint now);
  void mind_candidacy(TimePoint now);
  bool would_win(TimePoint now) const { return would_win(member_.voter(), policy_.has_fence, now); }
  bool would_win(const Voter& voter, bool has_fence, TimePoint now) const;
  void mind_quorum_loss(TimePoint now);
  QuorumLossFacts quorum_loss_facts(TimePoint now) const;
  void claim_fences(TimePoint now);
  void await(Link link, const Hello& hello, TimePoint now);
  void extend(Caller& caller, TimePoint now);
  void drop_silent_callers(TimePoint now);
  void ask(Link link, Caller& caller, TimePoint now);
  void mind_leadership(TimePoint now, Effects& out);
  std::vector<Endpoint> uninformed() const;
  void announce(TimePoint now);
  void mind_search(TimePoint now);
  void told_of_survivor(Link link, const Survivor& survivor, TimePoint now);
  void greet_by(Coordinator& leads, Link link, const Hello& hello, TimePoint now);
  void redirect(Link link);
  void drop_stale_notices(TimePoint now);
  void set_own_lease(TimePoint now);
  void route(TimePoint now, Effects& out);

  RendezvousPolicy policy_;  // only BecameHost changes it
  Member member_;
  std::optional<Candidate> candidate_;
  std::optional<Coordinator> coordinator_;
  std::map<Link, Caller> callers_;
  TimePoint callers_due_ = kNever;  // none is silent for too long before
  bool hosts_ = false;              // the endpoint
  bool bootstraps_ = false;         // it leads the first term of an instance of its own
  struct Fence {
    Instance instance;
    std::optional<Incarnation> holder;  // none: not known yet
  };
  std::map<RoundId, Fence> fences_;  // claimed, by voter set
  bool knows_of_instance_ = false;   // of this job, in which a round was started
  std::optional<TimePoint>
      stranger_since_;              // another job has called here as the endpoint is its own
  TimePoint heard_of_instance_at_;  // the last time

  // Calls that only say who leads now, or that a survivor is here.
  struct Notice {
    Endpoint to;
    TimePoint until;  // it gets no reply
  };
  std::map<Link, Notice> notices_;
  std::uint64_t notices_made_ = 0;
  TimePoint announce_at_;
  TimePoint announce_until_;                    // to others than the endpoint
  std::optional<TimePoint> calls_endpoint_at_;  // while it searches for a leader

  OncePer<Incarnation> refused_;            // nodes that people were told of
  std::optional<TimePoint> refuses_until_;  // it cannot host the endpoint
  int told_that_it_cannot_host_ = 0;        // nodes of this job

  TimePoint described_at_;  // the lost quorum, the last time

  Effects from_member_;
  Effects from_coordinator_;
};

}  // namespace ddprun
