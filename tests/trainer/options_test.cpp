#include "trainer/options.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <unistd.h>

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
  ASSERT_EQ(::unsetenv("DATA_DIR"), 0);
  const TrainOptions options = accepted({});
  EXPECT_EQ(options.data.kind, DatasetKind::kFashionMnist);
  EXPECT_EQ(options.data.directory, "/usr/share/datasets/fashion-mnist");
  EXPECT_EQ(options.epochs, 1);
}

TEST(TrainOptions, TakeTheDirectoryOfTheDataFromTheEnvironmentUnlessAFlagSaysIt) {
  ASSERT_EQ(::setenv("DATA_DIR", "/data/tiny", 1), 0);
  EXPECT_EQ(accepted({"--dataset", "tiny-imagenet"}).data.directory, "/data/tiny");
  EXPECT_EQ(accepted({"--dataset", "mnist", "--data-dir", "d"}).data.directory, "d");
  ASSERT_EQ(::unsetenv("DATA_DIR"), 0);
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
  EXPECT_EQ(options.data.kind, DatasetKind::kMnist);
  EXPECT_EQ(options.data.directory, "d");
  EXPECT_EQ(options.model.kind, ModelKind::kSimpleConvNet);
  EXPECT_EQ(options.end_epoch(), 4);
  EXPECT_EQ(options.batch_size, 8);
  EXPECT_EQ(options.optimizer.learning_rate, 0.5);
  EXPECT_EQ(options.optimizer.momentum, 0);
  EXPECT_EQ(options.seed, 4);
  EXPECT_EQ(options.sampler_seed, 4);
  EXPECT_EQ(options.data.limit_train, 100);
  EXPECT_EQ(options.data.limit_test, 10);
  EXPECT_EQ(options.num_threads, 2);
  EXPECT_EQ(options.report.metrics_file, "m");
  EXPECT_EQ(options.report.sample_trace, "t");
  EXPECT_EQ(options.snapshots.directory, "s");
  EXPECT_EQ(options.snapshots.every_steps, 7);
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
  EXPECT_THAT(refusal_of({"--device", "gpu"}), HasSubstr("--device"));
  EXPECT_THAT(refusal_of({"--burn-in", "0"}), HasSubstr("--burn-in"));
  EXPECT_THAT(refusal_of({"--model", "resnet"}), HasSubstr("--model"));
  EXPECT_THAT(refusal_of({"--dataset"}), HasSubstr("--dataset"));
}

TEST(TrainOptions, TellTheFlagTheValueAndTheWordsThatAreAllowed) {
  EXPECT_EQ(
      refusal_of({"--dataset", "foo"}),
      "--dataset: 'foo' is not one of cifar10, crusoe, fake, fashion-mnist, image-folder, "
      "imagenet, "
      "mnist, tiny-imagenet; see ddptrain --help");
  EXPECT_THAT(
      refusal_of({"--model", "foo"}),
      AllOf(
          HasSubstr("--model: 'foo' is not one of convnet, crusoe"),
          HasSubstr("; see ddptrain --help")));
  EXPECT_EQ(
      refusal_of({"--device", "gpu"}),
      "--device: 'gpu' is not one of auto, cpu, cuda; see ddptrain --help");
}

TEST(TrainOptions, DoNotTakeAnUnsetVariableForAFlagThatWasLeftOut) {
  for (const char* flag : {"--data-dir", "--metrics-file", "--sample-trace", "--snapshot-dir"}) {
    EXPECT_EQ(
        refusal_of({flag, ""}),
        std::string(flag) +
            ": '' is empty; give a value, or leave the flag out; see ddptrain --help");
  }
}

TEST(TrainOptions, KeepTheBestByWhatIsMeasuredAfterEachEpoch) {
  const TrainOptions options = accepted({"--snapshot-dir", "s", "--keep-best", "loss"});
  EXPECT_EQ(options.snapshots.keeps_best, BestMetric::kLoss);
  EXPECT_EQ(options.evaluate_every_epochs, 1);
  const auto seldom =
      accepted({"--snapshot-dir", "s", "--keep-best", "accuracy", "--evaluate-every-epochs", "3"});
  EXPECT_EQ(seldom.evaluate_every_epochs, 3);
  EXPECT_EQ(accepted({"--snapshot-dir", "s"}).snapshots.keeps_best, std::nullopt);

  EXPECT_THAT(refusal_of({"--keep-best", "loss"}), HasSubstr("--keep-best needs --snapshot-dir"));
  EXPECT_THAT(
      refusal_of({"--snapshot-dir", "s", "--keep-best", "loss", "--evaluate-every-epochs", "0"}),
      HasSubstr("--keep-best needs measurements"));
  EXPECT_THAT(
      refusal_of({"--snapshot-dir", "s", "--keep-best", "beauty"}),
      HasSubstr("'beauty' is not one of accuracy, loss"));
}

TEST(TrainOptions, WriteFilesForOtherProgramsBesideTheSnapshotsUnlessToldWhere) {
  const TrainOptions beside = accepted({"--snapshot-dir", "s", "--checkpoint-style", "mila"});
  EXPECT_EQ(beside.checkpoints.style, CheckpointStyle::kMila);
  EXPECT_EQ(beside.checkpoints.directory, "s");
  EXPECT_EQ(beside.checkpoints.every_epochs, 1);
  EXPECT_EQ(beside.snapshots.keeps_best, std::nullopt);
  const TrainOptions alone = accepted(
      {"--checkpoint-style", "openacc-weights", "--checkpoint_dir", "c", "--link-checkpoints"});
  EXPECT_EQ(alone.checkpoints.directory, "c");
  EXPECT_EQ(alone.checkpoints.every_epochs, 10);
  EXPECT_TRUE(alone.links_checkpoints);
  EXPECT_EQ(
      accepted(
          {"--checkpoint-style", "mila", "--checkpoint-dir", "c", "--checkpoint-interval", "4"})
          .checkpoints.every_epochs,
      4);

  EXPECT_THAT(refusal_of({"--link-checkpoints"}), HasSubstr("needs --snapshot-dir"));
}

TEST(TrainOptions, HaveCheckpointsOfTheSystemWhoseLinesTheyPrintIfNoStyleIsGiven) {
  using enum CheckpointStyle;
  const std::vector<std::tuple<const char*, const char*, CheckpointStyle>> styles = {
      {"plain", "cifar10", kDdprun},
      {"mila", "imagenet", kMila},
      {"mila", "cifar10", kMilaCifar},
      {"crusoe", "mnist", kCrusoe},
      {"kaust", "tiny-imagenet", kDdprun},
      {"openacc", "cifar10", kOpenAcc},
  };
  for (const auto& [lines, dataset, style] : styles) {
    const auto options = accepted(
        {"--dataset", dataset, "--data-dir", "d", "--log-style", lines, "--checkpoint-dir", "c"});
    EXPECT_EQ(options.checkpoints.style, style) << lines << ' ' << dataset;
    EXPECT_EQ(options.checkpoints.directory, "c");
  }
  EXPECT_EQ(accepted({"--checkpoint_interval_epochs=1"}).checkpoints.directory, "checkpoints");
  EXPECT_EQ(accepted({"--checkpoint-style", "mila"}).checkpoints.directory, "checkpoints");
  EXPECT_EQ(accepted({}).checkpoints.style, std::nullopt);
}

TEST(TrainOptions, TakeTheDirectoryOfCheckpointsFromTheEnvironmentUnlessNothingIsKept) {
  ASSERT_EQ(::setenv("CHECKPOINT_DIR", "./checkpoints", 1), 0);
  const TrainOptions options = accepted({"--log-style", "crusoe"});
  EXPECT_EQ(options.checkpoints.style, CheckpointStyle::kCrusoe);
  EXPECT_EQ(options.checkpoints.directory, "./checkpoints");
  EXPECT_EQ(accepted({"--checkpoint-dir", "c"}).checkpoints.directory, "c");
  EXPECT_EQ(accepted({"--burn-in", "1"}).checkpoints.style, std::nullopt);
  EXPECT_EQ(accepted({"--evaluate", "e"}).checkpoints.style, std::nullopt);
  ASSERT_EQ(::setenv("CHECKPOINT_DIR", "", 1), 0);
  EXPECT_EQ(accepted({}).checkpoints.style, std::nullopt);
  ASSERT_EQ(::unsetenv("CHECKPOINT_DIR"), 0);
}

TEST(TrainOptions, SaveAndResumeTheFileOfTheOpenAccBootcamp) {
  const TrainOptions options = accepted({"--model_dir", "m", "--model_filename", "net.pth"});
  EXPECT_EQ(options.checkpoints.style, CheckpointStyle::kOpenAccWeights);
  EXPECT_EQ(options.checkpoints.directory, "m");
  EXPECT_EQ(options.checkpoints.file_name, "net.pth");
  EXPECT_EQ(options.checkpoints.every_epochs, 10);
  EXPECT_EQ(accepted({"--model_dir", "m"}).checkpoints.file_name, std::nullopt);
  EXPECT_EQ(accepted({"--model_filename", "n"}).checkpoints.directory, "checkpoints");
  EXPECT_THAT(
      refusal_of({"--model-filename", "a/b"}), HasSubstr("'a/b' is not the name of a file"));
  EXPECT_THAT(
      refusal_of({"--model-dir", "m", "--checkpoint-style", "mila"}),
      HasSubstr("--model-dir is for the files of --checkpoint-style openacc-weights, not of mila"));

  const std::string directory = testing::TempDir();
  const std::string name = "net." + std::to_string(::getpid());
  std::ofstream(directory + name) << "weights";
  const TrainOptions resumed =
      accepted({"--model-dir", directory.c_str(), "--model-filename", name.c_str(), "--resume"});
  EXPECT_EQ(resumed.pretrained, std::filesystem::path(directory) / name);
  EXPECT_EQ(resumed.snapshots.begun_with, std::nullopt);
  std::filesystem::remove(directory + name);
  EXPECT_EQ(
      refusal_of({"--model-dir", "/nowhere", "--resume"}),
      "--resume: '/nowhere/resnet_distributed.pth' does not exist; leave --resume out to start "
      "over");
}

TEST(TrainOptions, LetResumeAloneMeanTheRunsOwnSnapshots) {
  EXPECT_EQ(accepted({"--snapshot-dir", "s", "--resume"}).snapshots.begun_with, std::nullopt);
  EXPECT_EQ(accepted({"--resume", "--snapshot-dir", "s"}).snapshots.directory, "s");
  EXPECT_EQ(accepted({"--resume", "p"}).snapshots.begun_with, "p");
  EXPECT_EQ(accepted({"--resume=p", "epochs=2"}).snapshots.begun_with, "p");
  EXPECT_THAT(refusal_of({"--resume"}), HasSubstr("give one of them, or a path after --resume"));
}

TEST(TrainOptions, BeginWithTheWeightsThatTorchvisionHasDownloaded) {
  const std::string home = testing::TempDir() + "torch_home." + std::to_string(::getpid());
  ASSERT_EQ(::setenv("TORCH_HOME", home.c_str(), 1), 0);
  const std::string file = home + "/hub/checkpoints/vit_b_32-d86f8d99.pth";
  const std::vector<const char*> flags = {
      "--use_fake_data", "--model_name=vit_b_32", "--pretrained", "epochs=2"};
  EXPECT_EQ(
      refusal_of(flags),
      "--pretrained without a file needs the one that torchvision downloads, but '" + file +
          "' does not exist; download https://download.pytorch.org/models/vit_b_32-d86f8d99.pth to "
          "it, or give a file");
  std::filesystem::create_directories(home + "/hub/checkpoints");
  std::ofstream(file) << "weights";
  EXPECT_EQ(accepted(flags).pretrained, file);
  EXPECT_EQ(accepted(flags).epochs, 2);
  std::filesystem::remove_all(home);
  ASSERT_EQ(::unsetenv("TORCH_HOME"), 0);
  EXPECT_THAT(
      refusal_of({"--model", "convnet", "--pretrained"}),
      HasSubstr("is only for models of torchvision, not for convnet"));
  EXPECT_EQ(accepted({"--pretrained=f=1.pt"}).pretrained, "f=1.pt");
}

TEST(TrainOptions, TakeWhatOnlyPythonHas) {
  EXPECT_EQ(accepted({"--compile"}).compile, "default");
  EXPECT_EQ(accepted({"--compile=reduce-overhead"}).compile, "reduce-overhead");
  EXPECT_EQ(accepted({"--compile", "--epochs", "2"}).epochs, 2);
  EXPECT_EQ(accepted({"--compile="}).compile, std::nullopt);
  EXPECT_EQ(accepted({"--wandb-dir", "w", "--no_wandb"}).report.wandb_dir, std::nullopt);
  EXPECT_EQ(accepted({"--local_rank=3"}).local_rank, 3);
}

TEST(TrainOptions, TakeSeedsAsTorchDoes) {
  constexpr auto kMost = std::numeric_limits<std::uint64_t>::max();
  const TrainOptions options = accepted(
      {"--seed=18446744073709551615", "--sampler-seed=0", "--val-seed=18446744073709551615"});
  EXPECT_EQ(options.seed, kMost);
  EXPECT_EQ(options.data.validation_seed, kMost);
  EXPECT_EQ(accepted({"--sampler-seed=18446744073709551615"}).sampler_seed, kMost);
  EXPECT_THAT(
      refusal_of({"--sampler-seed=18446744073709551615", "--epochs=2"}),
      HasSubstr("the sum does not fit in 64 bits"));
  EXPECT_THAT(refusal_of({"--seed", "18446744073709551616"}), HasSubstr("0 to 2^64 - 1"));
  EXPECT_THAT(refusal_of({"--seed", "-1"}), HasSubstr("0 to 2^64 - 1"));
}

TEST(TrainOptions, TakeDigitsInGroupsAsPythonDoes) {
  EXPECT_EQ(accepted({"--limit_train_samples=50_000"}).data.limit_train, 50'000);
  EXPECT_EQ(accepted({"--limit-val-samples", "1_2_3"}).data.limit_test, 123);
  for (const char* text : {"_1", "1_", "1__0", "_", ""}) {
    EXPECT_THAT(refusal_of({"--epochs", text}), HasSubstr("is not a whole number")) << text;
  }
}

TEST(TrainOptions, MeasureEachEpochForAStyleWhoseFilesHaveTheBest) {
  for (const char* style : {"imagenet", "mila-cifar"}) {
    const auto options = accepted({"--checkpoint-dir", "c", "--checkpoint-style", style});
    EXPECT_EQ(options.snapshots.keeps_best, BestMetric::kAccuracy) << style;
    EXPECT_EQ(options.evaluate_every_epochs, 1) << style;
  }
  EXPECT_THAT(
      refusal_of({"--snapshot-dir", "s", "--keep-best", "loss", "--checkpoint-style", "imagenet"}),
      HasSubstr("--keep-best loss"));
}

TEST(TrainOptions, ProfileNothingUnlessAsked) {
  EXPECT_FALSE(accepted({}).profile.directory);
  EXPECT_FALSE(accepted({}).profile.captured_epoch);
  EXPECT_THAT(
      refusal_of({"--profile-schedule", "1,1,1,1"}),
      HasSubstr("--profile-schedule needs --profile DIR"));
  EXPECT_THAT(refusal_of({"--profile-epochs", "1"}), HasSubstr("needs --profile DIR"));
}

TEST(TrainOptions, ProfileAsTheSystemDoesWhoseLinesTheyPrint) {
  EXPECT_EQ(accepted({"--profile", "p"}).profile.schedule, ProfileSchedule());
  EXPECT_EQ(accepted({"--profile", "p"}).profile.epochs, 2);
  EXPECT_EQ(
      accepted({"--profile", "p", "--log-style", "crusoe-vit"}).profile.schedule, kCrusoeProfile);
  const TrainOptions options = accepted(
      {"--profile",
       "p",
       "--log-style",
       "crusoe",
       "--profile-schedule",
       "0,1,2,3",
       "--profile-epochs",
       "5"});
  EXPECT_EQ(
      options.profile.schedule,
      (ProfileSchedule{.wait = 0, .warmup = 1, .active = 2, .repeat = 3}));
  EXPECT_EQ(options.profile.epochs, 5);
  EXPECT_THAT(
      refusal_of({"--profile", "p", "--profile-schedule", "1,1"}),
      HasSubstr("--profile-schedule: '1,1' is not a schedule"));
}

TEST(TrainOptions, BurnInWithoutKeepingAnything) {
  EXPECT_FALSE(accepted({}).burn_in_hours);
  EXPECT_EQ(accepted({"--burn-in", "0.5"}).burn_in_hours, 0.5);
  EXPECT_EQ(accepted({"--hours", "4"}).burn_in_hours, 4);
  EXPECT_THAT(
      refusal_of({"--burn-in", "1", "--snapshot-dir", "s"}), HasSubstr("leave --snapshot-dir out"));
  EXPECT_THAT(
      refusal_of({"--burn-in", "1", "--checkpoint-style", "mila", "--checkpoint-dir", "c"}),
      HasSubstr("leave --checkpoint-style out"));
  EXPECT_THAT(refusal_of({"--burn-in", "1", "--evaluate", "e"}), HasSubstr("leave --evaluate out"));
  EXPECT_THAT(refusal_of({"--evaluate", "e", "--resume", "r"}), HasSubstr("leave one of them out"));
}

TEST(TrainOptions, TakeFlagsOfGpusWithAGpuAlone) {
  const TrainOptions options = accepted(
      {"--device", "cuda", "--tf32", "--cudnn-benchmark", "--epochs", "4", "--profile-epoch", "3"});
  EXPECT_EQ(options.device, DeviceKind::kCuda);
  EXPECT_TRUE(options.numerics.uses_tf32);
  EXPECT_TRUE(options.numerics.benchmarks_cudnn);
  EXPECT_EQ(options.profile.captured_epoch, 3);
  EXPECT_EQ(
      refusal_of({"--device", "cpu", "--tf32"}),
      "--tf32 is for GPUs, but this run is on the CPU; leave it out, or see --device");
  EXPECT_THAT(
      refusal_of({"--device", "cpu", "--cudnn-benchmark"}),
      HasSubstr("--cudnn-benchmark is for GPUs"));
  EXPECT_THAT(
      refusal_of({"--device", "cpu", "--profile-epoch", "0"}),
      HasSubstr("--profile-epoch is for GPUs"));
  EXPECT_EQ(
      refusal_of({"--device", "cuda", "--epochs", "3", "--profile-epoch", "3"}),
      "--profile-epoch 3: this run has epochs 0 to 2");
  EXPECT_THAT(
      refusal_of({"--evaluate", "e", "--profile", "p"}), HasSubstr("leave it or --profile out"));
}

TEST(TrainOptions, LeaveTheDeviceToTheMachine) {
  EXPECT_EQ(accepted({}).device, DeviceKind::kAuto);
  EXPECT_EQ(accepted({"--device", "cpu"}).device, DeviceKind::kCpu);
  EXPECT_TRUE(accepted({"--tf32"}).numerics.uses_tf32);  // it may have a GPU
}

TEST(TrainOptions, GuaranteeTheSameBitsOnlyIfNothingIsChosenByTheClock) {
  EXPECT_FALSE(accepted({}).numerics.is_deterministic);
  EXPECT_TRUE(accepted({"--deterministic"}).numerics.is_deterministic);
  EXPECT_THAT(
      refusal_of({"--device", "cuda", "--deterministic", "--cudnn-benchmark"}),
      HasSubstr("chooses by measured times"));
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

TEST(TrainOptions, HaveTheNamesOfTheirOriginals) {
  const std::vector<std::pair<std::vector<const char*>, std::vector<const char*>>> pairs = {
      {{"--dataset-path", "d"}, {"--data-dir", "d"}},
      {{"--val-seed", "7"}, {"--validation-seed", "7"}},
      {{"--model-name", "resnet18"}, {"--model", "resnet18"}},
      {{"--logging-interval", "20"}, {"--log-every", "20"}},
      {{"--num-epochs", "3"}, {"--epochs", "3"}},
      {{"--total-epochs", "3"}, {"--epochs", "3"}},
      {{"--random-seed", "9"}, {"--seed", "9"}},
      {{"--num-samples", "500"}, {"--fake-train-samples", "500"}},
      {{"--use-fake-data"}, {"--dataset", "fake"}},
      {{"--use-amp"}, {"--amp", "bf16"}},
  };
  const auto read = [](std::vector<const char*> flags) {
    const TrainOptions all = accepted(std::move(flags));
    return std::tuple(
        all.data,
        all.model.kind,
        all.report.every_steps,
        all.epochs,
        all.seed,
        all.sampler_seed,
        all.precision);
  };
  for (const auto& [theirs, ours] : pairs) {
    EXPECT_TRUE(read(theirs) == read(ours)) << theirs.front();
    EXPECT_FALSE(read(theirs) == read({})) << theirs.front();
  }
}

TEST(TrainOptions, LetAFlagThatStandsForAChoiceCountAsGivenLastToo) {
  EXPECT_EQ(accepted({"--amp", "fp16", "--use-amp"}).precision, Precision::kBFloat16);
  EXPECT_EQ(accepted({"--use-amp", "--amp", "fp16"}).precision, Precision::kFloat16);
  EXPECT_EQ(
      accepted({"--dataset=imagenet", "--data-dir=d", "--use-fake-data"}).data.kind,
      DatasetKind::kFake);
  EXPECT_EQ(accepted({"--use-fake-data", "--dataset=crusoe"}).data.kind, DatasetKind::kCrusoe);
  EXPECT_THAT(refusal_of({"--amp", "fp8", "--use-amp"}), HasSubstr("fp8"));
}

TEST(TrainOptions, TakeALimitOfZeroForNone) {
  const TrainOptions options = accepted({"--limit-train-samples", "0", "--limit-val-samples", "0"});
  EXPECT_TRUE(options.data == accepted({}).data);
}

class Config : public testing::Test {
 public:
  Config(const Config&) = delete;
  Config& operator=(const Config&) = delete;

 protected:
  Config() = default;
  ~Config() override { std::filesystem::remove(path_); }

  const char* file(const std::string& text) {
    std::ofstream(path_) << text;
    return path_.c_str();
  }

  std::string path_ = testing::TempDir() + "ddprun_config." + std::to_string(::getpid()) + ".yaml";
};

TEST_F(Config, HasFlagsWithoutTheirHyphens) {
  const TrainOptions options = accepted(
      {"--config",
       file("dataset: cifar10\ndata_dir: c  # a comment\nmodel: resnet18\nnesterov: true\n"
            "sync-bn: false\ninject: [kill@3, 'nan@4,rank=1']\n")});
  EXPECT_EQ(options.data.kind, DatasetKind::kCifar10);
  EXPECT_EQ(options.data.directory, "c");
  EXPECT_EQ(options.model.kind, ModelKind::kResnet18);
  EXPECT_EQ(options.model.image, (ImageShape{.channels = 3, .side = 32}));
  EXPECT_EQ(options.model.classes, 10);
  EXPECT_TRUE(options.optimizer.is_nesterov);
  EXPECT_FALSE(options.synchronises_batch_norm);
  EXPECT_EQ(options.injections.size(), 2);
}

TEST_F(Config, GivesWayToTheCommandLine) {
  const char* const config = file("epochs: 5\nbatch-size: 7\nseed: 3\n");
  const TrainOptions options = accepted({"--epochs=6", "--config", config, "batch_size=8"});
  EXPECT_EQ(options.epochs, 6);
  EXPECT_EQ(options.batch_size, 8);
  EXPECT_EQ(options.seed, 3);
}

TEST_F(Config, IsRefusedWithItsLine) {
  EXPECT_THAT(refusal_of({"--config", "/nowhere/x.yaml"}), HasSubstr("/nowhere/x.yaml"));
  EXPECT_THAT(
      refusal_of({"--config", file("epochs: 1\nmodel: {a: b}\n")}), HasSubstr("line 2: --model"));
  EXPECT_THAT(
      refusal_of({"--config", file("- epochs\n")}), HasSubstr("expected lines of 'flag: value'"));
  EXPECT_THAT(refusal_of({"--config", file("epochs: [1\n")}), HasSubstr("line"));
  EXPECT_THAT(
      refusal_of({"--config", file("config: other.yaml\n")}), HasSubstr("cannot include another"));
  EXPECT_THAT(
      refusal_of({"--config", file("epochs: 1\nsnapshot-dir: \"\"\n"), "--drop-last"}),
      HasSubstr("line 2: --snapshot-dir is empty"));
  EXPECT_THAT(refusal_of({"--config", file("")}), HasSubstr("line 1: expected lines"));
  EXPECT_THAT(
      refusal_of({"--config", file("epochs: 010\n")}), HasSubstr("'010' is not a whole number"));
  EXPECT_THAT(refusal_of({"--seed", "0x10"}), HasSubstr("'0x10' is not a whole number"));
  EXPECT_THAT(refusal_of({"--config", file("epoch: 1\n")}), HasSubstr("did you mean --epochs?"));
}

TEST(TrainOptions, AreToldInFullByTheManual) {
  std::stringstream text;
  text << std::ifstream(DDPRUN_TRAINING_MANUAL).rdbuf();
  const std::string manual = text.str();
  const auto printed = parse({"--help"});
  ASSERT_TRUE(printed);
  const std::string help = std::get<PrintAndLeave>(*printed).text;
  const std::regex flag("--[a-z][a-z0-9-]*");
  const auto flags_of = [&flag](const std::string& of) {
    return std::set<std::string>(std::sregex_token_iterator(of.begin(), of.end(), flag), {});
  };
  const std::set<std::string> documented = flags_of(manual);
  for (const std::string& one : flags_of(help)) {
    if (one == "--help" || one == "--version") continue;
    EXPECT_TRUE(documented.contains(one)) << "docs/training_flags.md does not tell of " << one;
  }
  const std::set<std::string> existing = flags_of(help);
  const std::regex row("\n\\| `(--[a-z0-9-]+)");
  for (auto at = std::sregex_iterator(manual.begin(), manual.end(), row);
       at != std::sregex_iterator();
       ++at) {
    EXPECT_TRUE(existing.contains((*at)[1])) << "ddptrain has no " << (*at)[1];
  }
}

TEST(CheckSameJob, LetsWhatMayChangeChange) {
  TrainOptions later;
  later.epochs = 9;
  later.batch_size = 1;
  later.optimizer.learning_rate = 0.5;
  EXPECT_TRUE(check_same_job(arguments_of_job(TrainOptions()), later));
}

TEST(ChangedSettings, TellsEachWithBothValues) {
  const TrainOptions saved;
  TrainOptions later;
  later.epochs = 9;
  later.clip_norm = 0.5;
  later.schedule.kind = ScheduleKind::kStep;
  EXPECT_EQ(changed_settings(settings_of_job(saved), saved), "");
  EXPECT_EQ(
      changed_settings(settings_of_job(saved), later),
      fmt::format(
          "--clip-norm 0.5 (was none), --epochs 9 (was {}), --schedule step (was constant)",
          saved.epochs));
}

TEST(ChangedSettings, KnowsWhatAScheduleIsMadeOf) {
  TrainOptions saved;
  saved.schedule.kind = ScheduleKind::kStep;
  TrainOptions later = saved;
  later.schedule.gamma = 0.5;
  later.schedule.warmup_epochs = 1;  // of other schedules
  EXPECT_EQ(
      changed_settings(settings_of_job(saved), later),
      fmt::format("--gamma 0.5 (was {})", saved.schedule.gamma));
}

TEST(ChangedSettings, SaysNothingOfWhatASnapshotDoesNotTell) {
  EXPECT_EQ(changed_settings({}, TrainOptions()), "");
}

TEST(CheckFlagsOfRank0, NamesTheFlagAndBothValues) {
  TrainOptions mine;
  EXPECT_TRUE(check_flags_of_rank_0(flags_of_job(TrainOptions()), mine));
  mine.batch_size = 5;
  const auto same = check_flags_of_rank_0(flags_of_job(TrainOptions()), mine);
  ASSERT_FALSE(same);
  EXPECT_EQ(
      same.error().detail,
      "this rank has --batch-size 5, but rank 0 has --batch-size 64; give all ranks the same "
      "flags");
}

TEST(CheckSameJob, NamesTheFlagAndBothValues) {
  TrainOptions later;
  later.data.limit_train = 7;
  const auto same = check_same_job(arguments_of_job(TrainOptions()), later);
  ASSERT_FALSE(same);
  EXPECT_THAT(
      same.error().detail, HasSubstr("saved with --limit-train-samples all, but this run has 7"));
}

TEST(CheckSameJob, ComparesAllThatDecidesWhatIsTrainedUnlessTheSnapshotIsTooOldToTell) {
  TrainOptions saved;
  saved.data.validation_share = 0.1;
  const auto complaint = [&saved](auto change) {
    TrainOptions later = saved;
    change(later);
    const auto same = check_same_job(arguments_of_job(saved), later);
    auto old = arguments_of_job(saved);
    for (const char* const flag :
         {"--drop-last",
          "--dropout",
          "--python-transforms",
          "--sync-bn",
          "--validation-seed",
          "--validation-split"})
      old.erase(flag);
    EXPECT_TRUE(check_same_job(old, later));
    return same ? "accepted" : same.error().detail;
  };
  EXPECT_THAT(
      complaint([](TrainOptions& later) { later.data.validation_seed = 7; }),
      HasSubstr("saved with --validation-seed 42, but this run has 7"));
  EXPECT_THAT(
      complaint([](TrainOptions& later) { later.data.is_stratified = true; }),
      HasSubstr("saved with --validation-split random, but this run has stratified"));
  EXPECT_THAT(
      complaint([](TrainOptions& later) { later.synchronises_batch_norm = true; }),
      HasSubstr("saved with --sync-bn off, but this run has on"));
  EXPECT_THAT(
      complaint([](TrainOptions& later) { later.data.drops_tail = true; }),
      HasSubstr("saved with --drop-last off, but this run has on"));
  EXPECT_THAT(
      complaint([](TrainOptions& later) { later.model.dropout = 0.5; }),
      HasSubstr("saved with --dropout the model's, but this run has 0.5"));
  EXPECT_THAT(
      complaint([](TrainOptions& later) { later.data.draws_as_python = true; }),
      HasSubstr("saved with --python-transforms off, but this run has on"));
  saved.data.validation_share = 0;
  EXPECT_EQ(complaint([](TrainOptions& later) { later.data.validation_seed = 7; }), "accepted");
}

TEST(CheckSameJob, LetsARunThatWentOutOfMemoryResumeAsItIsAdvisedTo) {
  TrainOptions later;
  later.batch_size = 32;
  later.accumulate = 2;
  EXPECT_TRUE(check_same_job(arguments_of_job(TrainOptions()), later));
  EXPECT_EQ(
      changed_settings(settings_of_job(TrainOptions()), later),
      "--accumulate 2 (was 1), --batch-size 32 (was 64)");
}

TEST(CheckSameJob, NamesTheSeedThatWasGivenRatherThanTheOneThatFollowsIt) {
  TrainOptions later;
  later.seed = later.sampler_seed = 1;
  const auto same = check_same_job(arguments_of_job(TrainOptions()), later);
  ASSERT_FALSE(same);
  EXPECT_THAT(same.error().detail, HasSubstr("saved with --seed 0, but this run has 1"));
}

TEST(CheckSameJob, LetsAnImportedSnapshotLeaveOutWhatItsFileDidNotTell) {
  std::map<std::string, std::string> saved = {{kImportedFrom, "a.pt"}};
  EXPECT_TRUE(check_same_job(saved, TrainOptions()));
  saved["--optimizer"] = "sgd";
  EXPECT_TRUE(check_same_job(saved, TrainOptions()));
  saved["--optimizer"] = "adamw";
  EXPECT_THAT(
      check_same_job(saved, TrainOptions()).error().detail,
      HasSubstr("saved with --optimizer adamw, but this run has sgd"));
}

TEST(CheckSameJob, LetsTheCpuResumeWhatAGpuSavedAndNotTheOtherWayRound) {
  TrainOptions gpu;
  gpu.device = DeviceKind::kCuda;
  EXPECT_TRUE(check_same_job(arguments_of_job(gpu), gpu));
  EXPECT_TRUE(check_same_job(arguments_of_job(gpu), TrainOptions()));
  const auto same = check_same_job(arguments_of_job(TrainOptions()), gpu);
  ASSERT_FALSE(same);
  EXPECT_THAT(same.error().detail, HasSubstr("saved with --device unknown, but this run has cuda"));
}

TEST(CheckSameJob, RefusesDataThatHaveGrown) {
  TrainOptions saved;
  TrainOptions later;
  later.train_samples = 21;
  EXPECT_TRUE(check_same_job(arguments_of_job(saved), later));  // as older ones are
  saved.train_samples = 18;
  const auto same = check_same_job(arguments_of_job(saved), later);
  ASSERT_FALSE(same);
  EXPECT_THAT(
      same.error().detail, HasSubstr("saved with training samples 18, but this run has 21"));
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
  EXPECT_THAT(
      text, HasSubstr("fashion-mnist,image-folder,imagenet,mnist,tiny-imagenet}=fashion-mnist"));
  EXPECT_THAT(text, HasSubstr("--optimizer TEXT:{adadelta,adagrad,adam,adamw,rmsprop,sgd}=sgd"));
}

}  // namespace
}  // namespace ddprun
