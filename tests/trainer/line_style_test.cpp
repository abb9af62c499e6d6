#include "trainer/core/line_style.hpp"

#include "base/file.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <optional>
#include <string>

namespace ddprun {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr Progress kAt{.epoch = 10, .step = 1234};
const MetricSums kTrainSums{.loss = 2250.0625, .correct = 785, .samples = 1000};
const MetricSums kValidationSums{.loss = 128, .correct = 27, .samples = 51};

EpochTrained trained() {
  return {
      .at = kAt,
      .sums = kTrainSums,
      .seconds = 1.25,
      .samples_per_s = 800.5,
      .learning_rate = 0.010000000000000002,
      .elapsed_s = 90,
      .eta_s = 1000};
}

StepDone step_of(std::int64_t batch, std::int64_t batches) {
  StepDone step;
  step.at = kAt;
  step.batch = batch;
  step.batches = batches;
  step.sums = {.loss = 9, .correct = 1, .samples = 4};
  step.samples_of_epoch = 25'600;
  step.samples_per_epoch = 45'000;
  step.learning_rate = 0.1;
  step.rates.samples_per_s = 704.85;
  return step;
}

RunBegan began(LineStyle style) {
  return {
      .at = {},
      .world = 4,
      .dataset = "cifar10",
      .data_dir = "./tiny-imagenet-200",
      .model = "vit_large",
      .parameters = 304'117'736,
      .trainable_parameters = 1'199'882,
      .train_samples = 45'000,
      .test_samples = 5'000,
      .seed = 42,
      .batch_size = 128,
      .batches_per_epoch = 88,
      .kernels = "AVX2",
      .torch = "2.11.0",
      .backends = {},
      .arguments =
          {{"epochs", std::int64_t{5}},
           {"batch_size", std::int64_t{64}},
           {"lr", 0.01},
           {"weight_decay", 1e-5},
           {"scale", 1e16},
           {"momentum", 1.0},
           {"data_dir", std::string("./data")},
           {"note", std::string("it's")},
           {"both", std::string("'\"\n\\")},
           {"amp", false},
           {"pretrained", true}},
      .tensorboard_dir = style == LineStyle::kKaust
                             ? std::optional<std::string>("runs/ddp_resnet50_20261122-074326")
                             : std::nullopt};
}

/// The events that the sections of line_style_expected.txt name.
ReportEvent event_of(std::string_view name, LineStyle style) {
  if (name == "began") return began(style);
  if (name == "resumed") return RunResumed{.at = kAt, .samples = 157'952};
  if (name == "epoch") return EpochBegan{.at = kAt};
  if (name == "step") return step_of(50, 88);
  if (name == "trained") return trained();
  if (name == "validated") {
    return EpochValidated{
        .trained = trained(),
        .sums = kValidationSums,
        .correct_top5 = 45,
        .batch_loss_sum = 50.8125,
        .seconds = 0.5,
        .epoch_seconds = 1.75};
  }
  if (name == "snapshot") {
    return SnapshotSaved{.at = kAt, .path = "./checkpoints/checkpoint_epoch_10.pt"};
  }
  if (name == "stopped") return RunStopped{.at = kAt};
  EXPECT_EQ(name, "ended");
  return RunEnded{
      .at = kAt,
      .sums = kValidationSums,
      .weights_sha256 = "ab12",
      .seconds = 62.68,
      .samples = 45'000,
      .samples_per_s = 704.85,
      .peak_tensor_bytes = 123'456'789,
      .peak_rss_bytes = 987'654'321};
}

LineContext context_of(LineStyle style) {
  LineContext context{.style = style, .world = 4, .first_epoch = 8, .epochs = 30};
  if (style == LineStyle::kCrusoeMnist) context.step_every = 50;
  return context;
}

/// Section → its lines, each with its line break.
std::map<std::string, std::string> expected_sections() {
  const auto file = read_file(DDPRUN_LINE_STYLE_EXPECTED, 1'000'000);
  EXPECT_TRUE(file.has_value());
  std::map<std::string, std::string> sections;
  std::string* section = nullptr;
  std::string_view rest = file.has_value() ? std::string_view(*file) : std::string_view();
  while (!rest.empty()) {
    const std::size_t end = rest.find('\n');
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(end + 1);
    if (line.starts_with("== ")) {
      section = &sections[std::string(line.substr(3))];
    } else {
      *section += fmt::format("{}\n", line);
    }
  }
  return sections;
}

TEST(LineStyle, EachLineIsWhatPythonWritesForIt) {
  const auto sections = expected_sections();
  EXPECT_GT(sections.size(), 35U);
  for (const auto& [title, expected] : sections) {
    SCOPED_TRACE(title);
    const std::size_t space = title.find(' ');
    const auto style = parse_line_style(title.substr(0, space), "", "");
    ASSERT_TRUE(style.has_value());
    std::string lines;
    for (const std::string& line :
         lines_of(event_of(title.substr(space + 1), *style), context_of(*style))) {
      lines += line + "\n";
    }
    EXPECT_EQ(lines, expected);
  }
}

TEST(LineStyle, TheDataSetTellsMilasFormsApartAndTheModelCrusoes) {
  EXPECT_EQ(*parse_line_style("mila", "cifar10", "resnet18"), LineStyle::kMilaCifar);
  EXPECT_EQ(*parse_line_style("mila", "imagenet", "resnet18"), LineStyle::kMilaImagenet);
  EXPECT_EQ(*parse_line_style("crusoe", "mnist", "simple_conv_net"), LineStyle::kCrusoeMnist);
  EXPECT_EQ(*parse_line_style("crusoe", "fake", "vit_large"), LineStyle::kCrusoeVit);
}

TEST(LineStyle, AnUnknownNameIsRefusedWithThoseThatAreKnown) {
  const auto style = parse_line_style("milla", "", "");
  ASSERT_FALSE(style.has_value());
  EXPECT_EQ(
      style.error().detail,
      "log style 'milla': not one of crusoe, crusoe-mnist, crusoe-vit, kaust, mila, mila-cifar, "
      "mila-imagenet, openacc, plain");
}

TEST(LineStyle, StepsAreToldAtTheFirstEachNthAndTheLast) {
  std::vector<std::int64_t> told;
  for (std::int64_t batch = 1; batch <= 50; ++batch) {
    if (is_step_reported(batch, 50, 20)) told.push_back(batch);
  }
  EXPECT_THAT(told, ElementsAre(1, 20, 40, 50));
  EXPECT_FALSE(is_step_reported(1, 50, 0));
}

TEST(LineStyle, OtherRanksSayOnlyWhatTheSystemHasThemSay) {
  LineContext context{.style = LineStyle::kPlain, .rank = 3, .local_rank = 1, .world = 4};
  context.step_every = 1;
  for (const char* const name :
       {"began",
        "resumed",
        "epoch",
        "step",
        "trained",
        "validated",
        "snapshot",
        "stopped",
        "ended"}) {
    for (const LineStyle style :
         {LineStyle::kPlain,
          LineStyle::kMilaImagenet,
          LineStyle::kCrusoeMnist,
          LineStyle::kCrusoeVit,
          LineStyle::kKaust}) {
      context.style = style;
      const bool is_told_by_all =
          style == LineStyle::kMilaImagenet &&
          (std::string_view(name) == "began" || std::string_view(name) == "ended");
      EXPECT_EQ(lines_of(event_of(name, style), context).empty(), !is_told_by_all) << name;
    }
  }
  context.style = LineStyle::kMilaCifar;
  EXPECT_THAT(lines_of(RunEnded(), context), ElementsAre("Done!"));
  EXPECT_THAT(lines_of(event_of("validated", context.style), context), IsEmpty());
  context.style = LineStyle::kOpenacc;
  EXPECT_THAT(
      lines_of(EpochBegan{.at = kAt}, context),
      ElementsAre("Local Rank: 1, Epoch: 10, Training ..."));
  EXPECT_THAT(lines_of(event_of("validated", context.style), context), IsEmpty());
}

TEST(LineStyle, OpenaccTellsOfEachTestedEpochOnceOnEachNode) {
  LineContext context{.style = LineStyle::kOpenacc, .rank = 2, .local_rank = 0, .world = 4};
  auto event = std::get<EpochValidated>(event_of("validated", context.style));
  event.trained.at.epoch = 9;  // the tester of a snapshot needs it
  EXPECT_EQ(lines_of(event, context).size(), 3U);
  context.local_rank = 1;
  EXPECT_THAT(lines_of(event, context), IsEmpty());
}

TEST(LineStyle, OfEveryNameTellsWhatAnEvaluationFound) {
  RunEnded ended = std::get<RunEnded>(event_of("ended", LineStyle::kPlain));
  ended.is_evaluation = true;
  for (const std::string& name : line_style_names()) {
    LineContext context{.style = *parse_line_style(name, "", ""), .world = 4};
    EXPECT_THAT(
        lines_of(ended, context),
        ElementsAre("final epoch=10 step=1234 loss=2.509804 accuracy=52.9412 weights_sha256=ab12"))
        << name;
    context.rank = 1;
    EXPECT_THAT(lines_of(ended, context), IsEmpty()) << name;
  }
}

TEST(LineStyle, EachVerbosityTellsMore) {
  LineContext context;
  EXPECT_THAT(lines_of(step_of(20, 50), context), IsEmpty());
  context.verbosity = Verbosity::kInfo;
  EXPECT_THAT(
      lines_of(step_of(20, 50), context),
      ElementsAre("step epoch=10 step=1234 batch=20/50 loss=2.250000 learning_rate=0.1 "
                  "samples_per_s=704.9"));
  EXPECT_THAT(lines_of(step_of(21, 50), context), IsEmpty());
  context.verbosity = Verbosity::kDebug;
  EXPECT_EQ(lines_of(step_of(20, 50), context).size(), 2U);
  context.rank = 1;
  EXPECT_THAT(lines_of(step_of(20, 50), context), IsEmpty());
  context.verbosity = Verbosity::kEveryRank;
  EXPECT_THAT(
      lines_of(step_of(20, 50), context),
      ElementsAre("rank=1 epoch=10 step=1234 loss=2.250000 data_s=0.000000 copy_s=0.000000 "
                  "compute_s=0.000000 optimizer_s=0.000000 snapshot_s=0.000000 other_s=0.000000 "
                  "total_s=0.000000 peak_rss_bytes=0"));
  context.rank = 0;
  EXPECT_EQ(lines_of(step_of(20, 50), context).size(), 3U);
}

TEST(LineStyle, AStepsLineHasWhatIsKnownOfIt) {
  StepDone step = step_of(1, 50);
  step.grad_norm = 1.334958;
  step.rates.eta_s = 3661;
  step.rates.tokens_per_s = 1000;
  step.rates.tflops = 1.5;
  step.rates.mfu = 0.375;
  LineContext context{.step_every = 7};
  context.style = LineStyle::kMilaImagenet;
  EXPECT_THAT(
      lines_of(step, context),
      ElementsAre("[1/1] - step epoch=10 step=1234 batch=1/50 loss=2.250000 learning_rate=0.1 "
                  "samples_per_s=704.9 eta=1h01m01s grad_norm=1.3350 tokens_per_s=1000 "
                  "tflops=1.500 mfu=37.50%"));
}

TEST(LineStyle, ThePhasesOfAStepAddUpToItsTime) {
  StepDone step = step_of(1, 1);
  step.phases = {
      .data_s = 0.5,
      .copy_s = 0.25,
      .compute_s = 2,
      .optimizer_s = 1,
      .snapshot_s = 0.5,
      .other_s = 0.125};
  LineContext const context{.verbosity = Verbosity::kDebug};
  EXPECT_EQ(
      lines_of(step, context).back(),
      "phases epoch=10 step=1234 data_s=0.500000 copy_s=0.250000 compute_s=2.000000 "
      "optimizer_s=1.000000 snapshot_s=0.500000 other_s=0.125000 total_s=4.375000");
}

TEST(LineStyle, ALossThatIsNoNumberHasNoSign) {
  auto event = std::get<EpochTrained>(event_of("trained", LineStyle::kCrusoeMnist));
  event.sums = {.loss = -std::numeric_limits<double>::quiet_NaN(), .samples = 1};
  EXPECT_EQ(
      lines_of(event, {.style = LineStyle::kCrusoeMnist}).front(),
      "Epoch 10 - Avg Loss: nan, Accuracy: 0.00%");
}

TEST(RankLog, PrefixesEachLineWithTheRankFromOne) {
  EXPECT_EQ(prefixed_lines(0, 2, "a\nb\n"), "[1/2] - a\n[1/2] - b\n");
  EXPECT_EQ(prefixed_lines(1, 2, "a"), "[2/2] - a\n");
  EXPECT_EQ(prefixed_lines(1, 2, ""), "[2/2] - \n");
}

TEST(RankLog, MoreFlagsThanLevelsMeanTheLast) {
  EXPECT_EQ(verbosity_of(0), Verbosity::kWarning);
  EXPECT_EQ(verbosity_of(2), Verbosity::kDebug);
  EXPECT_EQ(verbosity_of(9), Verbosity::kEveryRank);
}

}  // namespace
}  // namespace ddprun
