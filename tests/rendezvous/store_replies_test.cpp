#include "rendezvous/core/store_replies.hpp"

#include <gtest/gtest.h>

#include <array>
#include <string>

namespace ddprun {
namespace {

/// Takes everything out, at most `step` bytes at a time.
std::string drain(StoreReplies& replies, std::size_t step) {
  std::string all;
  std::array<std::string_view, 4> pieces;
  while (replies.unsent() > 0) {
    EXPECT_GT(replies.gather(pieces), 0U);
    const std::string_view part = pieces[0].substr(0, step);
    all += part;
    replies.consume(part.size());
  }
  return all;
}

TEST(StoreReplies, KeepTheirOrderHoweverTheyAreTaken) {
  const std::string large(StoreReplies::kSharedBytesMin + 7, 'L');
  for (const std::size_t step : {1U, 5U, 4'000U, 1'000'000U}) {
    StoreReplies replies;
    replies.put_u8('a');
    replies.put_value(Value(large));
    replies.put_value(Value(large));
    replies.put_value(Value("small"));
    const std::string taken = drain(replies, step);
    const std::string_view view = taken;
    EXPECT_EQ(view.size(), 1 + 8 + large.size() + 8 + large.size() + 8 + 5);
    EXPECT_EQ(view.substr(9, large.size()), large);
    EXPECT_EQ(view.substr(17 + large.size(), large.size()), large);
    EXPECT_EQ(view.substr(view.size() - 5), "small");
  }
}

TEST(StoreReplies, ShareALargeValueInsteadOfCopyingIt) {
  const Value large(std::string(1'000'000, 'x'));
  StoreReplies replies;
  replies.put_value(large);
  std::array<std::string_view, 2> pieces;
  ASSERT_EQ(replies.gather(pieces), 2U);
  EXPECT_EQ(pieces[1].data(), large.view().data());
}

// One MULTI_GET that named a value of nearly 4 KiB 131,072 times took 512 MiB.
TEST(StoreReplies, ShareValuesOfAnySizeIfTheyAreMany) {
  const Value value(std::string(StoreReplies::kSharedBytesMin - 1, 'x'));
  const std::array<const Value*, 32> same = [&value] {
    std::array<const Value*, 32> all{};
    all.fill(&value);
    return all;
  }();
  constexpr std::size_t kTimes = 4'096;
  StoreReplies replies;
  for (std::size_t i = 0; i < kTimes; ++i) {
    replies.put_values(same);
  }
  EXPECT_EQ(replies.unsent(), kTimes * same.size() * (sizeof(std::int64_t) + value.size()));
  EXPECT_LT(replies.held_bytes(), 8U << 20U);
}

TEST(StoreReplies, SurviveMillionsOfBytesHalfTaken) {
  StoreReplies replies;
  std::string expected;
  std::string taken;
  std::array<std::string_view, 1> pieces;
  for (int i = 0; i < 3'000; ++i) {
    const std::string value(static_cast<std::size_t>(i) * 3, static_cast<char>('a' + i % 26));
    replies.put_value(Value(value));
    const auto length = static_cast<std::int64_t>(value.size());
    expected.append(reinterpret_cast<const char*>(&length), sizeof(length));
    expected += value;
    replies.gather(pieces);
    const std::string_view part = pieces[0].substr(0, 4'000);
    taken += part;
    replies.consume(part.size());
  }
  taken += drain(replies, 100'000);
  EXPECT_EQ(taken, expected);
}

}  // namespace
}  // namespace ddprun
