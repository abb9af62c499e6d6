// The parts of the command line that do not depend on the machine.

#include "launcher/flags/core/options.hpp"

#include "tests/launcher/flags/command_lines.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <string>
#include <vector>

namespace ddprun {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;
using testing::StartsWith;

TEST(CommandLine, EndsAtTheScriptAndPassesItsArgumentsByteForByte) {
  const auto options = options_of(
      {"--nproc-per-node", "2", "train.py", "--log", "1", "--nproc=3", "--", "-r", "", "a b"});
  EXPECT_THAT(
      options.rest, ElementsAre("train.py", "--log", "1", "--nproc=3", "--", "-r", "", "a b"));
  EXPECT_EQ(options.workers.number, 2);
}

TEST(CommandLine, DropsADoubleDashBeforeTheScriptOnly) {
  EXPECT_THAT(options_of({"--", "train.py", "--"}).rest, ElementsAre("train.py", "--"));
  EXPECT_THAT(options_of({"train.py", "--", "--", "x"}).rest, ElementsAre("train.py", "--", "x"));
  EXPECT_THAT(options_of({"train.py", "a", "--"}).rest, ElementsAre("train.py", "a", "--"));
  EXPECT_THAT(options_of({"--", "--odd.py"}).rest, ElementsAre("--odd.py"));
}

TEST(CommandLine, TakesBothSpellingsAndEveryFormOfAValue) {
  for (const Arguments& arguments :
       {Arguments{"--max-restarts", "3", "x"},
        Arguments{"--max_restarts", "3", "x"},
        Arguments{"--max-restarts=3", "x"},
        Arguments{"--max_restarts=3", "x"},
        Arguments{"--max-r", "3", "x"},
        Arguments{"--max_r=3", "x"}}) {
    EXPECT_EQ(options_of(arguments).plan.max_restarts, 3) << arguments.front();
  }
}

TEST(CommandLine, TakesAShortFlagInThreeForms) {
  for (const Arguments& arguments :
       {Arguments{"-r", "3", "x"}, Arguments{"-r3", "x"}, Arguments{"-r=3", "x"}}) {
    EXPECT_EQ(options_of(arguments).plan.streams.all.out, StreamMode::kFile) << arguments.front();
  }
}

TEST(CommandLine, AcceptsABeginningThatIsCommonToTheTwoSpellingsOfOneFlag) {
  EXPECT_EQ(options_of({"--nproc", "2", "x"}).workers.number, 2);
}

TEST(CommandLine, NamesTheCandidatesOfAnAmbiguousBeginning) {
  EXPECT_EQ(
      complaint({"--master", "x"}),
      "ambiguous option '--master': it could be --master-addr, --master-port");
}

TEST(CommandLine, SuggestsTheNearestFlag) {
  EXPECT_EQ(
      complaint({"--nproc-per-nodes", "2"}),
      "unknown option '--nproc-per-nodes': did you mean --nproc-per-node?");
  EXPECT_EQ(
      complaint({"--stand_alnoe"}), "unknown option '--stand_alnoe': did you mean --standalone?");
  EXPECT_THAT(complaint({"--zzz"}), StartsWith("unknown option '--zzz'"));
  EXPECT_THAT(complaint({"--nope"}), Not(HasSubstr("did you mean")));
  EXPECT_THAT(complaint({"-nproc=3"}), StartsWith("unknown option '-nproc=3'"));
}

TEST(CommandLine, SaysWhatAFlagNeeds) {
  EXPECT_EQ(complaint({"--tee", "-r", "3"}), "--tee needs a value: 0-3|RANK:0-3,...");
  EXPECT_EQ(complaint({"--standalone=yes"}), "--standalone takes no value, but 'yes' was given");
  EXPECT_THAT(read({"--standalone"}).error().detail, StartsWith("no script given"));
  EXPECT_THAT(read({}).error().detail, StartsWith("no script given"));
}

TEST(CommandLine, TakesANegativeNumberAsAValueAndRefusesIt) {
  EXPECT_EQ(
      complaint({"--max-restarts", "-1"}),
      "--max-restarts '-1': expected a number from 0 to 2147483647");
}

TEST(CommandLine, AsksForHelpOrVersionWhateverElseIsMissing) {
  EXPECT_EQ(read_command_line(Arguments{"--nnodes", "9", "-h"}, {})->action, Action::kHelp);
  EXPECT_EQ(read_command_line(Arguments{"--version"}, {})->action, Action::kVersion);
}

TEST(Variables, CountWhereTheFlagIsNotGiven) {
  const Environment environment = {{"PET_MAX_RESTARTS", "5"}, {"PET_STANDALONE", "yes"}};
  EXPECT_EQ(options_of({"x"}, environment).plan.max_restarts, 5);
  EXPECT_TRUE(options_of({"x"}, environment).standalone);
  EXPECT_EQ(options_of({"--max-restarts", "1", "x"}, environment).plan.max_restarts, 1);
}

TEST(Variables, CanSayNoToASwitch) {
  EXPECT_FALSE(options_of({"x"}, {{"PET_STANDALONE", "0"}}).standalone);
}

TEST(Variables, AreNamedInErrors) {
  EXPECT_EQ(
      complaint({}, {{"PET_MAX_RESTARTS", "many"}}),
      "PET_MAX_RESTARTS 'many': expected a number from 0 to 2147483647");
  EXPECT_EQ(
      complaint({}, {{"PET_STANDALONE", "maybe"}}),
      "PET_STANDALONE 'maybe': expected 1 or 0, true or false, yes or no");
  EXPECT_THAT(
      complaint({}, {{"PET_START_METHOD", "bogus"}}), StartsWith("PET_START_METHOD 'bogus'"));
}

TEST(Variables, OfTorchrunsOwnAreHonoured) {
  const auto plan = options_of(
                        {"x"},
                        {{"TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "7.5"},
                         {"TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE", "${rank}>"},
                         {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "1"}})
                        .plan;
  EXPECT_EQ(plan.shutdown_timeout, 7500ms);
  EXPECT_EQ(plan.streams.prefix_template, "${rank}>");
  EXPECT_EQ(
      options_of(
          {"--log-line-prefix-template", "${hostname}:", "x"},
          {{"TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE", "${rank}>"}})
          .plan.streams.prefix_template,
      "${hostname}:");
  EXPECT_FALSE(plan.shared_store);
  EXPECT_EQ(
      options_of({"--shutdown-timeout", "1", "x"}, {{"TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "bad"}})
          .plan.shutdown_timeout,
      1s);
  EXPECT_THAT(
      complaint({}, {{"TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "bad"}}),
      StartsWith("TORCH_ELASTIC_SHUTDOWN_TIMEOUT 'bad'"));
}

TEST(Options, SayWhatANoticeMeans) {
  const auto options = options_of(
      {"--forward-signal", "SIGUSR1", "--preempt-exit-code", "85", "--requeue", "always", "x"});
  EXPECT_EQ(options.plan.notice.forward, SIGUSR1);
  EXPECT_EQ(options.plan.notice.exit_status, 85);
  EXPECT_EQ(options.requeue, Requeue::kAlways);
  const auto defaults = options_of({"x"});
  EXPECT_EQ(defaults.plan.notice.forward, std::nullopt);
  EXPECT_EQ(defaults.plan.notice.exit_status, 75);
  EXPECT_EQ(defaults.requeue, Requeue::kNo);
}

TEST(Options, HaveTorchrunsDefaults) {
  const auto options = options_of({"train.py"});
  EXPECT_EQ(options.workers.number, 1);
  EXPECT_EQ(options.plan.role, "default");
  EXPECT_EQ(options.plan.max_restarts, 0);
  EXPECT_EQ(options.plan.shutdown_timeout, 30s);
  EXPECT_THAT(options.plan.signals_to_handle, ElementsAre(SIGTERM, SIGINT, SIGHUP, SIGQUIT));
  EXPECT_EQ(options.plan.signals_text, "SIGTERM,SIGINT,SIGHUP,SIGQUIT");
  EXPECT_EQ(options.plan.master_address, "127.0.0.1");
  EXPECT_EQ(options.plan.master_port, std::nullopt);
  EXPECT_EQ(options.plan.streams.all, StreamsPlan::Modes());
  EXPECT_TRUE(options.plan.shared_store);
}

struct BadValue {
  Arguments arguments;
  std::string why;
};

TEST(Options, RefuseBadValuesWithValueReasonAndRemedy) {
  const std::vector<BadValue> bad = {
      {{"--nnodes", "1:2:3"}, "expected N or MIN:MAX"},
      {{"--nnodes", "2:1"}, "the minimum exceeds the maximum"},
      {{"--nnodes", "0"}, "at least one node"},
      {{"--nproc-per-node", "0"}, "expected a number from 1 to 4096, cpu, gpu or auto"},
      {{"--nproc-per-node", "foo"}, "expected a number from 1 to 4096, cpu, gpu or auto"},
      {{"--nproc-per-node", "5000"}, "from 1 to 4096"},
      {{"--nproc-per-node", "xpu"}, "give their number"},
      {{"--rdzv-backend", "etcd-v2"}, "use c10d"},
      {{"--rdzv-endpoint", "localhost"}, "needs a port"},
      {{"--rdzv-endpoint", "localhost:99999"}, "from 0 to 65535"},
      {{"--rdzv-conf", "timeout"}, "expected KEY=VALUE"},
      {{"--rdzv-conf", "timeout="}, "expected KEY=VALUE"},
      {{"--rdzv-conf", "timeout=soon"}, "timeout: expected a number above 0"},
      {{"--rdzv-conf", "join_timeout=0"}, "join_timeout: expected a number above 0"},
      {{"--rdzv-conf", "close_timeout=never"}, "close_timeout: expected a number"},
      {{"--rdzv-conf", "read_timeout=never"}, "read_timeout: expected a number"},
      {{"--rdzv-conf", "keep_alive_max_attempt=0.5"}, "a whole number of at least 1"},
      {{"--rdzv-conf", "is_host=perhaps"}, "is_host: expected true or false"},
      {{"--rdzv-conf", "store_type=file"}, "only 'tcp'"},
      {{"--rdzv-id="}, "leave it out for a random id"},
      {{"--master-port", "70000"}, "from 0 to 65535"},
      {{"--master-addr", "host:1"}, "without a port"},
      {{"--node-rank", "-1"}, "of at least 0"},
      {{"--local-addr", "host:1"}, "without a port"},
      {{"--local-addr", "iface:"}, "such as iface:eth0"},
      {{"--listen-port", "70000"}, "from 0 to 65535"},
      {{"--lease", "0.4"}, "expected seconds from 0.5 to 3600"},
      {{"--lease", "3601"}, "expected seconds from 0.5 to 3600"},
      {{"--trust-reset", "maybe"}, "expected on or off"},
      {{"--trust-replacement", "maybe"}, "expected on or off"},
      {{"--auth", "kerberos"}, "expected auto, munge, secret or none"},
      {{"--secret-file="}, "leave it out for no secret"},
      {{"--fence-dir", "shared/fence"}, "expected an absolute path"},
      {{"--fence-dir="}, "expected an absolute path"},
      {{"--restart-window", "0"}, "more than 0 seconds"},
      {{"--shutdown-timeout", "-3"}, "expected seconds"},
      {{"--leftover", "spare"}, "expected kill, wait, keep"},
      {{"--leftover", "wait=0"}, "with seconds above 0"},
      {{"--leftover", "wait=soon"}, "with seconds above 0"},
      {{"--forward-signal", "TERM"}, "such as SIGUSR1"},
      {{"--forward-signal", "SIGKILL"}, "workers cannot handle this signal"},
      {{"--preempt-exit-code", "0"}, "1 to 255"},
      {{"--preempt-exit-code", "256"}, "1 to 255"},
      {{"--requeue", "yes"}, "never, on-preempt or always"},
      {{"--signals-to-handle", "SIGTERM,SIGFOO"}, "'SIGFOO' is not a signal"},
      {{"--signals-to-handle", "SIGKILL"}, "cannot be handled"},
      {{"--signals-to-handle="}, "is not a signal"},
      {{"--monitor-interval", "0"}, "above 0"},
      {{"--start-method", "bogus"}, "spawn, fork or forkserver"},
      {{"--preload", "torch,,numpy"}, "expected auto, or modules"},
      {{"--preload", "torch;print()"}, "expected auto, or modules"},
      {{"--exit-barrier-timeout", "x"}, "expected seconds"},
      {{"--redirects", "5"}, "expected 0 (none)"},
      {{"--tee", "0:1,1"}, "expected 0 (none)"},
      {{"--tee", "0:1,0:2"}, "rank 0 is named twice"},
      {{"--tee", "-1:1"}, "needs a value"},
      {{"--local-ranks-filter", "0,x"}, "expected local ranks"},
      {{"--log-dir="}, "leave it out for a new one"},
      {{"--memory-log="}, "leave it out for no samples"},
      {{"--memory-log-interval", "0.05"}, "from 0.1 to 3600"},
      {{"--memory-log-interval", "3601"}, "from 0.1 to 3600"},
      {{"--memory-log-interval", "soon"}, "from 0.1 to 3600"},
      {{"--event-log-handler", "file:x"}, "events.jsonl"},
      {{"--event-log-handler", "bogus"}, "expected null, console or dynamic_rendezvous"},
      {{"--print-completion", "fish"}, "expected bash or zsh"},
      {{"--logs-specs", "mine"}, "Python plug-in"},
      {{"--rdzv-conf", "join_timeout=9,timeout=3'"},
       "timeout: expected a number above 0 (given 3'); its quotes"},
      {{"--numa-binding", "left"}, "expected node, socket"},
      {{"--role="}, "expected a name"},
      {{"--no-python", "-m"}, "leave one of them out"},
      {{"--run-path", "-m"}, "leave one of them out"},
  };
  for (const auto& [arguments, why] : bad) {
    EXPECT_THAT(complaint(arguments), AllOf(StartsWith("-"), HasSubstr(why))) << arguments.front();
  }
}

TEST(Options, MakeOneMapOfRedirectsAndTee) {
  const auto plan = options_of({"-r", "0:1,12:3", "-t", "12:1", "x"}).plan.streams;
  EXPECT_EQ(plan.modes(0), (StreamsPlan::Modes{StreamMode::kFile, StreamMode::kInherit}));
  EXPECT_EQ(plan.modes(1), StreamsPlan::Modes());
  EXPECT_EQ(plan.modes(12), (StreamsPlan::Modes{StreamMode::kTee, StreamMode::kFile}));

  const auto mixed = options_of({"-r", "3", "-t", "1:1", "x"}).plan.streams;
  EXPECT_EQ(mixed.modes(7), (StreamsPlan::Modes{StreamMode::kFile, StreamMode::kFile}));
  EXPECT_EQ(mixed.modes(1), (StreamsPlan::Modes{StreamMode::kTee, StreamMode::kFile}));
}

TEST(Options, ReadFiltersAndTheirDoubledCommas) {
  const auto plan = options_of({"--duplicate-stdout-filters",
                                "loss,a,,b",
                                "--local-ranks-filter",
                                "0, 3",
                                "--log-dir",
                                "/dev/null",
                                "x"})
                        .plan.streams;
  EXPECT_THAT(plan.duplicate_out, ElementsAre("loss", "a,b"));
  EXPECT_THAT(plan.duplicate_err, IsEmpty());
  EXPECT_THAT(plan.console_ranks, ElementsAre(0, 3));
  EXPECT_TRUE(plan.no_files);
}

TEST(Options, SampleNothingUnlessAskedAndThenEveryFiveSeconds) {
  EXPECT_EQ(options_of({"x"}).plan.memory_log.directory, "");
  const auto plan = options_of({"--memory-log", "logs", "x"}).plan.memory_log;
  EXPECT_EQ(plan.directory, "logs");
  EXPECT_EQ(plan.interval, 5s);
  const auto often = options_of({"--memory-log-interval", "0.5", "--memory-log", "a b", "x"});
  EXPECT_EQ(often.plan.memory_log.interval, 500ms);
}

TEST(Options, PutTheStoreWhereTheEndpointSays) {
  const auto c10d =
      options_of({"--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost", "x"}).plan;
  EXPECT_EQ(c10d.master_address, "localhost");
  EXPECT_EQ(c10d.master_port, 29400);
  const auto any = options_of({"--rdzv-backend=c10d", "--rdzv-endpoint=[::1]:0", "x"}).plan;
  EXPECT_EQ(any.master_address, "::1");
  EXPECT_EQ(any.master_port, std::nullopt);
  const auto by_master = options_of({"--master-addr", "10.0.0.1", "--master-port", "1234", "x"});
  EXPECT_EQ(by_master.plan.master_address, "10.0.0.1");
  EXPECT_EQ(by_master.plan.master_port, 1234);
  EXPECT_EQ(by_master.own_hosts.size(), 1U);
}

TEST(Options, LetStandaloneOverrideTheRendezvous) {
  const auto options = options_of(
      {"--standalone",
       "--rdzv-backend=c10d",
       "--rdzv-endpoint=elsewhere:1",
       "--rdzv-id=mine",
       "x"});
  EXPECT_EQ(options.plan.run_id, "");
  EXPECT_EQ(options.plan.master_port, std::nullopt);
  EXPECT_THAT(options.own_hosts, IsEmpty());
}

TEST(Options, WarnOnceOfAnUnknownRendezvousKey) {
  EXPECT_THAT(
      options_of({"--rdzv-conf", "'last_call_timeout=3,join_timeout=9", "x"}).warnings,
      ElementsAre("--rdzv-conf: unknown key ''last_call_timeout' has no effect; its quotes are "
                  "read as part of it, leave them out"));
}

TEST(Options, ReadRendezvousSettingsThatStandInQuotes) {
  for (const char* const text :
       {"'join_timeout=9,last_call_timeout=3'", "\"join_timeout=9,last_call_timeout=3\""}) {
    const Options options = options_of({"--rdzv-conf", text, "x"});
    EXPECT_THAT(options.warnings, IsEmpty());
    EXPECT_EQ(options.settings.join_timeout, 9s);
    EXPECT_EQ(options.plan.rendezvous.last_call, 3s);
  }
}

TEST(Options, AcceptTorchrunsOwnLogsSpecs) {
  EXPECT_THAT(options_of({"--logs-specs=default", "x"}).warnings, IsEmpty());
}

TEST(Options, HaveTheNamesOfAcceleratesLauncher) {
  const Options options = options_of(
      {"--machine_rank",
       "1",
       "--main_process_ip",
       "10.0.0.1",
       "--main_process_port=1234",
       "--num_machines",
       "2",
       "--num_processes",
       "8",
       "main.py"});
  const RendezvousPlan& rendezvous = options.plan.rendezvous;
  EXPECT_EQ(rendezvous.nodes, NodeRange(2, 2));
  EXPECT_EQ(rendezvous.node_rank, 1);
  EXPECT_EQ(rendezvous.endpoint, (Endpoint{"10.0.0.1", 1234}));
  EXPECT_EQ(options.workers.number, 4);
  EXPECT_EQ(options_of({"--num-processes=3", "main.py"}).workers.number, 3);

  const Arguments two = {"--nnodes=2", "--node-rank=0", "--master-addr=a"};
  const auto with = [&two](Arguments more) {
    more.insert(more.begin(), two.begin(), two.end());
    return complaint(more);
  };
  EXPECT_THAT(with({"--num-processes=3"}), HasSubstr("cannot be divided evenly among 2 nodes"));
  EXPECT_THAT(with({"--num-processes=0"}), HasSubstr("expected a number of at least 1"));
  EXPECT_THAT(
      with({"--num-processes=2", "--nproc-per-node=1"}), HasSubstr("leave one of them out"));
  EXPECT_THAT(
      complaint({"--nnodes=1:2", "--rdzv-backend=c10d", "--rdzv-endpoint=a", "--num-processes=2"}),
      HasSubstr("there may be 1 to 2 of these; give --nproc-per-node"));
}

TEST(Options, PassTheLocalRankToScriptsThatAreGivenItByTheirLauncher) {
  EXPECT_EQ(
      options_of({"--no-use-env", "train.py", "--epochs=3"}).rest,
      (Arguments{"train.py", "--local_rank=${local_rank}", "--epochs=3"}));
  EXPECT_EQ(options_of({"--use_env", "train.py"}).rest, Arguments{"train.py"});
}

TEST(Options, LetTheStartMethodDecideWhetherWorkersAreForked) {
  EXPECT_EQ(options_of({"train.py"}).plan.preload, "");
  EXPECT_EQ(options_of({"--preload", "torch", "train.py"}).plan.preload, "torch");
  EXPECT_EQ(options_of({"--start-method", "forkserver", "train.py"}).plan.preload, "auto");
  EXPECT_EQ(
      options_of({"--start-method", "forkserver", "--preload", "a.b,c", "train.py"}).plan.preload,
      "a.b,c");
  const Options executed =
      options_of({"--start-method", "spawn", "--preload", "torch", "train.py"});
  EXPECT_EQ(executed.plan.preload, "");
  EXPECT_THAT(executed.warnings, ElementsAre(HasSubstr("--preload 'torch' has no effect")));
}

TEST(Options, LetRunPathWinOverNoPython) {
  EXPECT_EQ(options_of({"--no-python", "--run-path", "x"}).runs, Runs::kRunPath);
  EXPECT_EQ(options_of({"-m", "x"}).runs, Runs::kModule);
  EXPECT_EQ(options_of({"--no_python", "x"}).runs, Runs::kProgram);
}

/// The warnings for a job of `workers`.
std::vector<std::string> warnings_of(Arguments arguments, int workers) {
  arguments.emplace_back("train.py");
  const auto line = read_command_line(arguments, {});
  auto options = options_of(arguments);
  options.plan.workers = workers;
  if (line) warn_of_no_effect(*line, options);
  return options.warnings;
}

TEST(Warnings, NameTheLocalRanksThatDoNotExist) {
  EXPECT_THAT(
      warnings_of({"-t", "0:3,4:1,5:2", "-r", "2:1", "--local-ranks-filter=1,2"}, 2),
      ElementsAre(
          HasSubstr(
              "-r '2:1': there is no local rank 2; with --nproc-per-node 2 the last one is 1"),
          HasSubstr("-t '0:3,4:1,5:2': there is no local rank 4, 5;"),
          HasSubstr("--local-ranks-filter '1,2': there is no local rank 2")));
  EXPECT_THAT(warnings_of({"-t", "0:3,1:1", "--local-ranks-filter", "0,1"}, 2), IsEmpty());
}

TEST(Warnings, TellThatAFilterHasNothingToFilter) {
  EXPECT_THAT(
      warnings_of({"--duplicate-stdout-filters", "loss", "-t", "2", "-r", "1"}, 2),
      ElementsAre(AllOf(HasSubstr("--duplicate-stdout-filters 'loss'"), HasSubstr("give -t 1"))));
  EXPECT_THAT(
      warnings_of({"--duplicate-stderr-filters", "x", "-t", "2", "--log-dir", "/dev/null"}, 2),
      ElementsAre(HasSubstr("a --log-dir other than /dev/null")));
  EXPECT_THAT(warnings_of({"--duplicate-stderr-filters", "x", "-t", "1:2"}, 2), IsEmpty());
  // The only rank with a tee does not exist.
  EXPECT_THAT(warnings_of({"--duplicate-stderr-filters", "x", "-t", "1:2"}, 1), SizeIs(2));
}

TEST(Warnings, TellThatNothingIsSampled) {
  EXPECT_THAT(
      warnings_of({"--memory-log-interval", "1"}, 1),
      ElementsAre("--memory-log-interval '1': no samples are taken; give --memory-log"));
  EXPECT_THAT(warnings_of({"--memory-log-interval", "1", "--memory-log", "logs"}, 1), IsEmpty());
}

}  // namespace
}  // namespace ddprun
