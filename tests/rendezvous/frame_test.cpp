#include "rendezvous/core/frame.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace ddprun {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using namespace std::string_view_literals;

/// The bodies in `stream` when it comes in pieces of `size` bytes.
std::vector<std::string> bodies_in(std::string_view stream, std::size_t size) {
  FrameReader reader;
  std::vector<std::string> bodies;
  for (; !stream.empty(); stream.remove_prefix(std::min(size, stream.size()))) {
    std::string_view piece = stream.substr(0, size);
    while (const auto body = reader.next(piece).value()) {
      bodies.emplace_back(*body);
    }
    EXPECT_TRUE(piece.empty());
  }
  return bodies;
}

TEST(Frame, IsALengthOfFourBytesAndSoManyBytes) {
  std::string stream;
  ASSERT_TRUE(append_frame(stream, "abc"));
  EXPECT_EQ(stream, "\0\0\0\3abc"sv);
  ASSERT_TRUE(append_frame(stream, std::string(258, 'x')));
  EXPECT_EQ(stream.substr(7, 4), "\0\0\1\2"sv);
}

TEST(Frame, ComesOutTheSameHoweverTheStreamIsCut) {
  std::string stream;
  for (const std::string& body : {std::string("one"), std::string(), std::string(300, 'x')}) {
    ASSERT_TRUE(append_frame(stream, body));
  }
  for (std::size_t size = 1; size <= stream.size(); ++size) {
    EXPECT_THAT(bodies_in(stream, size), ElementsAre("one", "", std::string(300, 'x'))) << size;
  }
}

TEST(Frame, IsRefusedWhenALengthIsReadThatIsTooLarge) {
  std::string stream;
  EXPECT_TRUE(append_frame(stream, std::string(65'536, 'x')));
  EXPECT_EQ(bodies_in(stream, 1'000).size(), 1U);
  EXPECT_TRUE(append_frame(stream, std::string(65'537, 'x')).error().is(Errc::kLimit));
  for (const std::string_view hostile : {"\0\1\0\1"sv, "\xFF\xFF\xFF\xFF"sv, "GET /"sv}) {
    FrameReader reader;
    std::string_view input = hostile;
    const auto next = reader.next(input);
    ASSERT_FALSE(next);
    EXPECT_TRUE(next.error().is(Errc::kLimit));
  }
}

TEST(Frame, AnOpeningIsTakenWhenItIsWhole) {
  for (const Protocol protocol : {Protocol::kAgent, Protocol::kLifeline}) {
    const std::string_view opening = opening_of(protocol);
    EXPECT_EQ(detect(opening), protocol);
    EXPECT_EQ(check_opening(opening.substr(0, 3)).value(), false);
    EXPECT_EQ(check_opening(opening).value(), true);
  }
}

TEST(Frame, AnotherVersionIsRefusedWithBothVersionsNamed) {
  const auto checked = check_opening("\xDDRN\x07");
  ASSERT_FALSE(checked);
  EXPECT_THAT(checked.error().detail, HasSubstr("version 7"));
  EXPECT_THAT(checked.error().detail, HasSubstr("version 5"));
}

}  // namespace
}  // namespace ddprun
