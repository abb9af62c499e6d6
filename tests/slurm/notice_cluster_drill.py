"""Whatever ends a job of a real Slurm in mid-training, all its ranks save one step, and no step is lost.

    notice_cluster_drill.py --ddprun PROGRAM --ddptrain PROGRAM [--repeats N] [--kinds A,B,…] [--seed S]

For each kind of end, N times, at a random moment: the ranks have trained the same steps, the snapshot is of the
last of them, the job is requeued once or not at all, and the next run resumes with the step after it. Four jobs at
a time. Prints a line for each job and, at the end, how many of each kind passed.
"""

import argparse
import collections
import concurrent.futures
import json
import pathlib
import queue
import random
import re
import sys
import time
import traceback

from cluster import PATIENCE_S, POLL_S, Cluster, why_not

WORLD = 4
SLOTS = 4  # jobs at a time, of two nodes each
LATEST_S = 10  # the moment, from when its ddprun runs
EPOCHS = 2
TRAIN = "--batch-size=32 --limit-train-samples=6400 --limit-test-samples=500 --snapshot-every-steps=100000"
STEPS = EPOCHS * 6400 // WORLD // 32
# The site's grace period: four trainings share the cores here, and each must finish a step or two.
SETTINGS = {"KillWait": "20"}

SCRIPT = """#SBATCH --ntasks-per-node=1 --nodes=2 --requeue --open-mode=append --partition=low
trap 'is_told=yes; kill -USR1 "$step"' USR1
echo "run ${{SLURM_RESTART_COUNT:-0}}"
srun --ntasks-per-node=1 {ddprun} --requeue=on-preempt --nproc-per-node=2 \\
  {ddptrain} {train} --epochs={epochs} --snapshot-dir={room}/snapshots --sample-trace={room}/trace &
step=$!
is_told=yes
while [[ $is_told == yes ]]; do
  is_told=no status=0
  wait "$step" || status=$?
done
echo "srun $status"
exit "$status"
"""

options = argparse.Namespace()


class Job:
    """One running training, on its own two nodes."""

    def __init__(self, cluster, slot, name, *flags, epochs=EPOCHS):
        self.cluster = cluster
        self.epochs = epochs
        self.room = cluster.shared / name
        self.room.mkdir()
        self.nodes = ",".join(cluster.names[2 * slot:2 * slot + 2])
        self.submit(*flags)

    def submit(self, *flags):
        text = SCRIPT.format(ddprun=options.ddprun, ddptrain=options.ddptrain, train=TRAIN,
                             epochs=self.epochs, room=self.room)
        self.id = self.cluster.sbatch(f"--nodelist={self.nodes}", "--time=60", *flags, script=text)

    def output(self):
        return self.cluster.output_of(self.id)

    def take_trace(self):
        """The steps of each rank since the last call."""
        trace = self.room / "trace"
        steps = {rank: [] for rank in range(WORLD)}
        for line in trace.read_text().splitlines() if trace.exists() else ():
            record = json.loads(line)
            steps[record["rank"]].append(record["step"])
        trace.unlink(missing_ok=True)
        return steps


# The ends.


def by_term(job):
    job.cluster.run("scancel", "--signal=TERM", f"{job.id}.0", check=False)


def by_usr1(job):
    job.cluster.run("scancel", "--signal=USR1", str(job.id), check=False)


def by_preemption(job):
    job.cluster.sbatch("--partition=batch", "--exclusive", f"--nodelist={job.nodes}", "--time=1", script=":")


def by_requeue(job):
    job.cluster.run("scontrol", "requeue", str(job.id))


def by_scancel(job):
    job.cluster.run("scancel", str(job.id))


def by_slurm(job):
    """Its time is over, or nearly so: Slurm ends it."""


class Kind:
    def __init__(self, end, *flags, is_requeued=True, is_short=False):
        self.end = end
        self.flags = flags
        self.is_requeued = is_requeued
        self.is_short = is_short  # of time, in the next run as well: that one is not waited for


KINDS = {
    "TERM": Kind(by_term),
    "USR1": Kind(by_usr1),
    "preemption": Kind(by_preemption),
    "requeue": Kind(by_requeue),
    "scancel": Kind(by_scancel, is_requeued=False),
    # Slurm checks each half minute, so they come 15 to 45 s after the start.
    "signal": Kind(by_slurm, "--time=1", "--signal=USR1@15", is_short=True),
    "batch_signal": Kind(by_slurm, "--time=1", "--signal=B:USR1@15", is_short=True),
    "time_limit": Kind(by_slurm, "--time=1", is_short=True),
}


def expect(claim, why, job):
    if not claim:
        raise AssertionError(f"{why}\n{job.output()}\n{job.cluster.job(job.id)}")


def stopped_at(job, output):
    """The step at which all reported to have stopped; 0 if none had begun."""
    steps = job.take_trace()
    counts = {len(of_rank) for of_rank in steps.values()}
    said = re.findall(r"^stopped epoch=\d+ step=(\d+)$", output, re.M)
    if not said:
        # The notice came before there was anything to save.
        expect(counts == {0}, f"steps were done, and not saved: {steps}", job)
        return 0
    expect(len(said) == 1, f"stopped {len(said)} times", job)
    step = int(said[0])
    for rank, of_rank in steps.items():
        expect(of_rank == list(range(1, step + 1)), f"rank {rank} did {of_rank}, not 1 to {step}", job)
    expect("exit status 75" in output, "its status is not 75", job)
    return step


def wait_for_step(job, first):
    """The next run has begun with `first`, on every rank."""
    deadline = time.monotonic() + PATIENCE_S
    trace = job.room / "trace"
    while True:
        lines = trace.read_text().splitlines() if trace.exists() else []
        records = [json.loads(line) for line in lines if line.endswith("}")]
        begun = {record["rank"]: record["step"] for record in reversed(records)}
        if len(begun) == WORLD:
            return expect(set(begun.values()) == {first}, f"continues with {begun}, not {first}", job)
        expect(time.monotonic() < deadline, "the next run does not begin", job)
        time.sleep(POLL_S)


def await_launch(job):
    """All of its ddpruns run. A signal that comes before ends them, as it does any process that has just
    been started."""
    job.cluster.wait_for(job.id, "RUNNING")
    deadline = time.monotonic() + PATIENCE_S
    while "ddprun: date=" not in job.output():
        expect(time.monotonic() < deadline, "ddprun does not start", job)
        time.sleep(POLL_S)


def drill(cluster, slot, kind, name, moment, final):
    job = Job(cluster, slot, name, *kind.flags, epochs=1000 if kind.is_short else EPOCHS)
    await_launch(job)
    time.sleep(moment)
    kind.end(job)
    if kind.is_requeued:
        cluster.wait_for(job.id, "PENDING", restarts=1, timeout=2 * PATIENCE_S)
        output = job.output()
        step = stopped_at(job, output)
        expect(output.count("was asked to start") == (0 if kind.end is by_requeue else 1),
               "Slurm was not asked once", job)
        cluster.start_again(job.id)
    else:
        known = cluster.wait_until_over(job.id)
        expect(known["JobState"] == "CANCELLED", "it is not cancelled", job)
        output = job.output()
        step = stopped_at(job, output)
        expect(int(known["Restarts"]) == 0 and "was asked to start" not in output, "it starts again", job)
        job.submit()
    if kind.is_short:
        wait_for_step(job, step + 1)
        cluster.run("scancel", "--full", "--signal=KILL", str(job.id))
        cluster.run("scancel", str(job.id), check=False)
        return step
    known = cluster.wait_until_over(job.id, timeout=2 * PATIENCE_S)
    expect((known["JobState"], known["ExitCode"]) == ("COMPLETED", "0:0"), "it does not complete", job)
    for rank, of_rank in job.take_trace().items():
        expect(of_rank == list(range(step + 1, STEPS + 1)), f"rank {rank} continues with {of_rank[:3]}", job)
    expect(final in job.output(), f"the end is not that of a run without a stop, {final}", job)
    return step


def undisturbed(cluster):
    job = Job(cluster, 0, "undisturbed")
    cluster.wait_for(job.id, "COMPLETED", timeout=2 * PATIENCE_S)
    return re.search("^final .*$", job.output(), re.M).group()


def main():
    skip = why_not()
    if skip:
        return print(f"SKIPPED: {skip}")
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(10**9)
    dice = random.Random(seed)
    print(f"seed {seed}", flush=True)
    went_well = collections.Counter()
    with Cluster(2 * SLOTS, settings=SETTINGS) as cluster:
        final = undisturbed(cluster)
        slots = queue.SimpleQueue()
        for slot in range(SLOTS):
            slots.put(slot)

        def one(name, number, moment):
            slot = slots.get()
            try:
                began = time.monotonic()
                step = drill(cluster, slot, KINDS[name], f"{name}-{number}", moment, final)
                went_well[name] += 1
                print(f"{name} {number}: after {moment:.1f} s, at step {step}; "
                      f"{time.monotonic() - began:.0f} s", flush=True)
                return True
            except Exception:
                print(f"FAILED: {name} {number}, after {moment:.1f} s:\n{traceback.format_exc()}", flush=True)
                return False
            finally:
                slots.put(slot)

        trials = [(name, number, dice.uniform(0, LATEST_S))
                  for number in range(options.repeats) for name in options.kinds.split(",")]
        with concurrent.futures.ThreadPoolExecutor(SLOTS) as pool:
            passed = list(pool.map(lambda trial: one(*trial), trials))
    for name in options.kinds.split(","):
        print(f"{name}: {went_well[name]} of {options.repeats} well")
    return 0 if all(passed) else 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--ddprun", required=True, type=lambda path: pathlib.Path(path).resolve())
    parser.add_argument("--ddptrain", required=True, type=lambda path: pathlib.Path(path).resolve())
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--seed", type=int)
    parser.parse_args(namespace=options)
    sys.exit(main())
