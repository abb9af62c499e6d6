#include "launcher/ctl/stage/core/checksum.hpp"
#include "launcher/ctl/stage/core/staging.hpp"
#include "launcher/ctl/submit/core/arguments.hpp"
#include "launcher/ctl/submit/core/work_tree.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ddprun {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::string_view kMd5Hex = "f96b697d7cb7938d525a2f31aaf161d0";
constexpr std::string_view kSha256Hex =
    "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
constexpr std::string_view kCommit = "0123456789abcdef0123456789abcdef01234567";

// Each field of git's ends with a NUL, which would also end a literal.
std::string status(std::string_view entries) {
  std::string text = "# branch.oid " + std::string(kCommit) + "\n# branch.head main\n";
  text += entries;
  for (char& byte : text) {
    if (byte == '\n') byte = '\0';
  }
  return text;
}

TEST(WorkTree, IsCleanWithoutEntries) {
  EXPECT_EQ(
      parse_git_status(status("")).value(),
      (WorkTree{.commit = std::string(kCommit), .changes = {}}));
}

TEST(WorkTree, NamesWhateverIsNotInTheCommit) {
  constexpr std::string_view kIds = "100644 100644 100644 0000 1111";
  const std::string entries = "1 .M N... " + std::string(kIds) + " a b.py\n" + "2 R. N... " +
                              std::string(kIds) + " R100 new.py\nold.py\n" + "u UU N... 100644 " +
                              std::string(kIds) + " 2222 both.py\n" + "? fresh/\n! ignored.o\n";
  EXPECT_THAT(
      parse_git_status(status(entries)).value().changes,
      ElementsAre("a b.py", "new.py", "both.py", "fresh/"));
}

TEST(WorkTree, MayHaveNoCommit) {
  using std::string_literals::operator""s;
  EXPECT_EQ(
      parse_git_status("# branch.oid (initial)\0? a\0"s).value(),
      (WorkTree{.commit = "", .changes = {"a"}}));
}

TEST(WorkTree, IsNothingThatGitWouldNotSay) {
  EXPECT_FALSE(parse_git_status(""));
  EXPECT_FALSE(parse_git_status("# branch.oid main"));
  EXPECT_FALSE(parse_git_status(status("1 .M\n")));
}

TEST(WorkTree, ShowsTheFirstFewOnOneLine) {
  EXPECT_EQ(first_few({"a", "b\nc"}), "a, b?c");
  EXPECT_EQ(first_few({"1", "2", "3", "4", "5", "6", "7"}), "1, 2, 3, 4, 5 and 2 more");
}

TEST(SubmitWords, AreOursAnywhereBeforeTheScriptAndSbatchsOtherwise) {
  const auto options =
      parse_submit({"-N2", "--dry-run", "--code-dir=/c", "job.sh", "--dry-run"}).value();
  EXPECT_TRUE(options.dry_run);
  EXPECT_EQ(options.code_dir, "/c");
  ASSERT_EQ(options.sbatch.options.size(), 1U);
  EXPECT_EQ(options.sbatch.options.front().arguments, (std::vector<std::string>{"-N2"}));
  EXPECT_THAT(options.sbatch.rest, ElementsAre("job.sh", "--dry-run"));
}

TEST(SubmitWords, NeedAScriptOrACommand) {
  EXPECT_THAT(parse_submit({"-N2"}).error().detail, HasSubstr("SCRIPT is required"));
  EXPECT_TRUE(parse_submit({"--wrap=srun hostname"}));
  EXPECT_FALSE(parse_submit({"--wrap=srun hostname", "job.sh"}));
}

TEST(SubmitWords, RefuseAnotherPlaceForTheJob) {
  EXPECT_THAT(parse_submit({"-D/x", "job.sh"}).error().detail, HasSubstr("--chdir '/x'"));
}

TEST(SubmitWords, MayAskForHelpAlone) {
  EXPECT_TRUE(parse_submit({"--help"}).value().wants_help);
  EXPECT_TRUE(parse_submit({"-h"}).value().wants_help);
}

TEST(Checksum, HasSoManyHexDigits) {
  EXPECT_EQ(parse_checksum(DigestKind::kMd5, "F96B697D7CB7938D525A2F31AAF161D0")->hex, kMd5Hex);
  EXPECT_FALSE(parse_checksum(DigestKind::kMd5, kSha256Hex));
  EXPECT_FALSE(parse_checksum(DigestKind::kSha256, kMd5Hex));
  EXPECT_FALSE(parse_checksum(DigestKind::kMd5, "g96b697d7cb7938d525a2f31aaf161d0"));
}

TEST(Checksum, IsOnTheLineOfTheFile) {
  const std::string sums =
      std::string(kSha256Hex) + "  other.tar\n" + std::string(kMd5Hex) + " *./data/train.tar\n";
  const auto found = find_checksum(sums, "/net/train.tar");
  EXPECT_EQ(found.value(), (Checksum{.kind = DigestKind::kMd5, .hex = std::string(kMd5Hex)}));
  EXPECT_THAT(find_checksum(sums, "val.tar").error().detail, HasSubstr("no line for 'val.tar'"));
}

TEST(Checksum, MayStandAlone) {
  EXPECT_EQ(find_checksum(std::string(kMd5Hex) + '\n', "any.tar")->hex, kMd5Hex);
  EXPECT_FALSE(find_checksum(std::string(kMd5Hex) + '\n' + std::string(kMd5Hex), "any.tar"));
  EXPECT_FALSE(find_checksum("", "any.tar"));
}

TEST(Checksum, IsNotGuessedAmongSeveral) {
  const std::string sums =
      std::string(kSha256Hex) + "  a/x.tar\n" + std::string(kMd5Hex) + "  b/x.tar\n";
  EXPECT_THAT(find_checksum(sums, "x.tar").error().detail, HasSubstr("several"));
}

ArchiveEntry link(std::string path, std::string target) {
  return {.kind = EntryKind::kSymlink, .path = std::move(path), .target = std::move(target)};
}

TEST(ArchiveEntry, StaysInsideTheDestination) {
  for (const char* const path : {"a", "./a/b", "a//b", "..a", "a.."}) {
    EXPECT_TRUE(check_entry({.kind = EntryKind::kFile, .path = path, .target = {}})) << path;
  }
  for (const char* const path : {"", "/a", "..", "../a", "a/../b", "a/.."}) {
    EXPECT_FALSE(check_entry({.kind = EntryKind::kFile, .path = path, .target = {}})) << path;
  }
}

TEST(ArchiveEntry, MayLinkToWhatIsInside) {
  EXPECT_TRUE(check_entry(link("a/b/l", "../../c")));
  EXPECT_TRUE(check_entry(link("./a/l", "./../c/d")));
  EXPECT_TRUE(check_entry(link("l", "a/b")));
}

TEST(ArchiveEntry, MayNotLinkOutside) {
  EXPECT_FALSE(check_entry(link("a/l", "/etc")));
  EXPECT_FALSE(check_entry(link("a/l", "../../c")));
  EXPECT_FALSE(check_entry(link("./l", "..")));
  EXPECT_FALSE(check_entry(link("l", "")));
  EXPECT_FALSE(check_entry({.kind = EntryKind::kHardlink, .path = "l", .target = "../c"}));
}

TEST(ArchiveEntry, MayNotClimbThroughAnotherLink) {
  EXPECT_FALSE(check_entry(link("m", "a/b/l/../x")));  // where a/b/l leads to the top
}

TEST(ArchiveEntry, IsNoDevice) {
  EXPECT_FALSE(check_entry({.kind = EntryKind::kOther, .path = "null", .target = {}}));
}

TEST(Marker, TellsArchivesApart) {
  const auto known = [](std::int64_t modified_ns) {
    return marker_text(
        {.checksum = Checksum{.kind = DigestKind::kMd5, .hex = std::string(kMd5Hex)},
         .bytes = 1,
         .modified_ns = modified_ns});
  };
  const auto unknown = [](std::int64_t modified_ns) {
    return marker_text({.checksum = {}, .bytes = 1, .modified_ns = modified_ns});
  };
  EXPECT_EQ(known(2), known(3)) << "the checksum says enough";
  EXPECT_NE(unknown(3), known(3));
  EXPECT_NE(unknown(3), unknown(4));
}

}  // namespace
}  // namespace ddprun
