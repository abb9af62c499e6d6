#include "trainer/core/replicas.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ddprun {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::string> fingerprints(std::initializer_list<int> kinds) {
  std::vector<std::string> all;
  for (const int kind : kinds) {
    all.push_back(std::to_string(kind));
  }
  return all;
}

TEST(Replicas, AreAsMostOfThem) {
  EXPECT_THAT(odd_ranks(fingerprints({7})), IsEmpty());
  EXPECT_THAT(odd_ranks(fingerprints({7, 7, 7, 7})), IsEmpty());
  EXPECT_THAT(odd_ranks(fingerprints({9, 7, 7})), ElementsAre(0));
  EXPECT_THAT(odd_ranks(fingerprints({1, 7, 2, 7, 3})), ElementsAre(0, 2, 4));
}

TEST(Replicas, NameNoneIfNoMajorityIsAlike) {
  EXPECT_THAT(odd_ranks(fingerprints({9, 7})), ElementsAre(0, 1));
  EXPECT_THAT(odd_ranks(fingerprints({7, 9, 9, 7})), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(odd_ranks(fingerprints({7, 9, 9, 7, 7})), ElementsAre(1, 2));
}

}  // namespace
}  // namespace ddprun
