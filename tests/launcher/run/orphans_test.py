"""What ddprun says and does if a seccomp filter refuses PR_SET_CHILD_SUBREAPER, as in some containers:

    orphans_test.py --ddprun PATH --worker FAKE_WORKER [unittest arguments]
"""

import argparse
import os
import pathlib
import select
import signal
import sys
import unittest

sys.path.append(str(pathlib.Path(__file__).parents[2] / "agent"))

import processes_test
from processes_test import PATIENCE_S, Watched, await_ends, children_of
from refused_adoption import needs_refusal, refuse_adoption

WARNING = "ddprun: warning: cannot adopt orphaned processes: "


@needs_refusal
class WhereNobodyMayAdopt(processes_test.Case):
    def start_refused(self, *words, flags=()):
        return self.start(*words, flags=("--no-python", *flags), preexec_fn=refuse_adoption)

    def watch(self, pid):
        watched = Watched(pid)
        self.addCleanup(os.close, watched.pidfd)
        self.addCleanup(watched.kill)
        return watched

    def test_it_says_once_that_a_daemon_may_outlive_the_job_and_what_to_do(self):
        job = self.start_refused("daemon", "daemon", self.fifo.path, "exit", "0")
        daemon = self.watch(self.fifo.read(1)[0].pid)
        job.wait(PATIENCE_S)
        self.assertEqual([], select.select([daemon.pidfd], [], [], 0)[0], "the warning says that it may live")
        daemon.kill()  # it holds our end of stderr
        ended = self.end_of(job)
        self.assertEqual((0, 1), (ended.status, ended.err.count("\n")), ended.err)
        self.assertTrue(ended.err.startswith(WARNING + "Operation not permitted; "), ended.err)
        for part in ("may outlive the job", "seccomp profile", "srun, systemd-run"):
            self.assertIn(part, ended.err)

    def test_jobs_side_by_side_say_it_once(self):
        ended = self.end_of(self.start_refused("exit", "0", flags=("--independent=3",)))
        self.assertEqual((0, 1), (ended.status, ended.err.count(WARNING)), ended.err)

    def test_the_guard_does_not_claim_to_have_killed_all_that_a_killed_agent_left(self):
        job = self.start_refused("daemon", "daemon", self.fifo.path, "note", self.fifo.path, "worker", "hang")
        left = [self.watch(note.pid) for note in self.fifo.read(2)]
        (agent,) = children_of(job.pid)
        os.kill(agent, signal.SIGKILL)
        job.wait(PATIENCE_S)
        for process in left:
            process.kill()
        ended = self.end_of(job)
        self.assertEqual(137, ended.status)
        self.assertIn(f"the agent (pid {agent}) was ended by SIGKILL; the workers on this node were killed, but "
                      "perhaps not all that they started; exit status 137\n", ended.err)

    def test_the_agent_does_not_claim_to_have_killed_all_that_its_killed_guard_left(self):
        job = self.start_refused("daemon", "daemon", self.fifo.path, "note", self.fifo.path, "worker", "hang")
        left = {note.text: self.watch(note.pid) for note in self.fifo.read(2)}
        (agent,) = children_of(job.pid)
        agent = self.watch(agent)
        job.kill()
        await_ends([agent, left["worker"]])
        self.assertEqual([], select.select([left["daemon"].pidfd], [], [], 0)[0], "the message says that it may live")
        left["daemon"].kill()  # it holds our end of stderr
        self.assertIn("\nddprun: the guard, the process that was started, has ended (killed?); the workers on this "
                      "node were killed, but perhaps not all that they started\n", self.end_of(job).err)


class WhereItMay(processes_test.Case):
    def test_it_says_nothing(self):
        self.assertEqual("", self.run_job("exit", "0", flags=("--no-python",)).err)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--ddprun", dest="launcher", required=True)
    parser.add_argument("--worker", required=True)
    options, rest = parser.parse_known_args(namespace=processes_test.options)
    unittest.main(argv=[sys.argv[0], *rest])
