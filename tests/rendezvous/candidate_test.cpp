#include "rendezvous/core/candidate.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>

namespace ddprun {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;
using testing::UnorderedElementsAre;

/// For a job that is fixed at 5 nodes.
Candidate::Setting setting() {
  Candidate::Setting out;
  out.rule.nodes = NodeRange(5, 5);
  out.lease = 3s;
  out.margin = 500ms;
  out.regroup = 400ms;
  return out;
}

constexpr RoundId kStarted{.term = 1, .number = 5};
constexpr RoundId kOffered{.term = 1, .number = 6};
constexpr Leadership kLeadership{.term = 1, .leader = Incarnation{9}};

Incarnation node(std::uint64_t number) {
  return Incarnation{number};
}

VoterSet voters(RoundId round, int size) {
  return {
      .round = round,
      .size = size,
      .is_member = true,
      .is_leader = false,
      .late = {},
      .members = {}};
}

/// The voter state of a node that ran round 5 of 5 nodes, including the leader of term 1.
Vote vote(bool leader_is_dead = false) {
  Vote out;
  out.term = 2;
  if (leader_is_dead) out.dead = {.of = kLeadership, .in_time = true, .is_replaced = false};
  out.voter_state.instance.bootstrap_leader = node(9);
  out.voter_state.term = 1;
  out.voter_state.obeyed = kLeadership;
  out.voter_state.committed = voters(kStarted, 5);
  out.voter_state.offered = out.voter_state.committed;
  out.voter_state.offered_nodes = 5;
  out.voter_state.was_to_run = true;
  return out;
}

/// Node 1 sends vote requests, and these nodes vote; its own vote is among them.
std::optional<ElectionResult> elected(
    const std::map<std::uint64_t, Vote>& votes, const Candidate::Setting& with = setting()) {
  Candidate candidate(node(1), with);
  candidate.campaign(votes.at(1));
  for (const auto& [number, one] : votes) {
    if (number != 1) candidate.voted(node(number), one);
  }
  return candidate.election_result();
}

TEST(Candidate, E5_NeedsAMajorityOfTheVoterSet) {
  EXPECT_FALSE(elected({{1, vote()}, {2, vote()}}));
  const auto election_result = elected({{1, vote()}, {2, vote()}, {3, vote()}});
  ASSERT_TRUE(election_result);
  EXPECT_EQ(election_result->term, 2);
  EXPECT_EQ(election_result->last_round, 5);
  EXPECT_THAT(
      election_result->voter_sets.front().members, UnorderedElementsAre(node(1), node(2), node(3)));
}

// `ddpctl status` said that the leader was lost, on the very node that had led and led again.
TEST(Candidate, ANodeThatLeadsAgainWasNotLost) {
  Candidate::Setting led_before = setting();
  led_before.led = 1;
  EXPECT_TRUE(elected({{1, vote()}, {2, vote()}, {3, vote()}}, led_before)->was_leader);
  EXPECT_FALSE(elected({{1, vote()}, {2, vote()}, {3, vote()}})->was_leader);
}

TEST(Candidate, E6_ALeaderThatIsProvedDeadIsSubtractedWhicheverNodeKnowsIt) {
  Vote four = vote();
  four.voter_state.committed.size = 4;
  EXPECT_FALSE(elected({{1, four}, {2, vote()}}));
  EXPECT_TRUE(elected({{1, four}, {2, vote(true)}}));
}

TEST(Candidate, E5_NeedsTheVoterSetThatWasOfferedLaterAsWell) {
  Vote later = vote();
  later.voter_state.offered = voters(kOffered, 3);
  later.voter_state.offered_nodes = 3;
  EXPECT_FALSE(elected({{1, later}, {2, vote()}, {3, vote()}}));
  EXPECT_TRUE(elected({{1, later}, {2, later}, {3, vote()}}));
}

// Its leader was lost before any node here heard of the start, and so was the next one's.
TEST(Candidate, E5_NeedsEveryVoterSetThatWasOfferedSince) {
  constexpr RoundId kLast{.term = 2, .number = 7};
  Vote later = vote();
  later.voter_state.offered = voters(kLast, 3);
  EXPECT_TRUE(elected({{1, later}, {2, later}, {3, vote()}}));
  Vote witness = later;
  witness.voter_state.undecided = {voters(kOffered, 3)};
  EXPECT_FALSE(elected({{1, witness}, {2, later}, {3, vote()}}));
  const auto election_result = elected({{1, witness}, {2, witness}, {3, vote()}});
  ASSERT_TRUE(election_result);
  EXPECT_THAT(election_result->voter_sets, SizeIs(3));
}

// Its death would be subtracted from a voter set that it does not belong to: then two halves of an
// even voter set could elect a leader each.
TEST(Candidate, E5_BelongsToEveryVoterSetItCounts) {
  Vote outside = vote();
  outside.voter_state.committed.is_member = false;
  outside.voter_state.offered = voters(kOffered, 3);
  Vote later = vote();
  later.voter_state.offered = outside.voter_state.offered;
  EXPECT_FALSE(elected({{1, outside}, {2, later}, {3, vote()}, {4, vote()}}));
}

// Its leader died while it offered: nodes that did not get the offer could never be counted.
TEST(Candidate, E5_ARoundThatOneOfItsNodesNeverAcknowledgedWasNotStarted) {
  Vote reporting = vote();
  reporting.voter_state.offered = voters(kOffered, 5);
  reporting.voter_state.offered.members = {{.node = node(2), .runs = true}};
  EXPECT_TRUE(elected({{1, reporting}, {2, vote()}, {3, vote()}}));
  reporting.voter_state.offered.members.clear();
  EXPECT_FALSE(elected({{1, reporting}, {2, vote()}, {3, vote()}}));
}

// The same, if all nodes that were to run got the offer, and no spare did.
TEST(Candidate, E5_ASpareThatDoesNotKnowItsVoterSetHasAVote) {
  Vote reporting = vote();
  reporting.voter_state.offered = voters(kOffered, 3);
  EXPECT_FALSE(elected({{1, reporting}, {2, vote()}, {3, vote()}}));
  reporting.voter_state.offered.members = {{.node = node(2), .runs = false}};
  EXPECT_TRUE(elected({{1, reporting}, {2, vote()}, {3, vote()}}));
}

TEST(Candidate, E4_AVoteOfAnotherInstanceDoesNotCount) {
  Vote other = vote();
  other.voter_state.instance.bootstrap_leader = node(8);
  EXPECT_FALSE(elected({{1, vote()}, {2, vote()}, {3, other}}));
}

// A leader that forgot the job begins with term 1 again; its death does not count for the other's.
TEST(Candidate, E6_TheDeathOfAnotherLeaderOfAnEarlierTermIsNotSubtracted) {
  Vote later = vote(true);
  later.voter_state.obeyed = {.term = 2, .leader = node(7)};
  later.voter_state.committed = voters({.term = 2, .number = 6}, 3);
  later.voter_state.offered = later.voter_state.committed;
  EXPECT_FALSE(elected({{1, later}}));
}

/// A vote with a voter set of `size` nodes, whose leader was proved dead too late.
Vote too_late(int size) {
  Vote out = vote(true);
  out.dead.in_time = false;
  out.voter_state.committed.size = size;
  out.voter_state.offered.size = size;
  return out;
}

TEST(Candidate, E9_ALateProofCountsIfTheOthersCannotHaveLedOnAlone) {
  EXPECT_TRUE(elected({{1, too_late(2)}})) << "of two nodes either may be dead";
  EXPECT_FALSE(elected({{1, too_late(3)}})) << "the two others may have led on";
  EXPECT_TRUE(elected({{1, too_late(4)}, {2, too_late(4)}}));
  EXPECT_FALSE(elected({{1, too_late(5)}, {2, too_late(5)}}));
}

TEST(Candidate, E9_ALateProofDoesNotCountWhereTheDeadLeaderCouldBreakATie) {
  Candidate::Setting elastic = setting();
  elastic.rule.nodes = NodeRange(1, 2);
  EXPECT_FALSE(elected({{1, too_late(2)}}, elastic));
  Vote vouched = too_late(2);
  vouched.dead.is_replaced = true;
  EXPECT_TRUE(elected({{1, vouched}}, elastic)) << "all others are replaced";
  elastic.rule.nodes = NodeRange(1, 3);
  EXPECT_FALSE(elected({{1, vouched}}, elastic)) << "it may have led on with a third";
}

TEST(Candidate, E8_TheLeaderOfTheRoundBreaksATieIfHalfOfTheNodesMayRun) {
  Vote led = vote();
  led.voter_state.committed = voters(kStarted, 4);
  led.voter_state.committed.is_leader = true;
  led.voter_state.offered = led.voter_state.committed;
  Vote followed = led;
  followed.voter_state.committed.is_leader = followed.voter_state.offered.is_leader = false;
  Candidate::Setting elastic = setting();
  elastic.rule.nodes = NodeRange(2, 4);
  EXPECT_TRUE(elected({{1, led}, {2, followed}}, elastic));
  EXPECT_FALSE(elected({{1, followed}, {2, followed}}, elastic)) << "the other half";
  EXPECT_FALSE(elected({{1, led}}, elastic)) << "no half";
  elastic.may_use_half = false;
  EXPECT_FALSE(elected({{1, led}, {2, followed}}, elastic)) << "some may take it for dead";
  EXPECT_FALSE(elected({{1, led}, {2, followed}}, setting())) << "half of them cannot run";
}

TEST(Candidate, E10_EitherHalfMayLeadThatHoldsTheFence) {
  Vote followed = vote();
  followed.voter_state.committed = voters(kStarted, 2);
  followed.voter_state.offered = followed.voter_state.committed;
  Candidate::Setting fenced = setting();
  fenced.rule = {.nodes = NodeRange(1, 2), .has_fence = true};
  Candidate candidate(node(1), fenced);
  candidate.campaign(followed);
  EXPECT_FALSE(candidate.election_result());
  EXPECT_THAT(candidate.fences_wanted(), ElementsAre(kStarted));
  fenced.fences = {kStarted};
  candidate.update(fenced);
  EXPECT_TRUE(candidate.election_result());
  fenced.fences = {};
  fenced.fences_of_others = {kStarted};
  candidate.update(fenced);
  EXPECT_FALSE(candidate.election_result());
  EXPECT_THAT(candidate.fences_wanted(), IsEmpty());
}

TEST(Candidate, E4_AVoteOfAnotherTermDoesNotCount) {
  Vote earlier = vote();
  earlier.term = 1;
  EXPECT_FALSE(elected({{1, vote()}, {2, vote()}, {3, earlier}}));
}

// Nodes that voted on proof may do so while a node that was not heard keeps its lease.
TEST(Candidate, R2_WaitsForThoseItHasNotHeardOf) {
  const auto on_proof = elected({{1, vote(true)}, {2, vote(true)}, {3, vote(true)}});
  ASSERT_TRUE(on_proof);
  EXPECT_EQ(on_proof->unheard, 1);
  EXPECT_EQ(on_proof->wait, 3500ms);

  const auto all = elected({{1, vote(true)}, {2, vote(true)}, {3, vote(true)}, {4, vote(true)}});
  ASSERT_TRUE(all);
  EXPECT_EQ(all->unheard, 0);
  EXPECT_EQ(all->wait, 0s);

  const auto after_silence = elected({{1, vote()}, {2, vote()}, {3, vote()}});
  ASSERT_TRUE(after_silence);
  EXPECT_EQ(after_silence->unheard, 1) << "the leader that is silent is not waited for";
  EXPECT_EQ(after_silence->wait, 400ms);
}

TEST(Candidate, R6_TheVerdictThatAnyNodeHeardHolds) {
  Vote reporting = vote();
  reporting.voter_state.verdict = Verdict{.exit_status = 3, .why = "rank 2 failed"};
  const auto election_result = elected({{1, vote()}, {2, reporting}, {3, vote()}});
  ASSERT_TRUE(election_result && election_result->verdict);
  EXPECT_EQ(election_result->verdict->exit_status, 3);
}

}  // namespace
}  // namespace ddprun
