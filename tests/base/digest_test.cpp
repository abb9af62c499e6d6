#include "base/digest.hpp"

#include <gtest/gtest.h>

namespace ddprun {
namespace {

TEST(Digest, GivesTheMd5OfRfc1321) {
  Digest md5(DigestKind::kMd5);
  md5.add(std::string_view("message"));
  md5.add(std::string_view(" digest"));
  EXPECT_EQ(md5.finish_hex(), "f96b697d7cb7938d525a2f31aaf161d0");
}

}  // namespace
}  // namespace ddprun
