#include "trainer/core/class_folders.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace ddprun {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

std::vector<std::string> paths_of(const Result<LabelledFiles>& labelled) {
  std::vector<std::string> paths;
  if (!labelled) return {labelled.error().detail};
  for (const LabelledFile& file : labelled->files) {
    paths.push_back(std::to_string(file.label) + ":" + file.path);
  }
  return paths;
}

TEST(LabelByFolder, SortsClassesThenFoldersThenNames) {
  const auto labelled = label_by_folder(
      {"b", "a", "a b"},
      {"b/2.jpg", "a/z.jpg", "b/10.jpg", "a/sub/a.jpg", "b/B.jpg", "a b/x.jpg", "a/sub b/a.jpg"});
  EXPECT_THAT(labelled->classes, ElementsAre("a", "a b", "b"));
  EXPECT_THAT(
      paths_of(labelled),
      ElementsAre(
          "0:a/z.jpg",
          "0:a/sub/a.jpg",
          "0:a/sub b/a.jpg",
          "1:a b/x.jpg",
          "2:b/10.jpg",
          "2:b/2.jpg",
          "2:b/B.jpg"));
}

TEST(LabelByFolder, TakesOnlyImagesInFolders) {
  EXPECT_THAT(
      paths_of(
          label_by_folder({"a"}, {"a/1.JPEG", "a/boxes.txt", "2.jpg", "a/jpg", "other/3.jpg"})),
      ElementsAre("0:a/1.JPEG"));
}

TEST(LabelByFolder, NamesTheFoldersWithoutAnImage) {
  EXPECT_THAT(
      paths_of(label_by_folder({"a", "empty", "texts"}, {"a/1.jpg", "texts/1.txt"})),
      ElementsAre(
          AllOf(HasSubstr("empty, texts"), HasSubstr("--data-dir"), Not(HasSubstr(" a ")))));
}

TEST(LabelByFolder, RefusesAFolderWithoutClasses) {
  EXPECT_THAT(paths_of(label_by_folder({}, {"1.jpg"})), ElementsAre(HasSubstr("no class folder")));
}

TEST(LabelByAnnotations, SortsByClassAndName) {
  EXPECT_THAT(
      paths_of(label_by_annotations(
          {"n2", "n1"},
          {"images/val_0.JPEG", "images/val_1.JPEG", "images/val_10.JPEG", "val_annotations.txt"},
          "val_1.JPEG\tn2\t0\t0\t1\t1\nval_10.JPEG\tn1\t0\t0\t1\t1\r\nval_0.JPEG\tn2\n")),
      ElementsAre("0:images/val_10.JPEG", "1:images/val_0.JPEG", "1:images/val_1.JPEG"));
}

TEST(LabelByAnnotations, NamesTheLineThatIsWrong) {
  const std::vector<std::string> files = {"images/a.jpg"};
  EXPECT_THAT(
      paths_of(label_by_annotations({"n1"}, files, "a.jpg\tn1\na.jpg n1\n")),
      ElementsAre(HasSubstr("line 2")));
  EXPECT_THAT(
      paths_of(label_by_annotations({"n1"}, files, "a.jpg\tn7\n")),
      ElementsAre(HasSubstr("line 1 has the class 'n7'")));
  EXPECT_THAT(
      paths_of(label_by_annotations({"n1"}, files, "b.jpg\tn1\n")),
      ElementsAre(HasSubstr("images/b.jpg, which does not exist")));
  EXPECT_THAT(
      paths_of(label_by_annotations({"n1"}, files, "\n")),
      ElementsAre(HasSubstr("lists no files")));
}

TEST(HasImageEnding, IgnoresTheCase) {
  for (const char* path : {"a.jpg", "a.JPEG", "a/b.c.Png", ".webp"}) {
    EXPECT_TRUE(has_image_ending(path)) << path;
  }
  for (const char* path : {"a.jpgx", "jpg", "a.gif", "", "a.txt"}) {
    EXPECT_FALSE(has_image_ending(path)) << path;
  }
}

}  // namespace
}  // namespace ddprun
