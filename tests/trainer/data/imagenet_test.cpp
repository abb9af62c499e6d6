#include "trainer/core/imagenet.hpp"

#include "tests/trainer/data/mat_fixtures.hpp"
#include "trainer/core/mat_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace ddprun {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// What scipy.io.savemat(do_compression=True) wrote for three classes and a synset above two of
// them, without the 128 bytes before the first element.
constexpr std::string_view kScipyHex =
    "0f000000d5010000789ce596d14a2331148653e9baed4de97ab5b020016f2bcc74bbb65e59700505115171f7ae1b67"
    "ce"
    "cc0427992549e9f60d7c2c1fc9473071a635c6e288d9bb064e87ff94ffcb9c99bfa11d84d09f36429bfadad2b581ca"
    "f5"
    "a9d24d5d8daa3eeb92732e4149fd7d137da9fa77ba4e4e2faf2f0efb41d89f9cfc34805f67e575b9668588a5dd48f3"
    "42"
    "be68f0299b4419cd6301fca9f1422c181cd424039a66aab22841289f50465290a8a39b23f43ccfa6334fc32ab3da55"
    "bf"
    "5c0f07c63fb6fccd15feb6e5ef569a07fd30dc1f8ef6abbee11cd770be3a1ca36fa9c249f1af87afa7f95f90989148"
    "14"
    "8acaf7dc57c7e1192d19c9739c0a981b2cf27c3ea53f78c3bf58b67fe1f3ddf7e3fed6d873ffb14f2e8260f8fd8735"
    "47"
    "1d67d57b3ce2694e6586f58f4f81781fa7eb704c118e17a81b0110af671e90671e5a1e7908078360b837b0e6a83b27"
    "b6"
    "1c8ed10a7894f5f015e511c1ca7c3ef3ce6b78db0ecfe84480cc6644670bc72482dd9cde024e09039ce8acacebb9d1"
    "f5"
    "cbc9bdf0393782910e4a68cdf1bb86b3e3708c8e8bb487e382815434c24fea90702a714218cd2911542ef975b9f9e6"
    "f0"
    "8d269801bbd1a92912ac321d19e053596ef11f9effeb7377957fc3f17797f687039be3fbbfc027878f08fe844d";

std::string of_hex(std::string_view digits) {
  std::string bytes;
  for (std::size_t at = 0; at + 1 < digits.size(); at += 2) {
    bytes += static_cast<char>(std::stoi(std::string(digits.substr(at, 2)), nullptr, 16));
  }
  return bytes;
}

const std::vector<Synset>& synsets() {
  static const std::vector<Synset> all = {
      {.number = 1, .wnid = "n02119789", .children = 0},
      {.number = 2, .wnid = "n01440764", .children = 0},
      {.number = 300, .wnid = "n02084071", .children = 2}};
  return all;
}

std::string refusal_of(std::string_view file) {
  const auto table = read_mat_table(file, "synsets");
  return table ? "accepted" : table.error().detail;
}

TEST(MatTable, HasTheTextsAndNumbersOfItsStructs) {
  using Writer = MatWriter;
  const std::string variable = Writer::table(synsets(), "synsets");
  const std::string other =
      Writer::matrix(6, 1, "version", Writer::element(9, std::string(8, '\0')));
  for (const std::string& file :
       {Writer::file(variable), Writer::file(other + Writer::packed(variable))}) {
    const auto table = read_mat_table(file, "synsets");
    ASSERT_TRUE(table) << table.error().detail;
    ASSERT_EQ(table->rows.size(), 3U);
    EXPECT_EQ(table->fields.size(), 8U);
    EXPECT_EQ(table->column("WNID"), 1U);
    EXPECT_EQ(table->column("wnid"), std::nullopt);
    EXPECT_EQ(table->rows[2][0], MatValue(300.0));
    EXPECT_EQ(table->rows[1][1], MatValue("n01440764"));
    EXPECT_EQ(table->rows[0][3], MatValue(""));
    EXPECT_EQ(table->rows[0][5], MatValue());  // two numbers
    EXPECT_EQ(table->rows[0][7], MatValue(732.0));
  }
}

TEST(MatTable, IsReadAsScipyWroteIt) {
  const auto table = read_mat_table(MatWriter::file(of_hex(kScipyHex)), "synsets");
  ASSERT_TRUE(table) << table.error().detail;
  ASSERT_EQ(table->rows.size(), 4U);
  EXPECT_EQ(table->rows[3][0], MatValue(300.0));
  EXPECT_EQ(table->rows[3][1], MatValue("n02084071"));
  EXPECT_EQ(table->rows[0][2], MatValue("kit fox, Vulpes macrotis"));
  EXPECT_EQ(table->rows[3][4], MatValue(2.0));
}

TEST(MatTable, IsRefusedInAnotherFile) {
  const std::string whole = meta_mat(synsets());
  EXPECT_THAT(refusal_of(""), HasSubstr("level 5"));
  EXPECT_THAT(refusal_of(std::string(200, 'x')), HasSubstr("level 5"));
  std::string big_endian = whole;
  big_endian.replace(124, 4, std::string("\1\0MI", 4));
  EXPECT_THAT(refusal_of(big_endian), HasSubstr("little-endian"));
  EXPECT_THAT(refusal_of(MatWriter::file("")), HasSubstr("no variable 'synsets'"));
  EXPECT_THAT(
      refusal_of(MatWriter::file(MatWriter::matrix(6, 1, "synsets", MatWriter::element(2, "\1")))),
      HasSubstr("not an array of structs"));
}

TEST(MatTable, IsRefusedWhereverItIsCutOff) {
  for (const std::string& whole :
       {meta_mat(synsets()), MatWriter::file(MatWriter::table(synsets(), "synsets"))}) {
    ASSERT_EQ(refusal_of(whole), "accepted");
    for (std::size_t bytes = 0; bytes < whole.size(); ++bytes) {
      ASSERT_NE(refusal_of(whole.substr(0, bytes)), "accepted") << bytes;
    }
  }
}

TEST(MatTable, SurvivesAnyFlippedByte) {
  const std::string whole = MatWriter::file(MatWriter::table(synsets(), "synsets"));
  for (std::size_t at = 0; at < whole.size(); ++at) {
    for (const char bits : {'\xff', '\x01', '\x80', '\x0e'}) {
      std::string damaged = whole;
      damaged[at] = static_cast<char>(damaged[at] ^ bits);
      const auto table = read_mat_table(damaged, "synsets");
      for (const auto& row : table ? table->rows : std::vector<std::vector<MatValue>>()) {
        EXPECT_EQ(row.size(), table->fields.size());
      }
    }
  }
}

TEST(MatTable, IsRefusedWhereItInflatesWithoutEnd) {
  const std::string bomb = MatWriter::packed(std::string(std::size_t{65} << 20U, '\0'));
  EXPECT_THAT(refusal_of(MatWriter::file(bomb)), HasSubstr("after decompression"));
}

TEST(ImagenetValidationClasses, AreThoseOfTheNumbersOfSynsetsWithoutChildren) {
  const auto classes = imagenet_validation_classes(meta_mat(synsets()), "2\n1\n2\n");
  ASSERT_TRUE(classes) << classes.error().detail;
  EXPECT_THAT(*classes, ElementsAre("n01440764", "n02119789", "n01440764"));
}

TEST(ImagenetValidationClasses, AreRefusedWithTheFileAndTheLine) {
  const auto refusal = [](std::string_view meta, std::string_view truth) {
    const auto classes = imagenet_validation_classes(meta, truth);
    return classes ? "accepted" : classes.error().detail;
  };
  const std::string meta = meta_mat(synsets());
  EXPECT_THAT(
      refusal(meta, "1\n300\n"),
      AllOf(HasSubstr("ground_truth.txt"), HasSubstr("label 2"), HasSubstr("'300'")));
  EXPECT_THAT(refusal(meta, "1\nx\n"), HasSubstr("label 2"));
  EXPECT_THAT(refusal("", "1\n"), HasSubstr("data/meta.mat: "));
  EXPECT_THAT(
      refusal(meta_mat({{.number = 1, .wnid = "../n1"}}), "1\n"), HasSubstr("data/meta.mat: "));
}

}  // namespace
}  // namespace ddprun
