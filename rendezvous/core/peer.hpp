#pragma once

// Peer: everything that one agent decides about the others, with sockets, processes and clocks left
// out: whom to call, whom to obey, when to stop, when to lead. It is made of
//
//   Member       this node's side: joins, obeys, keeps its lease, promises      (member.hpp)
//   Candidate    gathers promises once the leader is lost                       (candidate.hpp)
//   Coordinator  decides for all, while this node leads                         (coordinator.hpp)
//
// which speak to one another by the same messages as to other nodes. The shell performs the effects
// in order and keeps one timer, set to next_deadline(). The simulation (tests/sim) drives the very
// same class.

#include "rendezvous/core/candidate.hpp"
#include "rendezvous/core/coordinator.hpp"
#include "rendezvous/core/effects.hpp"
#include "rendezvous/core/member.hpp"
#include "rendezvous/core/messages.hpp"
#include "rendezvous/core/policy.hpp"

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <variant>

namespace ddprun {

class Peer {
 public:
  // What happened.
  struct Begin {};
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
  };
  struct LineOpened {  // to us, while we lead
    Incarnation node{};
    std::int64_t generation = 0;  // that it was opened to
  };
  struct LineEnded {  // while we lead: nothing of that node runs any more
    Incarnation node{};
  };
  struct Farewell {  // nothing of that generation's leader runs any more
    std::int64_t generation = 0;
  };
  struct Workers {  // news of our own
    WorkerNews news;
  };
  struct Signalled {
    int signal = 0;
    bool whole_job = false;
  };
  struct Tick {};  // next_deadline() has passed; one that comes early does no harm
  using Event = std::variant<
      Begin,
      Connected,
      Received,
      Closed,
      LineOpened,
      LineEnded,
      Farewell,
      Workers,
      Signalled,
      Tick>;

  explicit Peer(RendezvousPolicy policy);
  ~Peer() = default;
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

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
  void on(const Connected& event, TimePoint now);
  void on(const Received& event, TimePoint now);
  void on(const Closed& event, TimePoint now);
  void on(const LineOpened& event, TimePoint now);
  void on(const LineEnded& event, TimePoint now);
  void on(const Farewell& event, TimePoint now);
  void on(const Workers& event, TimePoint now);
  void on(const Signalled& event, TimePoint now);
  void on(const Tick& event, TimePoint now);

  /// Somebody who called while there is no leader.
  struct Caller {
    Hello hello;
    std::optional<Eligible> eligible;
    std::optional<Wait> told;
  };

  void greet(Link link, const Hello& hello, TimePoint now);
  void give_way(TimePoint now);
  void lead(const Mandate& mandate, TimePoint now);
  void mind_turn(TimePoint now);
  void mind_callers();
  void mind_candidacy(TimePoint now);
  bool would_win() const;
  void ask(Link link, const Caller& caller);
  void mind_leadership(TimePoint now, Effects& out);
  std::vector<Endpoint> uninformed() const;
  void announce(TimePoint now);
  void route(TimePoint now, Effects& out);

  const RendezvousPolicy policy_;
  Member member_;
  std::optional<Candidate> candidate_;
  std::optional<Coordinator> coordinator_;
  std::map<Link, Caller> callers_;
  bool founds_ = false;  // it is to lead the first generation

  // Calls that only say who leads now.
  std::map<Link, Endpoint> notices_;
  std::uint64_t notices_made_ = 0;
  TimePoint announce_at_;
  TimePoint announce_until_;  // to others than the endpoint

  Effects from_member_;
  Effects from_coordinator_;
};

}  // namespace ddprun
