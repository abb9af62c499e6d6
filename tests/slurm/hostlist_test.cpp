// Expected hosts are what `scontrol show hostnames` of Slurm 22.05.8 prints.

#include "slurm/core/hostlist.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace ddprun {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

using Hosts = std::vector<std::string>;

Hosts hosts_of(std::string_view list) {
  const auto hosts = expand_hostlist(list);
  EXPECT_TRUE(hosts) << hosts.error().detail;
  return hosts ? *hosts : Hosts{};
}

std::string complaint(std::string_view list) {
  const auto hosts = expand_hostlist(list);
  EXPECT_FALSE(hosts);
  return hosts ? "" : hosts.error().detail;
}

TEST(Hostlist, IsNamesBetweenCommasOrBlanks) {
  EXPECT_THAT(hosts_of("a,b7,a"), ElementsAre("a", "b7", "a"));
  EXPECT_THAT(hosts_of("n1 n2\tn3\nn4"), ElementsAre("n1", "n2", "n3", "n4"));
  EXPECT_THAT(hosts_of(",n1,,n2,"), ElementsAre("n1", "n2"));
  EXPECT_THAT(hosts_of(""), IsEmpty());
  EXPECT_THAT(hosts_of("10.0.0.[1-2],fd00::1"), ElementsAre("10.0.0.1", "10.0.0.2", "fd00::1"));
}

TEST(Hostlist, KeepsOrderAndRepeats) {
  EXPECT_THAT(hosts_of("n[3,1,2,1]"), ElementsAre("n3", "n1", "n2", "n1"));
  EXPECT_THAT(hosts_of("n[1-2],n[2-3]"), ElementsAre("n1", "n2", "n2", "n3"));
}

TEST(Hostlist, IsAsWideAsTheFirstNumberOfARange) {
  EXPECT_THAT(hosts_of("node[1-3,07-09]"), SizeIs(6));
  EXPECT_THAT(hosts_of("n[08-11]"), ElementsAre("n08", "n09", "n10", "n11"));
  EXPECT_THAT(hosts_of("n[8-011]"), ElementsAre("n8", "n9", "n10", "n11"));
  EXPECT_THAT(hosts_of("n[01,1]"), ElementsAre("n01", "n1"));
  EXPECT_THAT(hosts_of("[99-0101]"), ElementsAre("99", "100", "101"));
}

TEST(Hostlist, CountsTheLastBracketFastestThenFromTheFirstOn) {
  EXPECT_THAT(hosts_of("n[1-2,5][3-4]"), ElementsAre("n13", "n14", "n23", "n24", "n53", "n54"));
  EXPECT_THAT(hosts_of("a1b[1-2]c[3-4]"), ElementsAre("a1b1c3", "a1b1c4", "a1b2c3", "a1b2c4"));
  EXPECT_THAT(
      hosts_of("a[1-2]b[3-4]c[5-6]"),
      ElementsAre("a1b3c5", "a1b3c6", "a2b3c5", "a2b3c6", "a1b4c5", "a1b4c6", "a2b4c5", "a2b4c6"));
}

TEST(Hostlist, LeavesNumbersBeyondAnyRangeAsTheyAre) {
  EXPECT_THAT(hosts_of("n18446744073709551616"), ElementsAre("n18446744073709551616"));
  EXPECT_THAT(
      hosts_of("n[18446744073709551614-18446744073709551615]"),
      ElementsAre("n18446744073709551614", "n18446744073709551615"));
}

TEST(Hostlist, SaysWhereAndWhyItIsRefused) {
  EXPECT_EQ(complaint("n[3-1]"), "host list 'n[3-1]', position 3: the range '3-1' counts down");
  EXPECT_THAT(complaint("n[a-b]"), HasSubstr("'a-b' is neither a number nor a range"));
  EXPECT_THAT(complaint("n[1,]"), HasSubstr("position 5: '' is neither"));
  EXPECT_THAT(complaint("n[]"), HasSubstr("position 3: '' is neither"));
  EXPECT_THAT(complaint("n[1-3]-ib"), HasSubstr("position 7: '-ib' follows the last bracket"));
  EXPECT_THAT(complaint("n[1-2].site.org"), HasSubstr("'.site.org' follows"));
  EXPECT_THAT(complaint("a,n[1-2"), HasSubstr("position 4: the bracket is not closed"));
  EXPECT_THAT(complaint("n1-2]"), HasSubstr("position 5: ']' is not allowed in a host name"));
  EXPECT_THAT(complaint("(null)"), HasSubstr("position 1: '(' is not allowed in a host name"));
  EXPECT_THAT(
      complaint("n\x01"), HasSubstr("'n?', position 2: byte 0x01 is not allowed in a host name"));
}

TEST(Hostlist, RefusesWhatScontrolWouldGuessAt) {
  for (const char* list : {"n[1-]", "n[ 1-2]", "n[1 - 2]", "n[+1-3]", "n[18446744073709551616]"}) {
    EXPECT_THAT(complaint(list), HasSubstr("is neither a number nor a range")) << list;
  }
}

TEST(Hostlist, HasALimit) {
  EXPECT_THAT(hosts_of("n[0-65535]"), SizeIs(65'536));
  EXPECT_THAT(hosts_of("n[1-256][1-256]"), SizeIs(65'536));
  for (const char* list :
       {"n[0-65536]",
        "n[0-65535],m",
        "m,n[0-65535]",
        "n[1-257][1-256]",
        "n[1-40000,1-40000]",
        "n[0-18446744073709551615]",
        "n[1-65536][1-65536][1-65536][1-65536][1-65536]"}) {
    EXPECT_THAT(complaint(list), HasSubstr("more than 65536 hosts")) << list;
  }
}

TEST(Hostlist, HasALimitForANameToo) {
  const std::string long_name(255, 'a');
  EXPECT_THAT(hosts_of(long_name), ElementsAre(long_name));
  for (const std::string& list :
       {long_name + "a",
        long_name + "[1]",
        std::string(254, 'a') + "[9-10]",
        "n[" + std::string(255, '0') + "1]"}) {
    EXPECT_THAT(complaint(list), HasSubstr("a host name has at most 255 bytes"));
  }
}

/// A megabyte of each input that is hardest to parse.
TEST(Hostlist, RefusesAMegabyteOfGarbageWithAShortReason) {
  constexpr std::size_t kBytes = 1'000'000;
  std::mt19937_64 dice(1);
  std::string noise(kBytes, '\0');
  for (char& byte : noise)
    byte = static_cast<char>(dice());
  std::vector<std::string> lists = {noise, std::string(kBytes, 'n'), std::string(kBytes, '[')};
  for (const char* piece : {"a,", "[1]", "[1-65536]", "n[1-65536],", "[1", "n[1-2"}) {
    std::string& list = lists.emplace_back();
    while (list.size() < kBytes)
      list += piece;
  }
  for (const char* piece : {"1,", "1-60000,"}) {
    std::string& list = lists.emplace_back("n[");
    while (list.size() < kBytes)
      list += piece;
    list += "1]";
  }
  lists.push_back("n[" + std::string(kBytes, '0') + "1-60000]");
  for (const std::string& list : lists) {
    EXPECT_LT(complaint(list).size(), 200U);
  }
}

TEST(Hostlist, FoldsNeighboursWithoutAChangeOfOrder) {
  const auto folded = [](const Hosts& hosts) { return fold_hostlist(hosts); };
  EXPECT_EQ(folded({}), "");
  EXPECT_EQ(folded({"n1"}), "n1");
  EXPECT_EQ(folded({"node1", "node2", "node3"}), "node[1-3]");
  EXPECT_EQ(folded({"n3", "n2", "n1"}), "n[3,2,1]");
  EXPECT_EQ(folded({"n1", "n1", "n2"}), "n[1,1-2]");
  EXPECT_EQ(folded({"n1", "m1", "n2"}), "n1,m1,n2");
  EXPECT_EQ(folded({"n09", "n10", "n010", "n011"}), "n[09-10,010-011]");
  EXPECT_EQ(folded({"n08", "n9", "n10"}), "n[08,9-10]");
  EXPECT_EQ(folded({"a1b1", "a1b2", "a2b1"}), "a1b[1-2],a2b1");
  EXPECT_EQ(folded({"a1.x", "a2.x", "a", "a"}), "a1.x,a2.x,a,a");
  EXPECT_EQ(folded({"01", "02"}), "[01-02]");
}

TEST(Hostlist, ExpandsToTheHostsItWasFoldedFrom) {
  std::mt19937_64 dice(7);
  const auto below = [&dice](std::uint64_t limit) { return dice() % limit; };
  for (int run = 0; run < 2'000; ++run) {
    Hosts hosts;
    for (std::uint64_t n = below(12); n > 0; --n) {
      const std::string stem = std::string(1, static_cast<char>('a' + below(2)));
      std::string number = std::to_string(below(2) == 0 ? below(15) : below(3) + 98);
      number.insert(0, below(3), '0');
      if (below(20) == 0) number = "1844674407370955161" + std::to_string(below(10));
      hosts.push_back(below(8) == 0 ? stem : stem + number);
    }
    EXPECT_EQ(hosts_of(fold_hostlist(hosts)), hosts) << fold_hostlist(hosts);
  }
}

}  // namespace
}  // namespace ddprun
