#include "trainer/data/image_file.hpp"

#include "tests/trainer/data/fixtures.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include <zlib.h>

namespace ddprun {
namespace {

using namespace std::string_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string big_endian(std::uint32_t value) {
  std::string bytes;
  for (unsigned shift = 32; shift > 0; shift -= 8) {
    bytes += static_cast<char>(value >> (shift - 8) & 255U);
  }
  return bytes;
}

std::string chunk(const std::string& name, const std::string& content) {
  const std::string both = name + content;
  const auto sum =
      ::crc32(0, reinterpret_cast<const Bytef*>(both.data()), static_cast<uInt>(both.size()));
  return big_endian(static_cast<std::uint32_t>(content.size())) + both +
         big_endian(static_cast<std::uint32_t>(sum));
}

/// A PNG file with these rows, each with its filter byte.
struct Png {
  std::uint32_t width = 1;
  std::uint32_t height = 1;
  char depth = 8;
  char color = 2;
  // NOLINTBEGIN(readability-redundant-member-init): g++ wants one for each that a test leaves out
  std::string rows = {};
  std::string before_pixels = {};
  // NOLINTEND(readability-redundant-member-init)

  std::string text() const {
    uLongf bytes = ::compressBound(rows.size());
    std::string packed(bytes, '\0');
    ::compress(
        reinterpret_cast<Bytef*>(packed.data()),
        &bytes,
        reinterpret_cast<const Bytef*>(rows.data()),
        rows.size());
    packed.resize(bytes);
    const std::string head = big_endian(width) + big_endian(height) + depth + color + "\0\0\0"s;
    return "\x89PNG\r\n\x1a\n" + chunk("IHDR", head) + before_pixels + chunk("IDAT", packed) +
           chunk("IEND", "");
  }
};

std::string refusal_of(std::string_view file) {
  const auto image = decode_image(file);
  return image ? "accepted" : image.error().detail;
}

std::vector<int> pixels_of(const Png& png) {
  const auto image = decode_image(png.text());
  EXPECT_TRUE(image) << image.error().detail;
  return image ? std::vector<int>(image->pixels.begin(), image->pixels.end()) : std::vector<int>();
}

TEST(DecodeImage, TellsJpegAndPngByTheirContent) {
  EXPECT_EQ(decode_image(jpeg_of(7, 5, 3, 1))->size, (ImageSize{5, 7}));
  const auto png = decode_image(Png{.width = 2, .height = 1, .rows = "\0abcdef"s}.text());
  ASSERT_TRUE(png) << png.error().detail;
  EXPECT_EQ(png->size, (ImageSize{1, 2}));
  EXPECT_EQ(std::string(png->pixels.begin(), png->pixels.end()), "abcdef");
}

TEST(DecodeImage, SaysWhatAnotherFileIs) {
  EXPECT_THAT(refusal_of(""), HasSubstr("empty"));
  EXPECT_THAT(refusal_of("GIF89a..."), HasSubstr("a GIF file"));
  EXPECT_THAT(refusal_of("RIFF....WEBP"), HasSubstr("a WebP file"));
  EXPECT_THAT(refusal_of("II*\0...."s), HasSubstr("a TIFF file"));
  EXPECT_THAT(refusal_of("BM......"), HasSubstr("a BMP file"));
  EXPECT_THAT(refusal_of("P6 1 1 255 abc"), HasSubstr("a PPM file"));
  EXPECT_THAT(refusal_of("hello, world"), HasSubstr("not a complete JPEG file"));
}

TEST(DecodePng, MakesRgbOfEveryKindAsPilDoes) {
  EXPECT_THAT(pixels_of({.color = 0, .rows = "\0\x07"s}), ElementsAre(7, 7, 7));
  EXPECT_THAT(pixels_of({.color = 4, .rows = "\0\x07\x09"s}), ElementsAre(7, 7, 7));
  EXPECT_THAT(pixels_of({.color = 6, .rows = "\0\x01\x02\x03\x04"s}), ElementsAre(1, 2, 3));
  EXPECT_THAT(pixels_of({.depth = 1, .color = 0, .rows = "\0\x80"s}), ElementsAre(255, 255, 255));
  EXPECT_THAT(pixels_of({.depth = 2, .color = 0, .rows = "\0\x80"s}), ElementsAre(170, 170, 170));
  EXPECT_THAT(pixels_of({.depth = 4, .color = 0, .rows = "\0\x80"s}), ElementsAre(136, 136, 136));
}

TEST(DecodePng, TakesTheUpperHalfOf16BitsButCutsGreyOff) {
  EXPECT_THAT(
      pixels_of({.depth = 16, .color = 2, .rows = "\0\x01\xff\x02\xff\x03\xff"s}),
      ElementsAre(1, 2, 3));
  EXPECT_THAT(
      pixels_of({.depth = 16, .color = 4, .rows = "\0\x05\xff\x02\xff"s}), ElementsAre(5, 5, 5));
  EXPECT_THAT(pixels_of({.depth = 16, .color = 0, .rows = "\0\x00\x21"s}), ElementsAre(33, 33, 33));
  EXPECT_THAT(
      pixels_of({.depth = 16, .color = 0, .rows = "\0\x01\x21"s}), ElementsAre(255, 255, 255));
}

TEST(DecodePng, LooksPalettesUpAndTakesWhatTheyLackForBlack) {
  const std::string palette = chunk("PLTE", "\x0a\x0b\x0c\x14\x15\x16");
  EXPECT_THAT(
      pixels_of({.width = 3, .color = 3, .rows = "\0\x01\x00\x09"s, .before_pixels = palette}),
      ElementsAre(20, 21, 22, 10, 11, 12, 0, 0, 0));
  EXPECT_THAT(
      pixels_of({.width = 2, .depth = 1, .color = 3, .rows = "\0\x40"s, .before_pixels = palette}),
      ElementsAre(10, 11, 12, 20, 21, 22));
  EXPECT_THAT(refusal_of(Png{.color = 3, .rows = "\0\x01"s}.text()), HasSubstr("PLTE"));
}

TEST(DecodePng, LetsDamageBesideThePixelsPass) {
  std::string text = chunk("tEXt", "Comment\0about a cat"s);
  text.back() = 'x';  // its checksum
  const Png png{.color = 0, .rows = "\0\x07"s, .before_pixels = chunk("iCCP", "x\0\0junk"s) + text};
  EXPECT_THAT(pixels_of(png), ElementsAre(7, 7, 7));
}

TEST(DecodePng, RefusesAFileThatIsCutOffAnywhere) {
  const std::string whole =
      Png{.width = 40, .height = 9, .rows = std::string(std::size_t{9} * 121, '\0')}.text();
  ASSERT_EQ(refusal_of(whole), "accepted");
  for (std::size_t bytes = 4; bytes < whole.size(); ++bytes) {
    EXPECT_THAT(
        refusal_of(std::string_view(whole).substr(0, bytes)),
        HasSubstr("not a complete PNG file: "))
        << bytes;
  }
}

TEST(DecodePng, RefusesPixelsThatAreMissingOrDamaged) {
  EXPECT_THAT(
      refusal_of(Png{.height = 2, .rows = "\0abc"s}.text()), HasSubstr("not a complete PNG file"));
  EXPECT_THAT(
      refusal_of(
          Png{.rows = "\x09"
                      "abc"}
              .text()),
      HasSubstr("not a complete PNG file"));  // no such filter
  std::string flipped = Png{.width = 4, .rows = "\0abcdefghijkl"s}.text();
  const std::size_t pixels = flipped.find("IDAT") + 8;
  flipped[pixels] = static_cast<char>(flipped[pixels] ^ 1);
  EXPECT_THAT(refusal_of(flipped), HasSubstr("not a complete PNG file"));
}

TEST(DecodePng, SurvivesAnyFlippedByteEvenWhereChecksumsAreRight) {
  for (const char color : {'\0', '\2', '\3', '\4', '\6'}) {
    const Png png{
        .width = 5,
        .height = 3,
        .depth = 8,
        .color = color,
        .rows = std::string(std::size_t{3} * 21, '\3'),
        .before_pixels = chunk("PLTE", "abcdef") + chunk("tRNS", "ab")};
    const std::string whole = png.text();
    for (std::size_t at = 8; at < whole.size(); ++at) {
      std::string damaged = whole;
      damaged[at] = static_cast<char>(damaged[at] ^ '\x11');
      const auto image = decode_image(damaged);
      if (image) {
        EXPECT_EQ(std::ssize(image->pixels), image->size.height * image->size.width * 3);
      }
    }
  }
  for (int depth = 0; depth < 32; ++depth) {
    for (int color = 0; color < 8; ++color) {
      const Png png{
          .width = 3,
          .depth = static_cast<char>(depth),
          .color = static_cast<char>(color),
          .rows = std::string(25, '\0'),
          .before_pixels = chunk("PLTE", "abcdef")};
      const auto image = decode_image(png.text());
      if (image) {
        EXPECT_EQ(image->pixels.size(), 9U);
      }
    }
  }
}

TEST(DecodePng, RefusesAnImageThatClaimsToBeHuge) {
  EXPECT_THAT(
      refusal_of(Png{.width = 100'000, .height = 100'000, .rows = "\0"s}.text()),
      HasSubstr("100000 x 100000 pixels; the limit is 64000000"));
  EXPECT_THAT(
      refusal_of(Png{.width = 2'000'000, .rows = "\0"s}.text()),
      HasSubstr("not a complete PNG file"));
}

}  // namespace
}  // namespace ddprun
