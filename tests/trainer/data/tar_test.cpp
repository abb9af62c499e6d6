#include "trainer/core/tar.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace ddprun {
namespace {

using ::testing::HasSubstr;
using Kind = TarHeader::Kind;

/// A header as tar writes it, with a correct checksum.
struct Block {
  std::string text = std::string(kTarBlockBytes, '\0');

  Block(const std::string& name, const std::string& size, char type) {
    put(0, name);
    put(124, size);
    put(257,
        std::string(
            "ustar\0"
            "00",
            8));
    text[156] = type;
    sign();
  }
  void put(std::size_t at, const std::string& value) { text.replace(at, value.size(), value); }
  void sign() {
    put(148, "        ");
    unsigned sum = 0;
    for (const char byte : text) {
      sum += static_cast<unsigned char>(byte);
    }
    std::string digits(7, '\0');
    for (std::size_t i = 6; i-- > 0; sum /= 8) {
      digits[i] = static_cast<char>('0' + sum % 8);
    }
    put(148, digits);
  }
};

TEST(TarHeader, SaysNameSizeAndKind) {
  const auto header = parse_tar_header(Block("a/b.jpg", "00000001750", '0').text);
  ASSERT_TRUE(header);
  EXPECT_EQ(header->path, "a/b.jpg");
  EXPECT_EQ(header->bytes, 1000);
  EXPECT_EQ(header->kind, Kind::kFile);
  EXPECT_EQ(parse_tar_header(Block("a/", "0", '5').text)->kind, Kind::kDirectory);
  EXPECT_EQ(parse_tar_header(Block("a", "0", '2').text)->kind, Kind::kOther);
}

TEST(TarHeader, JoinsPrefixAndName) {
  Block block("name", "0", '0');
  block.put(345, "some/folder");
  block.sign();
  EXPECT_EQ(parse_tar_header(block.text)->path, "some/folder/name");
}

TEST(TarHeader, ReadsSizesThatNeedMoreThanOctalDigits) {
  Block block("huge", "", '0');
  block.put(124, std::string("\x80\0\0\0\0\0\0\x04\0\0\0\x01", 12));
  block.sign();
  EXPECT_EQ(parse_tar_header(block.text)->bytes, (std::int64_t{4} << 32U) + 1);
}

TEST(TarHeader, EndsWithZeros) {
  EXPECT_EQ(parse_tar_header(std::string(kTarBlockBytes, '\0'))->kind, Kind::kEnd);
}

TEST(TarHeader, IsRefusedWhenDamaged) {
  Block block("a/b.jpg", "00000001750", '0');
  block.text[3] = 'X';
  EXPECT_THAT(parse_tar_header(block.text).error().detail, HasSubstr("checksum"));
  EXPECT_THAT(
      parse_tar_header(Block("a", "99", '0').text).error().detail, HasSubstr("is not a number"));
  EXPECT_FALSE(parse_tar_header(std::string(kTarBlockBytes, '\xff')));
}

TEST(PaxRecords, SayPathAndSize) {
  const auto records = parse_pax_records("21 path=long/name é\n12 size=999\n11 ctime=1\n");
  ASSERT_TRUE(records);
  EXPECT_EQ(records->path, "long/name é");
  EXPECT_EQ(records->bytes, 999);
}

TEST(PaxRecords, AreRefusedWithAWrongLength) {
  EXPECT_FALSE(parse_pax_records("99 path=a\n"));
  EXPECT_FALSE(parse_pax_records("x path=a\n"));
  EXPECT_FALSE(parse_pax_records("0 path=a\n"));
  EXPECT_FALSE(parse_pax_records("10"));
}

}  // namespace
}  // namespace ddprun
