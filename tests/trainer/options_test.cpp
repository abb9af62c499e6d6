#include "trainer/options.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <vector>

namespace ddprun {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Result<std::variant<TrainOptions, PrintAndLeave>> parse(std::vector<const char*> flags) {
  flags.insert(flags.begin(), "ddptrain");
  return parse_train_options(static_cast<int>(flags.size()), flags.data());
}

TrainOptions accepted(std::vector<const char*> flags) {
  return std::get<TrainOptions>(*parse(std::move(flags)));
}

std::string refusal_of(std::vector<const char*> flags) {
  const auto options = parse(std::move(flags));
  return options ? "accepted" : options.error().detail;
}

TEST(TrainOptions, TrainOnDebiansFashionMnistByDefault) {
  const TrainOptions options = accepted({});
  EXPECT_EQ(options.dataset, DatasetKind::kFashionMnist);
  EXPECT_EQ(options.data_dir, "/usr/share/datasets/fashion-mnist");
  EXPECT_EQ(options.epochs, 1);
}

TEST(TrainOptions, ReadEveryFlag) {
  const TrainOptions options = accepted(
      {"--dataset",
       "mnist",
       "--data-dir",
       "d",
       "--model",
       "simple_conv_net",
       "--epochs",
       "3",
       "--first-epoch",
       "1",
       "--batch-size",
       "8",
       "--learning-rate",
       "0.5",
       "--momentum",
       "0",
       "--seed",
       "4",
       "--limit-train-samples",
       "100",
       "--limit-test-samples",
       "10",
       "--num-threads",
       "2",
       "--device",
       "cpu",
       "--metrics-file",
       "m",
       "--sample-trace",
       "t",
       "--snapshot-dir",
       "s",
       "--snapshot-every-steps",
       "7"});
  EXPECT_EQ(options.dataset, DatasetKind::kMnist);
  EXPECT_EQ(options.data_dir, "d");
  EXPECT_EQ(options.model, ModelKind::kSimpleConvNet);
  EXPECT_EQ(options.end_epoch(), 4);
  EXPECT_EQ(options.batch_size, 8);
  EXPECT_EQ(options.learning_rate, 0.5);
  EXPECT_EQ(options.momentum, 0);
  EXPECT_EQ(options.seed, 4);
  EXPECT_EQ(options.sampler_seed, 4);
  EXPECT_EQ(options.limit_train_samples, 100);
  EXPECT_EQ(options.limit_test_samples, 10);
  EXPECT_EQ(options.num_threads, 2);
  EXPECT_EQ(options.metrics_file, "m");
  EXPECT_EQ(options.sample_trace, "t");
  EXPECT_EQ(options.snapshot_dir, "s");
  EXPECT_EQ(options.snapshot_every_steps, 7);
}

TEST(TrainOptions, AskForTheEnvironmentOrForPeersOnlyIfTold) {
  EXPECT_FALSE(accepted({}).must_be_distributed);
  EXPECT_TRUE(accepted({"--distributed"}).must_be_distributed);
  EXPECT_FALSE(accepted({}).prints_environment);
  EXPECT_TRUE(accepted({"--print-env"}).prints_environment);
}

TEST(TrainOptions, SuggestTheFlagThatWasMeant) {
  EXPECT_THAT(
      refusal_of({"--batchsize", "3"}),
      AllOf(HasSubstr("'--batchsize'"), HasSubstr("did you mean --batch-size?")));
}

TEST(TrainOptions, RefuseValuesOutOfRange) {
  EXPECT_THAT(refusal_of({"--epochs", "0"}), HasSubstr("'0' is not a whole number from 1"));
  EXPECT_THAT(refusal_of({"--epochs", "2x"}), HasSubstr("--epochs"));
  EXPECT_THAT(refusal_of({"--learning-rate", "nan"}), HasSubstr("--learning-rate"));
  EXPECT_THAT(refusal_of({"--batch-size", "99999999999999999999"}), HasSubstr("--batch-size"));
  EXPECT_THAT(refusal_of({"--device", "cuda"}), HasSubstr("--device"));
  EXPECT_THAT(refusal_of({"--model", "resnet"}), HasSubstr("--model"));
  EXPECT_THAT(refusal_of({"--dataset"}), HasSubstr("--dataset"));
}

TEST(TrainOptions, TellTheFlagTheValueAndTheWordsThatAreAllowed) {
  EXPECT_EQ(
      refusal_of({"--dataset", "foo"}),
      "--dataset: 'foo' is not one of fashion-mnist, mnist; see ddptrain --help");
  EXPECT_EQ(
      refusal_of({"--model", "foo"}),
      "--model: 'foo' is not one of convnet, simple_conv_net; see ddptrain --help");
  EXPECT_EQ(
      refusal_of({"--device", "cuda"}), "--device: 'cuda' is not one of cpu; see ddptrain --help");
}

TEST(TrainOptions, DoNotTakeAnUnsetVariableForAFlagThatWasLeftOut) {
  for (const char* flag : {"--data-dir", "--metrics-file", "--sample-trace", "--snapshot-dir"}) {
    EXPECT_EQ(
        refusal_of({flag, ""}),
        std::string(flag) +
            ": '' names nothing; give a name, or leave the flag out; see ddptrain --help");
  }
}

TEST(TrainOptions, RefuseMnistWithoutItsDirectory) {
  EXPECT_THAT(refusal_of({"--dataset", "mnist"}), HasSubstr("needs --data-dir"));
}

TEST(TrainOptions, TakeTheNumberOfAnIndependentJobForASeed) {
  ASSERT_EQ(::setenv("DDPRUN_TASK_ID", "2", 1), 0);  // NOLINT(concurrency-mt-unsafe): one thread
  EXPECT_EQ(accepted({}).seed, 2);
  EXPECT_EQ(accepted({}).sampler_seed, 2);
  EXPECT_EQ(accepted({"--seed", "7"}).seed, 7);
  ::unsetenv("DDPRUN_TASK_ID");  // NOLINT(concurrency-mt-unsafe)
  EXPECT_EQ(accepted({}).seed, 0);
}

TEST(TrainOptions, CountAsGivenLast) {
  EXPECT_EQ(accepted({"--epochs", "2", "--epochs", "3"}).epochs, 3);
}

TEST(CheckSameJob, LetsWhatMayChangeChange) {
  TrainOptions later;
  later.epochs = 9;
  later.batch_size = 1;
  later.learning_rate = 0.5;
  EXPECT_TRUE(check_same_job(arguments_of_job(TrainOptions()), later));
}

TEST(CheckSameJob, NamesTheFlagAndBothValues) {
  TrainOptions later;
  later.limit_train_samples = 7;
  const auto same = check_same_job(arguments_of_job(TrainOptions()), later);
  ASSERT_FALSE(same);
  EXPECT_THAT(
      same.error().detail, HasSubstr("saved with --limit-train-samples all, but this run has 7"));
}

TEST(CheckSameJob, NamesTheSeedThatWasGivenRatherThanTheOneThatFollowsIt) {
  TrainOptions later;
  later.seed = later.sampler_seed = 1;
  const auto same = check_same_job(arguments_of_job(TrainOptions()), later);
  ASSERT_FALSE(same);
  EXPECT_THAT(same.error().detail, HasSubstr("saved with --seed 0, but this run has 1"));
}

TEST(CheckSameJob, RefusesASnapshotThatDoesNotSay) {
  EXPECT_FALSE(check_same_job({}, TrainOptions()));
}

TEST(TrainOptions, PrintTheFlagsOnHelp) {
  const auto help = parse({"--help"});
  ASSERT_TRUE(help);
  EXPECT_THAT(std::get<PrintAndLeave>(*help).text, HasSubstr("--snapshot-every-steps"));
}

TEST(TrainOptions, PrintTheWordsAndTheDefaultOnHelp) {
  const auto help = parse({"--help"});
  ASSERT_TRUE(help);
  const std::string& text = std::get<PrintAndLeave>(*help).text;
  EXPECT_THAT(text, HasSubstr("--dataset TEXT:{fashion-mnist,mnist}=fashion-mnist"));
  EXPECT_THAT(text, HasSubstr("--model TEXT:{convnet,simple_conv_net}=convnet"));
}

}  // namespace
}  // namespace ddprun
