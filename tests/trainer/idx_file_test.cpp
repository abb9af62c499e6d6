#include "trainer/idx_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

namespace ddprun {
namespace {

using ::testing::HasSubstr;

/// A fresh directory, removed with its content.
class DataFile : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = std::filesystem::temp_directory_path() / "ddprun_idx_XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    directory_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  std::filesystem::path write(const std::string& name, std::string_view content) {
    std::ofstream(directory_ / name, std::ios::binary) << content;
    return directory_ / name;
  }

  std::filesystem::path write_gzip(const std::string& name, std::string_view content) {
    gzFile file = ::gzopen((directory_ / name).c_str(), "wb");
    ::gzwrite(file, content.data(), static_cast<unsigned>(content.size()));
    ::gzclose(file);
    return directory_ / name;
  }

  std::string slurp(const std::filesystem::path& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  static std::string refusal_of(const std::filesystem::path& path) {
    const auto file = read_data_file(path);
    return file ? "accepted" : file.error().detail;
  }

  std::filesystem::path directory_;
};

TEST_F(DataFile, IsTheSamePlainAndGzipped) {
  const std::string content(3'000'000, 'x');
  const auto plain = read_data_file(write("a", content));
  const auto gzipped = read_data_file(write_gzip("a.gz", content));
  ASSERT_TRUE(plain);
  ASSERT_TRUE(gzipped);
  EXPECT_EQ(*plain, content);
  EXPECT_EQ(*gzipped, content);
}

TEST_F(DataFile, MayBeEmpty) {
  const auto file = read_data_file(write("empty", ""));
  ASSERT_TRUE(file);
  EXPECT_EQ(*file, "");
}

TEST_F(DataFile, IsRefusedWithGzipDataThatIsCutOff) {
  std::string content;
  for (int i = 0; i < 100'000; ++i) {
    content += std::to_string(i * 7919);
  }
  const std::string whole = slurp(write_gzip("whole.gz", content));
  EXPECT_THAT(
      refusal_of(write("half.gz", std::string_view(whole).substr(0, whole.size() / 2))),
      HasSubstr("truncated"));
  EXPECT_THAT(
      refusal_of(write("tail.gz", std::string_view(whole).substr(0, whole.size() - 3))),
      HasSubstr("truncated"));
}

TEST_F(DataFile, IsRefusedWithAFlippedBit) {
  std::string whole = slurp(write_gzip("whole.gz", std::string(100'000, 'x') + "end"));
  whole[whole.size() - 6] = static_cast<char>(whole[whole.size() - 6] ^ 1);  // in the checksum
  EXPECT_THAT(refusal_of(write("flipped.gz", whole)), HasSubstr("damaged gzip data"));
}

TEST_F(DataFile, IsRefusedWhenAPlainOneIsCalledGzip) {
  EXPECT_THAT(refusal_of(write("plain.gz", "not gzip at all")), HasSubstr("not gzip data"));
}

TEST_F(DataFile, IsNoDirectory) {
  EXPECT_THAT(refusal_of(directory_), HasSubstr("not a regular file"));
}

TEST_F(DataFile, IsNoFifoWhoseWriterWouldBeWaitedFor) {
  for (const char* name : {"fifo", "fifo.gz"}) {
    ASSERT_EQ(::mkfifo((directory_ / name).c_str(), 0600), 0);
    EXPECT_THAT(refusal_of(directory_ / name), HasSubstr("not a regular file"));
  }
}

TEST_F(DataFile, IsThePlainOneWhereBothExist) {
  write_gzip("a.gz", "old");
  write("a", "new");
  EXPECT_EQ(*find_data_file(directory_, "a"), directory_ / "a");
}

TEST_F(DataFile, IsMissedByBothNames) {
  const auto path = find_data_file(directory_, "train");
  ASSERT_FALSE(path);
  EXPECT_TRUE(path.error().is(Errc::kNotFound));
  EXPECT_THAT(path.error().detail, HasSubstr("neither 'train' nor 'train.gz'"));
}

}  // namespace
}  // namespace ddprun
