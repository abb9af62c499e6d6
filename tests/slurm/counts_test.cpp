#include "slurm/core/hostlist.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace ddprun {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

TEST(Counts, AreOneForEachNode) {
  EXPECT_THAT(expand_counts("4").value(), ElementsAre(4));
  EXPECT_THAT(expand_counts("1(x2)").value(), ElementsAre(1, 1));
  EXPECT_THAT(expand_counts("6,1(x2)").value(), ElementsAre(6, 1, 1));
  EXPECT_THAT(expand_counts("2(x3),1").value(), ElementsAre(2, 2, 2, 1));
}

TEST(Counts, AreRefusedWithThePieceThatIsWrong) {
  for (const char* piece :
       {"",
        "0",
        "-1",
        "x",
        "32768",
        "1(x0)",
        "1(x)",
        "1(x2",
        "1(2)",
        "(x2)",
        "1(x2)3",
        "1 (x2)",
        "99999999999999999999"}) {
    const auto counts = expand_counts(std::string("2,") + piece);
    ASSERT_FALSE(counts) << piece;
    EXPECT_THAT(counts.error().detail, HasSubstr("'" + std::string(piece) + "' is not a count"));
  }
}

TEST(Counts, HaveALimit) {
  EXPECT_THAT(expand_counts("32767(x65536)").value(), SizeIs(65'536));
  for (const char* text : {"1(x65537)", "1(x65536),1", "1(x18446744073709551615)"}) {
    const auto counts = expand_counts(text);
    ASSERT_FALSE(counts) << text;
    EXPECT_THAT(counts.error().detail, HasSubstr("more than 65536 nodes"));
  }
}

}  // namespace
}  // namespace ddprun
