#include "trainer/report_files.hpp"

#include "base/descriptor.hpp"
#include "base/file.hpp"
#include "trainer/checkpoints_link.hpp"
#include "trainer/core/proc_status.hpp"
#include "trainer/memory_use.hpp"
#include "trainer/progress_bar.hpp"
#include "trainer/run_report.hpp"

#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <string>

#include <fcntl.h>
#include <pty.h>
#include <unistd.h>

namespace ddprun {
namespace {

namespace fs = std::filesystem;

constexpr double kNow = 1'700'000'001;

/// A directory of this test, and a run in it.
class ReportFilesTest : public testing::Test {
 public:
  ReportFilesTest(const ReportFilesTest&) = delete;
  ReportFilesTest& operator=(const ReportFilesTest&) = delete;

 protected:
  ReportFilesTest() {
    std::string name = (fs::temp_directory_path() / "ddprun-report-XXXXXX").string();
    directory_ = ::mkdtemp(name.data());
  }
  ~ReportFilesTest() override { fs::remove_all(directory_); }

  std::string path(const std::string& name) const { return (directory_ / name).string(); }
  std::string content(const std::string& name) const {
    const auto read = read_file(directory_ / name, 1'000'000);
    return read.has_value() ? *read : "(" + read.error().detail + ")";
  }
  static StepDone step() {
    StepDone step;
    step.batch = 1;
    step.batches = 1;
    step.sums = {.loss = 1, .correct = 1, .samples = 1};
    return step;
  }

  fs::path directory_;
};

TEST_F(ReportFilesTest, ARestartAppendsAndTheHeaderOfACsvFileStandsThereOnce) {
  ReportFileOptions options;
  options.csv_file = path("run.csv");
  options.metrics_file = path("run.jsonl");
  for (int attempt = 0; attempt < 2; ++attempt) {
    auto files = ReportFiles::open(options, kNow);
    ASSERT_TRUE(files.has_value());
    EXPECT_TRUE(files->write(RunStopped{.at = {.epoch = 1, .step = 2}}, kNow).has_value());
  }
  const std::string csv = content("run.csv");
  EXPECT_EQ(csv.find("event,time_s,epoch,step,"), 0U);
  EXPECT_EQ(csv.find("event,", 1), std::string::npos);
  const std::string record =
      "{\"event\":\"stopped\",\"time_s\":1700000001.0,\"epoch\":1,\"step\":2,"
      "\"signal\":\"SIGTERM\"}\n";
  EXPECT_EQ(content("run.jsonl"), record + record);
}

TEST_F(ReportFilesTest, OnlyTheMetricsFileEndsARunThatCannotWriteIt) {
  ReportFileOptions options;
  options.metrics_file = path("missing/run.jsonl");
  EXPECT_TRUE(ReportFiles::open(options, kNow).error().is(Errc::kNotFound));

  options = {};
  options.csv_file = path("missing/run.csv");
  options.tensorboard_dir = "/dev/null/runs";
  options.wandb = {
      .directory = "/dev/null",
      .run_id = {},
      .project = {},
      .group = {},
      .run_name = {},
      .environment = {}};
  auto files = ReportFiles::open(options, kNow);
  ASSERT_TRUE(files.has_value());
  EXPECT_TRUE(files->write(step(), kNow).has_value());
}

TEST_F(ReportFilesTest, AFileThatFailsLaterIsNamedOnce) {
  ReportFileOptions options;
  options.csv_file = "/dev/full";
  options.tensorboard_dir = path("runs");
  testing::internal::CaptureStderr();
  auto files = ReportFiles::open(options, kNow);
  ASSERT_TRUE(files.has_value());
  EXPECT_TRUE(files->write(step(), kNow).has_value());
  EXPECT_TRUE(files->write(step(), kNow).has_value());
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(
      said,
      "ddptrain: --csv-file: /dev/full: No space left on device; nothing more is written there, "
      "training continues\n");
}

TEST_F(ReportFilesTest, AFullDiskUnderTheMetricsFileIsAnError) {
  ReportFileOptions options;
  options.metrics_file = "/dev/full";
  auto files = ReportFiles::open(options, kNow);
  ASSERT_TRUE(files.has_value());
  EXPECT_TRUE(files->write(step(), kNow).error().is(Errc::kIo));
}

TEST_F(ReportFilesTest, AnOfflineRunLiesWhereWandbLooksForIt) {
  ReportFileOptions options;
  options.wandb = {
      .directory = directory_.string(),
      .run_id = "abc",
      .project = {},
      .group = {},
      .run_name = {},
      .environment = {}};
  for (int run = 0; run < 2; ++run) {
    ASSERT_TRUE(ReportFiles::open(options, kNow).has_value());
  }
  int runs = 0;
  for (const auto& entry : fs::directory_iterator(directory_ / "wandb")) {
    ++runs;
    EXPECT_EQ(entry.path().filename().string().find("offline-run-2023111"), 0U);
    EXPECT_TRUE(fs::is_regular_file(entry.path() / "run-abc.wandb"));
    EXPECT_TRUE(fs::is_directory(entry.path() / "files"));
  }
  EXPECT_EQ(runs, 2) << "the second of one second took the next";
}

TEST_F(ReportFilesTest, TheCheckpointsLinkFollowsTheRunAndSparesWhatIsNoLink) {
  const fs::path link = directory_ / "checkpoints";
  fs::create_directory(directory_ / "one");
  fs::create_directory(directory_ / "two");
  EXPECT_TRUE(link_checkpoints(directory_ / "one", link).has_value());
  EXPECT_TRUE(link_checkpoints(directory_ / "two", link).has_value());
  EXPECT_EQ(fs::read_symlink(link), directory_ / "two");
  EXPECT_TRUE(link_checkpoints(link, link).has_value()) << "a run that saves in ./checkpoints";
  EXPECT_EQ(fs::read_symlink(link), directory_ / "two");

  EXPECT_TRUE(link_checkpoints(link / "run7", link).error().is(Errc::kIo)) << "into itself";
  EXPECT_EQ(fs::read_symlink(link), directory_ / "two");

  fs::remove(link);
  fs::create_directory(link);
  EXPECT_TRUE(link_checkpoints(directory_ / "one", link).error().is(Errc::kIo));
  EXPECT_TRUE(fs::is_directory(fs::symlink_status(link)));
}

TEST_F(ReportFilesTest, OnlyRankZeroWritesFiles) {
  ReportFileOptions options;
  options.metrics_file = path("run.jsonl");
  options.csv_file = path("run.csv");
  auto report = RunReport::open({.rank = 1, .world = 2}, options);
  ASSERT_TRUE(report.has_value());
  testing::internal::CaptureStdout();
  EXPECT_TRUE(report->record(RunEnded()).has_value());
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
  EXPECT_TRUE(fs::is_empty(directory_));
}

TEST_F(ReportFilesTest, RankZeroPrintsTheLineAndRecordsTheEvent) {
  ReportFileOptions options;
  options.metrics_file = path("run.jsonl");
  auto report = RunReport::open({}, options);
  ASSERT_TRUE(report.has_value());
  testing::internal::CaptureStdout();
  EXPECT_TRUE(report->record(RunStopped{.at = {.epoch = 1, .step = 2}}).has_value());
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "stopped epoch=1 step=2\n");
  EXPECT_EQ(content("run.jsonl").find("{\"event\":\"stopped\",\"time_s\":"), 0U);
}

/// Replaces a stream by `file` for a while.
class Replaced {
 public:
  Replaced(int stream, int file) : stream_(stream), kept_(::dup(stream)) { ::dup2(file, stream); }
  ~Replaced() {
    ::dup2(kept_, stream_);
    ::close(kept_);
  }
  Replaced(const Replaced&) = delete;
  Replaced& operator=(const Replaced&) = delete;

 private:
  int stream_;
  int kept_;
};

TEST_F(ReportFilesTest, OfAllLinesOnlyTheLastMustNotBeLost) {
  auto report = RunReport::open({}, {});
  ASSERT_TRUE(report.has_value());
  const Descriptor full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  const Replaced stdout_is_full(STDOUT_FILENO, full.get());
  EXPECT_TRUE(report->record(RunStopped()).has_value());
  EXPECT_TRUE(report->record(RunEnded()).error().is(Errc::kIo));
}

TEST(ProgressBar, DrawsOnATerminalAndClearsWhatItDrew) {
  int terminal = -1;
  int ours = -1;
  ASSERT_EQ(::openpty(&terminal, &ours, nullptr, nullptr, nullptr), 0);
  const Descriptor close_terminal(terminal);
  const Descriptor close_ours(ours);
  {
    const Replaced stderr_is_a_terminal(STDERR_FILENO, ours);
    ProgressBar bar(true, BarStyle::kPlain);
    bar.show({.steps_done = 1, .steps = 2, .loss = 0.5});
    bar.clear();
    ProgressBar unwanted(false, BarStyle::kPlain);
    unwanted.show({.steps_done = 1, .steps = 2, .loss = 0.5});
  }
  const std::string expected =
      "\repoch 0 [###############...............] 1/2 loss 0.5000\x1b[K\r\x1b[K";
  std::string shown;
  std::array<char, 1000> piece{};
  while (shown.size() < expected.size()) {  // a terminal passes its input on in pieces
    const auto size = ::read(terminal, piece.data(), piece.size());
    ASSERT_GT(size, 0);
    shown.append(piece.data(), static_cast<std::size_t>(size));
  }
  EXPECT_EQ(shown, expected);
}

TEST(ProgressBar, DrawsNothingWhereStderrIsNoTerminal) {
  testing::internal::CaptureStderr();
  ProgressBar bar(true, BarStyle::kPlain);
  bar.show({.steps_done = 2, .steps = 2, .loss = 0.5});
  bar.clear();
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST(PeakRss, IsReadFromTheStatusOfAProcess) {
  EXPECT_EQ(
      *parse_peak_rss("Name:\tx\nVmPeak:\t   9 kB\nVmHWM:\t  1234 kB\nVmRSS:\t 1 kB\n"), 1'263'616);
  EXPECT_TRUE(parse_peak_rss("Name:\tkthreadd\n").error().is(Errc::kCorrupt));
  EXPECT_TRUE(parse_peak_rss("VmHWM:\n").error().is(Errc::kCorrupt));
  EXPECT_TRUE(parse_peak_rss("VmHWM:\t12 MB\n").error().is(Errc::kCorrupt));
  EXPECT_TRUE(parse_peak_rss("VmHWM:\t-12 kB\n").error().is(Errc::kCorrupt));
  EXPECT_TRUE(parse_peak_rss("VmHWM:\t99999999999999999 kB\n").error().is(Errc::kCorrupt));
}

TEST(PeakRss, OfThisTestIsMoreThanAMebibyte) {
  const auto peak = peak_rss_bytes();
  ASSERT_TRUE(peak.has_value());
  EXPECT_GT(*peak, 1 << 20);
}

}  // namespace
}  // namespace ddprun
