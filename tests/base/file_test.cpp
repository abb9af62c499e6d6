#include "base/file.hpp"

#include <gtest/gtest.h>

#include <filesystem>

#include <sys/stat.h>
#include <unistd.h>

namespace ddprun {
namespace {

class File : public testing::Test {
 public:
  File(const File&) = delete;
  File& operator=(const File&) = delete;

 protected:
  File() { std::filesystem::create_directory(directory_); }
  ~File() override { std::filesystem::remove_all(directory_); }

  std::filesystem::path directory_ =
      std::filesystem::temp_directory_path() / ("ddprun_file_test_" + std::to_string(::getpid()));
};

TEST_F(File, ReadsBackWhatReplacedIt) {
  ASSERT_TRUE(replace_file(directory_ / "a", "old"));
  ASSERT_TRUE(replace_file(directory_ / "a", "new"));
  const auto content = read_file(directory_ / "a", 100);
  ASSERT_TRUE(content);
  EXPECT_EQ(*content, "new");
}

TEST_F(File, LeavesNothingBesideIt) {
  ASSERT_TRUE(replace_file(directory_ / "a", "x"));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory_), {}), 1);
}

TEST_F(File, RefusesMoreThanTheLimit) {
  ASSERT_TRUE(replace_file(directory_ / "a", std::string(101, 'x')));
  EXPECT_TRUE(read_file(directory_ / "a", 100).error().is(Errc::kLimit));
}

TEST_F(File, DoesNotWaitForTheWriterOfAFifo) {
  const auto fifo = directory_ / "fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  const auto content = read_file(fifo, 100);
  ASSERT_FALSE(content);
  EXPECT_NE(content.error().detail.find("not a regular file"), std::string::npos);
}

TEST_F(File, RefusesADirectory) {
  const auto opened = open_regular(directory_);
  ASSERT_FALSE(opened);
  EXPECT_NE(opened.error().detail.find("not a regular file"), std::string::npos);
}

TEST_F(File, ARefusedReplacementNamesTheFileThatWasGiven) {
  const auto path = directory_ / "none" / "a";
  EXPECT_EQ(replace_file(path, "x").error().detail, path.string() + ": No such file or directory");
}

TEST_F(File, TellsWhatDoesNotExist) {
  EXPECT_TRUE(read_file(directory_ / "none", 100).error().is(Errc::kNotFound));
  EXPECT_TRUE(replace_file(directory_ / "none" / "a", "x").error().is(Errc::kNotFound));
}

}  // namespace
}  // namespace ddprun
