// The encoders of the files that a run writes: fields, curves, checksums and frames.

#include "trainer/core/crc32.hpp"
#include "trainer/core/line_style.hpp"
#include "trainer/core/progress_text.hpp"
#include "trainer/core/protobuf.hpp"
#include "trainer/core/report_fields.hpp"
#include "trainer/core/scalars.hpp"
#include "trainer/core/tensorboard.hpp"
#include "trainer/core/throughput.hpp"
#include "trainer/core/wandb.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

std::string hex(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) {
    text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  }
  return text;
}

Scalar point(std::string_view tag, double value) {
  return {.tag = tag, .value = value};
}

StepDone step() {
  StepDone step;
  step.at = {.epoch = 0, .step = 7};
  step.batch = 1;
  step.batches = 10;
  step.sums = {.loss = 4.5, .correct = 1, .samples = 2};
  step.samples_of_run = 14;
  step.learning_rate = 0.1;
  step.rates.samples_per_s = 8;
  step.phases = {.data_s = 0.5, .compute_s = 0.25};
  return step;
}

EpochValidated validated() {
  EpochValidated event;
  event.trained.at = {.epoch = 3, .step = 40};
  event.trained.sums = {.loss = 20, .correct = 5, .samples = 10};
  event.trained.learning_rate = 0.5;
  event.sums = {.loss = 3, .correct = 1, .samples = 4};
  event.correct_top5 = 3;
  event.seconds = 2;
  event.epoch_seconds = 5;
  return event;
}

std::vector<std::string> cells(std::string_view row) {
  std::vector<std::string> cells(1);
  for (const char letter : row) {
    if (letter == ',') {
      cells.emplace_back();
    } else {
      cells.back() += letter;
    }
  }
  return cells;
}

TEST(JsonRecord, BeginsAsTheMetricsFileAlwaysHas) {
  EXPECT_THAT(
      json_record(step(), 1.5),
      StartsWith("{\"event\":\"step\",\"time_s\":1.5,\"epoch\":0,\"step\":7,\"loss\":2.25,"));
  RunBegan began;
  began.world = 2;
  began.attempt = 1;
  EXPECT_THAT(
      json_record(began, 1.5),
      StartsWith("{\"event\":\"start\",\"time_s\":1.5,\"epoch\":0,\"step\":0,\"world\":2,"
                 "\"attempt\":1,"));
}

TEST(JsonRecord, KeepsEveryBitOfTheLossAndWritesOneThatIsNoNumberAsNull) {
  StepDone event = step();
  event.sums = {.loss = 2.2802155017852783, .samples = 1};
  EXPECT_THAT(json_record(event, 1.5), HasSubstr("\"loss\":2.2802155017852783,"));
  event.sums.loss = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(json_record(event, 1.5), HasSubstr("\"loss\":null,"));
}

TEST(JsonRecord, OfAPathThatIsNoUtf8IsStillJson) {
  EXPECT_THAT(json_record(SnapshotSaved{.at = {}, .path = "a\xff"}, 1), HasSubstr("\"path\":\"a"));
}

TEST(CsvRow, HasACellForEachColumnWhateverTheEvent) {
  const std::size_t columns = cells(csv_header()).size();
  const std::vector<ReportEvent> events = {
      RunBegan(),
      RunResumed(),
      step(),
      EpochTrained(),
      validated(),
      SnapshotSaved(),
      RunStopped(),
      RunEnded()};
  for (const ReportEvent& event : events) {
    EXPECT_EQ(cells(csv_row(event, 1)).size(), columns) << record_name(event);
  }
  EXPECT_THAT(csv_row(EpochBegan(), 1), IsEmpty());
}

TEST(CsvRow, HoldsTheNumbersOfTheJsonRecordUnderTheirNames) {
  const auto names = cells(csv_header());
  const auto row = cells(csv_row(step(), 1.5));
  std::map<std::string, std::string> found;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (!row.at(i).empty()) found[names.at(i)] = row.at(i);
  }
  EXPECT_EQ(found.at("event"), "step");
  EXPECT_EQ(found.at("time_s"), "1.5");
  EXPECT_EQ(found.at("loss"), "2.25");
  EXPECT_EQ(found.at("accuracy"), "50");
  EXPECT_EQ(found.at("compute_s"), "0.25");
  EXPECT_FALSE(found.contains("grad_norm")) << "nobody measured it";
}

TEST(CsvRow, QuotesAPathWithAComma) {
  EXPECT_THAT(csv_row(SnapshotSaved{.at = {}, .path = "a,\"b\""}, 1), HasSubstr("\"a,\"\"b\"\"\""));
}

TEST(Scalars, OfKaustAreSixPerEpochAtItsNumber) {
  const ScalarSet set = scalars_of(validated(), ScalarNames::kKaust, 1);
  EXPECT_EQ(set.step, 3);
  EXPECT_EQ(
      set.scalars,
      (std::vector<Scalar>{
          point("Loss/train", 2),
          point("Loss/val", 0.75),
          point("Accuracy/train", 50),
          point("Accuracy/val", 25),
          point("Throughput/images_per_sec", 2),
          point("LR", 0.5)}));
  EXPECT_THAT(scalars_of(step(), ScalarNames::kKaust, 1).scalars, IsEmpty());
}

TEST(Scalars, OfMilaStandAtTheUpdateAndOnlyWhereAStepIsDue) {
  const ScalarSet set = scalars_of(step(), ScalarNames::kMila, 20);
  EXPECT_EQ(set.step, 7);
  EXPECT_EQ(
      set.scalars,
      (std::vector<Scalar>{
          point("train/loss", 2.25),
          point("train/accuracy", 0.5),
          point("train/samples_per_sec", 8),
          point("epoch", 0),
          point("updates", 7),
          point("samples", 14),
          point("train/learning_rate", 0.1)}));
  StepDone later = step();
  later.batch = 2;
  EXPECT_THAT(scalars_of(later, ScalarNames::kMila, 20).scalars, IsEmpty());
  EXPECT_EQ(
      scalars_of(validated(), ScalarNames::kMila, 20).scalars,
      (std::vector<Scalar>{
          point("val/loss", 0.75),
          point("val/accuracy", 0.25),
          point("val/samples_per_sec", 2),
          point("epoch", 3),
          point("val/accuracy_top5", 0.75)}));
}

TEST(Crc32, AreThoseOfTheStandards) {
  EXPECT_EQ(crc32("123456789"), 0xcbf43926);
  EXPECT_EQ(crc32("6789", crc32("12345")), 0xcbf43926);
  EXPECT_EQ(crc32c("123456789"), 0xe3069283);
  EXPECT_EQ(masked_crc32c("123456789"), 0xc78ab0e5);
}

TEST(ProtobufMessage, EncodesAsTheSpecificationsExamplesDo) {
  ProtobufMessage inner;
  inner.add_int(1, 150);
  EXPECT_EQ(hex(inner.bytes()), "089601");
  ProtobufMessage outer;
  outer.add_text(2, "testing").add_message(3, inner).add_int(16, -1);
  EXPECT_EQ(
      hex(outer.bytes()),
      "120774657374696e67"
      "1a03089601"
      "8001ffffffffffffffffff01");
}

TEST(Tensorboard, WritesTheRecordThatTensorflowWrites) {
  const std::array<Scalar, 1> scalars = {{{.tag = "Loss/train", .value = 1}}};
  EXPECT_EQ(
      hex(tensorboard_record(1'700'000'001, 0, scalars)),
      "200000000000000029eda9500900004040fc54d94110002a130a110a0a4c6f73732f747261696e15"
      "0000803fca2ae2d7");
}

TEST(Tensorboard, NamesAFileSoThatItIsFound) {
  EXPECT_EQ(
      tensorboard_file_name(1'700'000'001, "node0", 42, 0),
      "events.out.tfevents.1700000001.node0.42.0");
}

TEST(WandbLog, ARecordBeginsWithChecksumLengthAndType) {
  WandbLog log;
  EXPECT_EQ(
      hex(log.begin()),
      "3a572642"
      "e1be"
      "00");
  const std::string framed = log.frame("abc");
  EXPECT_EQ(
      hex(framed.substr(4)),
      "0300"
      "01"
      "616263");
  EXPECT_EQ(hex(framed.substr(0, 4)), "a9209d53") << "zlib.crc32(b'\\1abc'), lowest byte first";
}

TEST(WandbLog, FillsTheEndOfABlockWithZerosWhereNoHeadFits) {
  WandbLog log;
  std::string file = log.begin();
  file += log.frame(std::string(32'768 - 14 - 6, 'x'));  // leaves six bytes
  ASSERT_EQ(file.size(), 32'768U - 6);
  const std::string next = log.frame("abc");
  EXPECT_EQ(next.substr(0, 6), std::string(6, '\0'));
  EXPECT_EQ(next.size(), 6U + 7 + 3);
}

TEST(WandbLog, SplitsALongRecordAtTheEndsOfBlocks) {
  WandbLog log;
  std::string file = log.begin();
  file += log.frame(std::string(32'768 - 14 - 7, 'x'));  // a header fits, and nothing after it
  file += log.frame(std::string(40'000, 'y'));
  const auto type_at = [&](std::size_t at) { return int{file.at(at + 6)}; };
  EXPECT_EQ(type_at(32'768 - 7), 2) << "a first part without data";
  EXPECT_EQ(type_at(32'768), 3);
  EXPECT_EQ(type_at(65'536), 4);
  EXPECT_EQ(file.size(), 65'536U + 7 + 40'000 - 32'761);
}

TEST(Wandb, AnIdIsOneWordOfEightLetters) {
  EXPECT_EQ(wandb_id_of(0), "aaaaaaaa");
  EXPECT_EQ(wandb_id_of(36 + 35), "9baaaaaa");
  EXPECT_TRUE(check_wandb_id(wandb_id_of(0xffff'ffff'ffff'ffff)).has_value());
  for (const char* const id : {"", "../x", "a b", "a/b"}) {
    EXPECT_TRUE(check_wandb_id(id).error().is(Errc::kInvalidArgument)) << id;
  }
  EXPECT_FALSE(check_wandb_id(std::string(65, 'a')).has_value());
}

TEST(Wandb, TheConfigurationLeavesOutSlurmsPassword) {
  RunBegan run;
  run.world = 4;
  run.batch_size = 8;
  const Arguments config = wandb_config(
      run, {{"SLURM_JWT", "secret"}, {"SLURM_JOB_ID", "7"}, {"HOME", "/x"}, {"MASTER_PORT", "1"}});
  EXPECT_EQ(
      config,
      (Arguments{
          {"WORLD_SIZE", std::int64_t{4}},
          {"effective_batch_size", std::int64_t{32}},
          {"MASTER_PORT", std::string("1")},
          {"SLURM_JOB_ID", std::string("7")}}));
}

TEST(Wandb, ADirectorysNameHasTheTimeOfTheStart) {
  EXPECT_EQ(
      wandb_directory_name(
          {.year = 2026, .month = 1, .day = 2, .hour = 3, .minute = 4, .second = 5}, "abc"),
      "offline-run-20260102_030405-abc");
}

TEST(PhaseSplit, ItsPhasesAddUpToTheTimeThatPassed) {
  PhaseSplit split(10);
  split.end(&PhaseTimes::data_s, 11);
  split.end(&PhaseTimes::compute_s, 14);
  split.end(&PhaseTimes::data_s, 14.5);
  split.end(&PhaseTimes::other_s, 14.25);  // a clock that went backwards
  const PhaseTimes took = split.take();
  EXPECT_EQ(took, (PhaseTimes{.data_s = 1.5, .compute_s = 3}));
  EXPECT_EQ(took.total_s(), 4.5);
  EXPECT_EQ(split.take(), PhaseTimes());
}

TEST(PhaseSplit, WhatIsSkippedBelongsToNoStep) {
  PhaseSplit split(10);
  split.end(&PhaseTimes::compute_s, 11);
  split.skip(100);  // a validation
  split.end(&PhaseTimes::data_s, 100.5);
  EXPECT_EQ(split.take(), (PhaseTimes{.data_s = 0.5, .compute_s = 1}));
}

TEST(LoaderCeiling, IsWhatTheLoaderGaveAndWhatTrainingCouldHaveTaken) {
  RunEnded ended;
  ended.sums = {.loss = 1, .correct = 1, .samples = 1};
  ended.ceiling = loader_ceiling(1000, {.data_s = 3, .copy_s = 0.25, .compute_s = 0.75});
  EXPECT_EQ(ended.ceiling->loader_samples_per_s, 250);
  EXPECT_EQ(ended.ceiling->training_samples_per_s, 1000);
  EXPECT_THAT(
      json_record(ended, 1),
      HasSubstr("\"loader_samples_per_s\":250.0,\"training_samples_per_s\":1000.0"));
  EXPECT_EQ(
      lines_of(ended, {}).front(), "ceiling loader_samples_per_s=250 training_samples_per_s=1000");
  ended.ceiling.reset();
  EXPECT_THAT(json_record(ended, 1), Not(HasSubstr("loader_samples_per_s")));
  EXPECT_EQ(lines_of(ended, {}).size(), 1U);
}

TEST(Throughput, TheWindowForgetsASlowBeginning) {
  Throughput throughput(0);
  EXPECT_EQ(throughput.windowed(), 0);
  EXPECT_FALSE(throughput.eta_s(10).has_value());
  throughput.add(10, 100);
  EXPECT_EQ(throughput.windowed(), 0.1);
  for (int i = 1; i <= 50; ++i) {
    throughput.add(10, 100 + i);
  }
  EXPECT_EQ(throughput.windowed(), 10);
  EXPECT_EQ(throughput.whole(), 510.0 / 150);
  EXPECT_EQ(*throughput.eta_s(100), 10);
  EXPECT_EQ(*throughput.eta_s(-1), 0);
}

TEST(Throughput, BackwardCostsTwiceWhatForwardDoes) {
  EXPECT_EQ(training_flops(1e9, 100), 3e11);
  EXPECT_EQ(model_flops_utilisation(1e9, 100, 1.2e12), 0.25);
}

TEST(HumanText, HasUnitsThatAPersonReads) {
  EXPECT_EQ(human_seconds(59.4), "59s");
  EXPECT_EQ(human_seconds(59.6), "1m00s");
  EXPECT_EQ(human_seconds(3661), "1h01m01s");
  EXPECT_EQ(human_seconds(-1), "?");
  EXPECT_EQ(human_seconds(std::numeric_limits<double>::infinity()), "?");
  EXPECT_EQ(human_seconds(std::numeric_limits<double>::quiet_NaN()), "?");
}

TEST(ProgressText, OfMilaShowsSamplesRateLossAndAccuracy) {
  const BarState state{
      .count = 2,
      .epochs = 10,
      .samples_done = 640,
      .samples = 1280,
      .seconds = 5,
      .loss = 2.34567,
      .accuracy = 0.125};
  EXPECT_EQ(
      bar_text(BarStyle::kSamples, state),
      "Train epoch 2/10:  50%|█████     | 640/1280 [00:05<00:05, 128.00samples/s, loss=2.346, "
      "accuracy=12.50%]");
}

TEST(ProgressText, OfPlainCountsSteps) {
  EXPECT_EQ(
      bar_text(BarStyle::kPlain, {.epoch = 3, .steps_done = 5, .steps = 10, .loss = 0.5}),
      "epoch 3 [###############...............] 5/10 loss 0.5000");
}

TEST(ProgressText, OfNothingToDoIsFull) {
  EXPECT_THAT(bar_text(BarStyle::kPlain, {}), HasSubstr("[##############################] 0/0"));
  EXPECT_THAT(
      bar_text(BarStyle::kSamples, {}), HasSubstr("100%|██████████| 0/0 [00:00<?, ?samples/s"));
}

}  // namespace
}  // namespace ddprun
