// The journal on real files: their content, and a disk that does not respond.

#include "agent/journal.hpp"

#include "base/file.hpp"
#include "base/log.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <future>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include <unistd.h>

namespace ddprun {
namespace {

using namespace std::chrono_literals;

class JournalTest : public testing::Test {
 public:
  JournalTest(const JournalTest&) = delete;
  JournalTest& operator=(const JournalTest&) = delete;

 protected:
  JournalTest() {
    std::filesystem::create_directory(room_);
    EXPECT_TRUE(start_log("journal_test", ""));
    log_to([this](std::string_view lines) { reported_ += lines; });
  }
  ~JournalTest() override {
    log_to({});
    std::filesystem::remove_all(room_);
  }

  std::unique_ptr<Journal> open() { return Journal::open(path_).value(); }

  static JournalEntry entry(const char* event) {
    JournalEntry entry;
    entry.event = event;
    entry.at = Clock::now();
    return entry;
  }

  std::filesystem::path room_ = std::filesystem::temp_directory_path() /
                                ("ddprun_journal_test_" + std::to_string(::getpid()));
  std::filesystem::path path_ = room_ / kJournalName;
  std::string reported_;
};

TEST_F(JournalTest, WritesItsLinesInOrder) {
  const auto journal = open();
  for (int i = 0; i < 100; ++i)
    journal->record(entry("worker_started"));
  journal->record(entry("job_ended"));
  EXPECT_TRUE(journal->flush(Clock::now() + 60s));
  const std::string content = read_file(path_, 1 << 20).value();
  EXPECT_THAT(content, testing::StartsWith("{\"sequence\":1,"));
  EXPECT_THAT(content, testing::HasSubstr("\n{\"sequence\":101,"));
  EXPECT_EQ(std::ranges::count(content, '\n'), 101);
}

/// Reports its destruction, so that a test notices the end of a thread that is never joined.
struct LastBreath {
  std::promise<void> vote;
  LastBreath() = default;
  LastBreath(const LastBreath&) = delete;
  LastBreath& operator=(const LastBreath&) = delete;
  ~LastBreath() { vote.set_value(); }
};

TEST_F(JournalTest, AbandonsADiskThatDoesNotRespond) {
  auto const disk = std::make_shared<std::promise<void>>();
  auto breath = std::make_shared<LastBreath>();
  auto const began = std::make_shared<std::promise<void>>();
  const std::future<void> gone = breath->vote.get_future();
  {
    const auto journal = open();
    journal->post([began, answer = disk->get_future().share(), breath = std::move(breath)] {
      began->set_value();
      answer.wait();
    });
    journal->record(entry("job_ended"));
    began->get_future().wait();
    EXPECT_FALSE(journal->flush(Clock::now()));
  }
  disk->set_value();
  gone.wait();
  EXPECT_EQ(read_file(path_, 1 << 20).value(), "") << "the journal is gone, and began a task";
}

TEST_F(JournalTest, ReportsInOrderWhateverIsReadBefore) {
  const auto journal = open();
  journal->report_read(
      [] {
        std::this_thread::sleep_for(10ms);  // reads a disk
        return std::string("====\njournal_test: failed\n  next: nothing\n");
      },
      [] { return std::string("the disk does not respond\n"); });
  journal->report("the job ends");
  journal->report_lines("");
  journal->report_lines("{}\n");
  EXPECT_TRUE(journal->flush(Clock::now() + 60s));
  EXPECT_EQ(
      reported_, "====\njournal_test: failed\n  next: nothing\njournal_test: the job ends\n{}\n");
}

TEST_F(JournalTest, ReportsThoughTheDiskDoesNotRespond) {
  const auto disk = std::make_shared<std::promise<void>>();
  const auto journal = open();
  journal->post([answer = disk->get_future().share()] { answer.wait(); });
  journal->report_read(
      [] { return std::string("read\n"); },
      [] { return std::string("failed; the disk does not respond\n"); });
  journal->report("the job restarts");
  EXPECT_FALSE(journal->flush(Clock::now() + 4s));
  EXPECT_EQ(reported_, "failed; the disk does not respond\njournal_test: the job restarts\n");
  disk->set_value();
}

TEST_F(JournalTest, StillReportsIfNoFileCanBeWritten) {
  path_ = room_ / "no" / "such" / "directory";
  const auto journal = open();
  EXPECT_TRUE(journal->flush(Clock::now() + 60s));
  EXPECT_THAT(reported_, testing::StartsWith("journal_test: cannot write "));
  EXPECT_THAT(reported_, testing::EndsWith("; no more events are recorded\n"));
  reported_.clear();
  journal->record(entry("job_started"));
  journal->report("the job has started");
  EXPECT_TRUE(journal->flush(Clock::now() + 60s));
  EXPECT_EQ(reported_, "journal_test: the job has started\n");
}

}  // namespace
}  // namespace ddprun
