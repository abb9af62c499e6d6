#include "tests/sim/describe.hpp"

#include <fmt/format.h>

#include <variant>

namespace ddprun::sim {

namespace {

/// Each message by name, with what decides.
class Describe {
 public:
  explicit Describe(const NameOf& name_of) : name_of_(name_of) {}

  std::string operator()(const Hello& hello) const {
    return fmt::format("Hello, knows {}", newest(hello.voter_state));
  }
  std::string operator()(const Heartbeat& /*too many*/) const { return {}; }
  std::string operator()(const Confirm& /*too many*/) const { return {}; }
  std::string operator()(const HeartbeatReply& /*too many*/) const { return {}; }
  std::string operator()(const Acknowledge& acknowledge) const {
    return "Acknowledge " + describe(acknowledge.round);
  }
  std::string operator()(const WorkerNews& news) const {
    static constexpr const char* kStates[] = {"stopped", "running", "failed", "succeeded"};
    const auto* const state = kStates[static_cast<std::size_t>(news.state)];
    const std::string how = news.failure ? ", " + news.failure->how : "";
    return fmt::format("WorkerNews {}: {}{}", describe(news.round), state, how);
  }
  std::string operator()(const FailureText& text) const {
    return fmt::format("FailureText of rank {}", text.rank);
  }
  std::string operator()(const Leaving& leaving) const {
    return fmt::format("Leaving, signal {}", leaving.signal);
  }
  std::string operator()(const PreVote& vote) const { return "PreVote" + death(vote.dead); }
  std::string operator()(const Vote& vote) const {
    return fmt::format("Vote in term {}{}", vote.term, death(vote.dead));
  }
  std::string operator()(const VerdictHeard& /*heard*/) const { return "VerdictHeard"; }
  std::string operator()(const Welcome& welcome) const {
    return fmt::format("Welcome to term {}", welcome.term);
  }
  std::string operator()(const Redirect& redirect) const {
    return fmt::format(
        "Redirect to {}, leader of term {}",
        name_of_(redirect.leadership.leader),
        redirect.leadership.term);
  }
  std::string operator()(const Survivor& survivor) const {
    return "Survivor at " + survivor.at.host;
  }
  std::string operator()(const Wait& wait) const { return "Wait for " + name_of_(wait.node); }
  std::string operator()(const VoteRequest& request) const {
    return fmt::format("VoteRequest for term {}", request.term);
  }
  std::string operator()(const OfferRound& offer) const {
    const std::string place =
        offer.place ? fmt::format("node {} of {}", offer.place->group_rank, offer.place->group_size)
                    : "spare";
    return fmt::format(
        "OfferRound {}: {}, {} voters", describe(offer.round), place, offer.voter_count);
  }
  std::string operator()(const StartRound& start) const {
    return "StartRound " + describe(start.round);
  }
  std::string operator()(const StopRound& stop) const {
    return fmt::format("StopRound {}: {}", describe(stop.round), stop.why);
  }
  std::string operator()(const VerdictNews& news) const {
    return fmt::format(
        "VerdictNews: exit status {}{}", news.verdict.exit_status, news.is_final ? ", final" : "");
  }
  std::string operator()(const Refuse& refuse) const { return "Refuse: " + refuse.why; }

 private:
  static std::string newest(const VoterState& known) {
    const RoundId offered = known.offered.round;
    if (offered.number == 0) return "no round";
    const bool has_started = known.committed.round == offered;
    return describe(offered) + (has_started ? "" : ", offered");
  }

  std::string death(const LeaderDeath& dead) const {
    if (dead.of.term == 0) return {};
    return fmt::format(
        ", {} of term {} is {}",
        name_of_(dead.of.leader),
        dead.of.term,
        dead.is_replaced ? "replaced" : "dead");
  }

  const NameOf& name_of_;
};

}  // namespace

std::string describe(RoundId round) {
  if (round.number == 0) return "no round";
  return fmt::format("term {} round {}", round.term, round.number);
}

std::string describe(const Message& message, const NameOf& name_of) {
  return std::visit(Describe(name_of), message);
}

}  // namespace ddprun::sim
