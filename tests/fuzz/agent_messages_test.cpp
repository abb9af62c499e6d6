// A hundred thousand messages and statuses, valid, damaged or hostile. Run under ASan (preset
// dev), this shows that none crashes or leaks.

#include "tests/fuzz/agent_messages_fuzz.hpp"
#include "tests/rendezvous/sample_messages.hpp"

#include <gtest/gtest.h>

#include <array>
#include <random>

namespace ddprun {
namespace {

constexpr int kMessages = 100'000;
constexpr std::uint32_t kSeed = 20'260'102;

constexpr std::array<std::string_view, 14> kHostile = {
    "-1",
    "1e9",
    "99999999999999999999",
    "null",
    "\"\"",
    "{}",
    "[]",
    "true",
    "-0",
    "\"\\u0000\"",
    "[[[",
    "\"\\ud800\"",
    "\xFF",
    "9007199254740993"};

class MessageMaker {
 public:
  std::string next() {
    std::string text = below(samples_.size() + 1) == 0 ? to_json(testing::sample_status())
                                                       : encode(samples_[below(samples_.size())]);
    for (std::size_t i = below(4); i > 0 && !text.empty(); --i) {
      damage(text);
    }
    return text;
  }

  std::size_t below(std::size_t bound) { return random_() % bound; }

 private:
  void damage(std::string& text) {
    const std::size_t at = below(text.size());
    switch (below(5)) {
      case 0:
        text[at] = static_cast<char>(below(256));
        break;
      case 1:
        text.resize(at);
        break;
      case 2:  // another value after some colon
        if (const std::size_t colon = text.find(':', at); colon != std::string::npos) {
          const std::size_t end = text.find_first_of(",}", colon);
          const std::string_view value = kHostile[below(kHostile.size())];
          text.replace(colon + 1, end == std::string::npos ? 0 : end - colon - 1, value);
        }
        break;
      case 3:  // a piece twice
        text.insert(at, text.substr(below(text.size()), below(40)));
        break;
      default:
        text.erase(at, below(40));
        break;
    }
  }

  std::mt19937_64 random_{kSeed};
  std::vector<Message> samples_ = testing::sample_messages();
};

TEST(AgentMessages, DamagedOnesAreRefusedOrWithinTheLimits) {
  MessageMaker maker;
  for (int i = 0; i < kMessages; ++i) {
    testing::run_message(maker.next());
  }
}

TEST(AgentMessages, InFramesTheyHarmNobodyEither) {
  MessageMaker maker;
  for (int i = 0; i < kMessages / 10; ++i) {
    std::string stream;
    for (std::size_t frames = 1 + maker.below(4); frames > 0; --frames) {
      ASSERT_TRUE(append_frame(stream, maker.next()));
    }
    if (maker.below(4) == 0)
      stream[maker.below(stream.size())] = static_cast<char>(maker.below(256));
    testing::run_stream(stream, 1 + maker.below(300));
  }
}

}  // namespace
}  // namespace ddprun
