#include "base/digest.hpp"

#include <gtest/gtest.h>

namespace ddprun {
namespace {

TEST(Sha256, GivesTheDigestsOfFips180) {
  EXPECT_EQ(
      sha256_hex(std::string_view("abc")),
      "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(
      sha256_hex(std::string_view("")),
      "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST(Sha256, DoesNotCareHowTheBytesArePartitioned) {
  Sha256 sha;
  sha.add(std::string_view("a"));
  sha.add(std::string_view(""));
  sha.add(std::string_view("bc"));
  EXPECT_EQ(sha.finish_hex(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

}  // namespace
}  // namespace ddprun
