// Short texts of flags and of Slurm's variables, damaged at random. Run under ASan (preset dev),
// this shows that none crashes its parser, that what is accepted is within its limits, and that an
// accepted text survives being written and read again.

#include "base/endpoint.hpp"
#include "base/node_range.hpp"
#include "base/time.hpp"
#include "launcher/ctl/core/byte_size.hpp"
#include "slurm/core/hostlist.hpp"
#include "tests/fuzz/damaged.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <numeric>
#include <string>
#include <string_view>

namespace ddprun {
namespace {

constexpr int kTexts = 100'000;
constexpr int kLists = 5'000;  // one may have 65,536 hosts
constexpr std::uint64_t kSeed = 20'261'129;

TEST(ShortTexts, AnEndpointSurvivesBeingWritten) {
  testing::Effort effort(kTexts);
  testing::Damaged texts(
      "endpoints",
      {"[",
       "]",
       ":",
       "::",
       "%",
       "%eth0",
       ".",
       "-",
       "0",
       "65535",
       "65536",
       " ",
       ",",
       "/",
       "\n",
       "\x7f",
       std::string_view("\0", 1)},
      effort.seed(kSeed));
  while (effort.goes_on()) {
    const std::string text = texts.next();
    const auto endpoint = Endpoint::parse(text, 29'400);
    if (!endpoint) continue;
    const auto again = Endpoint::parse(endpoint->to_string(), 1);
    ASSERT_TRUE(again) << text << " is written as " << endpoint->to_string();
    ASSERT_EQ(*again, *endpoint) << text;
  }
}

TEST(ShortTexts, AHostListSurvivesBeingWritten) {
  testing::Effort effort(kLists);
  testing::Damaged texts(
      "host_lists",
      {"[",
       "]",
       "-",
       ",",
       "0",
       "9",
       "007",
       "[1-3]",
       "18446744073709551615",
       " ",
       "\n",
       ".",
       ":",
       std::string_view("\0", 1)},
      effort.seed(kSeed + 1));
  while (effort.goes_on()) {
    const std::string text = texts.next();
    const auto hosts = expand_hostlist(text);
    if (!hosts) continue;
    ASSERT_LE(hosts->size(), kHostsMax) << text;
    for (const std::string& host : *hosts) {
      ASSERT_FALSE(host.empty()) << text;
      ASSERT_LE(host.size(), kHostNameBytesMax) << text;
    }
    const std::string folded = fold_hostlist(*hosts);
    const auto again = expand_hostlist(folded);
    ASSERT_TRUE(again) << text << " is written as " << folded;
    ASSERT_EQ(*again, *hosts) << text << " is written as " << folded;
  }
}

TEST(ShortTexts, CountsAreWithinTheirLimits) {
  testing::Effort effort(kTexts);
  testing::Damaged texts(
      "counts",
      {"(x",
       ")",
       ",",
       "-",
       "0",
       "32767",
       "32768",
       "65536",
       "(x65536)",
       " ",
       std::string_view("\0", 1)},
      effort.seed(kSeed + 2));
  while (effort.goes_on()) {
    const std::string text = texts.next();
    const auto counts = expand_counts(text);
    if (!counts) continue;
    ASSERT_FALSE(counts->empty()) << text;
    ASSERT_LE(counts->size(), kHostsMax) << text;
    for (const int count : *counts) {
      ASSERT_TRUE(count >= 1 && count <= 32'767) << text;
    }
  }
}

TEST(ShortTexts, ARangeOfNodesSurvivesBeingWritten) {
  testing::Effort effort(kTexts);
  testing::Damaged texts(
      "node_ranges",
      {":", "-", "0", "16384", "16385", "4294967297", " ", "+"},
      effort.seed(kSeed + 3));
  while (effort.goes_on()) {
    const std::string text = texts.next();
    const auto range = NodeRange::parse(text);
    if (!range) continue;
    const auto again = NodeRange::parse(fmt::format("{}:{}", range->min(), range->max()));
    ASSERT_TRUE(again) << text;
    ASSERT_EQ(*again, *range) << text;
  }
}

TEST(ShortTexts, ASizeSurvivesBeingWritten) {
  testing::Effort effort(kTexts);
  testing::Damaged texts(
      "sizes",
      {"K", "M", "G", "T", "-", ".", "0", "1152921504606846976", "e9", " "},
      effort.seed(kSeed + 4));
  while (effort.goes_on()) {
    const std::string text = texts.next();
    const auto bytes = parse_size(text);
    if (!bytes) continue;
    ASSERT_LE(*bytes, std::uint64_t{1} << 60U) << text;
    const auto again = parse_size(fmt::to_string(*bytes));
    ASSERT_TRUE(again) << text;
    ASSERT_EQ(*again, *bytes) << text;
  }
}

TEST(ShortTexts, ADurationIsFromZeroToTenYears) {
  testing::Effort effort(kTexts);
  testing::Damaged texts(
      "seconds",
      {"-", ".", "e", "e308", "e-308", "0", "9", "nan", "inf", "0x1p3", " ", "+"},
      effort.seed(kSeed + 5));
  while (effort.goes_on()) {
    const std::string text = texts.next();
    const auto duration = parse_seconds(text);
    if (!duration) continue;
    ASSERT_GE(*duration, Duration::zero()) << text;
    ASSERT_LE(*duration, std::chrono::hours(24 * 3'650)) << text;
  }
}

}  // namespace
}  // namespace ddprun
