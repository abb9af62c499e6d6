#include "trainer/core/manifest.hpp"

#include <gmock/gmock.h>

namespace ddprun {
namespace {

using testing::HasSubstr;

const std::string kSum(64, 'a');

Manifest example() {
  return {
      .name = {.claim = 7, .step = 150, .term = 1, .round = 3},
      .epoch = 2,
      .consumed = 6400,
      .batches = 50,
      .world = 2,
      .arguments = {{"model", "conv-net"}},
      .files = {{.name = "model.safetensors", .size = 12, .sha256 = kSum}}};
}

/// example() as JSON, with the first `from` in it replaced by `to`.
std::string spoiled(const std::string& from, const std::string& to) {
  std::string text = manifest_json(example());
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

std::string refusal(const std::string& text) {
  const auto manifest = parse_manifest(text);
  if (manifest) return "accepted";
  EXPECT_TRUE(manifest.error().is(Errc::kCorrupt));
  return manifest.error().detail;
}

TEST(Manifest, ReadsBackWhatItWrote) {
  const auto manifest = parse_manifest(manifest_json(example()));
  ASSERT_TRUE(manifest) << manifest.error().detail;
  EXPECT_EQ(*manifest, example());
}

TEST(Manifest, ReadsBackTheBestToTheLastBit) {
  Manifest manifest = example();
  manifest.best = BestSoFar{
      .metric = BestMetric::kLoss, .value = 0.1 + 0.2, .epoch = 1, .snapshot = manifest.name};
  const auto again = parse_manifest(manifest_json(manifest));
  ASSERT_TRUE(again) << again.error().detail;
  EXPECT_EQ(again->best, manifest.best);
  EXPECT_EQ(*again, manifest);
}

TEST(Manifest, RefusesABestThatIsNone) {
  Manifest manifest = example();
  manifest.best = BestSoFar{.value = 71.5, .epoch = 1, .snapshot = manifest.name};
  const std::string text = manifest_json(manifest);
  const auto with = [&text](const std::string& from, const std::string& to) {
    std::string changed = text;
    return refusal(changed.replace(changed.find(from), from.size(), to));
  };
  EXPECT_THAT(with("\"accuracy\"", "\"beauty\""), HasSubstr("best: 'metric'"));
  EXPECT_THAT(with("71.5", "null"), HasSubstr("best: 'value' is not a finite number"));
  EXPECT_THAT(with("71.5", "1e999"), HasSubstr("manifest"));
  EXPECT_THAT(with("\"snapshot\": \"snapshot-", "\"snapshot\": \"../"), HasSubstr("'snapshot'"));
  EXPECT_THAT(
      with("\"best\": {", "\"best\": 3, \"worst\": {"), HasSubstr("'best' is not an object"));
}

TEST(Manifest, IsJsonThatPeopleCanRead) {
  EXPECT_THAT(manifest_json(example()), HasSubstr("\n  \"samples_consumed\": 6400,\n"));
}

TEST(Manifest, RefusesEveryTruncation) {
  const std::string text = manifest_json(example());
  for (std::size_t size = 0; size + 1 < text.size(); ++size) {
    EXPECT_NE(refusal(text.substr(0, size)), "accepted") << size;
  }
}

TEST(Manifest, RefusesAnotherFormat) {
  EXPECT_THAT(
      refusal(spoiled("\"format_version\": 1", "\"format_version\": 2")), HasSubstr("version 2"));
  EXPECT_THAT(refusal(spoiled("ddprun-snapshot", "cake")), HasSubstr("'cake'"));
}

TEST(Manifest, NamesTheFieldThatIsWrong) {
  EXPECT_THAT(refusal(spoiled("\"epoch\"", "\"apoch\"")), HasSubstr("'epoch' is missing"));
  EXPECT_THAT(refusal(spoiled("150", "-1")), HasSubstr("'step' is -1"));
  EXPECT_THAT(refusal(spoiled("150", "1.5")), HasSubstr("'step' is 1.5"));
  EXPECT_THAT(refusal(spoiled("\"world\": 2", "\"world\": 0")), HasSubstr("'world'"));
  EXPECT_THAT(refusal(spoiled("\"conv-net\"", "3")), HasSubstr("'arguments'"));
}

TEST(Manifest, RefusesACountOfSamplesThatNoStepHasSeen) {
  EXPECT_THAT(
      refusal(spoiled("\"step\": 150", "\"step\": 0")),
      HasSubstr("'samples_consumed' is 6400, but step is 0"));
  EXPECT_THAT(
      refusal(spoiled("\"samples_consumed\": 6400", "\"samples_consumed\": 49")),
      HasSubstr("'batches_consumed' is 50, but samples_consumed is only 49"));
}

TEST(Manifest, RefusesSamplesThatNoBatchHasConsumed) {
  EXPECT_THAT(
      refusal(spoiled("\"batches_consumed\": 50", "\"batches_consumed\": 0")),
      HasSubstr("'samples_consumed' is 6400, but batches_consumed is 0"));
}

TEST(Manifest, RefusesCountsThatNoRunComesTo) {
  for (const char* const field :
       {"\"step\": 150",
        "\"epoch\": 2",
        "\"samples_consumed\": 6400",
        "\"batches_consumed\": 50"}) {
    const std::string text = spoiled(field, std::string(field) + "000000000000000");
    EXPECT_THAT(refusal(text), HasSubstr("000000000000000, not a number from 0 to")) << field;
  }
}

TEST(Manifest, RefusesFilesOutsideTheSnapshot) {
  EXPECT_THAT(refusal(spoiled("model.safetensors", "../model")), HasSubstr("not a file name"));
  EXPECT_THAT(refusal(spoiled("model.safetensors", "..")), HasSubstr("not a file name"));
  EXPECT_THAT(refusal(spoiled(kSum, "abc")), HasSubstr("not a sha256"));
}

}  // namespace
}  // namespace ddprun
