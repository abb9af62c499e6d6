#include "trainer/core/idx.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace ddprun {
namespace {

using ::testing::HasSubstr;

std::vector<std::byte> bytes_of(std::initializer_list<int> values) {
  std::vector<std::byte> bytes;
  for (const int value : values) {
    bytes.push_back(static_cast<std::byte>(value));
  }
  return bytes;
}

/// Two images of 1 x 2 pixels.
std::vector<std::byte> small_images() {
  return bytes_of({0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 2, 10, 20, 30, 255});
}

std::vector<std::byte> small_labels() {
  return bytes_of({0, 0, 8, 1, 0, 0, 0, 3, 0, 9, 1});
}

TEST(IdxImages, AreTheBytesAfterTheHeader) {
  const auto file = small_images();
  const auto images = parse_idx_images(file);
  ASSERT_TRUE(images);
  EXPECT_EQ(images->count, 2);
  EXPECT_EQ(images->rows, 1);
  EXPECT_EQ(images->columns, 2);
  ASSERT_EQ(images->pixels.size(), 4U);
  EXPECT_EQ(images->pixels[3], std::byte{255});
}

TEST(IdxImages, RefuseAFileThatIsCutOff) {
  auto file = small_images();
  file.pop_back();
  const auto images = parse_idx_images(file);
  ASSERT_FALSE(images);
  EXPECT_TRUE(images.error().is(Errc::kCorrupt));
  EXPECT_THAT(
      images.error().detail,
      HasSubstr("truncated: expected 20 bytes from the header, the file has 19"));
}

TEST(IdxImages, RefuseBytesAfterTheLastImage) {
  auto file = small_images();
  file.push_back(std::byte{0});
  EXPECT_THAT(parse_idx_images(file).error().detail, HasSubstr("trailing bytes"));
}

TEST(IdxImages, RefuseAHeaderThatIsCutOff) {
  const auto file = bytes_of({0, 0, 8, 3, 0, 0});
  EXPECT_THAT(parse_idx_images(file).error().detail, HasSubstr("6 bytes are too few"));
}

TEST(IdxImages, NameWhatTheFileIsInstead) {
  EXPECT_THAT(parse_idx_images(small_labels()).error().detail, HasSubstr("too few"));
  const auto labels = bytes_of({0, 0, 8, 1, 0, 0, 0, 8, 0, 9, 1, 1, 1, 1, 1, 1});
  EXPECT_THAT(parse_idx_images(labels).error().detail, HasSubstr("these are labels"));
  const auto gzip = bytes_of({0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0});
  EXPECT_THAT(parse_idx_images(gzip).error().detail, HasSubstr("gzip"));
}

TEST(IdxImages, RefuseSizesThatWouldOverflow) {
  auto file = small_images();
  for (std::size_t i = 8; i < 16; ++i) {
    file[i] = std::byte{0xff};
  }
  EXPECT_THAT(parse_idx_images(file).error().detail, HasSubstr("the number of rows"));
}

TEST(IdxLabels, AreTheBytesAfterTheHeader) {
  const auto file = small_labels();
  const auto labels = parse_idx_labels(file, 10);
  ASSERT_TRUE(labels);
  EXPECT_EQ(labels->count, 3);
  EXPECT_EQ(labels->classes[1], std::byte{9});
}

TEST(IdxLabels, RefuseAClassThatDoesNotExist) {
  const auto file = small_labels();
  EXPECT_THAT(
      parse_idx_labels(file, 9).error().detail,
      HasSubstr("label 9 of sample 1: the classes are 0 to 8"));
}

}  // namespace
}  // namespace ddprun
