#include "base/nearest.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace ddprun {
namespace {

const std::vector<std::string> kFlags = {"--max-restarts", "--nnodes", "--nproc-per-node", "--tee"};

TEST(Nearest, FindsTheFlagThatWasMeant) {
  EXPECT_EQ(nearest("--max-restart", kFlags), "--max-restarts");
  EXPECT_EQ(nearest("--nnode", kFlags), "--nnodes");
  EXPECT_EQ(nearest("--teh", kFlags), "--tee");
}

TEST(Nearest, TakesTheBeginningOfAFlagWhereNoWholeOneIsNear) {
  EXPECT_EQ(nearest("--nporc", kFlags), "--nproc-per-node");
  EXPECT_EQ(nearest("--max-rse", kFlags), "--max-restarts");
  EXPECT_EQ(nearest("--x", kFlags), std::nullopt);
}

TEST(Nearest, SuggestsNothingForSomethingElse) {
  EXPECT_EQ(nearest("--verbose-output", kFlags), std::nullopt);
  EXPECT_EQ(nearest("--x", {}), std::nullopt);
}

}  // namespace
}  // namespace ddprun
