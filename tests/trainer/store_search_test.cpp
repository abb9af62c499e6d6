// Real stores and sockets, on ports that the kernel chooses.

#include "trainer/store_search.hpp"

#include "rendezvous/listener.hpp"
#include "tests/rendezvous/running_store.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

namespace ddprun {
namespace {

using ::testing::HasSubstr;
using testing::kPatience;
using testing::RawClient;
using testing::RunningStore;

constexpr char kMark[] = "ddptrain/7.0.0";

WorkerPlace place_at(std::vector<std::uint16_t> ports) {
  WorkerPlace place;
  place.world = 2;
  place.store = Endpoint{.host = "127.0.0.1", .port = ports.front()};
  place.search = StoreSearch{.ports = std::move(ports), .mark = kMark};
  return place;
}

/// A port at which a socket listens and never sends anything.
class MuteListener {
 public:
  MuteListener() : socket_(std::move(listen_on({.host = "", .port = 0}).value().front())) {}
  std::uint16_t port() const { return port_of(socket_.get()); }

 private:
  Descriptor socket_;
};

void mark(const RunningStore& store, const char* key) {
  RawClient client(store);
  client.say(testing::set(fmt::format("/{}", key), "1"));
  ASSERT_EQ(client.ask(testing::get(fmt::format("/{}", key)), 9), testing::str("1"));
}

std::uint16_t found_port(const WorkerPlace& place) {
  return find_store(place, Clock::now() + kPatience).value().port;
}

TEST(StoreDoor, IsAtMasterPortAloneWhereThatIsCertain) {
  const MuteListener stranger;
  WorkerPlace place = place_at({stranger.port(), 0});
  place.search.reset();
  const auto door = open_store_door(place);
  ASSERT_FALSE(door);
  EXPECT_THAT(door.error().detail, HasSubstr(fmt::format("on port {} (", stranger.port())));
}

TEST(StoreDoor, IsAtTheNextPortWhereTheFirstIsTaken) {
  const MuteListener stranger;
  const auto door = open_store_door(place_at({stranger.port(), 0})).value();
  EXPECT_NE(door.port, stranger.port());
  EXPECT_EQ(door.port, port_of(door.socket.get()));
}

TEST(StoreDoor, IsNowhereWhereAllPortsAreTaken) {
  const MuteListener one;
  const MuteListener other;
  const auto door = open_store_door(place_at({one.port(), other.port()}));
  ASSERT_FALSE(door);
  EXPECT_TRUE(door.error().is(Errc::kPeerLost));
  EXPECT_THAT(
      door.error().detail,
      HasSubstr(fmt::format("cannot host a store on port {}, {} (", one.port(), other.port())));
  EXPECT_THAT(door.error().detail, HasSubstr("set MASTER_PORT"));
}

TEST(FindStore, PassesTheStoreOfAnotherJob) {
  const RunningStore stranger;
  const RunningStore ours;
  mark(stranger, "ddptrain/10007.0.0");
  mark(ours, kMark);
  EXPECT_EQ(
      found_port(place_at({stranger.endpoint().port, ours.endpoint().port})), ours.endpoint().port);
}

TEST(FindStore, PassesWhoNeverSaysAWord) {
  const MuteListener stranger;
  const RunningStore ours;
  mark(ours, kMark);
  EXPECT_EQ(found_port(place_at({stranger.port(), ours.endpoint().port})), ours.endpoint().port);
}

TEST(FindStore, AsksAgainUntilRankZeroHasComeThere) {
  const RunningStore ours;
  const WorkerPlace place = place_at({ours.endpoint().port});
  auto found = std::async(std::launch::async, [&place] { return found_port(place); });
  mark(ours, kMark);
  EXPECT_EQ(found.get(), ours.endpoint().port);
}

TEST(FindStore, EndsAtTheDeadlineAndNamesWhereItLooked) {
  const RunningStore stranger;
  const auto found = find_store(place_at({stranger.endpoint().port}), Clock::now());
  ASSERT_FALSE(found);
  EXPECT_TRUE(found.error().is(Errc::kPeerLost));
  EXPECT_THAT(
      found.error().detail,
      HasSubstr(
          fmt::format("no store of this job at 127.0.0.1, port {}", stranger.endpoint().port)));
}

TEST(FindStore, EndsAtOnceWhereTheHostIsUnknown) {
  WorkerPlace place = place_at({1});
  place.store->host = "no.such.host.invalid";
  const auto found = find_store(place, Clock::now() + kPatience);
  ASSERT_FALSE(found);
  EXPECT_THAT(found.error().detail, HasSubstr("set MASTER_ADDR to an address"));
}

}  // namespace
}  // namespace ddprun
