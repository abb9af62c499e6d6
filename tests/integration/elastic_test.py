"""A job of 4 nodes continues with 3 when an agent is killed or a node frozen, and with 4 when it comes back:
the model has still seen each sample once per epoch.

    elastic_test.py --ddprun PROGRAM --ddptrain PROGRAM [unittest arguments]

What counts is what the ranks themselves wrote down (--sample-trace), of the steps that the final model
is made of.
"""

import argparse
import fcntl
import json
import os
import pathlib
import select
import signal
import sys
import tempfile
import time
import unittest

import netns

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "parity"))
import jobs  # noqa: E402

PATIENCE_S = 60
NODES, LEAST = 4, 3
# Both worlds divide both numbers, so that no epoch is padded.
SAMPLES, BATCH = 2400, 12
EPOCHS = 3  # of 50 steps with 4 ranks
SNAPSHOT_EVERY = 7
TRY_AGAIN = 75

options = argparse.Namespace()


def setUpModule():
    netns.skip_without_namespaces()


class Metrics:
    """Rank 0's records, through a FIFO that holds some forty of them. If the test stops reading, the
    training soon stops."""

    def __init__(self, path, account):
        self._account = account  # what all said, for a test that hangs
        os.mkfifo(path)
        # Open for both, so that it has no end when no worker runs.
        self._fifo = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        fcntl.fcntl(self._fifo, fcntl.F_SETPIPE_SZ, 4096)
        self._unread = b""
        self.records = []

    def close(self):
        os.close(self._fifo)

    def wait_for(self, event, step=0):
        """The next record of this event at this step or after it."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            line, end, rest = self._unread.partition(b"\n")
            if not end:
                ready, _, _ = select.select([self._fifo], [], [], deadline - time.monotonic())
                if not ready:
                    raise TimeoutError(f"no {event} in {PATIENCE_S} s:\n{self._account()}")
                self._unread += os.read(self._fifo, 1 << 16)
                continue
            self._unread = rest
            self.records.append(json.loads(line))
            if self.records[-1]["event"] == event and self.records[-1]["step"] >= step:
                return self.records[-1]

    def rounds(self):
        """Records by round, each list headed by its start."""
        found = []
        for record in self.records:
            if record["event"] == "start":
                found.append([])
            found[-1].append(record)
        return found


def steps_by_arithmetic(starts):
    """How many steps the job has, given (world, step at which it began) of each round."""
    step = consumed = 0
    for index, (world, _) in enumerate(starts):
        end = starts[index + 1][1] if index + 1 < len(starts) else None
        while step != end and consumed < EPOCHS * SAMPLES:
            left = SAMPLES - consumed % SAMPLES
            consumed += min(BATCH * world, left)
            step += 1
    return step


class Elastic(unittest.TestCase):
    def setUp(self):
        self.network = self.enterContext(netns.Network(NODES))
        self.room = pathlib.Path(self.enterContext(
            tempfile.TemporaryDirectory(prefix="ddprun_test_")))
        self.trace = self.room / "trace"
        self.metrics = Metrics(self.room / "metrics", self.account)
        self.addCleanup(self.metrics.close)
        self.jobs = {}

    def start(self, node):
        dataset, directory = jobs.find_data()
        words = [options.ddprun, "--nnodes", f"{LEAST}:{NODES}", "--rdzv-backend", "c10d",
                 "--rdzv-endpoint", f"{self.network[0].address}:29400", "--rdzv-id", "job",
                 "--log-dir", str(self.room / "logs"), "--no-python", options.ddptrain,
                 "--dataset", dataset, "--data-dir", directory,
                 "--limit-train-samples", str(SAMPLES), "--limit-test-samples", "100",
                 "--batch-size", str(BATCH), "--epochs", str(EPOCHS),
                 "--snapshot-dir", str(self.room / "snapshots"),
                 "--snapshot-every-steps", str(SNAPSHOT_EVERY),
                 "--metrics-file", str(self.room / "metrics"), "--sample-trace", str(self.trace)]
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("PET_", "DDPRUN_SECRET"))}
        with open(self.room / f"n{node}.said", "ab") as said:
            self.jobs[node] = self.network[node].popen(
                words, stdout=said, stderr=said,
                env=kept | jobs.ENVIRONMENT | {"GLOO_SOCKET_IFNAME": "eth0"})

    def account(self):
        return "".join(f"{path.name}:\n{path.read_text()}" for path in self.room.glob("*.said"))

    def kill_agent(self, node):
        os.kill(netns.children_of(self.jobs[node].pid)[0], signal.SIGKILL)
        self.assertEqual(128 + signal.SIGKILL, self.jobs[node].wait(PATIENCE_S))

    def freeze(self, node):
        self.network[node].freeze()

    def thaw(self, node):
        self.network[node].thaw()

    def lose_and_regain(self, lose, regain, victim, witness):
        """Loses a node in the first epoch, has it back in the second."""
        for node in range(NODES):
            self.start(node)
        self.metrics.wait_for("step", 20)
        lose(victim)
        self.metrics.wait_for("start")
        self.metrics.wait_for("step", 60)
        # From here on the test does not read, so the job stops soon, until the node is back.
        agent = netns.children_of(self.jobs[witness].pid)[0]
        with netns.PidFd(netns.children_of(agent)[0]) as worker:
            regain(victim)
            self.assertTrue(worker.wait(PATIENCE_S), self.account())
        self.metrics.wait_for("final")
        for node, job in self.jobs.items():
            self.assertEqual(0, job.wait(PATIENCE_S), f"n{node}\n{self.account()}")

    def assert_no_step_was_lost_beyond_the_last_snapshot(self):
        rounds = self.metrics.rounds()
        for before, after in zip(rounds, rounds[1:]):
            # Once a step is followed by another one, its snapshot is saved.
            last = [record["step"] for record in before if record["event"] == "step"][-1]
            saved = (last - 1) // SNAPSHOT_EVERY * SNAPSHOT_EVERY
            self.assertIn(after[0]["step"], (saved, last))
            self.assertEqual(0, after[0]["step"] % SNAPSHOT_EVERY)

    def assert_each_sample_was_seen_once_in_each_epoch(self):
        batches = {}  # step → those of the last round that came to it
        for line in self.trace.read_text().splitlines():
            batch = json.loads(line)
            owner = batch["term"], batch["round"]
            known, _ = batches.get(batch["step"], ((0, 0), []))
            if owner > known:
                batches[batch["step"]] = owner, []
            if owner >= known:
                batches[batch["step"]][1].append(batch)
        final = self.metrics.records[-1]["step"]
        self.assertEqual(list(range(1, final + 1)), sorted(batches))
        seen = [[] for _ in range(EPOCHS)]
        for _, ranks in batches.values():
            self.assertEqual(list(range(ranks[0]["world"])), sorted(b["rank"] for b in ranks))
            for batch in ranks:
                seen[batch["epoch"]] += batch["samples"]
        for epoch in range(EPOCHS):
            self.assertEqual(list(range(SAMPLES)), sorted(seen[epoch]), f"epoch {epoch}")

    def judge(self):
        starts = [(round_[0]["world"], round_[0]["step"]) for round_ in self.metrics.rounds()]
        self.assertEqual([NODES, LEAST, NODES], [world for world, _ in starts], self.account())
        self.assert_no_step_was_lost_beyond_the_last_snapshot()
        self.assert_each_sample_was_seen_once_in_each_epoch()
        self.assertEqual(steps_by_arithmetic(starts), self.metrics.records[-1]["step"])
        # If an epoch ended after the snapshot that was resumed, there are two records: the last counts.
        counted = {record["epoch"]: record["samples"] for record in self.metrics.records if record["event"] == "epoch"}
        self.assertEqual({epoch: SAMPLES for epoch in range(EPOCHS)}, counted)

    def test_each_sample_is_seen_once_per_epoch_when_an_agent_is_killed_and_comes_back(self):
        self.lose_and_regain(self.kill_agent, self.start, victim=3, witness=0)
        self.judge()

    def test_and_so_it_is_when_it_is_the_one_that_leads(self):
        self.lose_and_regain(self.kill_agent, self.start, victim=0, witness=1)
        self.judge()

    def test_and_so_it_is_when_a_node_is_frozen(self):
        """The failure of its peers, which lost it before the leader knew why, was taken for their own."""
        self.lose_and_regain(self.freeze, self.thaw, victim=3, witness=0)
        self.judge()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for name in ("ddprun", "ddptrain"):
        parser.add_argument(f"--{name}", required=True)
    _, rest = parser.parse_known_args(namespace=options)
    unittest.main(argv=[sys.argv[0], *rest])
