// A million random or mutated frames. Run under ASan (preset dev), this shows that none crashes or
// leaks; the limits are checked after every frame.

#include "base/log.hpp"
#include "tests/fuzz/store_fuzz.hpp"
#include "tests/rendezvous/running_store.hpp"

#include <gtest/gtest.h>

#include <random>

namespace ddprun {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace): the verbs of this test

constexpr int kFrames = 1'000'000;
constexpr int kSocketFrames = 50'000;
constexpr std::uint32_t kSeed = 20'260'101;

/// Frames that are valid, valid but damaged, or noise.
class FrameMaker {
 public:
  explicit FrameMaker(std::uint32_t seed) : random_(seed) {}

  std::string next() {
    std::string frame = valid();
    switch (below(8)) {
      case 0:
        frame = damaged(std::move(frame));
        break;
      case 1:  // cut
        frame.resize(below(frame.size() + 1));
        break;
      case 2:  // noise
        frame.assign(below(40), '\0');
        for (char& byte : frame) {
          byte = static_cast<char>(below(256));
        }
        break;
      case 3:  // a hostile length after a valid opcode
        frame = op(static_cast<int>(below(0x13))) + i64(static_cast<std::int64_t>(random_()));
        break;
      default:
        break;
    }
    return frame;
  }

  std::string damaged(std::string frame) {
    for (std::size_t i = 0; i <= below(4); ++i) {
      frame[below(frame.size())] = static_cast<char>(below(256));
    }
    return frame;
  }

  std::size_t below(std::size_t bound) { return random_() % bound; }

 private:
  std::string name() { return std::string(1, static_cast<char>('a' + below(6))); }

  std::string text() {
    return below(4) == 0 ? std::to_string(below(100)) : std::string(below(90), 'x');
  }

  std::vector<std::string> names() {
    std::vector<std::string> list;
    for (std::size_t i = below(6); i > 0; --i) {
      list.push_back(name());
    }
    return list;
  }

  std::string valid() {
    switch (below(0x12)) {
      case 0:
        return set(name(), text());
      case 1:
        return compare_set(name(), below(2) == 0 ? "" : text(), text());
      case 2:
        return get(name());
      case 3:
        return add(name(), static_cast<std::int64_t>(below(9)) - 4);
      case 4:
        return check(names());
      case 5:
        return wait(names());
      case 6:
        return num_keys();
      case 7:
        return delete_key(name());
      case 8:
        return append(name(), text());
      case 9:
        return multi_get(names());
      case 10:
        return multi_set({{name(), text()}, {name(), text()}});
      case 11:
        return cancel_wait();
      case 12:
        return ping(1);
      case 13:
        return push(name(), text());
      case 14:
        return pop(name());
      case 15:
        return queue_len(name());
      case 16:
        return list_keys();
      default:
        return barrier(name(), static_cast<std::int64_t>(below(5)));
    }
  }

  std::mt19937_64 random_;
};

TEST(StoreFrames, AMillionOfThemHarmNobodyAndStayWithinTheLimits) {
  HostileWorld world;
  FrameMaker maker(kSeed);
  for (int i = 0; i < kFrames; ++i) {
    world.hear(static_cast<int>(maker.below(3)), maker.next());
    if (maker.below(50) == 0) world.leave(static_cast<int>(maker.below(3)));
  }
}

TEST(StoreFrames, OverRealSocketsHarmNobodyEither) {
  spdlog::set_level(spdlog::level::off);  // every refusal is a line
  RunningStore store(kFuzzLimits);
  RawClient bystander(store, validate() + set("/bystander", "unharmed"));
  FrameMaker maker(kSeed + 1);
  for (int sent = 0; sent < kSocketFrames;) {
    const bool speaks_http = maker.below(4) == 0;
    RawClient hostile(
        store, speaks_http ? maker.damaged("GET /healthz HTTP/1.1\r\nA: b\r\n\r\n") : validate());
    std::string frames;
    for (std::size_t i = maker.below(100); i > 0; --i, ++sent) {
      frames += maker.next();
    }
    hostile.say(frames);
    if (maker.below(2) == 0) hostile.reset();
    ASSERT_TRUE(bystander.has_heard_all());
  }
  const std::size_t stored =
      store.ask([](StoreServer& server) { return server.store().stored_bytes(); });
  EXPECT_LE(stored, kFuzzLimits.stored_bytes_max);
}

}  // namespace
}  // namespace ddprun
