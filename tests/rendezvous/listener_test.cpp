#include "rendezvous/listener.hpp"

#include "rendezvous/blocking_socket.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

namespace ddprun {
namespace {

/// A barrier for two threads, which continue within nanoseconds of each other on two processors.
class Barrier {
 public:
  void arrive_and_wait() {
    const int round = came_.fetch_add(1) / 2;
    for (int spins = 0; came_.load() / 2 == round; ++spins) {
      if (spins > kSpinsMax) std::this_thread::yield();
    }
  }

 private:
  static constexpr int kSpinsMax = 200'000;
  std::atomic<int> came_ = 0;
};

void spin(int turns) {
  for (std::atomic<int> turn = 0; turn < turns;)
    ++turn;
}

// Linux may refuse both: then two ddprun on one machine looked for each other until the join
// timeout. Two threads come close enough for that in a few of 200,000 rounds, which
// scripts/nightly.sh runs.
TEST(Listener, OfTwoThatListenAtTheSameMomentOneDoes) {
  constexpr int kRounds = 40'000;
  constexpr int kSpinsOfOneListen = 400;
  const std::uint16_t port = port_of(listen_on({.host = "127.0.0.1", .port = 0}).value()[0].get());
  std::array<bool, 2> listens{};
  int rounds_with_one = 0;
  Barrier ready;
  Barrier judged;
  const auto take_part = [&](std::size_t self) {
    for (int round = 0; round < kRounds; ++round) {
      ready.arrive_and_wait();
      if (self == 1) spin(round % kSpinsOfOneListen);
      const auto sockets = listen_on({.host = "", .port = port});
      listens[self] = sockets.has_value();
      judged.arrive_and_wait();
      if (self == 0) rounds_with_one += listens[0] != listens[1] ? 1 : 0;
    }
  };
  std::thread other(take_part, 1);
  take_part(0);
  other.join();
  EXPECT_EQ(rounds_with_one, kRounds);
}

// A node learns only when it calls others at which of its addresses they reach it. By then another
// program may have its port there.
TEST(Listener, AReservedPortIsFreeAtAddressesThatComeLater) {
  const auto reserved = reserve_port(0);
  ASSERT_TRUE(reserved) << reserved.error().detail;
  const std::uint16_t port = port_of(reserved->get());
  const auto first = listen_on({.host = "127.0.0.1", .port = port});
  ASSERT_TRUE(first) << first.error().detail;
  const auto later = listen_on({.host = "127.0.0.2", .port = port});
  EXPECT_TRUE(later) << later.error().detail;
}

TEST(Listener, APortWhereAProgramListensCannotBeReserved) {
  const auto listening = listen_on({.host = "127.0.0.1", .port = 0});
  ASSERT_TRUE(listening);
  const std::uint16_t port = port_of(listening->front().get());
  const auto reserved = reserve_port(port);
  ASSERT_FALSE(reserved);
  EXPECT_TRUE(reserved.error().is(Errc::kIo));
  EXPECT_NE(reserved.error().detail.find("choose another port"), std::string::npos);
}

TEST(Listener, WithoutADescriptorTheNewcomerIsAcceptedInPlaceOfOneThatMakesWay) {
  const auto listening = listen_on({.host = "127.0.0.1", .port = 0}).value();
  const Endpoint here{.host = "127.0.0.1", .port = port_of(listening[0].get())};
  Acceptor acceptor;
  const auto newcomer = BlockingSocket::connect(here, Clock::now() + std::chrono::seconds(60));
  ASSERT_TRUE(newcomer);
  rlimit usual{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &usual), 0);
  const rlimit few{.rlim_cur = 64, .rlim_max = usual.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  std::vector<Descriptor> strangers;
  while (Descriptor copy{::fcntl(listening[0].get(), F_DUPFD_CLOEXEC, 0)}) {
    strangers.push_back(std::move(copy));
  }
  Descriptor accepted;
  const auto outcome = acceptor.accept(listening[0].get(), accepted, [&] {
    strangers.pop_back();
    return true;
  });
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &usual), 0);
  EXPECT_EQ(outcome, Acceptor::Outcome::kAccepted);
  EXPECT_TRUE(accepted);
}

}  // namespace
}  // namespace ddprun
