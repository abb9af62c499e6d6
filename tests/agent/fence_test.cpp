// The fence on real files: which node wins, which learns of it, and which files are left.

#include "agent/fence.hpp"

#include "base/check.hpp"
#include "base/descriptor.hpp"
#include "base/file.hpp"
#include "base/task_scope.hpp"

#include <boost/asio/co_spawn.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <latch>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

/// What this test's thread has synced to the disk so far, in order.
std::vector<std::string>& synced_paths() {
  thread_local std::vector<std::string> paths;
  return paths;
}

/// Whether the next link() succeeds and is reported as failed.
thread_local bool loses_reply = false;

}  // namespace

// These override libc's functions in this program.

/// An NFS client whose server's reply is lost repeats the request, and is told that the name is
/// taken.
extern "C" int link(const char* from, const char* to) {
  if (::linkat(AT_FDCWD, from, AT_FDCWD, to, 0) != 0) return -1;
  if (!std::exchange(loses_reply, false)) return 0;
  errno = EEXIST;
  return -1;
}

extern "C" int fsync(int descriptor) {
  std::error_code ignored;
  const auto link = std::filesystem::path("/proc/self/fd") / std::to_string(descriptor);
  synced_paths().push_back(std::filesystem::read_symlink(link, ignored).filename());
  return static_cast<int>(::syscall(SYS_fsync, descriptor));
}

namespace ddprun {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr auto kInstance = Incarnation{0xabc};
constexpr char kJob[] = "job7";

effects::ClaimFence claim_of(std::uint64_t node, RoundId voters = {1, 1}) {
  return {.instance = kInstance, .round = voters, .node = Incarnation{node}};
}

class FenceTest : public testing::Test {
 public:
  FenceTest(const FenceTest&) = delete;
  FenceTest& operator=(const FenceTest&) = delete;

 protected:
  FenceTest() { fs::create_directory(room_); }
  ~FenceTest() override { fs::remove_all(room_); }

  std::uint64_t claim(std::uint64_t node, RoundId voters = {1, 1}) const {
    return static_cast<std::uint64_t>(claim_fence(room_, kJob, claim_of(node, voters)).value());
  }
  std::set<std::string> files() const {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(room_))
      names.insert(entry.path().filename());
    return names;
  }

  fs::path room_ = fs::temp_directory_path() / ("ddprun_fence_test_" + std::to_string(::getpid()));
};

TEST_F(FenceTest, IsTheFileOfAVoterSetWithItsHolder) {
  EXPECT_EQ(claim(0x1f, {3, 2}), 0x1fU);
  EXPECT_EQ(files(), std::set<std::string>{"job7-0000000000000abc-3-2.fence"});
  EXPECT_EQ(
      read_file(room_ / "job7-0000000000000abc-3-2.fence", 100).value(), "000000000000001f\n");
}

TEST_F(FenceTest, HasANameThatLeadsNowhereElseAndIsNotTooLong) {
  EXPECT_EQ(fence_file_name("../a b", claim_of(1)), ".._a b-0000000000000abc-1-1.fence");
  const effects::ClaimFence long_one = {
      .instance = Incarnation{~0ULL}, .round = {INT64_MAX, INT64_MAX}, .node = Incarnation{~0ULL}};
  EXPECT_EQ(claim_fence(room_, std::string(1024, 'j'), long_one).value(), Incarnation{~0ULL});
}

TEST_F(FenceTest, IsHeldByTheFirstHoweverOftenItIsClaimed) {
  EXPECT_EQ(claim(1), 1U);
  EXPECT_EQ(claim(2), 1U);
  EXPECT_EQ(claim(1), 1U);
  EXPECT_EQ(claim(2), 1U);
  EXPECT_EQ(files().size(), 1U);
}

TEST_F(FenceTest, IsOnTheDiskWithItsNameBeforeAnybodyHasIt) {
  synced_paths().clear();
  claim(1);
  const auto file = "job7-0000000000000abc-1-1.fence." + std::string("0000000000000001-");
  ASSERT_EQ(synced_paths().size(), 2U);
  EXPECT_THAT(synced_paths()[0], testing::StartsWith(file));
  EXPECT_EQ(synced_paths()[1], room_.filename());
  // Its maker may have died before it synced the file.
  synced_paths().clear();
  claim(2);
  EXPECT_EQ(synced_paths(), std::vector<std::string>{room_.filename()});
}

TEST_F(FenceTest, IsHeldByWhoMadeItThoughNfsLostTheReply) {
  loses_reply = true;
  EXPECT_EQ(claim(1), 1U);
  EXPECT_FALSE(loses_reply);
  EXPECT_EQ(claim(2), 1U);
  EXPECT_EQ(files().size(), 1U);
}

TEST_F(FenceTest, IsAnotherForEachVoterSetAndEachInstance) {
  EXPECT_EQ(claim(1, {1, 1}), 1U);
  EXPECT_EQ(claim(2, {1, 2}), 2U);
  EXPECT_EQ(claim(3, {2, 1}), 3U);
  const effects::ClaimFence other = {
      .instance = Incarnation{0xdef}, .round = {1, 1}, .node = Incarnation{4}};
  EXPECT_EQ(claim_fence(room_, kJob, other).value(), Incarnation{4});
  EXPECT_EQ(files().size(), 4U);
}

TEST_F(FenceTest, IsWonByOneOfFiftyThreadsEachTime) {
  constexpr int kThreads = 50;
  for (int number = 1; number <= 20; ++number) {
    std::array<std::uint64_t, kThreads> holders{};
    std::latch all(kThreads);
    {
      std::vector<std::jthread> threads;
      threads.reserve(kThreads);
      for (std::size_t thread = 0; thread < kThreads; ++thread) {
        threads.emplace_back([&, thread] {
          all.arrive_and_wait();
          holders.at(thread) = claim(thread + 1, {1, number});
        });
      }
    }
    EXPECT_THAT(holders, testing::Each(holders.front())) << "one winner, known to all";
    EXPECT_GE(holders.front(), 1U);
    EXPECT_EQ(files().size(), static_cast<std::size_t>(number)) << "nothing is left beside it";
  }
}

TEST_F(FenceTest, IsWonByOneOfTwoProcessesEachTime) {
  constexpr int kRounds = 50;
  std::array<int, 2> start{};
  DDPRUN_CHECK(::pipe(start.data()) == 0);
  std::array<pid_t, 2> children{};
  for (std::uint64_t node = 1; node <= children.size(); ++node) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      ::close(start[1]);
      char byte = 0;
      [[maybe_unused]] const ssize_t got = ::read(start[0], &byte, 1);  // until the pipe is closed
      std::string learned;
      for (int number = 1; number <= kRounds; ++number)
        learned += std::to_string(claim(node, {1, number})) + "\n";
      const fs::path report = room_.string() + "_of_" + std::to_string(node);
      ::_exit(overwrite_file(report, learned) ? 0 : 1);
    }
    children.at(node - 1) = child;
  }
  ::close(start[0]);
  ::close(start[1]);
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  const std::string first = read_file(room_.string() + "_of_1", 1 << 20).value();
  EXPECT_EQ(first, read_file(room_.string() + "_of_2", 1 << 20).value());
  EXPECT_EQ(std::ranges::count(first, '\n'), kRounds);
  EXPECT_EQ(files().size(), static_cast<std::size_t>(kRounds));
  RecordProperty("won_by_the_first", static_cast<int>(std::ranges::count(first, '1')));
  fs::remove(room_.string() + "_of_1");
  fs::remove(room_.string() + "_of_2");
}

TEST_F(FenceTest, IsRefusedIfTheDirectoryIsGone) {
  fs::remove(room_);
  const auto holder = claim_fence(room_, kJob, claim_of(1));
  ASSERT_FALSE(holder);
  EXPECT_THAT(holder.error().detail, HasSubstr("No such file or directory"));
}

TEST_F(FenceTest, IsHeldByNobodyIfItsFileMakesNoSense) {
  const fs::path file = room_ / fence_file_name(kJob, claim_of(1));
  ASSERT_TRUE(overwrite_file(file, "node0\n"));
  const auto holder = claim_fence(room_, kJob, claim_of(1));
  ASSERT_FALSE(holder);
  EXPECT_THAT(holder.error().detail, HasSubstr("does not hold the incarnation of a node"));
  EXPECT_EQ(files().size(), 1U);
}

TEST_F(FenceTest, IsCheckedWithoutLeavingATrace) {
  EXPECT_TRUE(check_fence_directory(room_));
  EXPECT_THAT(files(), IsEmpty());
  EXPECT_FALSE(check_fence_directory(room_ / "none"));
  ASSERT_TRUE(overwrite_file(room_ / "file", "x"));
  EXPECT_FALSE(check_fence_directory(room_ / "file"));
  EXPECT_FALSE(check_fence_directory("/proc"));
}

/// A loop with a fence, as an agent has it.
class FenceOfAnAgent : public FenceTest {
 protected:
  std::unique_ptr<Fence> open() {
    return Fence::open(
               context_,
               room_,
               kJob,
               [this](const effects::ClaimFence& claim, Incarnation holder) {
                 held_.emplace_back(claim.round, holder);
               })
        .value();
  }

  void end(TaskScope& tasks) {
    std::exception_ptr thrown;
    tasks.cancel();
    asio::co_spawn(
        context_, tasks.join(), [&thrown](const std::exception_ptr& what) { thrown = what; });
    work_.reset();
    context_.run();
    EXPECT_EQ(thrown, nullptr);
  }

  using Held = std::pair<RoundId, Incarnation>;

  asio::io_context context_{1};
  asio::executor_work_guard<asio::io_context::executor_type> work_{context_.get_executor()};
  std::vector<Held> held_;
};

TEST_F(FenceOfAnAgent, TellsTheHolderOnTheLoopsThread) {
  const auto fence = open();
  fence->claim(claim_of(1));
  EXPECT_THAT(held_, IsEmpty());
  context_.run_one();
  EXPECT_THAT(held_, testing::ElementsAre(Held({1, 1}, Incarnation{1})));
  fence->claim(claim_of(2, {1, 1}));
  context_.run_one();
  EXPECT_EQ(held_.back(), Held({1, 1}, Incarnation{1}));
}

TEST_F(FenceOfAnAgent, MakesAClaimThatIsUnderWayOnce) {
  const auto fence = open();
  for (int i = 0; i < 3; ++i)
    fence->claim(claim_of(1, {1, 1}));
  fence->claim(claim_of(1, {1, 2}));
  context_.run_one();
  context_.run_one();
  EXPECT_THAT(
      held_, testing::ElementsAre(Held({1, 1}, Incarnation{1}), Held({1, 2}, Incarnation{1})));
}

TEST_F(FenceOfAnAgent, ReportsADirectoryThatVanishedOnceAndGivesNoAnswer) {
  const auto fence = open();
  fs::remove(room_);
  testing::internal::CaptureStdout();
  for (int i = 0; i < 3; ++i) {
    fence->claim(claim_of(1));
    context_.run_one();
  }
  const std::string said = testing::internal::GetCapturedStdout();
  EXPECT_THAT(held_, IsEmpty());
  EXPECT_THAT(said, HasSubstr("cannot claim the fence"));
  EXPECT_EQ(said.find("cannot claim"), said.rfind("cannot claim")) << said;

  fs::create_directory(room_);
  fence->claim(claim_of(1));
  context_.run_one();
  EXPECT_EQ(held_.size(), 1U) << "it is back, and so is the answer";
}

TEST_F(FenceOfAnAgent, MakesAClaimAgainThatFailed) {
  const auto fence = open();
  TaskScope tasks(context_.get_executor());
  tasks.spawn(fence->watch());
  fs::remove(room_);
  fence->claim(claim_of(1));
  context_.run_one();  // the watch begins
  context_.run_one();  // the claim has failed
  fs::create_directory(room_);
  while (held_.empty())
    context_.run_one();
  EXPECT_EQ(held_.back(), Held({1, 1}, Incarnation{1}));
  end(tasks);
}

TEST_F(FenceOfAnAgent, KeepsInstancesApart) {
  const auto fence = open();
  fence->claim(claim_of(1));
  fence->claim({.instance = Incarnation{0xdef}, .round = {1, 1}, .node = Incarnation{1}});
  context_.run_one();
  context_.run_one();
  EXPECT_EQ(held_.size(), 2U);
  EXPECT_EQ(files().size(), 2U);
}

TEST_F(FenceOfAnAgent, MayGoWhileAClaimIsUnderWay) {
  for (int number = 1; number <= 50; ++number)
    open()->claim(claim_of(1, {1, number}));
  work_.reset();
  context_.run();  // tasks posted before the fence was destroyed
  EXPECT_THAT(held_, IsEmpty());
}

}  // namespace
}  // namespace ddprun
