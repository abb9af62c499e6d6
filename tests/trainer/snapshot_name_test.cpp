#include "trainer/core/snapshot_name.hpp"

#include <gmock/gmock.h>

namespace ddprun {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr SnapshotName kName = {.claim = 7, .step = 150, .term = 1, .round = 3};

SnapshotName saved(std::uint64_t claim, std::int64_t step) {
  return {.claim = claim, .step = step};
}

TEST(SnapshotName, CarriesTermAndRound) {
  EXPECT_EQ(kName.to_string(), "snapshot-c000007-g000001-r000003-s000000000150");
}

TEST(SnapshotName, ReadsWhatItWrites) {
  EXPECT_EQ(SnapshotName::parse(kName.to_string()), kName);
  constexpr SnapshotName kLarge = {
      .claim = 18446744073709551615U, .step = 9223372036854775807, .term = 1'000'000};
  EXPECT_EQ(SnapshotName::parse(kLarge.to_string()), kLarge);
}

TEST(SnapshotName, IsNoOtherText) {
  for (const char* text :
       {"",
        "snapshot",
        "snapshot-c7-g1-r3-s150",
        "snapshot-c000007-g000001-r000003-s00000000015x",
        "snapshot-c000007-g000001-r000003-s000000000150-",
        "snapshot-c000007-g000001-r000003",
        "snapshot-c-00007-g000001-r000003-s000000000150",
        "snapshot-c0000007-g000001-r000003-s000000000150",
        "partial-snapshot-c000007-g000001-r000003-s000000000150"}) {
    EXPECT_FALSE(SnapshotName::parse(text)) << text;
  }
}

TEST(SnapshotName, OfALaterClaimIsNewerWhateverItsStepOrRound) {
  EXPECT_GT(saved(8, 1), kName);
  EXPECT_GT(saved(7, 151), kName);
}

TEST(SnapshotEntries, TellWhatLiesThere) {
  const auto entries = sort_entries(
      {".",
       "claim-c000002",
       "claim-cx",
       "notes.txt",
       kName.to_string(),
       "partial-snapshot-c000005-g000000-r000000-s000000000001",
       "swept-c000009-partial-snapshot-c000005-g000000-r000000-s000000000001"});
  EXPECT_THAT(entries.snapshots, ElementsAre(kName));
  EXPECT_THAT(
      entries.claims, ElementsAre(SnapshotEntries::Leftover{.name = "claim-c000002", .claim = 2}));
  ASSERT_EQ(entries.partial.size(), 1U);
  EXPECT_EQ(entries.partial[0].claim, 5U);
  ASSERT_EQ(entries.swept.size(), 1U);
  EXPECT_EQ(entries.swept[0].claim, 9U);
  EXPECT_EQ(entries.claim_max, 9U);
}

TEST(SnapshotEntries, KnowTheirOwnNames) {
  const auto entries =
      sort_entries({claim_name(4), partial_name(kName), swept_name(5, kName.to_string())});
  EXPECT_EQ(entries.claims.at(0).claim, 4U);
  EXPECT_EQ(entries.partial.at(0).claim, 7U);
  EXPECT_EQ(entries.swept.at(0).claim, 5U);
}

// Which snapshot is resumed (R10).

TEST(Candidates, R10AreOfOlderClaimsTheNewestFirst) {
  EXPECT_THAT(
      candidates({saved(1, 900), saved(2, 10), saved(2, 20), saved(3, 5)}, 4),
      ElementsAre(saved(3, 5), saved(2, 20), saved(2, 10), saved(1, 900)));
}

TEST(Candidates, R10AreNeverOfThisRoundOrALaterOne) {
  EXPECT_THAT(candidates({saved(4, 1), saved(5, 1), saved(3, 1)}, 4), ElementsAre(saved(3, 1)));
}

TEST(Candidates, DoNotDependOnTheOrderOfTheDirectory) {
  EXPECT_EQ(
      candidates({saved(1, 1), saved(2, 2), saved(1, 3)}, 9),
      candidates({saved(1, 3), saved(1, 1), saved(2, 2)}, 9));
}

TEST(Superfluous, AreThoseBeyondTheNewestTheOldestFirst) {
  EXPECT_THAT(
      superfluous({saved(1, 1), saved(1, 2), saved(1, 3), saved(2, 4)}, {}, 2),
      ElementsAre(saved(1, 1), saved(1, 2)));
  EXPECT_THAT(superfluous({saved(1, 1), saved(1, 2)}, {}, 2), IsEmpty());
}

TEST(Superfluous, DamagedOnesPushNoSoundOneOut) {
  EXPECT_THAT(superfluous({saved(1, 1), saved(1, 2), saved(2, 3)}, {saved(1, 2)}, 2), IsEmpty());
}

TEST(Superfluous, DamagedOnesGoWithTheOld) {
  EXPECT_THAT(
      superfluous({saved(1, 1), saved(1, 2), saved(2, 3)}, {saved(1, 1)}, 2),
      ElementsAre(saved(1, 1)));
}

TEST(Superfluous, TheBestNeverIsHoweverOld) {
  const std::vector<SnapshotName> found = {saved(1, 1), saved(1, 2), saved(1, 3), saved(2, 4)};
  EXPECT_THAT(superfluous(found, {}, 2, saved(1, 1)), ElementsAre(saved(1, 2)));
  EXPECT_THAT(superfluous(found, {}, 2, saved(2, 4)), ElementsAre(saved(1, 1), saved(1, 2)))
      << "it is one of those that stay anyway, and takes no other's place";
  EXPECT_THAT(superfluous(found, {}, 2, saved(9, 9)), ElementsAre(saved(1, 1), saved(1, 2)));
}

TEST(Superfluous, ADamagedBestGoesWithTheOld) {
  EXPECT_THAT(
      superfluous({saved(1, 1), saved(1, 2), saved(1, 3)}, {saved(1, 1)}, 2, saved(1, 1)),
      ElementsAre(saved(1, 1)));
}

}  // namespace
}  // namespace ddprun
