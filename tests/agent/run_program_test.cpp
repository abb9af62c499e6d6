#include "agent/run_program.hpp"

#include "base/environment.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <string>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

namespace ddprun {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

constexpr std::size_t kBytesMax = 1 << 20;

SpawnRequest shell(std::string script) {
  return request_for({"sh", "-c", std::move(script)});
}

/// What a script prints that ends within 30 s.
Result<ProgramEnd> run(const SpawnRequest& request) {
  return run_program(request, Clock::now() + 30s, kBytesMax);
}

std::string printed_by(const SpawnRequest& request) {
  const auto ended = run(request);
  return ended ? ended->out : ended.error().detail;
}

TEST(RunProgram, GivesBothStreamsAndTheEnd) {
  const auto ended =
      run(shell("echo out; echo err >&2; read line || echo nothing to read; exit 3"));
  ASSERT_TRUE(ended) << ended.error().detail;
  EXPECT_EQ(ended->out, "out\nnothing to read\n");
  EXPECT_EQ(ended->err, "err\n");
  EXPECT_EQ(ended->end, (ProcessEnd{.code = 3, .signal = 0}));
}

TEST(RunProgram, ReadsMoreThanAPipeHolds) {
  const auto ended = run(shell("head -c 300000 /dev/zero; head -c 300000 /dev/zero >&2"));
  ASSERT_TRUE(ended) << ended.error().detail;
  EXPECT_EQ(ended->out.size(), 300'000U);
  EXPECT_EQ(ended->err.size(), 300'000U);
}

TEST(RunProgram, DoesNotWaitForWhatIsLeftBehind) {
  const TimePoint began = Clock::now();
  EXPECT_EQ(printed_by(shell("sleep 60 & echo done")), "done\n");
  EXPECT_LT(Clock::now() - began, 20s);
}

TEST(RunProgram, KillsTheGroupOfAProgramThatIsLate) {
  int ends[2] = {-1, -1};
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  SpawnRequest request = shell("sleep 60 & sleep 60");
  request.keep = {ends[1]};
  const auto ended = run_program(request, Clock::now() + 200ms, kBytesMax);
  ASSERT_FALSE(ended);
  EXPECT_TRUE(ended.error().is(Errc::kTimedOut)) << ended.error().detail;
  ::close(ends[1]);
  char byte = 0;
  EXPECT_EQ(::read(ends[0], &byte, 1), 0) << "the other end is closed with the last of them";
  ::close(ends[0]);
}

TEST(RunProgram, KillsAProgramThatPrintsTooMuch) {
  const auto ended = run(shell("exec cat /dev/zero >&2"));
  ASSERT_FALSE(ended);
  EXPECT_TRUE(ended.error().is(Errc::kLimit)) << ended.error().detail;
}

TEST(RunProgram, NamesAProgramThatIsNotThere) {
  SpawnRequest request = shell("");
  request.command.front() = "no-such-program";
  auto ended = run(request);
  ASSERT_FALSE(ended);
  EXPECT_TRUE(ended.error().is(Errc::kNotFound));
  EXPECT_EQ(ended.error().detail, "there is no no-such-program on PATH");
  request.command.front() = "/no/such/program";
  ended = run(request);
  ASSERT_FALSE(ended);
  EXPECT_TRUE(ended.error().is(Errc::kNotFound));
  EXPECT_THAT(ended.error().detail, HasSubstr("cannot run /no/such/program: No such file"));
}

TEST(RunProgram, TellsTheStepThatFailed) {
  SpawnRequest request = shell("");
  request.command.front() = "/";
  auto started = spawn(request);
  ASSERT_FALSE(started);
  EXPECT_TRUE(started.error().is(Errc::kNotExecutable));
  EXPECT_EQ(started.error().detail, "cannot run /: Permission denied");
  request.command.front() = "/bin/sh";
  request.keep = {12'345};
  started = spawn(request);
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().detail, "cannot start /bin/sh: Bad file descriptor");
}

TEST(RunProgram, LeadsASessionUnlessInTheForeground) {
  // Field 6 of stat is the session.
  SpawnRequest request = shell("read -r _ _ _ _ _ session _ < /proc/$$/stat; [ $session = $$ ]");
  const auto ended = run(request);
  ASSERT_TRUE(ended) << ended.error().detail;
  EXPECT_TRUE(ended->end.ok());
  const auto in_foreground = run_in_foreground(std::move(request));
  ASSERT_TRUE(in_foreground) << in_foreground.error().detail;
  EXPECT_EQ(in_foreground->exit_status(), 1);
}

TEST(RunProgram, HasTheDescriptorsThatWeInheritedAndNoOther) {
  const int ours = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  const int inherited = ::open("/dev/null", O_RDONLY);  // NOLINT: as if from a shell
  constexpr auto kScript = "cd /proc/$$/fd; for n in {} {}; do [ -e $n ] && echo $n; done";
  const std::string open = printed_by(shell(fmt::format(kScript, ours, inherited)));
  ::close(ours);
  ::close(inherited);
  EXPECT_EQ(open, fmt::format("{}\n", inherited));
}

TEST(RunProgram, HasDefaultSignalsAndNoneBlocked) {
  const auto before = std::signal(SIGPIPE, SIG_IGN);
  sigset_t all;
  sigset_t mask;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &mask);
  SpawnRequest request = shell("grep -E '^Sig(Blk|Ign)' /proc/self/status");
  const std::string none = printed_by(request);
  request.ignored = {SIGTERM};
  const std::string one = printed_by(request);
  ::pthread_sigmask(SIG_SETMASK, &mask, nullptr);
  static_cast<void>(std::signal(SIGPIPE, before));
  EXPECT_EQ(none, "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n");
  EXPECT_EQ(one, "SigBlk:\t0000000000000000\nSigIgn:\t0000000000004000\n");
}

TEST(EnvironmentEntries, LetsSettingsReplaceOurs) {
  ::setenv("DDPRUN_A_TEST", "ours", 1);
  const auto entries = environment_entries({"DDPRUN_A_TEST=theirs", "DDPRUN_A=1"});
  ::unsetenv("DDPRUN_A_TEST");
  EXPECT_THAT(entries, testing::Contains("DDPRUN_A_TEST=theirs"));
  EXPECT_THAT(entries, testing::Not(testing::Contains("DDPRUN_A_TEST=ours")));
}

}  // namespace
}  // namespace ddprun
