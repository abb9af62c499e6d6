#include "rendezvous/core/frame.hpp"

#include <gtest/gtest.h>

namespace ddprun {
namespace {

TEST(Protocol, IsToldByTheFirstBytes) {
  EXPECT_EQ(detect(std::string_view("\0", 1)), Protocol::kStore);
  EXPECT_EQ(detect("GET /healthz HTTP/1.1"), Protocol::kHttp);
  EXPECT_EQ(detect("\xDDRN\x01"), Protocol::kAgent);
  EXPECT_EQ(detect("\xDDRL\x01"), Protocol::kLifeline);
}

TEST(Protocol, WaitsWhileItCouldStillBeOneOfOurs) {
  for (const std::string_view some : {"", "G", "GET", "\xDD", "\xDDR", "DELET"}) {
    EXPECT_EQ(detect(some), Protocol::kUndecided) << some;
  }
}

TEST(Protocol, RefusesTheFirstByteThatFitsNone) {
  for (const std::string_view some :
       {"\x01", "\x07", "\xFF", "\x16\x03\x01", "GOT", "\xDDX", "SSH-"}) {
    EXPECT_EQ(detect(some), Protocol::kUnknown) << some;
  }
}

}  // namespace
}  // namespace ddprun
