#include "launcher/ctl/core/byte_size.hpp"

#include <gtest/gtest.h>

namespace ddprun {
namespace {

TEST(SizeText, HasTheLargestUnitThatFits) {
  EXPECT_EQ(size_text(1023), "1023 bytes");
  EXPECT_EQ(size_text(1536), "1.5 KiB");
  EXPECT_EQ(size_text(std::uint64_t{1} << 50U), "1024.0 TiB");
}

TEST(ParseSize, ReadsBytesAndPowersOf1024) {
  EXPECT_EQ(*parse_size("0"), 0U);
  EXPECT_EQ(*parse_size("1K"), 1'024U);
  EXPECT_EQ(*parse_size("500M"), 524'288'000U);
  EXPECT_EQ(*parse_size("1048576T"), std::uint64_t{1} << 60U);
}

TEST(ParseSize, RefusesWhatIsNone) {
  for (const char* const text :
       {"", "K", "1X", "-1", "1.5G", "1 G", "1GB", "1048577T", "99999999999999999999"}) {
    EXPECT_FALSE(parse_size(text)) << text;
  }
}

}  // namespace
}  // namespace ddprun
