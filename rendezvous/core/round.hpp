#pragma once

// A round, and the table of what each event does in each phase. Rounds steps it; nobody else
// decides when a round is offered, started or stopped.

#include "base/time.hpp"
#include "rendezvous/core/candidate.hpp"
#include "rendezvous/core/link.hpp"
#include "rendezvous/core/messages.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

namespace ddprun {

enum class RoundPhase : std::uint8_t {
  kGathering,  // no round; nodes are awaited
  kOffered,    // the nodes of the next round were asked to acknowledge it
  kRunning,    // started
  kStopping,   // its nodes were ordered to stop their workers
};

enum class RoundEvent : std::uint8_t {
  kEnoughNodes,   // MIN nodes are ready, with a majority of the voters, and no wait is left
  kMemberGone,    // a member of its voter set lost its connection, leaves, or is lost
  kAcknowledged,  // by all that are to run, and by a majority of the old and of the new voter set
  kStop,          // a worker failed, or a node of it is lost, leaves or joins; or a notice, or
                  // another order after that
  kAllEnded,      // none of its workers runs: by report, by proof of death, by lease (R2)
  kVerdict,       // the job ends
};

enum class RoundAction : std::uint8_t {
  kNothing,
  kOffer,   // send the offer to all that are ready
  kCancel,  // forget the offer
  kStart,   // begin the store (R7), and order all to start
  kStop,    // order all to stop
  kClose,   // count the attempt
  kBug,     // the event cannot come
};

struct RoundStep {
  // No default constructor: a missing cell or row of the table does not compile.
  constexpr RoundStep(RoundPhase phase, RoundAction what) : next(phase), action(what) {}
  RoundPhase next;
  RoundAction action;
};

inline constexpr std::size_t kRoundPhases = 4;
inline constexpr std::size_t kRoundEvents = 6;

/// What follows from an event. Total: each phase knows each event.
constexpr RoundStep step(RoundPhase phase, RoundEvent event) {
  using enum RoundPhase;
  using enum RoundAction;
  // clang-format off
  constexpr RoundStep kTable[kRoundPhases][kRoundEvents] = {
      // kEnoughNodes      kMemberGone             kAcknowledged       kStop               kAllEnded             kVerdict
      {{kOffered, kOffer}, {kGathering, kNothing}, {kGathering, kBug}, {kGathering, kBug}, {kGathering, kBug},   {kGathering, kNothing}},  // kGathering
      {{kOffered, kBug},   {kGathering, kCancel},  {kRunning, kStart}, {kOffered, kBug},   {kOffered, kBug},     {kGathering, kCancel}},   // kOffered
      {{kRunning, kBug},   {kRunning, kNothing},   {kRunning, kBug},   {kStopping, kStop}, {kRunning, kBug},     {kStopping, kStop}},      // kRunning
      {{kStopping, kBug},  {kStopping, kNothing},  {kStopping, kBug},  {kStopping, kStop}, {kGathering, kClose}, {kStopping, kNothing}},   // kStopping
  };
  // clang-format on
  return kTable[static_cast<std::size_t>(phase)][static_cast<std::size_t>(event)];
}

/// The present or the last round.
struct Round {
  RoundId id;                       // number 0: none was offered yet
  std::vector<Incarnation> to_run;  // by group rank
  std::set<Incarnation> runs;       // the same, to find one
  KnownVoterSet voters;
  std::set<Incarnation> acknowledged;
  std::map<Incarnation, Link> started_on;  // the connections that the start was sent on
  TimePoint started_at;
  bool reached_store = false;       // one of its workers did
  std::set<Incarnation> ended;      // of those to run: none of their workers runs
  std::set<Incarnation> succeeded;  // and all exited 0
  std::set<Incarnation> saved;      // and all exited by themselves after a preemption notice
  StopRound order;                  // the newest one that was given

  bool has_ended() const { return ended.size() == to_run.size(); }
  bool has_succeeded() const { return succeeded.size() == to_run.size(); }
  bool is_to_run(Incarnation node) const { return runs.contains(node); }
};

}  // namespace ddprun
