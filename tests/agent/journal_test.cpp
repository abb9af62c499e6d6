// The journal on real files: their content, and a disk that does not respond.

#include "agent/journal.hpp"

#include "agent/console.hpp"
#include "base/file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <future>
#include <memory>
#include <string>
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
  JournalTest() { std::filesystem::create_directory(room_); }
  ~JournalTest() override { std::filesystem::remove_all(room_); }

  std::unique_ptr<Journal> open() {
    return Journal::open(path_, consoles_->of(STDERR_FILENO).value()).value();
  }

  static JournalEntry entry(const char* event) {
    JournalEntry entry;
    entry.event = event;
    entry.at = Clock::now();
    return entry;
  }

  std::filesystem::path room_ = std::filesystem::temp_directory_path() /
                                ("ddprun_journal_test_" + std::to_string(::getpid()));
  std::filesystem::path path_ = room_ / kJournalName;
  std::unique_ptr<Consoles> consoles_ = Consoles::create().value();
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
    journal->report([began, answer = disk->get_future().share(), breath = std::move(breath)] {
      began->set_value();
      answer.wait();
      return std::string();
    });
    journal->record(entry("job_ended"));
    began->get_future().wait();
    EXPECT_FALSE(journal->flush(Clock::now()));
  }
  disk->set_value();
  gone.wait();
  EXPECT_EQ(read_file(path_, 1 << 20).value(), "") << "the journal is gone, and began a task";
}

TEST_F(JournalTest, StillReportsIfNoFileCanBeWritten) {
  path_ = room_ / "no" / "such" / "directory";
  const auto journal = open();
  bool told = false;
  journal->record(entry("job_started"));
  journal->report([&told] {
    told = true;
    return std::string();
  });
  EXPECT_TRUE(journal->flush(Clock::now() + 60s));
  EXPECT_TRUE(told);
}

}  // namespace
}  // namespace ddprun
