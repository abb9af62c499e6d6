"""Faults of Slurm and its nodes: an element of an array is preempted, a network is cut and healed, an agent is
killed, a slurmd dies.

    unkind_cluster_test.py --ddprun PROGRAM [--repeats N] [unittest arguments]
"""

import argparse
import json
import os
import shutil
import sys
import time
import unittest

from cluster import PATIENCE_S, Cluster, first, skip_without_cluster

options = argparse.Namespace()
SPARED = ("--ntasks-per-node=1", "--no-kill", "--kill-on-bad-exit=0", "--wait=0")
SAVES = "trap 'kill \\$!; exit 0' TERM; sleep 1000 & echo up; wait"


def setUpModule():
    skip_without_cluster()


def read_events(logs):
    """All that the nodes of a job have written down so far."""
    return [json.loads(line) for file in logs.glob("*/events.jsonl") for line in file.read_text().splitlines()
            if line.endswith("}")]


def texts_of_loss(logs):
    return [event["text"] for event in read_events(logs) if event["event"] == "batch_host_lost"]


class Array(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = cls.enterClassContext(Cluster(3))

    def elements(self, array):
        """The fields of scontrol for each element, by index."""
        lines = self.cluster.run("scontrol", "--oneliner", "show", "job", str(array)).stdout.splitlines()
        records = [dict(word.split("=", 1) for word in line.split() if "=" in word) for line in lines]
        return {int(record["ArrayTaskId"]): record for record in records}

    def output_of(self, array, element):
        path = self.cluster.shared / f"{array}_{element}.out"
        return path.read_text() if path.exists() else ""

    def test_a_preempted_element_is_requeued_alone(self):
        """Also the element whose job id is that of the whole array."""
        for _ in range(options.repeats):
            array = self.cluster.sbatch(
                "--partition=low", "-N1", "--exclusive", "--array=1-3", "--requeue", "--open-mode=append",
                f"--output={self.cluster.shared}/%A_%a.out",
                script=f"srun {options.ddprun} --requeue=on-preempt --nproc-per-node 1 --no-python sh -c \"{SAVES}\"\n")
            try:
                for element in range(1, 4):
                    self.cluster.wait_until(lambda: "up" in self.output_of(array, element), f"element {element}")
                before = self.elements(array)
                (preempted,) = [element for element, record in before.items() if record["JobId"] == str(array)]
                self.cluster.sbatch("--partition=batch", "--exclusive", f"--nodelist={before[preempted]['NodeList']}",
                                    script=":")
                self.cluster.wait_for(f"{array}_{preempted}", "PENDING", restarts=1)
                self.assertIn(f"ddprun: Slurm was asked to start job {array}_{preempted} again: restart 1",
                              self.output_of(array, preempted))
                for element, record in self.elements(array).items():
                    expected = ("PENDING", "1") if element == preempted else ("RUNNING", "0")
                    self.assertEqual(expected, (record["JobState"], record["Restarts"]), record)
            finally:
                self.cluster.run("scancel", str(array))
                self.cluster.wait_until(lambda: not self.cluster.run("squeue", "-h").stdout, "the array is gone")


class Step:
    """One running step on nodes of a cluster, whose workers run until they are told to end."""

    def __init__(self, case, nodes, *flags, srun=()):
        self.case, self.cluster = case, case.cluster
        self.stop = self.cluster.shared / "stop"
        self.stop.unlink(missing_ok=True)
        self.err = self.cluster.shared / "err"
        work = f"echo up; until [ -e {self.stop} ]; do sleep 0.1; done"
        with self.err.open("w") as err:
            self.srun = self.cluster.popen("srun", *first(nodes), *SPARED, *srun, options.ddprun, *flags, "--nproc-per-node=1",
                                           "--no-python", "sh", "-c", work, stdin=-3, stdout=-1, stderr=err, text=True)
        case.addCleanup(self.end)
        for _ in range(nodes):
            case.assertEqual("up\n", self.srun.stdout.readline(), self.said())

    def said(self):
        return self.err.read_text()

    def finish(self):
        self.stop.touch()

    def wait(self):
        """Its status."""
        self.srun.communicate(timeout=PATIENCE_S)
        return self.srun.returncode

    def end(self):
        if self.srun.poll() is None:
            self.srun.kill()
            self.cluster.run("scancel", "--user=root", check=False)
        self.srun.communicate()
        self.cluster.wait_until(lambda: not self.cluster.run("squeue", "-h").stdout, "the job is gone")


class Loss(unittest.TestCase):
    """Nodes that are lost for a while, or for good."""

    @classmethod
    def setUpClass(cls):
        cls.cluster = cls.enterClassContext(Cluster(4))

    def test_one_of_two_whose_workers_end_well_during_a_cut_hears_that_the_job_is_done(self):
        for _ in range(options.repeats):
            step = Step(self, 2, "--nnodes=1:2")
            self.cluster.isolate("node0", "node1")
            step.finish()
            self.cluster.wait_until(lambda: "lost by silence" in step.said(), "node0 is done, and waits for node1")
            self.cluster.heal("node0")
            self.assertEqual(0, step.wait(), step.said())

    def kill(self, node, program):
        (pid,) = self.cluster.run("pgrep", "-x", program, node=node).stdout.split()
        self.cluster.run("kill", "-KILL", pid, node=node)

    def test_of_two_nodes_the_other_ends_at_once_when_agent_or_guard_is_killed(self):
        for _ in range(options.repeats):
            for node in ("node0", "node1"):
                for program in ("ddprun-agent", "ddprun"):
                    with self.subTest(node=node, program=program):
                        step = Step(self, 2)
                        at = time.monotonic()
                        self.kill(node, program)
                        self.assertNotEqual(0, step.wait(), step.said())
                        print(f"{program} killed on {node}: srun ended {time.monotonic() - at:.1f} s later", flush=True)
                        survivor = "node1" if node == "node0" else "node0"
                        self.assertRegex(step.said(), r"ddprun: only 1 of 2 nodes are left, and this step gets no "
                                                      rf"new ones: {survivor} \(.*; exit status 75")

    def test_a_loss_is_said_once_on_the_console_that_all_share(self):
        for _ in range(options.repeats):
            step = Step(self, 4)
            self.kill("node3", "ddprun-agent")
            self.assertNotEqual(0, step.wait(), step.said())
            self.assertEqual(1, step.said().count("node node3 is lost"), step.said())
            self.assertEqual(1, step.said().count("only 3 of 4 nodes are left"), step.said())

    def test_the_end_by_a_signal_is_said_once_on_the_console_that_all_share(self):
        for name in ("TERM", "USR1"):
            step = Step(self, 3)
            self.cluster.run("scancel", f"--signal={name}", "--user=root")
            self.assertNotEqual(0, step.wait(), step.said())
            self.assertEqual(1, step.said().count(f"was told to stop by SIG{name}"), step.said())
            self.assertLessEqual(step.said().count("all workers have ended"), 1, step.said())

    def test_a_lost_leader_is_said_once_on_the_console_that_all_share(self):
        def is_killed():
            self.kill("node0", "ddprun-agent")

        def falls_silent():
            for other in ("node1", "node2", "node3"):
                self.cluster.isolate("node0", other)

        for _ in range(options.repeats):
            for lose, words in ((is_killed, "the leader, node0, is gone; node"),
                                (falls_silent, "the leader, node0, was not heard for ")):
                with self.subTest(words=words):
                    step = Step(self, 4, "--nnodes=3:4")
                    lose()
                    for _ in range(3):
                        self.assertEqual("up\n", step.srun.stdout.readline(), step.said())  # without node0
                    step.finish()
                    self.cluster.heal("node0")
                    step.wait()
                    self.assertEqual(1, step.said().count(words), step.said())

    def test_a_loss_is_said_in_each_file_where_every_node_has_one(self):
        step = Step(self, 2, srun=(f"--error={self.cluster.shared}/%n.txt",))
        self.kill("node1", "ddprun-agent")
        self.assertNotEqual(0, step.wait())
        self.assertIn("node node1 is lost", (self.cluster.shared / "0.txt").read_text())

    def test_what_two_of_four_finish_during_a_cut_of_30_s_is_done_for_the_other_two(self):
        """They look for a leader for 30 s, and the leader stays for as long."""
        for _ in range(options.repeats):
            step = Step(self, 4, "--nnodes=2:4")
            halves = [(one, other) for one in ("node0", "node1") for other in ("node2", "node3")]
            for one, other in halves:
                self.cluster.isolate(one, other)
            cut = time.monotonic()
            for _ in range(2):
                self.assertEqual("up\n", step.srun.stdout.readline(), step.said())  # without the others
            step.finish()
            self.cluster.wait_until(lambda: "lost by silence" in step.said(), "the leader waits for the others")
            time.sleep(max(0, cut + 30 - time.monotonic()))
            for node in ("node0", "node1"):
                self.cluster.heal(node)
            self.assertEqual(0, step.wait(), step.said())

    def start_job_of_batch_host(self, stop, path):
        """A job of four nodes that work until `stop` exists, and where their journals are. `path`: where they look for
        Slurm's tools."""
        logs = self.cluster.shared / f"logs{time.monotonic_ns()}"
        work = f"echo up $RANK; until [ -e {stop} ]; do sleep 0.1; done"
        job = self.cluster.sbatch(*first(4), "--no-kill", script=f"""
            srun {" ".join(SPARED)} env PATH={path} {options.ddprun} --nnodes=2:4 --log-dir={logs} \
              --nproc-per-node=1 --no-python sh -c '{work}'
            """)
        self.cluster.wait_until(lambda: self.cluster.output_of(job).count("up") == 4, "the workers run")
        return job, logs

    def test_a_job_whose_batch_host_is_lost_ends_once_the_others_are_done(self):
        """Slurm alone would leave it RUNNING until its time is over. For another job, whose nodes find no scancel, a
        message says how to end it."""
        tools = self.cluster.shared / "tools"
        tools.mkdir()
        for name in ("sh", "sleep", "scontrol"):
            (tools / name).symlink_to(shutil.which(name))
        for _ in range(options.repeats):
            stop = self.cluster.shared / f"stop{time.monotonic_ns()}"
            job, logs = self.start_job_of_batch_host(stop, os.environ["PATH"])
            other, others_logs = self.start_job_of_batch_host(stop, tools)
            self.cluster.kill_node("node0")
            stop.touch()
            self.assertEqual("node0", self.cluster.wait_for(job, "CANCELLED")["BatchHost"])
            self.cluster.wait_until(lambda: texts_of_loss(others_logs), "it is said how the other ends")
            self.assertEqual("RUNNING", self.cluster.job(other)["JobState"])
            self.cluster.run("scancel", str(other))
            self.cluster.wait_for(other, "CANCELLED")
            self.cluster.start_node("node0")
            events = read_events(logs)
            self.assertEqual({0}, {event["exit_status"] for event in events if event["event"] == "job_ended"})
            self.assertEqual([["node0"]], [event["lost_nodes"] for event in events if "lost_nodes" in event])
            self.assertEqual({"node0", "node1", "node2", "node3"}, {event["host"] for event in events if "host" in event})
            lost = "the batch host of job {}, node0, is lost, and its script and srun with it; {}"
            self.assertEqual([lost.format(job, "the job was cancelled, so that it ends")], texts_of_loss(logs))
            self.assertEqual([lost.format(other, f"'scancel {other}' ends the job, not done here: there is no scancel on PATH")],
                             texts_of_loss(others_logs))

    def test_a_slurmd_that_dies_and_returns_leaves_the_verdict_in_the_journal(self):
        """Slurm kills the task there, and srun ends with 137. The others have finished the work."""
        for _ in range(options.repeats):
            logs = self.cluster.shared / f"logs{time.monotonic_ns()}"
            step = Step(self, 2, "--nnodes=1:2", "--max-restarts=1", f"--log-dir={logs}")
            self.cluster.kill_slurmd("node1")
            self.cluster.wait_until_down("node1")
            self.cluster.start_node("node1")
            self.assertEqual("up\n", step.srun.stdout.readline(), step.said())  # without node1
            step.finish()
            self.assertEqual(137, step.wait(), step.said())
            ends = [event["exit_status"] for event in read_events(logs) if event["event"] == "job_ended"]
            self.assertEqual([0], ends)


class Port(unittest.TestCase):
    """--master-port is given, and another program has it on the first node."""

    @classmethod
    def setUpClass(cls):
        cls.cluster = cls.enterClassContext(Cluster(3))

    def take(self, port, then="time.sleep(1000)"):
        """A program on node0 has it and runs `then`: by default it accepts connections and sends nothing."""
        program = (f"import socket, time; s = socket.create_server(('', {port})); "
                   f"print('bound', flush=True); {then}")
        holder = self.cluster.popen("python3", "-c", program, node="node0", stdout=-1, text=True)
        self.assertEqual("bound\n", holder.stdout.readline())
        return holder

    def test_all_nodes_end_at_once_where_the_port_is_taken_and_one_says_by_whom(self):
        lines = (("--master-port=29500",), ("--master-addr=node0", "--master-port=29500"),
                 ("--nnodes=2:3", "--master-port=29500"),
                 ("--rdzv-backend=c10d", "--rdzv-endpoint=node0:29500", "--nnodes=3"))
        for _ in range(options.repeats):
            for line in lines:
                with self.subTest(line=line), self.take(29500) as holder:
                    at = time.monotonic()
                    step = self.cluster.srun(*first(3), *SPARED, options.ddprun, *line, "--nproc-per-node=1",
                                             "--no-python", "true", check=False)
                    print(f"{' '.join(line)}: srun ended after {time.monotonic() - at:.1f} s", flush=True)
                    holder.kill()
                    self.assertEqual(75, step.returncode, step.stderr)
                    self.assertEqual(1, step.stderr.count("port 29500 is used by python3 (pid "), step.stderr)
                    self.assertNotIn("still trying", step.stderr)

    def start_by_hand(self, line, rank):
        return self.cluster.popen("srun", "-N1", "-n1", f"--nodelist=node{rank}", options.ddprun, "--nnodes=3",
                                  *(word.format(rank=rank) for word in line), "--nproc-per-node=1", "--no-python",
                                  "true", stdin=-3, stdout=-1, stderr=-1, text=True)

    def started_by_hand(self, line, ranks):
        """Runs three nodes, each a separate job; returns what each printed, and its status."""
        at = time.monotonic()
        jobs = [self.start_by_hand(line, rank) for rank in ranks]
        ended = [(job.communicate()[1], job.returncode) for job in jobs]
        print(f"{' '.join(line)}, ranks {ranks}: ended after {time.monotonic() - at:.1f} s", flush=True)
        return ended

    BY_HAND = (("--node-rank={rank}", "--master-addr=node0", "--master-port=29500"),
               ("--rdzv-backend=c10d", "--rdzv-endpoint=node0:29500"))

    def test_nodes_that_were_started_one_by_one_end_where_the_port_is_taken(self):
        for line in self.BY_HAND * options.repeats:
            with self.subTest(line=line), self.take(29500) as holder:
                ended = self.started_by_hand(line, range(3))
                holder.kill()
                for said, status in ended:
                    self.assertEqual(75, status, said)
                    self.assertIn("port 29500 is used by python3 (pid ", said)

    def test_after_the_program_that_has_the_port_is_stopped_a_new_start_is_not_told_of_it(self):
        """The first one still informs the others for some seconds."""
        for line in self.BY_HAND * options.repeats:
            with self.subTest(line=line), self.take(29500) as holder:
                first_try = self.start_by_hand(line, 0)
                self.assertIn("port 29500 is used by python3 (pid ", first_try.stderr.readline())
                holder.kill()
                holder.wait()
                others = [self.start_by_hand(line, rank) for rank in (1, 2)]
                time.sleep(1)
                again = self.start_by_hand(line, 0)
                ended = [(*job.communicate(), job.returncode) for job in (*others, again, first_try)]
                self.assertEqual([0, 0, 0, 75], [status for *_, status in ended], ended)

    def test_a_node_that_comes_after_the_first_one_has_ended_sees_what_has_the_port(self):
        hangs_up = "[s.accept()[0].close() for _ in iter(int, 1)]"
        waits_for_a_line = "import http.server as h; s.close(); h.test(h.SimpleHTTPRequestHandler, port=29500)"
        for line, then in list(zip(self.BY_HAND, (hangs_up, waits_for_a_line))) * options.repeats:
            with self.subTest(line=line, then=then), self.take(29500, then) as holder:
                ended = self.started_by_hand(line, (1, 2))
                holder.kill()
                for said, status in ended:
                    self.assertEqual(75, status, said)
                    self.assertIn("node0:29500 is taken by a program that is not ddprun: ", said)
                    self.assertNotIn("still trying", said)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--ddprun", required=True, type=os.path.abspath)
    parser.add_argument("--repeats", type=int, default=1)
    _, rest = parser.parse_known_args(namespace=options)
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)
