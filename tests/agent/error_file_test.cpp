#include "agent/error_file.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <string>

namespace ddprun {
namespace {

constexpr char kNested[] =
    R"({"message": {"message": "ValueError: boom", "extraInfo": {)"
    R"("py_callstack": "Traceback (most recent call last):\n  boom\n", "timestamp": "123"}}})";

TEST(ErrorFile, ReadsWhatTorchRecords) {
  const auto error = parse_error_file(kNested);
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->message, "ValueError: boom");
  EXPECT_EQ(error->traceback, "Traceback (most recent call last):\n  boom");
}

TEST(ErrorFile, ReadsTheFlatForm) {
  const auto error = parse_error_file(R"({"message": "no data", "timestamp": 123})");
  EXPECT_EQ(error, (WorkerError{.message = "no data", .traceback = ""}));
}

TEST(ErrorFile, ShowsAnythingElseAsText) {
  EXPECT_EQ(parse_error_file("{broken")->message, "{broken");
  EXPECT_EQ(parse_error_file("[1, 2]")->message, "[1, 2]");
  EXPECT_EQ(parse_error_file(R"({"note": 1})")->message, R"({"note": 1})");
  EXPECT_EQ(parse_error_file(R"({"message": 17})")->message, "17");
  EXPECT_EQ(parse_error_file(R"({"message": {"extraInfo": 5}})")->message, "");
}

TEST(ErrorFile, NestedHalfAMillionTimesIsTextAndNoEndOfTheAgent) {
  constexpr std::size_t kDepth = 500'000;
  const std::string deep =
      R"({"message": )" + std::string(kDepth, '[') + std::string(kDepth, ']') + "}";
  EXPECT_TRUE(parse_error_file(deep)->message.starts_with(R"({"message": [[)"));
  EXPECT_EQ(with_error_code(deep, 4), deep);
}

TEST(ErrorFile, HalfACharacterIsReplacedAndNothingElseIs) {
  const auto message_of = [](const std::string& text) {
    return parse_error_file(R"({"message": ")" + text + "\"}")->message;
  };
  EXPECT_EQ(
      message_of(R"(a\udcffb)"),
      "a\xEF\xBF\xBD"
      "b");
  EXPECT_EQ(message_of(R"(\ud83d)"), "\xEF\xBF\xBD");
  EXPECT_EQ(message_of(R"(\ud83dx\ude00)"), "\xEF\xBF\xBDx\xEF\xBF\xBD");
  EXPECT_EQ(message_of(R"(\ud83d\ude00)"), "\xF0\x9F\x98\x80") << "both halves";
  EXPECT_EQ(message_of(R"(\\udcff)"), R"(\udcff)") << "a backslash, and no escape";
}

TEST(ErrorFile, YieldsNothingWhenEmpty) {
  EXPECT_EQ(parse_error_file(" \n"), std::nullopt);
}

TEST(ErrorFile, GetsTheExitCodeInsideTheNestedMessageOnly) {
  EXPECT_EQ(
      with_error_code(R"({"message":{"message":"m"}})", 3),
      R"({"message":{"message":"m","errorCode":3}})");
  EXPECT_EQ(with_error_code(R"({"message":"m"})", 3), R"({"message":"m"})");
  EXPECT_EQ(with_error_code("{broken", 3), "{broken");
}

}  // namespace
}  // namespace ddprun
