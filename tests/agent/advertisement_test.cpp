// Real sockets, in this test's own network namespace.

#include "agent/advertisement.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include <unistd.h>

namespace ddprun {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

/// A job that no other process of this machine has.
AdvertisedJob job_of_this_test() {
  return {
      .id = fmt::format("test of {}", ::getpid()),
      .endpoint = {.host = "n0", .port = 29'400},
      .program = "train.py",
      .role = "default"};
}

TEST(Advertisement, IsFoundUntilItsDescriptorIsClosed) {
  const AdvertisedJob job = job_of_this_test();
  const Endpoint v4{.host = "10.0.0.1", .port = 4'711};
  const Endpoint v6{.host = "fe80:1111:2222:3333:4444:5555:6666:7777", .port = 65'535};
  EXPECT_THAT(advertised(job), IsEmpty());
  auto one = advertise(job, v4);
  ASSERT_TRUE(one) << one.error().detail;
  EXPECT_THAT(advertised(job), ElementsAre(v4));
  {
    const auto other = advertise(job, v6);
    ASSERT_TRUE(other) << other.error().detail;
    EXPECT_THAT(advertised(job), UnorderedElementsAre(v4, v6));
  }
  EXPECT_THAT(advertised(job), ElementsAre(v4));
  *one = Descriptor();
  EXPECT_THAT(advertised(job), IsEmpty());
}

TEST(Advertisement, IsOfItsJobAlone) {
  const AdvertisedJob job = job_of_this_test();
  const auto ours = advertise(job, {.host = "10.0.0.1", .port = 4'711});
  ASSERT_TRUE(ours) << ours.error().detail;
  AdvertisedJob other = job;
  other.endpoint.port = 29'401;
  EXPECT_THAT(advertised(other), IsEmpty());
  other = job;
  other.program = "evaluate.py";
  EXPECT_THAT(advertised(other), IsEmpty());
  other = job;
  other.role = "evaluator";
  EXPECT_THAT(advertised(other), IsEmpty());
  other = job;
  other.id += '0';
  EXPECT_THAT(advertised(other), IsEmpty());
}

TEST(Advertisement, IsNotMadeTwiceForOneAddress) {
  const AdvertisedJob job = job_of_this_test();
  const Endpoint at{.host = "10.0.0.1", .port = 4'711};
  const auto first = advertise(job, at);
  ASSERT_TRUE(first) << first.error().detail;
  const auto second = advertise(job, at);
  ASSERT_FALSE(second);
  EXPECT_TRUE(second.error().is(Errc::kIo));
}

}  // namespace
}  // namespace ddprun
