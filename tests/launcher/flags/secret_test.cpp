#include "launcher/flags/secret.hpp"

#include "base/file.hpp"
#include "tests/launcher/flags/command_lines.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include <unistd.h>

namespace ddprun {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr char kSixteen[] = "0123456789abcdef";

/// A file with a secret in it.
class Secret : public testing::Test {
 public:
  Secret(const Secret&) = delete;
  Secret& operator=(const Secret&) = delete;

 protected:
  Secret() = default;
  ~Secret() override { std::filesystem::remove(file_); }

  void write(const std::string& content) {
    ASSERT_TRUE(replace_file(file_, content));
    std::filesystem::permissions(file_, std::filesystem::perms::owner_read);
  }
  Given by_flag() const { return {.text = file_, .source = "--secret-file"}; }

  static std::string read(const Options& options, const Environment& environment) {
    auto secret = read_secret(options, environment);
    return secret ? *secret : "refused: " + secret.error().detail;
  }

  std::string file_ =
      std::filesystem::temp_directory_path() / ("ddprun_secret_" + std::to_string(::getpid()));
};

TEST_F(Secret, IsEmptyIfNothingNamesOne) {
  EXPECT_EQ(read({}, {}), "");
  EXPECT_EQ(read({}, {{"DDPRUN_SECRET", ""}, {"DDPRUN_SECRET_FILE", ""}}), "");
}

TEST_F(Secret, IsTheFileWithoutTheEndOfItsLine) {
  write(std::string(kSixteen) + "\n");
  EXPECT_EQ(read({}, {{"DDPRUN_SECRET_FILE", file_}}), kSixteen);
  Options options;
  options.secret_file = by_flag();
  EXPECT_EQ(read(options, {{"DDPRUN_SECRET", "another secret of the environment"}}), kSixteen);
}

TEST_F(Secret, IsRefusedIfOtherUsersCanReadItsFile) {
  write(kSixteen);
  std::filesystem::permissions(
      file_, std::filesystem::perms::others_read, std::filesystem::perm_options::add);
  Options options;
  options.secret_file = by_flag();
  EXPECT_THAT(
      read(options, {}), AllOf(HasSubstr(file_), HasSubstr("chmod o-r"), Not(HasSubstr(kSixteen))));
}

TEST_F(Secret, IsRefusedIfItCanBeGuessedAndIsNotTold) {
  write("hunter2\n");
  Options options;
  options.secret_file = by_flag();
  EXPECT_THAT(
      read(options, {}),
      AllOf(HasSubstr("has 7 bytes, and needs 16"), HasSubstr(file_), Not(HasSubstr("hunter2"))));
  EXPECT_THAT(
      read({}, {{"DDPRUN_SECRET", "hunter2"}}),
      AllOf(HasSubstr("DDPRUN_SECRET: the secret has 7"), Not(HasSubstr("hunter2"))));
}

TEST_F(Secret, IsRefusedIfItsFileIsNotThereOrIsNoSecret) {
  Options options;
  options.secret_file = by_flag();
  EXPECT_THAT(read(options, {}), AllOf(HasSubstr("--secret-file: "), HasSubstr("No such file")));
  write(std::string(5000, 'x'));
  EXPECT_THAT(read(options, {}), HasSubstr("larger than"));
}

TEST_F(Secret, IsRefusedBesideAnotherMethod) {
  write(kSixteen);
  Options options = options_of({"--auth=munge", "--secret-file", file_, "train.py"});
  EXPECT_THAT(
      read(options, {}), HasSubstr("--auth 'munge': the nodes would not use --secret-file"));
  options = options_of({"--auth=secret", "--secret-file", file_, "train.py"});
  EXPECT_EQ(read(options, {}), kSixteen);
}

TEST_F(Secret, OfAVariableIsOverruledByAnotherMethod) {
  const Options options = options_of({"--auth=none", "train.py"});
  EXPECT_EQ(read(options, {{"DDPRUN_SECRET", kSixteen}}), "");
}

TEST_F(Secret, IsRefusedIfAuthNeedsOneAndThereIsNone) {
  const Options by_flag = options_of({"--auth=secret", "train.py"});
  EXPECT_THAT(read(by_flag, {}), HasSubstr("--auth 'secret': no secret is given; give --secret-"));
  const Options by_variable = options_of({"train.py"}, {{"DDPRUN_AUTH", "secret"}});
  EXPECT_THAT(read(by_variable, {}), HasSubstr("DDPRUN_AUTH 'secret': no secret is given"));
}

TEST_F(Secret, IsRefusedIfTwoAreGiven) {
  EXPECT_THAT(
      read({}, {{"DDPRUN_SECRET", kSixteen}, {"DDPRUN_SECRET_FILE", file_}}),
      HasSubstr("both set; unset one"));
}

}  // namespace
}  // namespace ddprun
