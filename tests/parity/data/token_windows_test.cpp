#include "trainer/data/token_windows.hpp"

#include "base/digest.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <unistd.h>

namespace ddprun {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class Tokens : public ::testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove(path_); }

  /// A file of `count` numbers, of which number i is (40503 · i) modulo 2^16.
  template <class Number>
  void write(std::int64_t count) {
    std::ofstream file(path_, std::ios::binary | std::ios::trunc);
    for (std::int64_t i = 0; i < count; ++i) {
      const auto number = static_cast<Number>(static_cast<std::uint16_t>(i * 40503));
      file.write(reinterpret_cast<const char*>(&number), sizeof number);
    }
  }

  std::string refusal_of(const TokenWindows::Options& options) const {
    const auto opened = TokenWindows::open(path_, options);
    return opened ? "opened" : opened.error().detail;
  }

  std::string path_ =
      (std::filesystem::temp_directory_path() / ("tokens-" + std::to_string(::getpid()))).string();
};

std::string sha256_of(const TokenWindows::Batch& batch) {
  Digest digest(DigestKind::kSha256);
  for (const torch::Tensor& tensor : {batch.inputs, batch.targets}) {
    digest.add({static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()});
  }
  return digest.finish_hex();
}

TEST_F(Tokens, AreWhatNumpyReadsOfTheSameFile) {
  constexpr std::array<std::int64_t, 3> kWindows = {3, 0, 311};
  for (const auto width : {TokenWindows::Width::kUint16, TokenWindows::Width::kUint32}) {
    const bool is_wide = width == TokenWindows::Width::kUint32;
    is_wide ? write<std::uint32_t>(5000) : write<std::uint16_t>(5000);
    const auto tokens = TokenWindows::open(path_, {.length = 16, .width = width});
    ASSERT_TRUE(tokens) << tokens.error().detail;
    EXPECT_EQ(tokens->size(), 312);
    const auto batch = tokens->read(kWindows);
    ASSERT_TRUE(batch);
    // np.fromfile(path, "<u2"), rows of [16 i : 16 i + 16] and one element further, as "<i8".
    EXPECT_EQ(
        sha256_of(*batch), "550480bdcf8ca4ce70a53fd89a7c63a521102f79668750a39c9327fc022b7d41");
  }
}

TEST_F(Tokens, AreTheTargetsOfTheOnesBefore) {
  write<std::uint16_t>(17);  // one window and the last target
  const auto tokens = TokenWindows::open(path_, {.length = 16});
  ASSERT_TRUE(tokens);
  EXPECT_EQ(tokens->size(), 1);
  const auto batch = tokens->read(std::array<std::int64_t, 1>{0});
  ASSERT_TRUE(batch);
  EXPECT_TRUE(torch::equal(batch->inputs.slice(1, 1), batch->targets.slice(1, 0, 15)));
  EXPECT_EQ(batch->targets[0][15].item<std::int64_t>(), 16 * 40503 % 65536);
}

TEST_F(Tokens, AreRefusedWhereTheFileIsNone) {
  EXPECT_THAT(refusal_of({}), HasSubstr(path_));
  write<std::uint16_t>(16);
  EXPECT_THAT(
      refusal_of({.length = 16}), AllOf(HasSubstr(path_), HasSubstr("16 tokens are fewer")));
  write<std::uint16_t>(17);
  EXPECT_THAT(
      refusal_of({.length = 2, .width = TokenWindows::Width::kUint32}),
      AllOf(HasSubstr(path_), HasSubstr("34 bytes are not a multiple of the token width 4")));
}

TEST_F(Tokens, OfAnotherVocabularyAreNamed) {
  write<std::uint16_t>(5000);
  const auto all = TokenWindows::open(path_, {.length = 16, .vocabulary = 65535});
  ASSERT_TRUE(all);
  EXPECT_TRUE(all->read(std::array<std::int64_t, 1>{0}));
  const auto fewer = TokenWindows::open(path_, {.length = 16, .vocabulary = 65534});
  ASSERT_TRUE(fewer);
  const auto batch = fewer->read(std::array<std::int64_t, 1>{4338 / 16});
  ASSERT_FALSE(batch);
  EXPECT_THAT(
      batch.error().detail,
      HasSubstr(path_ + ": token 4338 is 65534, but the vocabulary has 65534"));
}

}  // namespace
}  // namespace ddprun
