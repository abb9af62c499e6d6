"""sbatch accepts every batch script of slurm/templates unchanged, and each does its task on a real Slurm.

    templates_cluster_test.py --ddprun PROGRAM [--python INTERPRETER --ddptrain PROGRAM] [unittest arguments]

With an INTERPRETER that has torch, the jobs train by DDP over Gloo; else their workers only print
their rank, and the one without a launcher is left out. Flags of sbatch override those in the script, to make it small.
"""

import argparse
import json
import os
import pathlib
import re
import sys
import unittest

from cluster import Cluster, skip_without_cluster
from ear import Ear

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
TEMPLATES = sorted((ROOT / "slurm/templates").glob("*"))
WORKER = HERE / "template_worker.py"
RUN = "test_run_of_"  # and the template's name
# Slurm counts the memory of a step too: a step that gets the whole node's memory blocks others.
SETTINGS = {"SelectTypeParameters": "CR_Core_Memory", "DefMemPerNode": "1000"}
# NVIDIA's profiler does not run here: this one records for which file it was started.
NSYS = """#!/bin/sh
[ "$1 $3" = "profile --output" ] || exit 2
: >"$4"
shift 4
exec "$@"
"""

options = argparse.Namespace()


class Runs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        skip_without_cluster()
        cls.cluster = cls.enterClassContext(Cluster(8, gpus=8, cpus=64, settings=SETTINGS))
        programs = cls.cluster.shared / "bin"
        programs.mkdir()
        (programs / "ddprun").symlink_to(pathlib.Path(options.ddprun).resolve())
        if options.ddptrain:
            (programs / "ddptrain").symlink_to(pathlib.Path(options.ddptrain).resolve())
        for name, text in (("nsys", NSYS), ("python", f'#!/bin/sh\nexec {options.python} "$@"\n')):
            (programs / name).write_text(text)
            (programs / name).chmod(0o755)
        cls.environment = {"PATH": f"{programs}:{os.environ['PATH']}",
                           "PYTHON_EXEC": options.python}

    def setUp(self):
        self.room = self.cluster.shared / self._testMethodName
        self.room.mkdir()

    # Verbs. -------------------------------------------------------------------------------------

    def run_there(self, *words):
        words = [str(word) for word in words]
        return self.cluster.run(*words, cwd=self.room, env=self.environment).stdout

    def submit(self, *flags, arguments, template=None):
        """Submits it from an unrelated directory; returns the job's id."""
        name = template or self._testMethodName.removeprefix(RUN)
        words = ("sbatch", "--parsable", *flags, ROOT / f"slurm/templates/{name}.sh", *arguments)
        job = int(self.run_there(*words))
        self.addCleanup(self.cluster.run, "scancel", str(job), check=False)
        return job

    def complete(self, *flags, arguments=(WORKER,)):
        """Submits it, waits for its success, and returns its output."""
        job = self.submit(*flags, arguments=arguments)
        return self.output_at_the_end(job)

    def output(self, job):
        return "".join(file.read_text() for file in self.room.glob(f"*-{job}.out"))

    def output_at_the_end(self, job, state="COMPLETED", status="0:0"):
        ended = self.cluster.wait_until_over(job)
        output = self.output(job)
        self.assertEqual((state, status), (ended["JobState"], ended["ExitCode"]), output)
        return output

    def workers(self, output):
        """What each worker printed about itself, by rank."""
        said = [json.loads(line) for line in re.findall(r"\bwho (.*)", output)]
        return sorted(said, key=lambda worker: int(worker["RANK"]))

    def assert_ranks(self, output, nodes, workers_per_node):
        """Each once, in the order of the nodes, and with the same weights at the end."""
        world = nodes * workers_per_node
        workers = self.workers(output)
        hosts = sorted({worker["host"] for worker in workers})
        self.assertEqual(nodes, len(hosts))
        self.assertEqual(
            [(str(rank), str(world), hosts[rank // workers_per_node]) for rank in range(world)],
            [(worker["RANK"], worker["WORLD_SIZE"], worker["host"]) for worker in workers])
        weights = re.findall(r"weights=(\S+)", output)
        self.assertEqual((world, 1), (len(weights), len(set(weights))), output)
        self.assertEqual(options.has_torch, len(weights[0]) == 64)
        return workers

    def ear(self, name="ear"):
        ear = Ear(self.room / name)
        self.addCleanup(ear.close)
        return ear

    # What each is for. --------------------------------------------------------------------------

    def test_each_has_a_run_here(self):
        runs = {name.removeprefix(RUN) for name in dir(self) if name.startswith(RUN)}
        self.assertEqual({file.name for file in TEMPLATES}, {f"{name}.sh" for name in runs})

    def test_sbatch_takes_them_as_they_are(self):
        for file in TEMPLATES:
            with self.subTest(file.name):
                self.run_there("sbatch", "--test-only", file, WORKER)

    def test_run_of_minimal(self):
        output = self.complete(arguments=(WORKER, "two words"))
        workers = self.assert_ranks(output, 2, 1)
        self.assertEqual([["two words"]] * 2, [worker["arguments"] for worker in workers])

    def test_run_of_single_node(self):
        workers = self.assert_ranks(self.complete("--gpus-per-node=2"), 1, 2)
        self.assertEqual(["0,1"] * 2, [worker["CUDA_VISIBLE_DEVICES"] for worker in workers])

    def test_run_of_two_terminals(self):
        first = self.submit("--nodelist=node0", arguments=("0", "--nproc-per-node=2", WORKER))
        said = re.compile(r"^Master IP Address: (\S+)$", re.MULTILINE)
        self.cluster.wait_until(lambda: said.search(self.output(first)), "the first terminal says its address")
        address = said.search(self.output(first))[1]
        second = self.submit("--nodelist=node1", arguments=("1", address, "--nproc-per-node=2", WORKER))
        self.assert_ranks("".join(map(self.output_at_the_end, (first, second))), 2, 2)

    def test_run_of_several_nodes(self):
        output = self.complete("--nodes=2", "--gpus-per-node=2")
        self.assert_ranks(output, 2, 2)

    def test_the_status_of_a_worker_is_that_of_the_job(self):
        job = self.submit("--nodes=2", "--gpus-per-node=1", template="several_nodes",
                          arguments=(WORKER, "--light", "--fail"))
        self.output_at_the_end(job, "FAILED", "7:0")

    def test_run_of_cpu_only(self):
        preset = ROOT / "slurm/env/ethernet.sh"
        told = self.run_there("bash", "-c", 'source "$0"; exec sbatch --parsable "$@"', preset,
                              "--cpus-per-task=8", ROOT / "slurm/templates/cpu_only.sh", WORKER)
        workers = self.assert_ranks(self.output_at_the_end(int(told)), 2, 4)
        self.assertEqual({"eth0"}, {worker["GLOO_SOCKET_IFNAME"] for worker in workers})

    def test_run_of_spare_node(self):
        """And they continue when Slurm finally detects that a node is lost."""
        ear, go = self.ear(), self.ear("go")
        job = self.submit("--gpus-per-node=1", arguments=(
            WORKER, "--wait-for", "restart", "--tell", ear.path, "--file", go.path))
        first, second, third = ear.hear(3)
        self.cluster.kill_node(second)
        self.addCleanup(self.cluster.start_node, second)
        hosts = ear.hear(3)
        self.cluster.wait_until_down(second)
        go.say(b"...")
        output = self.output_at_the_end(job)
        self.assertEqual(2 * 3, len(self.workers(output)))
        self.assertEqual(3, output.count("weights="))
        (spare,) = set(hosts) - {first, third}
        self.assertNotEqual(second, spare)

    def test_run_of_without_launcher(self):
        if not options.has_torch:
            self.skipTest("ddptrain is not built")
        output = self.complete(
            "--nodes=2", "--ntasks-per-node=2", "--gpus-per-node=2",
            arguments=("ddptrain", "--distributed", "--limit-train-samples=256",
                       "--limit-test-samples=100"))
        self.assertEqual(1, len(re.findall(r"^ddptrain .* world=4 ", output, re.MULTILINE)), output)
        self.assertEqual(1, output.count("weights_sha256="))

    def goes_on(self, interrupt, *flags):
        """It is told to stop, starts again, and ends like an undisturbed run. Returns the first run's output."""
        small = ("--nodes=2", "--gpus-per-node=1")
        undisturbed = self.complete(*small, arguments=(WORKER, "--steps", "6"))
        ear = self.ear()
        words = (WORKER, "--steps", "3", "--wait-for", "snapshot", "--file", "snapshot",
                 "--tell", ear.path)
        job = self.submit(*small, *flags, arguments=words)
        ear.hear(2)
        interrupt(job)
        self.cluster.start_again(job)
        output = self.output_at_the_end(job)
        first, second = output.split("\nrun 1 on ")
        self.assertEqual(2, first.count("\nsaved"), output)
        self.assertEqual(["1", "1"], [worker["SLURM_RESTART_COUNT"] for worker in self.workers(second)])
        weights = [sorted(re.findall(r"rank . weights.*", run)) for run in (undisturbed, second)]
        self.assertEqual((2, weights[0]), (len(weights[1]), weights[1]), output)
        return first

    def test_run_of_preemptible(self):
        def preempt(job):
            nodes = self.cluster.job(job)["NodeList"]
            self.cluster.sbatch("--partition=batch", "--exclusive", f"--nodelist={nodes}", script=":")
        self.goes_on(preempt, "--partition=low")

    def test_run_of_time_limit(self):
        def come_to_the_end(job):
            self.cluster.run("scontrol", "update", f"JobId={job}", "TimeLimit=2")
            self.cluster.wait_for(job, "PENDING", restarts=1)
            self.cluster.run("scontrol", "update", f"JobId={job}", "TimeLimit=60")
        first = self.goes_on(come_to_the_end)
        self.assertIn("\nstopped before its time was over", first)

    def test_a_job_that_is_cancelled_does_not_start_again(self):
        for name in ("preemptible", "time_limit"):
            with self.subTest(name):
                ear = self.ear(name)
                job = self.submit(
                    "--nodes=2", "--gpus-per-node=1", template=name, arguments=(
                        WORKER, "--light", "--wait-for", "snapshot", "--file", f"{name}.snapshot",
                        "--tell", ear.path))
                ear.hear(2)
                self.cluster.run("scancel", str(job))
                self.assertEqual("CANCELLED", self.cluster.wait_until_over(job)["JobState"])
                self.assertEqual("0", self.cluster.job(job)["Restarts"])

    def test_run_of_array(self):
        """The last line of the grid has no newline, as some editors leave it."""
        (self.room / "grid.txt").write_text("--lr 0.1 --seed 1\n--lr 0.2 --seed 1\n--lr 0.3 --seed 1")
        job = self.submit("--array=1-3", arguments=("grid.txt", WORKER, "--light", "--seed", "2"))
        for element in range(1, 4):
            self.cluster.wait_for(f"{job}_{element}", "COMPLETED")
            output = (self.room / f"grid-{job}_{element}.out").read_text()
            self.assertEqual(
                [["--lr", f"0.{element}", "--seed", "1", "--light", "--seed", "2"]] * 2,
                [worker["arguments"] for worker in self.workers(output)])

    def test_run_of_packing(self):
        """None continues before all have started: they do run side by side."""
        ear = self.ear()
        go = self.ear("go")
        job = self.submit(arguments=(
            WORKER, "--light", "--wait-for", "go", "--file", go.path, "--tell", ear.path))
        ear.hear(4)
        go.say(b"....")
        self.output_at_the_end(job)
        outputs = [(self.room / f"pack-{job}-{run}.out").read_text() for run in range(4)]
        workers = [self.workers(output)[0] for output in outputs]
        self.assertEqual(["0", "1", "2", "3"], [worker["arguments"][-1] for worker in workers])
        self.assertEqual(4, len({worker["CUDA_VISIBLE_DEVICES"] for worker in workers}))

    def test_run_of_steps(self):
        output = self.complete("--nodes=2", "--gpus-per-node=1",
                               arguments=(f"{WORKER} --light first", f"{WORKER} --light second"))
        said = [(worker["arguments"], worker["TORCHELASTIC_RUN_ID"].partition("_")[2])
                for worker in self.workers(output)]
        self.assertEqual([(["--light", "first"], ""), (["--light", "second"], "step1")] * 2, said)

    def test_run_of_burn_in(self):
        output = self.complete("--nodes=2", "--gpus-per-node=1")
        alone, together = output.split("each node for itself: passed\n")
        self.assertEqual(["1", "1"], [worker["WORLD_SIZE"] for worker in self.workers(alone)])
        self.assert_ranks(together, 2, 1)
        self.assertIn("all nodes together: passed", together)

    def test_run_of_profile(self):
        output = self.complete("--gpus-per-node=2")
        self.assert_ranks(output, 2, 2)
        self.assertEqual(["0", "1", "2", "3"],
                         sorted(file.name[-1] for file in self.room.glob("profile-*-[0-3]")))

    def test_run_of_scaling(self):
        """43 workers: as many with torch would not fit into a small machine."""
        self.run_there("bash", ROOT / "slurm/templates/scaling.sh", "submit", WORKER, "--light")
        names = ["ddp_G1N1", "ddp_2G1N", "ddp_4G1N", "ddp_8G1N", "ddp_2G2N", "ddp_2G4N", "ddp_2G8N"]
        listed = self.run_there("squeue", "--noheader", "--states=all", "--format=%i %j").split()
        jobs = {name: job for job, name in zip(listed[::2], listed[1::2]) if name in names}
        self.assertEqual(set(names), set(jobs))
        for name, world in zip(names, (1, 2, 4, 8, 4, 8, 16)):
            self.cluster.wait_for(jobs[name], "COMPLETED")
            workers = self.workers((self.room / f"log/{name}-{jobs[name]}.out").read_text())
            self.assertEqual([(str(rank), str(world), "1") for rank in range(world)],
                             [(worker["RANK"], worker["WORLD_SIZE"], worker["OMP_NUM_THREADS"])
                              for worker in workers])


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--ddprun", required=True)
    parser.add_argument("--python")
    parser.add_argument("--ddptrain")
    _, rest = parser.parse_known_args(namespace=options)
    options.has_torch = options.python is not None
    options.python = options.python or sys.executable
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)
