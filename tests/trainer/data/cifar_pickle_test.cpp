#include "trainer/core/cifar_pickle.hpp"

#include "tests/trainer/data/cifar_fixtures.hpp"
#include "trainer/core/cifar.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace ddprun {
namespace {

using namespace std::string_literals;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// `rows` images whose bytes all differ from their neighbours.
std::string pixels_of(std::size_t rows) {
  std::string pixels;
  for (std::size_t at = 0; at < rows * kCifarPixelBytes; ++at) {
    pixels += static_cast<char>(at * 7 + at / kCifarPixelBytes);
  }
  return pixels;
}

std::string refusal_of(const std::string& file) {
  const auto batch = parse_cifar_pickle(file);
  return batch ? "accepted" : batch.error().detail;
}

TEST(CifarPickle, HoldsImagesAndLabels) {
  const auto batch =
      parse_cifar_pickle(PickledBatch{.labels = {6, 9, 0}, .pixels = pixels_of(3)}.text());
  ASSERT_TRUE(batch) << batch.error().detail;
  EXPECT_THAT(batch->labels, ElementsAre(6, 9, 0));
  EXPECT_EQ(std::string(batch->pixels.begin(), batch->pixels.end()), pixels_of(3));
}

TEST(CifarPickle, IsTheSameWhereNumpyStoredTheArrayByColumns) {
  const std::string rows = pixels_of(3);
  std::string columns;
  for (std::size_t column = 0; column < kCifarPixelBytes; ++column) {
    for (std::size_t row = 0; row < 3; ++row) {
      columns += rows[row * kCifarPixelBytes + column];
    }
  }
  const auto batch = parse_cifar_pickle(
      PickledBatch{.labels = {1, 2, 3}, .pixels = columns, .is_column_major = '\x88'}.text());
  ASSERT_TRUE(batch) << batch.error().detail;
  EXPECT_EQ(std::string(batch->pixels.begin(), batch->pixels.end()), rows);
}

TEST(CifarPickle, TellsTheNamesOfTheClasses) {
  const auto names = parse_cifar_names(cifar_meta());
  ASSERT_TRUE(names) << names.error().detail;
  EXPECT_THAT(
      *names,
      ElementsAre(
          "airplane",
          "automobile",
          "bird",
          "cat",
          "deer",
          "dog",
          "frog",
          "horse",
          "ship",
          "truck"));
}

TEST(CifarPickle, IsRefusedWhereverItIsCutOff) {
  const std::string whole = PickledBatch{.labels = {6}, .pixels = pixels_of(1)}.text();
  ASSERT_EQ(refusal_of(whole), "accepted");
  for (std::size_t size = 0; size < whole.size(); ++size) {
    ASSERT_NE(refusal_of(whole.substr(0, size)), "accepted") << size;
  }
}

TEST(CifarPickle, RunsNothing) {
  EXPECT_THAT(
      refusal_of("\x80\x02"
                 "cposix\nsystem\nU\x04true\x85R."),
      AllOf(HasSubstr("'posix system'"), HasSubstr("could run any code")));
  EXPECT_THAT(
      refusal_of(
          PickledBatch{.labels = {1}, .pixels = pixels_of(1), .reconstruct = "os\nsystem"}.text()),
      HasSubstr("'os system'"));
  // Globals that files of weights may name are not allowed here.
  EXPECT_THAT(
      refusal_of("\x80\x02"
                 "ccollections\nOrderedDict\n)R."),
      HasSubstr("'collections OrderedDict'"));
  EXPECT_THAT(refusal_of("\x80\x02U\x01xQ."), HasSubstr("opcode 0x51"));  // a persistent id
}

TEST(CifarPickle, NamesWhatPython3WroteInstead) {
  EXPECT_THAT(refusal_of("\x80\x04\x95\x02."), HasSubstr("protocol 4"));
  EXPECT_THAT(
      refusal_of("\x80\x02"
                 "c_codecs\nencode\n"),
      HasSubstr("'_codecs encode'"));
}

TEST(CifarPickle, IsRefusedWithAnArrayOfAnotherForm) {
  const auto refusal = [](const PickledBatch& batch) { return refusal_of(batch.text()); };
  const std::string one = pixels_of(1);
  EXPECT_THAT(refusal({.labels = {1}, .pixels = one, .code = "f8"}), HasSubstr("type 'f8'"));
  EXPECT_THAT(refusal({.labels = {1}, .pixels = one.substr(1)}), HasSubstr("3071 bytes"));
  EXPECT_THAT(refusal({.labels = {1}, .pixels = one + "x"}), HasSubstr("3073 bytes"));
  EXPECT_THAT(
      refusal({.labels = {1, 2}, .pixels = one, .columns = 1536}), HasSubstr("(count, 3072)"));
  EXPECT_THAT(
      refusal({.labels = {1}, .pixels = one, .reconstruct = "numpy\ndtype"}),
      HasSubstr("unexpected arguments"));
  EXPECT_THAT(
      refusal({.labels = {1}, .pixels = one, .reconstruct = "numpy\nndarray"}),
      HasSubstr("is not a function"));
}

TEST(CifarPickle, IsRefusedWithAnEleventhClassOrWithoutLabels) {
  EXPECT_THAT(
      refusal_of(PickledBatch{.labels = {3, 10}, .pixels = pixels_of(2)}.text()),
      HasSubstr("label 1 is 10"));
  EXPECT_THAT(refusal_of("\x80\x02}."), HasSubstr("has no array 'data'"));
  EXPECT_THAT(refusal_of("\x80\x02]."), HasSubstr("a list, not a dict"));
  EXPECT_THAT(refusal_of(PickledBatch{.labels = {}, .pixels = ""}.text()), HasSubstr("0 images"));
  std::string other = PickledBatch{.labels = {3}, .pixels = pixels_of(1)}.text();
  other.replace(other.find("labels"), 6, "Labels");
  EXPECT_THAT(refusal_of(other), HasSubstr("no list 'labels'"));
  std::string text = PickledBatch{.labels = {3}, .pixels = pixels_of(1)}.text();
  text.replace(
      text.find("K\x03"
                "eU"),
      2,
      "N");
  EXPECT_THAT(refusal_of(text), HasSubstr("label 0 is a None"));
}

// Each array is copied once it is known, since one text of a megabyte may be the content of many.
TEST(CifarPickle, IsRefusedWithASecondArray) {
  const std::string array =
      "cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\nNNtR(K\x01K\x01M\x00\x0c\x86"
      "cnumpy\ndtype\n(U\x02u1NNtR\x89T\x00\x0c\x00\x00"s +
      pixels_of(1) + "tb";
  EXPECT_THAT(
      refusal_of(
          "\x80\x02}(U\x01"
          "a" +
          array +
          "U\x01"
          "b" +
          array + "u."),
      HasSubstr("more than one array"));
}

TEST(CifarPickle, SurvivesAnyFlippedByte) {
  const std::string whole = PickledBatch{.labels = {6, 2}, .pixels = pixels_of(2)}.text();
  const std::size_t pixels = whole.find(pixels_of(2));
  for (std::size_t at = 0; at < whole.size(); ++at) {
    if (at == pixels) at += 2 * kCifarPixelBytes;  // any byte is a pixel
    for (const char bits : {'\xff', '\x01', '\x80', '\x10'}) {
      std::string damaged = whole;
      damaged[at] = static_cast<char>(damaged[at] ^ bits);
      const auto batch = parse_cifar_pickle(damaged);
      if (batch) {
        EXPECT_EQ(batch->pixels.size(), 2 * kCifarPixelBytes) << at;
        EXPECT_EQ(batch->labels.size(), 2U) << at;
      }
    }
  }
}

TEST(CifarBatches, AreTheBinaryOnesFirstAndInOrder) {
  const std::vector<std::string> names = {
      "data_batch_2",
      "data_batch_1",
      "batches.meta",
      "data_batch_1.txt",
      "test_batch",
      "readme.html"};
  const auto pickled = choose_cifar_batches(names, "data_batch_");
  EXPECT_EQ(pickled.version, CifarBatches::Version::kPython);
  EXPECT_THAT(pickled.names, ElementsAre("data_batch_1", "data_batch_2"));
  EXPECT_THAT(choose_cifar_batches(names, "test_batch").names, ElementsAre("test_batch"));
  const auto both = choose_cifar_batches(
      {"data_batch_1", "data_batch_2.bin.gz", "data_batch_1.bin.gz", "data_batch_1.bin"},
      "data_batch_");
  EXPECT_EQ(both.version, CifarBatches::Version::kBinary);
  EXPECT_THAT(both.names, ElementsAre("data_batch_1.bin", "data_batch_2.bin.gz"));
  EXPECT_TRUE(choose_cifar_batches({"test_batch"}, "data_batch_").names.empty());
}

}  // namespace
}  // namespace ddprun
