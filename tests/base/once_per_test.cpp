#include "base/once_per.hpp"

#include <gtest/gtest.h>

#include <string>

namespace ddprun {
namespace {

TEST(OncePer, TellsWhatIsNewFromWhatRepeats) {
  OncePer<std::string> hosts;
  EXPECT_TRUE(hosts.is_first("n1"));
  EXPECT_FALSE(hosts.is_first("n1"));
  EXPECT_TRUE(hosts.is_first("n2"));
  EXPECT_FALSE(hosts.is_first("n1"));
}

TEST(OncePer, BeginsAgainRatherThanGrow) {
  OncePer<int> keys;
  for (int key = 0; key < 1'024; ++key) {
    EXPECT_TRUE(keys.is_first(key));
  }
  EXPECT_TRUE(keys.is_first(1'024));
  EXPECT_TRUE(keys.is_first(0));
}

}  // namespace
}  // namespace ddprun
