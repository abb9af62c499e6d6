#include "trainer/core/safetensors.hpp"

#include <gmock/gmock.h>

#include <array>
#include <random>
#include <string>

namespace ddprun {
namespace {

using testing::HasSubstr;

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

/// A file with this header, preceded by its length, followed by these bytes.
std::string file_with(std::string_view header, std::string_view data) {
  std::string file;
  for (unsigned shift = 0; shift < 64; shift += 8) {
    file += static_cast<char>(header.size() >> shift & 0xffU);
  }
  return file.append(header).append(data);
}

std::string joined(const EncodedTensors& encoded) {
  std::string file = encoded.head;
  for (const auto body : encoded.bodies) {
    for (const std::byte byte : body) {
      file += static_cast<char>(byte);
    }
  }
  return file;
}

/// The error for a file with this header and as many bytes of data; "accepted" if there is none.
std::string refusal(std::string_view header, std::size_t data_bytes) {
  const std::string file = file_with(header, std::string(data_bytes, 'x'));
  const auto decoded = decode_safetensors(bytes_of(file));
  if (decoded) return "accepted";
  EXPECT_TRUE(decoded.error().is(Errc::kCorrupt));
  return decoded.error().detail;
}

// Laid out by hand from the format's description: 8-byte elements first, then by name; the header
// is padded with blanks to a multiple of 8.
const std::string kGolden = file_with(
    R"({"__metadata__":{"format":"pt"},)"
    R"("n":{"dtype":"I64","shape":[],"data_offsets":[0,8]},)"
    R"("a":{"dtype":"F32","shape":[1,2],"data_offsets":[8,16]},)"
    R"("b":{"dtype":"F32","shape":[0],"data_offsets":[16,16]},)"
    R"("m":{"dtype":"BOOL","shape":[3],"data_offsets":[16,19]}}     )",
    std::string_view(
        "\x07\0\0\0\0\0\0\0"
        "\0\0\x80\x3f\0\0\0\xc0"
        "\x01\0\x01",
        19));

TEST(Safetensors, WritesTheGoldenFile) {
  const std::int64_t n = 7;
  const std::array<float, 2> a = {1, -2};
  const std::array<bool, 3> m = {true, false, true};
  const auto encoded = encode_safetensors(
      {{.name = "m", .dtype = DType::kBool, .shape = {3}, .bytes = std::as_bytes(std::span(m))},
       {.name = "b", .dtype = DType::kF32, .shape = {0}, .bytes = {}},
       {.name = "a", .dtype = DType::kF32, .shape = {1, 2}, .bytes = std::as_bytes(std::span(a))},
       {.name = "n", .dtype = DType::kI64, .shape = {}, .bytes = std::as_bytes(std::span(&n, 1))}},
      {{"format", "pt"}});
  EXPECT_EQ(joined(encoded), kGolden);
  EXPECT_EQ(encoded.size(), kGolden.size());
}

TEST(Safetensors, ReadsTheGoldenFile) {
  const auto decoded = decode_safetensors(bytes_of(kGolden));
  ASSERT_TRUE(decoded) << decoded.error().detail;
  EXPECT_EQ(decoded->metadata.at("format"), "pt");
  ASSERT_EQ(decoded->tensors.size(), 4U);
  const TensorView* const a = decoded->find("a");
  ASSERT_NE(a, nullptr);
  EXPECT_EQ(a->dtype, DType::kF32);
  EXPECT_EQ(a->shape, (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(a->bytes.size(), 8U);
  EXPECT_EQ(std::to_integer<int>(a->bytes[7]), 0xc0);
  EXPECT_EQ(decoded->find("z"), nullptr);
}

TEST(Safetensors, RefusesEveryTruncation) {
  for (std::size_t size = 0; size < kGolden.size(); ++size) {
    const auto decoded = decode_safetensors(bytes_of(std::string_view(kGolden).substr(0, size)));
    ASSERT_FALSE(decoded) << size;
    EXPECT_TRUE(decoded.error().is(Errc::kCorrupt)) << size;
  }
}

TEST(Safetensors, RefusesBytesThatAreNobodys) {
  EXPECT_THAT(
      refusal(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})", 3),
      HasSubstr("1 bytes at the end"));
  EXPECT_THAT(
      refusal(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})", 3),
      HasSubstr("'a': the 1 bytes before it"));
}

TEST(Safetensors, RefusesTensorsThatOverlap) {
  EXPECT_THAT(
      refusal(
          R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
          R"("b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
          3),
      HasSubstr("'b': its data overlaps"));
}

TEST(Safetensors, RefusesOffsetsThatLeadOutside) {
  EXPECT_THAT(
      refusal(R"({"a":{"dtype":"U8","shape":[9],"data_offsets":[0,9]}})", 3),
      HasSubstr("ends at 9"));
  EXPECT_THAT(
      refusal(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[2,1]}})", 3),
      HasSubstr("before 2"));
  EXPECT_THAT(
      refusal(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[-1,0]}})", 3),
      HasSubstr("not two offsets"));
}

TEST(Safetensors, RefusesAShapeThatContradictsItsBytes) {
  EXPECT_THAT(
      refusal(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4),
      HasSubstr("F32 [2] does not take 4 bytes"));
  // 2^62 · 4 bytes is 0 in 64 bits.
  EXPECT_THAT(
      refusal(R"({"a":{"dtype":"F32","shape":[4611686018427387904],"data_offsets":[0,0]}})", 0),
      HasSubstr("does not take"));
  EXPECT_THAT(
      refusal(R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 4), HasSubstr("shape"));
  EXPECT_THAT(
      refusal(R"({"a":{"dtype":"F32","shape":[1.0],"data_offsets":[0,4]}})", 4),
      HasSubstr("shape"));
}

TEST(Safetensors, RefusesAHeaderThatIsNone) {
  EXPECT_THAT(refusal("[]", 0), HasSubstr("not a JSON object"));
  EXPECT_THAT(refusal("{", 0), HasSubstr("not JSON"));
  EXPECT_THAT(refusal(R"({"a":1})", 0), HasSubstr("not an object"));
  EXPECT_THAT(refusal(R"({"a":{}})", 0), HasSubstr("no dtype"));
  EXPECT_THAT(
      refusal(R"({"a":{"dtype":"F33","shape":[1],"data_offsets":[0,1]}})", 1), HasSubstr("'F33'"));
  EXPECT_THAT(refusal(R"({"__metadata__":{"a":1}})", 0), HasSubstr("not a string"));
}

TEST(Safetensors, RefusesANameThatStandsThereTwice) {
  EXPECT_THAT(
      refusal(
          R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},)"
          R"("a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})",
          0),
      HasSubstr("'a' twice"));
  EXPECT_THAT(
      refusal(R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0],"dtype":"F64"}})", 0),
      HasSubstr("'dtype' twice"));
  EXPECT_THAT(
      refusal(
          R"({"a":{"dtype":"U8","other":[{"x":1}],"shape":[0],"data_offsets":[0,0],"dtype":"F64"}})",
          0),
      HasSubstr("'dtype' twice"));
}

TEST(Safetensors, RefusesAHeaderBeyondTheLimit) {
  const std::string file = file_with("{}      ", "");
  const auto decoded = decode_safetensors(bytes_of(file), {.header_bytes_max = 7});
  ASSERT_FALSE(decoded);
  EXPECT_TRUE(decoded.error().is(Errc::kLimit));
}

TEST(Safetensors, RefusesADeepHeaderWithoutExhaustingTheStack) {
  EXPECT_THAT(refusal(std::string(1'000'000, '['), 0), HasSubstr("not JSON"));
}

// Whatever is flipped, the result is inside the file: ASan watches the reads below.
TEST(Safetensors, StaysWithinTheFileWhateverIsFlipped) {
  std::mt19937_64 random(1);
  std::size_t sum = 0;
  for (int i = 0; i < 5'000; ++i) {
    std::string file = kGolden;
    for (std::uint64_t flips = 1 + random() % 3; flips > 0; --flips) {
      file[random() % file.size()] = static_cast<char>(random());
    }
    const auto decoded = decode_safetensors(bytes_of(file));
    if (!decoded) continue;
    for (const TensorView& tensor : decoded->tensors) {
      for (const std::byte byte : tensor.bytes) {
        sum += std::to_integer<std::size_t>(byte);
      }
    }
  }
  EXPECT_GT(sum, 0U);
}

}  // namespace
}  // namespace ddprun
