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
using testing::SizeIs;
using testing::UnorderedElementsAre;

constexpr Candidate::Setting kTiming{.lease = 3s, .margin = 500ms, .regroup = 400ms};
constexpr RoundId kStarted{.generation = 1, .number = 5};
constexpr RoundId kOffered{.generation = 1, .number = 6};

Incarnation node(std::uint64_t number) {
  return Incarnation{number};
}

/// Of a node that ran round 5 of 5 nodes, the leader of generation 1 among them.
Promise promise(std::int64_t dead = 0) {
  Promise out;
  out.generation = 2;
  out.dead = dead;
  out.standing.generation = 1;
  out.standing.obeyed = 1;
  out.standing.committed = {.round = kStarted, .size = 5, .is_member = true};
  out.standing.offered = out.standing.committed;
  out.standing.offered_nodes = 5;
  out.standing.was_to_run = true;
  return out;
}

/// Node 1 asks, and these answer; its own promise is among them.
std::optional<Mandate> mandate_of(const std::map<std::uint64_t, Promise>& promises) {
  Candidate candidate(node(1), kTiming);
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
  EXPECT_TRUE(mandate_of({{1, four}, {2, promise(1)}}));
}

TEST(Candidate, E5_NeedsTheElectorateThatWasOfferedLaterAsWell) {
  Promise later = promise();
  later.standing.offered = {.round = kOffered, .size = 3, .is_member = true};
  later.standing.offered_nodes = 3;
  EXPECT_FALSE(mandate_of({{1, later}, {2, promise()}, {3, promise()}}));
  EXPECT_TRUE(mandate_of({{1, later}, {2, later}, {3, promise()}}));
}

// Its leader was lost before anybody here heard of the start, and so was the next one's.
TEST(Candidate, E5_NeedsEveryElectorateThatWasOfferedSince) {
  constexpr RoundId kLast{.generation = 2, .number = 7};
  Promise later = promise();
  later.standing.offered = {.round = kLast, .size = 3, .is_member = true};
  EXPECT_TRUE(mandate_of({{1, later}, {2, later}, {3, promise()}}));
  Promise witness = later;
  witness.standing.unsettled = {{.round = kOffered, .size = 3, .is_member = true}};
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
  outside.standing.offered = {.round = kOffered, .size = 3, .is_member = true};
  Promise later = promise();
  later.standing.offered = outside.standing.offered;
  EXPECT_FALSE(mandate_of({{1, outside}, {2, later}, {3, promise()}, {4, promise()}}));
}

TEST(Candidate, E4_APromiseOfAnotherGenerationDoesNotCount) {
  Promise earlier = promise();
  earlier.generation = 1;
  EXPECT_FALSE(mandate_of({{1, promise()}, {2, promise()}, {3, earlier}}));
}

// Who promised itself on proof may do so while a node that nobody has heard of keeps its lease.
TEST(Candidate, R2_WaitsForThoseItHasNotHeardOf) {
  const auto on_proof = mandate_of({{1, promise(1)}, {2, promise(1)}, {3, promise(1)}});
  ASSERT_TRUE(on_proof);
  EXPECT_EQ(on_proof->unheard, 1);
  EXPECT_EQ(on_proof->wait, 3500ms);

  const auto all = mandate_of({{1, promise(1)}, {2, promise(1)}, {3, promise(1)}, {4, promise(1)}});
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
