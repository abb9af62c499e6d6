#include "trainer/core/zip.hpp"

#include <gmock/gmock.h>

#include <string>

namespace ddprun {
namespace {

using testing::HasSubstr;

std::string joined(const EncodedZip& zip) {
  std::string file;
  for (const auto piece : zip.pieces()) {
    for (const std::byte byte : piece) {
      file += static_cast<char>(byte);
    }
  }
  return file;
}

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

const std::string kContent = "forty-two bytes of content, more or less";

std::string archive(std::uint64_t zip64_from = 0xffff'ffff) {
  return joined(encode_zip(
      {{.name = "a/version", .text = "3\n", .bytes = {}},
       {.name = "a/data/0", .text = "", .bytes = bytes_of(kContent)},
       {.name = "a/empty", .text = "", .bytes = {}}},
      zip64_from));
}

std::string refusal(std::string_view file) {
  const auto entries = decode_zip(bytes_of(file));
  if (entries) return "accepted";
  EXPECT_TRUE(entries.error().is(Errc::kCorrupt));
  return entries.error().detail;
}

/// Replaces the bytes at `at` by `bytes`.
std::string patched(std::string file, std::size_t at, std::string_view bytes) {
  return file.replace(at, bytes.size(), bytes);
}

// Offsets of fields in an entry of the directory.
constexpr std::size_t kFlags = 8;
constexpr std::size_t kMethod = 10;
constexpr std::size_t kOffset = 42;

std::size_t line_of(const std::string& file, std::string_view name) {
  return file.rfind(name) - 46;
}

class Zip : public testing::TestWithParam<std::uint64_t> {};

TEST_P(Zip, ComesBackAsItWas) {
  const std::string file = archive(GetParam());
  const auto entries = decode_zip(bytes_of(file));
  ASSERT_TRUE(entries) << entries.error().detail;
  ASSERT_EQ(entries->size(), 3U);
  EXPECT_EQ((*entries)[0].name, "a/version");
  EXPECT_EQ((*entries)[1].name, "a/data/0");
  const auto content = (*entries)[1].bytes;
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(content.data()), content.size()), kContent);
  EXPECT_TRUE((*entries)[2].bytes.empty());
}

TEST_P(Zip, BeginsEachContentAtAMultipleOf64) {
  const std::string file = archive(GetParam());
  const auto entries = decode_zip(bytes_of(file));
  ASSERT_TRUE(entries);
  for (const ZipEntry& entry : *entries) {
    const auto* const begin = reinterpret_cast<const std::byte*>(file.data());
    EXPECT_EQ((entry.bytes.data() - begin) % 64, 0) << entry.name;
  }
}

TEST_P(Zip, RefusesEveryTruncation) {
  const std::string file = archive(GetParam());
  for (std::size_t size = 0; size < file.size(); ++size) {
    ASSERT_NE(refusal(std::string_view(file).substr(0, size)), "accepted") << size;
  }
}

TEST_P(Zip, RefusesAFlippedBitInAnyContent) {
  const std::string file = archive(GetParam());
  const std::size_t at = file.find(kContent);
  for (std::size_t i = 0; i < kContent.size(); ++i) {
    std::string damaged = file;
    damaged[at + i] = static_cast<char>(damaged[at + i] ^ 1);
    EXPECT_THAT(refusal(damaged), HasSubstr("'a/data/0': its CRC-32"));
  }
}

// 0: everything is written in 64 bits; 20: the longer entry and what follows it.
INSTANTIATE_TEST_SUITE_P(SizesIn32And64Bits, Zip, testing::Values(0xffff'ffff, 20, 0));

TEST(ZipDamage, NamesACompressedEntry) {
  const std::string file = archive();
  const std::size_t line = line_of(file, "a/data/0");
  EXPECT_THAT(
      refusal(patched(file, line + kMethod, std::string_view("\x08\0", 2))),
      HasSubstr("'a/data/0': it is compressed"));
  EXPECT_THAT(
      refusal(patched(file, line + kFlags, std::string_view("\x01\x08", 2))),
      HasSubstr("'a/data/0': it is encrypted"));
}

TEST(ZipDamage, NamesEntriesThatShareBytes) {
  const std::string file = joined(encode_zip(
      {{.name = "a/x", .text = "same", .bytes = {}},
       {.name = "a/y", .text = "same", .bytes = {}}}));
  // The second entry points to the first file, which has its name.
  std::string shared =
      patched(file, line_of(file, "a/y") + kOffset, std::string_view("\0\0\0\0", 4));
  EXPECT_THAT(refusal(shared), HasSubstr("'a/y': its header and the directory contradict"));
  shared = patched(shared, shared.find("a/x"), "a/y");
  shared = patched(shared, line_of(shared, "a/x"), shared.substr(line_of(shared, "a/y"), 46));
  shared = patched(shared, shared.rfind("a/x"), "a/y");
  EXPECT_THAT(refusal(shared), HasSubstr("'a/y': it occurs twice"));
}

TEST(ZipDamage, NamesAnEntryWithinAnother) {
  // A whole file as the content of another, and a directory entry for each.
  const std::string inner = joined(encode_zip({{.name = "in", .text = "x", .bytes = {}}}));
  std::string file = joined(encode_zip(
      {{.name = "out", .text = inner, .bytes = {}}, {.name = "in", .text = "x", .bytes = {}}}));
  const std::size_t line = line_of(file, "in");
  file = patched(file, line + kOffset, std::string_view("\x40\0\0\0", 4));
  EXPECT_THAT(refusal(file), HasSubstr("'in': it overlaps 'out'"));
}

TEST(ZipDamage, NamesSizesThatReachBeyondTheFile) {
  const std::string file = archive();
  const std::size_t line = line_of(file, "a/data/0");
  EXPECT_THAT(
      refusal(patched(file, line + 20, "\xf0\xff\xff\x7f\xf0\xff\xff\x7f")),
      HasSubstr("extend beyond the file"));
  EXPECT_THAT(
      refusal(patched(file, line + kOffset, "\xf0\xff\xff\x7f")), HasSubstr("outside the file"));
}

TEST(ZipDamage, CountsEntriesBeforeItReadsThem) {
  const std::string file = archive();
  const auto entries = decode_zip(bytes_of(file), {.entries_max = 2});
  ASSERT_FALSE(entries);
  EXPECT_TRUE(entries.error().is(Errc::kLimit));
}

}  // namespace
}  // namespace ddprun
