"""The main guarantee, with the real launcher: ranks and agents are killed at random steps, all ranks are restarted,
and the weights are those of an undisturbed run.

    drill_test.py [--seeds N]      each seed is one run; a seed that failed replays by --first-seed
"""

import argparse
import os
import pathlib
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import unittest

import jobs
from resume_test import Steps, command

DDPRUN = os.environ.get("DDPRUN", str(jobs.HERE.parents[1] / "build/release/bin/ddprun"))
WORLD = 2
KILLS = 3
BAD_NUMBERS, NO_MEMORY, BAD_FILE = 65, 71, 78
STEPS = 63  # of the job of resume_test.py at world 2
arguments = argparse.Namespace(seeds=20, first_seed=0)


def workers_of(launcher):
    """{rank: pid} of the workers below `launcher`, from /proc."""
    found, below = {}, [launcher]
    while below:
        pid = below.pop()
        try:
            for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
                below += [int(child) for child in (task / "children").read_text().split()]
            environment = pathlib.Path(f"/proc/{pid}/environ").read_text().split("\0")
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended between two reads
        variables = dict(line.partition("=")[::2] for line in environment)
        if "RANK" in variables:
            found[int(variables["RANK"])] = pid
    return found


def run_with_kills(seed, directory):
    """(exit status, stdout, stderr) of one drill."""
    chance = random.Random(seed)
    steps = Steps(str(directory / "steps"))
    flags = ["--snapshot-dir", str(directory / "snapshots"),
             "--snapshot-every-steps", str(chance.randint(1, 12)), "--metrics-file", steps.path]
    launcher = subprocess.Popen(
        [DDPRUN, "--standalone", "--nproc-per-node", str(WORLD), "--max-restarts", str(KILLS + 1),
         *command(*flags)],
        env=os.environ | jobs.ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True)
    for step in sorted(chance.sample(range(2, STEPS), KILLS)):
        steps.wait_for(event="step", step=step)
        os.kill(workers_of(launcher.pid)[chance.randrange(WORLD)], signal.SIGKILL)
        steps.wait_for(event="start")  # of the next attempt
    threading.Thread(target=steps.file.read, daemon=True).start()
    try:
        out, err = launcher.communicate(timeout=jobs.WAIT_S)
    finally:
        launcher.kill()
    return launcher.returncode, out, err


class TwoNodes:
    """Two ddprun of one worker each, as started by hand; rank 0's metrics come through a FIFO."""

    def __init__(self, seed, directory, port):
        chance = random.Random(seed)
        self.directory = directory
        self.steps = Steps(str(directory / "steps"))
        # Not among the last steps: a node that is restarted needs a job that still runs.
        self.kills = list(zip(sorted(chance.sample(range(2, STEPS - 20), WORLD)),
                              chance.sample(range(WORLD), WORLD)))
        self.words = [
            DDPRUN, "--nnodes", str(WORLD), "--nproc-per-node", "1", "--rdzv-backend", "c10d",
            "--rdzv-endpoint", f"localhost:{port}", "--rdzv-id", "drill", "--lease", "1",
            *command("--snapshot-dir", str(directory / "snapshots"), "--snapshot-every-steps",
                     str(chance.randint(1, 12)), "--metrics-file", self.steps.path)]
        self.guards = [self.start(node) for node in range(WORLD)]

    def start(self, node):
        with open(self.directory / f"said-{node}", "a") as said:
            return subprocess.Popen(
                self.words, stdout=said, stderr=said,
                env=os.environ | jobs.ENVIRONMENT | {"GLOO_SOCKET_IFNAME": "lo"})

    def kill_agent(self, node):
        """The child of what was started, and the parent of the workers. The node is then started again."""
        guard = self.guards[node]
        agent = int(pathlib.Path(f"/proc/{guard.pid}/task/{guard.pid}/children").read_text().split()[0])
        os.kill(agent, signal.SIGKILL)
        status = guard.wait(jobs.WAIT_S)
        self.guards[node] = self.start(node)
        return status

    def said(self):
        return "".join((self.directory / f"said-{node}").read_text() for node in range(WORLD))


class Drill(unittest.TestCase):
    def test_agents_killed_at_random_steps_leave_no_trace_in_the_weights(self):
        """Each of two nodes loses its agent once, the one that leads too."""
        undisturbed = jobs.final(jobs.Run(command(), WORLD).wait())
        with self.subTest(replay=f"--first-seed {arguments.first_seed}"), \
                tempfile.TemporaryDirectory() as directory, socket.socket() as reservation:
            # Bound to it, so that no other process is given it; ddprun may listen there.
            reservation.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            reservation.bind(("127.0.0.1", 0))
            nodes = TwoNodes(arguments.first_seed, pathlib.Path(directory),
                             port=reservation.getsockname()[1])
            for guard in nodes.guards:
                self.addCleanup(guard.kill)
            for step, node in nodes.kills:
                nodes.steps.wait_for(event="step", step=step)
                self.assertEqual(128 + signal.SIGKILL, nodes.kill_agent(node), nodes.said())
                self.addCleanup(nodes.guards[node].kill)
                nodes.steps.wait_for(event="start")  # of the next round
            threading.Thread(target=nodes.steps.file.read, daemon=True).start()
            for guard in nodes.guards:
                self.assertEqual(0, guard.wait(jobs.WAIT_S), nodes.said())
            said = nodes.said()
            self.assertEqual(said.count("ddptrain dataset="), len(nodes.kills) + 1, said)
            (last,) = (line for line in said.splitlines() if line.startswith("final "))
            self.assertEqual(jobs.final([(0, last, "")]), undisturbed)

    def test_kills_at_random_steps_leave_no_trace_in_the_weights(self):
        undisturbed = jobs.final(jobs.Run(command(), WORLD).wait())
        for seed in range(arguments.first_seed, arguments.first_seed + arguments.seeds):
            with self.subTest(replay=f"--first-seed {seed} --seeds 1"), \
                    tempfile.TemporaryDirectory() as directory:
                status, out, err = run_with_kills(seed, pathlib.Path(directory))
                self.assertEqual(status, 0, err)
                self.assertEqual(out.count("ddptrain dataset="), KILLS + 1, "starts")
                self.assertEqual(jobs.final([(status, out, err)]), undisturbed)

    def test_ctrl_c_saves_at_that_step_and_the_same_line_resumes_from_there(self):
        undisturbed = jobs.final(jobs.Run(command(), WORLD).wait())
        with tempfile.TemporaryDirectory() as directory:
            steps = Steps(os.path.join(directory, "steps"))
            line = [DDPRUN, "--standalone", "--nproc-per-node", str(WORLD),
                    *command("--snapshot-dir", os.path.join(directory, "snapshots"))]
            environment = os.environ | jobs.ENVIRONMENT
            launcher = subprocess.Popen([*line, "--metrics-file", steps.path], env=environment,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            self.addCleanup(launcher.kill)
            steps.wait_for(event="step", step=10)
            launcher.send_signal(signal.SIGINT)
            threading.Thread(target=steps.file.read, daemon=True).start()
            _, err = launcher.communicate(timeout=jobs.WAIT_S)
            self.assertEqual(75, launcher.returncode, err)
            again = subprocess.run(line, env=environment, capture_output=True, text=True, timeout=jobs.WAIT_S)
            self.assertRegex(again.stdout, r"(?m)^resumed epoch=\d+ step=\d\d$")
            self.assertEqual(jobs.final([(again.returncode, again.stdout, again.stderr)]), undisturbed)

    def test_ddprun_names_the_rank_whose_fault_it_was(self):
        """And not one that lost it: a worker that fails reports it before its peers can know."""
        for fault, expected in (("nan", BAD_NUMBERS), ("oom", NO_MEMORY)) * 2:
            ended = subprocess.run(
                [DDPRUN, "--standalone", "--nproc-per-node", str(WORLD),
                 *command("--inject", f"{fault}@3,rank=1")],
                env=os.environ | jobs.ENVIRONMENT, capture_output=True, text=True, timeout=jobs.WAIT_S)
            self.assertEqual(expected, ended.returncode, ended.stderr)
            self.assertRegex(ended.stderr, rf"rank 1 .* exited with status {expected}")

    def test_ddprun_names_the_rank_that_refuses_a_snapshot(self):
        """Rank 0 alone reads it. The others learn of the error before rank 0 has ended, and often end first."""
        with tempfile.TemporaryDirectory() as directory:
            job = command("--model", "linear", "--epochs", "1", "--snapshot-dir", str(pathlib.Path(directory, "kept")))
            jobs.final(jobs.Run(job, WORLD).wait())
            for attempt in range(5):
                ended = subprocess.run(
                    [DDPRUN, "--standalone", "--nproc-per-node", str(WORLD), *job, "--seed", "5"],
                    env=os.environ | jobs.ENVIRONMENT, capture_output=True, text=True, timeout=jobs.WAIT_S)
                with self.subTest(attempt=attempt):
                    self.assertEqual(BAD_FILE, ended.returncode, ended.stderr)
                    self.assertRegex(ended.stderr, rf"failed on \S+: rank 0 .* exited with status {BAD_FILE}")
                    self.assertRegex(ended.stderr, r"it said: .*saved with --seed 0, but this run has 5")
                    self.assertEqual(1, ended.stderr.count(" failed on "), ended.stderr)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first-seed", type=int, default=0)
    arguments, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest])
