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

/// Of a job that is fixed at 5 nodes.
Candidate::Setting setting() {
  Candidate::Setting out;
  out.rule.nodes = NodeRange(5, 5);
  out.lease = 3s;
  out.margin = 500ms;
  out.regroup = 400ms;
  return out;
}

constexpr RoundId kStarted{.generation = 1, .number = 5};
constexpr RoundId kOffered{.generation = 1, .number = 6};
constexpr Leadership kLeadership{.generation = 1, .leader = Incarnation{9}};

Incarnation node(std::uint64_t number) {
  return Incarnation{number};
}

Electorate electorate(RoundId round, int size) {
  return {
      .round = round,
      .size = size,
      .is_member = true,
      .is_leader = false,
      .late = {},
      .members = {}};
}

/// Of a node that ran round 5 of 5 nodes, the leader of generation 1 among them.
Promise promise(bool leader_is_dead = false) {
  Promise out;
  out.generation = 2;
  if (leader_is_dead) out.dead = {.of = kLeadership, .in_time = true, .is_replaced = false};
  out.standing.instance.founder = node(9);
  out.standing.generation = 1;
  out.standing.obeyed = kLeadership;
  out.standing.committed = electorate(kStarted, 5);
  out.standing.offered = out.standing.committed;
  out.standing.offered_nodes = 5;
  out.standing.was_to_run = true;
  return out;
}

/// Node 1 asks, and these answer; its own promise is among them.
std::optional<Mandate> mandate_of(
    const std::map<std::uint64_t, Promise>& promises, const Candidate::Setting& with = setting()) {
  Candidate candidate(node(1), with);
  candidate.ask_for(promises.at(1));
  for (const auto& [number, one] : promises) {
    if (number != 1) candidate.promised(node(number), one);
  }
  return candidate.mandate();
}

TEST(Candidate, E5_NeedsAMajorityOfTheElectorate) {
  EXPECT_FALSE(mandate_of({{1, promise()}, {2, promise()}}));
  const auto mandate = mandate_of({{1, promise()}, {2, promise()}, {3, promise()}});
  ASSERT_TRUE(mandate);
  EXPECT_EQ(mandate->generation, 2);
  EXPECT_EQ(mandate->last_round, 5);
  EXPECT_THAT(
      mandate->electorates.front().members, UnorderedElementsAre(node(1), node(2), node(3)));
}

TEST(Candidate, E6_ALeaderThatIsProvedDeadIsSubtractedWhoeverKnowsIt) {
  Promise four = promise();
  four.standing.committed.size = 4;
  EXPECT_FALSE(mandate_of({{1, four}, {2, promise()}}));
  EXPECT_TRUE(mandate_of({{1, four}, {2, promise(true)}}));
}

TEST(Candidate, E5_NeedsTheElectorateThatWasOfferedLaterAsWell) {
  Promise later = promise();
  later.standing.offered = electorate(kOffered, 3);
  later.standing.offered_nodes = 3;
  EXPECT_FALSE(mandate_of({{1, later}, {2, promise()}, {3, promise()}}));
  EXPECT_TRUE(mandate_of({{1, later}, {2, later}, {3, promise()}}));
}

// Its leader was lost before anybody here heard of the start, and so was the next one's.
TEST(Candidate, E5_NeedsEveryElectorateThatWasOfferedSince) {
  constexpr RoundId kLast{.generation = 2, .number = 7};
  Promise later = promise();
  later.standing.offered = electorate(kLast, 3);
  EXPECT_TRUE(mandate_of({{1, later}, {2, later}, {3, promise()}}));
  Promise witness = later;
  witness.standing.unsettled = {electorate(kOffered, 3)};
  EXPECT_FALSE(mandate_of({{1, witness}, {2, later}, {3, promise()}}));
  const auto mandate = mandate_of({{1, witness}, {2, witness}, {3, promise()}});
  ASSERT_TRUE(mandate);
  EXPECT_THAT(mandate->electorates, SizeIs(3));
}

// Its death would be subtracted from an electorate that it is none of: two halves of an even one
// could then elect a leader each.
TEST(Candidate, E5_BelongsToEveryElectorateItCounts) {
  Promise outside = promise();
  outside.standing.committed.is_member = false;
  outside.standing.offered = electorate(kOffered, 3);
  Promise later = promise();
  later.standing.offered = outside.standing.offered;
  EXPECT_FALSE(mandate_of({{1, outside}, {2, later}, {3, promise()}, {4, promise()}}));
}

// Its leader died while it offered: those that were not told could never be counted.
TEST(Candidate, E5_ARoundThatOneOfItsNodesNeverAcknowledgedWasNotStarted) {
  Promise told = promise();
  told.standing.offered = electorate(kOffered, 5);
  told.standing.offered.members = {{.node = node(2), .runs = true}};
  EXPECT_TRUE(mandate_of({{1, told}, {2, promise()}, {3, promise()}}));
  told.standing.offered.members.clear();
  EXPECT_FALSE(mandate_of({{1, told}, {2, promise()}, {3, promise()}}));
}

// The same, where all that were to run were told, and no spare.
TEST(Candidate, E5_ASpareThatWasNotToldOfItsElectorateHasAVote) {
  Promise told = promise();
  told.standing.offered = electorate(kOffered, 3);
  EXPECT_FALSE(mandate_of({{1, told}, {2, promise()}, {3, promise()}}));
  told.standing.offered.members = {{.node = node(2), .runs = false}};
  EXPECT_TRUE(mandate_of({{1, told}, {2, promise()}, {3, promise()}}));
}

TEST(Candidate, E4_APromiseOfAnotherInstanceDoesNotCount) {
  Promise other = promise();
  other.standing.instance.founder = node(8);
  EXPECT_FALSE(mandate_of({{1, promise()}, {2, promise()}, {3, other}}));
}

// A leader that forgot begins with generation 1 again; its death is none of the other's.
TEST(Candidate, E6_TheDeathOfAnotherLeaderOfAnEarlierGenerationIsNotSubtracted) {
  Promise later = promise(true);
  later.standing.obeyed = {.generation = 2, .leader = node(7)};
  later.standing.committed = electorate({.generation = 2, .number = 6}, 3);
  later.standing.offered = later.standing.committed;
  EXPECT_FALSE(mandate_of({{1, later}}));
}

/// Of an electorate of `size` nodes whose leader died too late.
Promise too_late(int size) {
  Promise out = promise(true);
  out.dead.in_time = false;
  out.standing.committed.size = size;
  out.standing.offered.size = size;
  return out;
}

TEST(Candidate, E9_ALateProofCountsIfTheOthersCannotHaveLedOnAlone) {
  EXPECT_TRUE(mandate_of({{1, too_late(2)}})) << "of two nodes either may be dead";
  EXPECT_FALSE(mandate_of({{1, too_late(3)}})) << "the two others may have led on";
  EXPECT_TRUE(mandate_of({{1, too_late(4)}, {2, too_late(4)}}));
  EXPECT_FALSE(mandate_of({{1, too_late(5)}, {2, too_late(5)}}));
}

TEST(Candidate, E9_ALateProofDoesNotCountWhereTheDeadLeaderCouldBreakATie) {
  Candidate::Setting elastic = setting();
  elastic.rule.nodes = NodeRange(1, 2);
  EXPECT_FALSE(mandate_of({{1, too_late(2)}}, elastic));
  Promise vouched = too_late(2);
  vouched.dead.is_replaced = true;
  EXPECT_TRUE(mandate_of({{1, vouched}}, elastic)) << "all others are replaced";
  elastic.rule.nodes = NodeRange(1, 3);
  EXPECT_FALSE(mandate_of({{1, vouched}}, elastic)) << "it may have led on with a third";
}

TEST(Candidate, E8_TheLeaderOfTheRoundBreaksATieIfHalfOfTheNodesMayRun) {
  Promise led = promise();
  led.standing.committed = electorate(kStarted, 4);
  led.standing.committed.is_leader = true;
  led.standing.offered = led.standing.committed;
  Promise followed = led;
  followed.standing.committed.is_leader = followed.standing.offered.is_leader = false;
  Candidate::Setting elastic = setting();
  elastic.rule.nodes = NodeRange(2, 4);
  EXPECT_TRUE(mandate_of({{1, led}, {2, followed}}, elastic));
  EXPECT_FALSE(mandate_of({{1, followed}, {2, followed}}, elastic)) << "the other half";
  EXPECT_FALSE(mandate_of({{1, led}}, elastic)) << "no half";
  elastic.may_use_half = false;
  EXPECT_FALSE(mandate_of({{1, led}, {2, followed}}, elastic)) << "some may take it for dead";
  EXPECT_FALSE(mandate_of({{1, led}, {2, followed}}, setting())) << "half of them cannot run";
}

TEST(Candidate, E10_EitherHalfMayLeadThatHoldsTheFence) {
  Promise followed = promise();
  followed.standing.committed = electorate(kStarted, 2);
  followed.standing.offered = followed.standing.committed;
  Candidate::Setting fenced = setting();
  fenced.rule = {.nodes = NodeRange(1, 2), .has_fence = true};
  Candidate candidate(node(1), fenced);
  candidate.ask_for(followed);
  EXPECT_FALSE(candidate.mandate());
  EXPECT_THAT(candidate.fences_wanted(), ElementsAre(kStarted));
  fenced.fences = {kStarted};
  candidate.update(fenced);
  EXPECT_TRUE(candidate.mandate());
  fenced.fences = {};
  fenced.fences_of_others = {kStarted};
  candidate.update(fenced);
  EXPECT_FALSE(candidate.mandate());
  EXPECT_THAT(candidate.fences_wanted(), IsEmpty());
}

TEST(Candidate, E4_APromiseOfAnotherGenerationDoesNotCount) {
  Promise earlier = promise();
  earlier.generation = 1;
  EXPECT_FALSE(mandate_of({{1, promise()}, {2, promise()}, {3, earlier}}));
}

// Who promised itself on proof may do so while a node that nobody has heard of keeps its lease.
TEST(Candidate, R2_WaitsForThoseItHasNotHeardOf) {
  const auto on_proof = mandate_of({{1, promise(true)}, {2, promise(true)}, {3, promise(true)}});
  ASSERT_TRUE(on_proof);
  EXPECT_EQ(on_proof->unheard, 1);
  EXPECT_EQ(on_proof->wait, 3500ms);

  const auto all =
      mandate_of({{1, promise(true)}, {2, promise(true)}, {3, promise(true)}, {4, promise(true)}});
  ASSERT_TRUE(all);
  EXPECT_EQ(all->unheard, 0);
  EXPECT_EQ(all->wait, 0s);

  const auto after_silence = mandate_of({{1, promise()}, {2, promise()}, {3, promise()}});
  ASSERT_TRUE(after_silence);
  EXPECT_EQ(after_silence->unheard, 1) << "the leader that is silent is not waited for";
  EXPECT_EQ(after_silence->wait, 400ms);
}

TEST(Candidate, R6_TheVerdictOfWhoeverHeardItHolds) {
  Promise told = promise();
  told.standing.verdict = Verdict{.exit_status = 3, .why = "rank 2 failed"};
  const auto mandate = mandate_of({{1, promise()}, {2, told}, {3, promise()}});
  ASSERT_TRUE(mandate && mandate->verdict);
  EXPECT_EQ(mandate->verdict->exit_status, 3);
}

}  // namespace
}  // namespace ddprun
