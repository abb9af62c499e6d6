#include "trainer/data/jpeg.hpp"

#include "tests/trainer/data/fixtures.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace ddprun {
namespace {

using ::testing::HasSubstr;

std::string refusal_of(std::string_view file) {
  const auto image = decode_jpeg(file);
  return image ? "accepted" : image.error().detail;
}

TEST(DecodeJpeg, GivesRowsOfRedGreenBlue) {
  const auto image = decode_jpeg(jpeg_of(40, 24, 3, 0));
  ASSERT_TRUE(image);
  EXPECT_EQ(image->size, (ImageSize{24, 40}));
  EXPECT_EQ(image->channels, 3);
  EXPECT_EQ(image->pixels.size(), 24U * 40 * 3);
  EXPECT_EQ(image->layout, Image::Layout::kInterleaved);
}

TEST(DecodeJpeg, CopiesGreyIntoAllThree) {
  const auto image = decode_jpeg(jpeg_of(17, 9, 1, 3));
  ASSERT_TRUE(image);
  ASSERT_EQ(image->pixels.size(), 17U * 9 * 3);
  for (std::size_t at = 0; at < image->pixels.size(); at += 3) {
    EXPECT_EQ(image->pixels[at], image->pixels[at + 1]);
    EXPECT_EQ(image->pixels[at], image->pixels[at + 2]);
  }
}

TEST(DecodeJpeg, RefusesAFileThatIsCutOffAnywhere) {
  const std::string whole = jpeg_of(64, 64, 3, 1);
  ASSERT_TRUE(decode_jpeg(whole));
  // The last two bytes are the end marker, without which all pixels may be there.
  for (std::size_t bytes = 0; bytes + 2 < whole.size(); bytes += 7) {
    EXPECT_NE(refusal_of(std::string_view(whole).substr(0, bytes)), "accepted") << bytes;
  }
}

TEST(DecodeJpeg, SurvivesAnyFlippedByte) {
  const std::string whole = jpeg_of(48, 32, 3, 2);
  for (std::size_t at = 0; at < whole.size(); ++at) {
    for (const char bits : {'\xff', '\x01', '\x80'}) {
      std::string damaged = whole;
      damaged[at] = static_cast<char>(damaged[at] ^ bits);
      const auto image = decode_jpeg(damaged);
      if (image) {
        EXPECT_EQ(
            std::ssize(image->pixels), image->size.height * image->size.width * image->channels);
      }
    }
  }
}

TEST(DecodeJpeg, RefusesAnotherFile) {
  EXPECT_THAT(refusal_of(""), HasSubstr("not a complete JPEG file"));
  EXPECT_THAT(refusal_of("hello, world"), HasSubstr("not a complete JPEG file"));
}

TEST(DecodeJpeg, RefusesAnImageThatClaimsToBeHuge) {
  std::string file = jpeg_of(16, 16, 3, 0);
  const std::size_t frame = file.find("\xff\xc0");  // then length, precision, height and width
  ASSERT_NE(frame, std::string::npos);
  file.replace(frame + 5, 4, "\xff\x00\xff\x00", 4);
  EXPECT_THAT(refusal_of(file), HasSubstr("65280 x 65280 pixels"));
}

}  // namespace
}  // namespace ddprun
