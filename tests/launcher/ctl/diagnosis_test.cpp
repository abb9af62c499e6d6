// Every result of `ddpctl doctor`, from plain values.

#include "launcher/ctl/doctor/core/diagnosis.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <limits>
#include <map>
#include <string>

namespace ddprun {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30U;

testing::Matcher<Finding> well(const std::string& seen) {
  return AllOf(Field(&Finding::seen, HasSubstr(seen)), Field(&Finding::remedy, IsEmpty()));
}

testing::Matcher<Finding> wrong(const std::string& seen, const std::string& remedy) {
  return AllOf(
      Field(&Finding::seen, HasSubstr(seen)),
      Field(&Finding::remedy, HasSubstr(remedy)),
      Field(&Finding::remedy, testing::Not(IsEmpty())));
}

Disk roomy() {
  return {
      .path = "/d",
      .bytes_free = 10 * kGiB,
      .bytes = 20 * kGiB,
      .inodes_free = 1'000'000,
      .inodes = 2'000'000};
}

Disk broken(int error) {
  Disk disk = roomy();
  disk.error = error;
  return disk;
}

TEST(JudgeDisk, IsContentWithRoomAndInodes) {
  EXPECT_THAT(judge_disk(roomy(), kGiB), well("10.0 GiB of 20.0 GiB are free"));
}

TEST(JudgeDisk, WantsAsMuchAsIsAskedFor) {
  EXPECT_THAT(judge_disk(roomy(), 10 * kGiB), well(""));
  EXPECT_THAT(judge_disk(roomy(), 11 * kGiB), wrong("less than 11.0 GiB", "--min-free"));
}

TEST(JudgeDisk, WantsInodesWhereTheyAreCounted) {
  Disk disk = roomy();
  disk.inodes_free = 999;
  EXPECT_THAT(judge_disk(disk, kGiB), wrong("999 of 2000000 inodes", "delete small files"));
  disk.inodes = disk.inodes_free = 0;
  EXPECT_THAT(judge_disk(disk, kGiB), well(""));
}

TEST(JudgeDisk, TellsWhyNothingCanBeWritten) {
  EXPECT_THAT(judge_disk(broken(ENOSPC), kGiB), wrong("disk full", "free some space"));
  EXPECT_THAT(judge_disk(broken(EDQUOT), kGiB), wrong("quota", "free some space"));
  EXPECT_THAT(judge_disk(broken(EROFS), kGiB), wrong("read-only", "another directory"));
  EXPECT_THAT(judge_disk(broken(EACCES), kGiB), wrong("may not write", "another directory"));
  EXPECT_THAT(judge_disk(broken(ENOENT), kGiB), wrong("does not exist", "mkdir -p"));
  EXPECT_THAT(judge_disk(broken(ENOTDIR), kGiB), wrong("not a directory", "give a directory"));
  EXPECT_THAT(judge_disk(broken(EIO), kGiB), wrong("Input/output error", "check that disk"));
  Disk disk = broken(ENOSPC);
  disk.inodes_free = 0;
  EXPECT_THAT(judge_disk(disk, kGiB), wrong("no inodes are left", "free some space"));
}

TEST(JudgeShm, TellsASmallOneFromOneThatIsUsedUp) {
  EXPECT_THAT(judge_shm(roomy()), well("10.0 GiB"));
  Disk disk = roomy();
  disk.bytes_free = 511 * kGiB / 1024;
  EXPECT_THAT(judge_shm(disk), wrong("511.0 MiB of 20.0 GiB", "left in /dev/shm"));
  disk.bytes = 64 * kGiB / 1024;
  EXPECT_THAT(judge_shm(disk), wrong("is only 64.0 MiB", "--shm-size"));
  EXPECT_THAT(judge_shm(broken(ENOENT)), wrong("does not exist", "tmpfs"));
  disk = broken(ENOSPC);
  disk.bytes_free = 0;
  EXPECT_THAT(judge_shm(disk), wrong("0 bytes of 20.0 GiB", "left in /dev/shm"));
}

TEST(JudgeData, IsContentWithWhatCanBeReadAndIsNotEmpty) {
  EXPECT_THAT(
      judge_data({.path = "p", .link_target = "", .is_directory = true}), well("a directory"));
  EXPECT_THAT(
      judge_data({.path = "p", .link_target = "", .bytes = 3 * kGiB / 2}),
      well("a file of 1.5 GiB"));
}

TEST(JudgeData, TellsMissingUnreadableAndEmptyApart) {
  EXPECT_THAT(
      judge_data({.path = "p", .error = ENOENT, .link_target = ""}),
      wrong("does not exist", "stage the data"));
  EXPECT_THAT(
      judge_data({.path = "p", .error = ENOENT, .link_target = "/x/y"}),
      wrong("a link to /x/y, which does not exist", "mount"));
  EXPECT_THAT(
      judge_data({.path = "p", .error = EACCES, .link_target = ""}),
      wrong("may not read", "chmod"));
  EXPECT_THAT(
      judge_data({.path = "p", .error = ESTALE, .link_target = ""}),
      wrong("Stale file handle", "disk"));
  EXPECT_THAT(
      judge_data({.path = "p", .link_target = "", .is_directory = true, .is_empty = true}),
      wrong("an empty directory", "stage"));
  EXPECT_THAT(
      judge_data({.path = "p", .link_target = "", .is_empty = true}),
      wrong("an empty file", "stage"));
}

Limits high() {
  return {
      .open_files = 1'024,
      .open_files_hard = 1'024,
      .processes = 1'024,
      .locked_bytes = 8 << 20,
      .core_bytes = 0};
}

TEST(JudgeLimits, IsContentWithTheUsualOnes) {
  EXPECT_THAT(
      judge_limits(high()),
      ElementsAre(
          well("1024 open files, hard limit 1024"),
          well("1024 processes"),
          well("8.0 MiB of locked memory"),
          well("no core dump")));
  EXPECT_THAT(
      judge_limits({}),
      ElementsAre(
          well("unlimited open files"), well("unlimited"), well("unlimited"), well("any size")));
}

TEST(JudgeLimits, TellsALowSoftLimitOfFilesFromALowHardOne) {
  Limits limits = high();
  limits.open_files = 1'023;
  EXPECT_THAT(judge_limits(limits)[0], wrong("1023 open files", "ulimit -n 1024"));
  limits.open_files_hard = 1'023;
  EXPECT_THAT(judge_limits(limits)[0], wrong("hard limit 1023", "ulimit -Hn"));
}

TEST(JudgeLimits, WantsMoreFilesForMoreNodes) {
  Limits limits = high();
  limits.nodes = 257;
  EXPECT_THAT(judge_limits(limits)[0], wrong("", "1028 are needed"));
}

TEST(JudgeLimits, WantsAThousandProcesses) {
  Limits limits = high();
  limits.processes = 1'023;
  EXPECT_THAT(judge_limits(limits)[1], wrong("1023 processes", "ulimit -u 1024"));
}

TEST(JudgeLimits, WantsLockedMemoryForInfiniBandAlone) {
  Limits limits = high();
  limits.has_infiniband = true;
  EXPECT_THAT(judge_limits(limits)[2], wrong("8.0 MiB", "ulimit -l unlimited"));
  limits.locked_bytes = {};
  EXPECT_THAT(judge_limits(limits)[2], well("unlimited"));
}

TEST(JudgeGpus, IsContentWithNoneAndWithAll) {
  EXPECT_THAT(judge_gpus({.visible = {}, .of_step = {}}), well("no NVIDIA GPUs"));
  EXPECT_THAT(
      judge_gpus({.devices = 8, .permitted = 8, .visible = {}, .of_step = 8}), well("8 of 8"));
  EXPECT_THAT(
      judge_gpus({.devices = 8, .permitted = 2, .visible = "0,1", .of_step = 2}), well("2 of 8"));
  EXPECT_THAT(
      judge_gpus({.devices = 2, .permitted = 2, .visible = "GPU-a,MIG-b", .of_step = {}}),
      well("2 of 2"));
}

TEST(JudgeGpus, NamesAMaskThatHidesPeers) {
  EXPECT_THAT(
      judge_gpus({.devices = 4, .permitted = 4, .visible = "2", .of_step = 4}),
      wrong("sees 1 of the step's 4", "--gpu-bind=none"));
}

TEST(JudgeGpus, NamesAMaskThatHidesAll) {
  for (const char* const mask : {"", "-1", "NoDevFiles"}) {
    EXPECT_THAT(
        judge_gpus({.devices = 4, .permitted = 4, .visible = mask, .of_step = {}}),
        wrong("hides all 4", "unset it"));
  }
}

TEST(JudgeGpus, NamesAMaskOfDevicesThatAreNotThere) {
  EXPECT_THAT(
      judge_gpus({.devices = 4, .permitted = 4, .visible = "0,1,4", .of_step = {}}),
      wrong("may use 4 GPUs: CUDA takes only 2", "from 0"));
  EXPECT_THAT(
      judge_gpus({.visible = "0", .of_step = {}}), wrong("/dev/nvidia0 does not exist", "driver"));
  EXPECT_THAT(judge_gpus({.visible = {}, .of_step = 2}), wrong("SLURM_GPUS_ON_NODE", "driver"));
}

TEST(JudgeGpus, NamesDevicesThatMayNotBeOpened) {
  EXPECT_THAT(
      judge_gpus({.devices = 4, .visible = {}, .of_step = {}}),
      wrong("may not open any of the 4 GPUs", "--gpus-per-node"));
}

TEST(JudgePort, NamesTheOwnerOrTheReason) {
  EXPECT_THAT(judge_port({.number = 80, .error = {}, .owner = ""}), well("free"));
  const Error taken = make_error(Errc::kIo, "cannot listen: in use; choose another port");
  EXPECT_THAT(
      judge_port({.number = 80, .error = taken, .owner = ""}), wrong("in use", "another port"));
  EXPECT_THAT(
      judge_port({.number = 80, .error = taken, .owner = "cat (pid 7)"}),
      wrong("taken by cat (pid 7)", "stop it"));
}

// The doctor called the port of a job that runs well a fault.
TEST(JudgePort, ARunningJobIsNoFault) {
  const Error taken = make_error(Errc::kIo, "cannot listen: in use; choose another port");
  EXPECT_THAT(
      judge_port({.number = 80, .error = taken, .owner = "ddprun (pid 7)", .job = "x"}),
      well("job 'x' is running here: ddprun (pid 7); a second job on this node needs another port "
           "(--master-port)"));
  EXPECT_THAT(
      judge_port({.number = 80, .error = taken, .owner = "", .job = ""}),
      well("a job is running here; a second job"));
}

TEST(JudgeClock, WantsItSynchronised) {
  EXPECT_THAT(judge_clock({.is_synchronised = true, .error_s = 0.0125}), well("within 0.013 s"));
  EXPECT_THAT(judge_clock({}), wrong("not synchronised", "chronyd"));
  EXPECT_TRUE(judge_clock({}).is_well());  // a warning
}

PythonInstallation python() {
  return {
      .error = {},
      .program = "/v/bin/python",
      .starts = "",
      .unknown_why = {},
      .version = "3.11",
      .torch = "2.11.0+cu130",
      .cuda = "13.0",
      .nccl = "2.28.9",
      .driver = {}};
}

TEST(JudgePython, TellsTheVersions) {
  EXPECT_THAT(
      judge_python(python()),
      well("/v/bin/python (3.11), torch 2.11.0+cu130, CUDA 13.0, NCCL 2.28.9"));
}

TEST(JudgePython, WarnsWhereThereIsNoTorchOrNoPython) {
  PythonInstallation without = python();
  without.torch.clear();
  EXPECT_THAT(judge_python(without), wrong("/v/bin/python (3.11) has no torch", "PYTHON_EXEC"));
  EXPECT_TRUE(judge_python(without).is_well());
  without.error = make_error(Errc::kNotFound, "none on PATH; set PYTHON_EXEC");
  EXPECT_THAT(judge_python(without), wrong("none on PATH", "set PYTHON_EXEC"));
  EXPECT_TRUE(judge_python(without).is_well());
}

TEST(JudgePython, TellsWhichOneAScriptStarts) {
  PythonInstallation shim = python();
  shim.program = "/p/shims/python";
  shim.starts = "/p/versions/3.11.4/bin/python3";
  EXPECT_THAT(
      judge_python(shim),
      well("/p/shims/python, which starts /p/versions/3.11.4/bin/python3 (3.11), torch 2.11.0"));
  shim.torch.clear();
  EXPECT_THAT(judge_python(shim), wrong("python3 (3.11) has no torch", "PYTHON_EXEC"));
  shim.unknown_why = make_error(Errc::kTimedOut, "no answer");
  EXPECT_THAT(
      judge_python(shim), wrong("is a script that starts an unknown Python: no answer", "--limit"));
  EXPECT_TRUE(judge_python(shim).is_well());
}

TEST(JudgePython, WantsATorchAndADriverForTheGpusThatAreHere) {
  PythonInstallation cpu = python();
  cpu.cuda.clear();
  EXPECT_THAT(judge_python(cpu), well("torch"));
  cpu.gpus = 2;
  EXPECT_THAT(judge_python(cpu), wrong("without CUDA; GPUs here: 2", "with CUDA"));
  EXPECT_FALSE(judge_python(cpu).is_well());
  PythonInstallation old = python();
  old.gpus = 1;
  old.driver = 550;
  EXPECT_THAT(judge_python(old), wrong("the driver is 550", "580 or later"));
  old.cuda = "12.8";
  EXPECT_THAT(judge_python(old), well("CUDA 12.8"));
}

std::map<std::string, std::string> step_of_two() {
  return {
      {"SLURM_JOB_ID", "7"},
      {"SLURM_JOB_NUM_NODES", "2"},
      {"SLURM_JOB_NODELIST", "n[0-1]"},
      {"SLURM_STEP_ID", "0"},
      {"SLURM_STEP_NUM_NODES", "2"},
      {"SLURM_STEP_NUM_TASKS", "2"},
      {"SLURM_STEP_NODELIST", "n[0-1]"},
      {"SLURM_STEP_TASKS_PER_NODE", "1(x2)"},
      {"SLURM_NODEID", "1"},
      {"SLURM_PROCID", "1"},
      {"SLURM_LOCALID", "0"},
      {"SLURMD_NODENAME", "n1"}};
}

std::map<std::string, std::string> step_with(const std::string& name, const std::string& value) {
  auto environment = step_of_two();
  environment[name] = value;
  return environment;
}

TEST(JudgeSlurm, TellsWhereThisTaskIs) {
  EXPECT_THAT(judge_slurm({}), ElementsAre(well("not in a job")));
  EXPECT_THAT(judge_slurm({{"SLURM_JOB_ID", "7"}}), ElementsAre(well("not in a step: srun")));
  EXPECT_THAT(
      judge_slurm(step_of_two()),
      ElementsAre(well("node 1 of 2 in step 7.0"), well("'n[0-1]' is 2 hosts")));
}

TEST(JudgeSlurm, NamesVariablesThatContradictEachOther) {
  EXPECT_THAT(
      judge_slurm(step_with("SLURM_NODEID", "2"))[0],
      wrong("SLURM_NODEID has 2, but SLURM_STEP_NUM_NODES says 2", "srun"));
  EXPECT_THAT(judge_slurm(step_with("SLURMD_NODENAME", "n0"))[0], wrong("'n0'", "by hand"));
  EXPECT_THAT(
      judge_slurm(step_with("SLURM_JOB_NUM_NODES", "3"))[1],
      wrong("SLURM_JOB_NUM_NODES is '3'", "by hand"));
}

TEST(JudgeSlurm, NamesSeveralTasksOnANode) {
  auto environment = step_with("SLURM_STEP_NUM_TASKS", "4");
  environment["SLURM_STEP_TASKS_PER_NODE"] = "2(x2)";
  EXPECT_THAT(judge_slurm(environment)[0], wrong("4 tasks on 2 nodes", "--ntasks-per-node=1"));
}

TEST(JudgeSlurm, NamesAListOfHostsThatIsNone) {
  EXPECT_THAT(
      judge_slurm(step_with("SLURM_JOB_NODELIST", "n[3-1]"))[1], wrong("counts down", "by hand"));
  EXPECT_THAT(
      judge_slurm(step_with("SLURM_JOB_NODELIST", "n1,n1"))[1], wrong("n1 twice", "by hand"));
}

TEST(FindingsText, HasALineEach) {
  const Findings findings = {
      {.subject = "disk /a\nb", .seen = "full", .remedy = "make room"},
      {.subject = "clock", .seen = "synchronised", .remedy = ""}};
  EXPECT_EQ(
      findings_text(findings, ""), "[!!] disk /a?b: full; make room\n[ok] clock: synchronised\n");
  EXPECT_EQ(
      findings_text({{.subject = "clock", .seen = "no", .remedy = "do", .is_warning = true}}, ""),
      "[! ] clock: no; do\n");
  EXPECT_EQ(
      findings_text(findings, "n1"),
      "[!!] n1 disk /a?b: full; make room\n[ok] n1 clock: synchronised\n");
}

TEST(FindingsJson, IsReadBackAsItWas) {
  const Findings findings = {
      {.subject = "disk /a\nb", .seen = "\"", .remedy = "x"},
      {.subject = "name", .seen = "", .remedy = "x", .is_warning = true},
      {.subject = "clock", .seen = "", .remedy = ""}};
  const auto read = parse_findings(findings_json(findings, "n1"));
  ASSERT_TRUE(read);
  EXPECT_EQ(*read, findings);
}

TEST(FindingsJson, SurvivesATextThatIsNoUtf8) {
  const Findings findings = {{.subject = "data \xff", .seen = "", .remedy = ""}};
  EXPECT_TRUE(parse_findings(findings_json(findings, "")));
}

TEST(FindingsJson, RefusesWhatIsNone) {
  for (const char* const text : {"", "{", "{}", "[]", R"({"findings":[{"subject":1}]})"}) {
    EXPECT_FALSE(parse_findings(text)) << text;
  }
}

}  // namespace
}  // namespace ddprun
