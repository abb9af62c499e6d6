"""`srun ddprun` on a real Slurm: no flags for what Slurm knows.

    launch_cluster_test.py --ddprun PROGRAM [unittest arguments]
"""

import argparse
import json
import os
import signal
import sys
import tempfile
import unittest

from cluster import Cluster, first, skip_without_cluster

options = argparse.Namespace()
KILL_WAIT_S = 5  # local_cluster's
# Prints the signal that it got and the content of the notice file, as one line.
SAVES = """
import json, os, signal

FORGETFUL = None
rank = int(os.environ["RANK"])
def save(number, frame):
    told = json.load(open(os.environ["DDPRUN_NOTICE_FILE"]))
    os.write(1, (json.dumps(told | {"got": signal.Signals(number).name}) + "\\n").encode())
    os._exit(75 if rank else 0)

if rank != FORGETFUL:
    for number in (signal.SIGTERM, signal.SIGUSR1):
        signal.signal(number, save)
assert open(os.environ["DDPRUN_NOTICE_FILE"]).read() == ""
os.write(1, b"up\\n")
while True:
    signal.pause()
"""
# Another program has the port of the job on its first node, before ddprun starts there.
TAKEN = """
port=$((10000 + SLURM_JOB_ID % 10000))
if [ "$SLURM_NODEID" = 0 ]; then
  {taker} >/dev/null 2>&1 &
  until python3 -c "import socket; socket.create_connection(('127.0.0.1', $port))" 2>/dev/null; do
    kill -0 $! || exit 9
  done
fi
"$0" --nproc-per-node 1 --no-python sh -c 'echo $RANK/$WORLD_SIZE $((MASTER_PORT - '$port'))'
status=$?
[ -z "$!" ] || kill -9 $!
exit $status
"""
SILENT = 'python3 -c "import socket, signal; s = socket.create_server((\'\', $port)); signal.pause()"'
OTHER_JOB = '"$0" --nnodes 2 --rdzv-backend c10d --rdzv-id other --rdzv-endpoint node0:$port --no-python true'
SAY = "echo $RANK/$WORLD_SIZE $LOCAL_RANK $(hostname) $MASTER_ADDR $TORCHELASTIC_RUN_ID"


def setUpModule():
    skip_without_cluster()


class Launch(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = cls.enterClassContext(Cluster(4, gpus=2))

    def srun(self, *words, script=SAY, flags=(), check=True):
        return self.cluster.srun(*words, "-K0", "-W0", os.path.abspath(options.ddprun), *flags,
                                 "--no-python", "sh", "-c", script, check=check)

    def ranks(self, *words, **more):
        """[[RANK/WORLD_SIZE, LOCAL_RANK, host, MASTER_ADDR]], by rank; all of one job."""
        lines = [line.split() for line in self.srun(*words, **more).stdout.splitlines()]
        self.assertEqual(1, len({line[4] for line in lines}))
        return sorted((line[:4] for line in lines), key=lambda line: int(line[0].split("/")[0]))

    def test_ranks_follow_slurms_nodes(self):
        for nodes in (1, 2, 4):
            with self.subTest(nodes=nodes):
                expected = [[f"{2 * node + local}/{2 * nodes}", str(local), f"node{node}",
                             "127.0.0.1" if nodes == 1 else "node0"]
                            for node in range(nodes) for local in range(2)]
                self.assertEqual(expected, self.ranks(
                    *first(nodes), "--ntasks-per-node=1", flags=("--nproc-per-node", "2")))

    def test_a_worker_for_each_gpu(self):
        self.assertEqual(4, len(self.ranks("-N2", "--ntasks-per-node=1", "--gpus-per-node=2")))

    def test_each_node_keeps_a_log_of_its_memory_below_the_jobs_id(self):
        logs = tempfile.mkdtemp(dir=self.cluster.shared)
        said = self.srun(*first(2), "--ntasks-per-node=1", script=SAY,
                         flags=("--nproc-per-node", "1", "--memory-log", logs)).stdout
        job = said.split()[-1]
        self.assertEqual(["cpu_memory_log_node0.txt", "cpu_memory_log_node1.txt"],
                         sorted(os.listdir(f"{logs}/cpu_memory/{job}")))

    def test_the_last_node_stands_by(self):
        found = self.ranks(*first(3), "--ntasks-per-node=1",
                           flags=("--nnodes", "2", "--nproc-per-node", "1"))
        self.assertEqual([["0/2", "0", "node0", "node0"], ["1/2", "0", "node1", "node0"]], found)

    def test_all_but_one_stand_by(self):
        found = self.ranks(*first(3), "--ntasks-per-node=1", flags=("--nnodes", "1", "--nproc-per-node", "2"))
        self.assertEqual(["0/2", "1/2"], [rank for rank, *_ in found])
        self.assertEqual({"node0"}, {host for _, _, host, _ in found})

    def test_steps_with_one_id_do_not_mix(self):
        steps = self.cluster.run(
            "salloc", "-N2", "--ntasks-per-node=1", "sh", "-c",
            "for step in a b; do srun --overlap -K0 -W0 \"$0\" --rdzv-id same --nproc-per-node 1 --no-python "
            "sh -c 'echo $0 $RANK/$WORLD_SIZE $TORCHELASTIC_RUN_ID; sleep 1' $step & done; wait",
            os.path.abspath(options.ddprun)).stdout
        self.assertEqual([f"{step} {rank}/2 same" for step in "ab" for rank in range(2)],
                         sorted(steps.splitlines()))

    def test_a_port_that_is_taken_is_passed_over_on_all_nodes(self):
        for taker in (SILENT, OTHER_JOB):
            with self.subTest(taker=taker):
                step = self.cluster.srun(
                    *first(3), "--ntasks-per-node=1", "-K0", "-W0", "sh", "-c", TAKEN.format(taker=taker),
                    os.path.abspath(options.ddprun))
                self.assertEqual([f"{rank}/3 10000" for rank in range(3)], sorted(step.stdout.splitlines()))

    def test_more_nodes_than_there_are(self):
        refused = self.srun("-N2", "--ntasks-per-node=1", flags=("--nnodes", "4"), check=False)
        self.assertEqual(2, refused.returncode)
        self.assertIn("--nnodes '4': this Slurm step has 2 nodes", refused.stderr)

    def test_a_step_begins_with_a_header(self):
        step = self.srun(*first(2), "--ntasks-per-node=1", "--gpus-per-node=2", script="exit 0")
        (line,) = [line for line in step.stderr.splitlines() if line.startswith("ddprun: date=")]
        self.assertRegex(line, r" host=node0 job=\d+ attempt=0 nodes=2 workers=4 gpus=2 master=node0:\d+")
        self.assertNotIn("restarted", step.stderr)

    def test_a_job_that_slurm_starts_again_says_so(self):
        job = self.cluster.sbatch("-N1", "--requeue", "--open-mode=append", f"--output={self.cluster.shared}/again",
                                  script=f"srun {os.path.abspath(options.ddprun)} --nproc-per-node 1 --no-python "
                                         "sh -c 'echo up; [ $SLURM_RESTART_COUNT ] || exec sleep 1000'")
        self.cluster.wait_for(job, "RUNNING")
        self.cluster.run("scontrol", "requeue", str(job))
        self.cluster.start_again(job)
        self.assertEqual("COMPLETED", self.cluster.wait_until_over(job)["JobState"])
        said = (self.cluster.shared / "again").read_text()
        self.assertEqual(1, said.count("ddprun: restarted 1 times by SLURM\n"), said)

    def test_an_element_of_an_array_takes_its_row_of_the_grid(self):
        grid = self.cluster.shared / "grid.txt"
        grid.write_text("--lr 0.1\n--lr 0.2\n--lr 0.3 --name 'third row'\n")
        say = self.cluster.shared / "say"
        say.write_text("#!/bin/sh\nprintf '[%s]' \"$@\"\n")
        say.chmod(0o755)
        script = f"srun {os.path.abspath(options.ddprun)} --nproc-per-node 1 --grid {grid} {say} --lr 9"
        job = self.cluster.sbatch("-N1", "--array=1-3", f"--output={self.cluster.shared}/row%a", script=script)
        rows = ("0.1", "0.2", "0.3][--name][third row")
        for element, row in enumerate(rows, 1):
            self.cluster.wait_for(f"{job}_{element}", "COMPLETED")
            said = (self.cluster.shared / f"row{element}").read_text()
            self.assertIn(f"[--lr][{row}][--lr][9]", said)

    def test_independent_jobs_share_out_the_gpus_of_their_step(self):
        said = self.srun("-N1", "-n1", "--gpus-per-node=2", flags=("--independent", "2"),
                         script="echo $DDPRUN_TASK_ID $CUDA_VISIBLE_DEVICES $WORLD_SIZE ${TORCHELASTIC_RUN_ID#*_}")
        self.assertEqual(["0 0 1 task0", "1 1 1 task1"], sorted(said.stdout.splitlines()))
        refused = self.srun("-N2", "--ntasks-per-node=1", flags=("--independent", "2"), check=False)
        self.assertEqual(2, refused.returncode)
        self.assertIn("this Slurm step has 2 tasks", refused.stderr)

    def test_another_place_than_slurms(self):
        """As if a shell had expanded $SLURM_NODEID once for all nodes."""
        refused = self.cluster.srun("-N2", "--ntasks-per-node=1", "-K1", os.path.abspath(options.ddprun),
                                    "--node-rank", "0", "--no-python", "true", check=False)
        self.assertIn("--node-rank '0': this is node 1 of the step (SLURM_NODEID); leave it out", refused.stderr)

    def test_several_agents_on_a_node(self):
        refused = self.srun("-N2", "-n4", check=False)
        self.assertEqual(2, refused.returncode)
        self.assertIn("srun --nodes=2 --ntasks=2 --ntasks-per-node=1", refused.stderr)

    def test_a_signal_to_one_node_is_for_the_job(self):
        """As preemption and scancel come to nodes at different times."""
        step = self.cluster.popen(
            "srun", *first(2), "--ntasks-per-node=1", "-K0", "-W0", os.path.abspath(options.ddprun),
            "--nnodes", "1:2", "--nproc-per-node", "1", "--no-python", "sh", "-c",
            "echo up; exec sleep 1000", stdout=-1, stderr=-1, text=True)
        self.assertEqual(["up\n", "up\n"], [step.stdout.readline(), step.stdout.readline()])
        self.cluster.run("pkill", "-TERM", "-x", "-o", "ddprun", node="node1")
        out, err = step.communicate(timeout=60)
        self.assertEqual(128 + signal.SIGTERM, step.returncode, err)

    def notice(self, number, *flags, worker=SAVES):
        """USR1 or TERM to the agent of one node; what the step printed, and its status."""
        with tempfile.NamedTemporaryFile("w", dir=self.cluster.shared, suffix=".py", delete=False) as file:
            file.write(worker)
        step = self.cluster.popen(
            "srun", *first(2), "--ntasks-per-node=1", "-K0", "-W0", os.path.abspath(options.ddprun), *flags,
            "--nproc-per-node", "2", file.name, stdout=-1, stderr=-1, text=True)
        self.assertEqual(["up\n"] * 4, [step.stdout.readline() for _ in range(4)])
        # The agent, and not its guard: a single process, unlike Slurm.
        self.cluster.run("pkill", f"-{number}", "-x", "ddprun-agent", node="node1")
        out, err = step.communicate(timeout=60)
        return out.splitlines(), err, step.returncode

    def test_a_notice_to_one_node_has_all_workers_save(self):
        out, err, status = self.notice("USR1")
        self.assertEqual(4, len(out), err)
        for line in out:
            told = json.loads(line)
            self.assertEqual(("SIGUSR1", "SIGUSR1", None),
                             (told["got"], told["signal"], told["deadline_s"]))
        self.assertEqual(75, status, err)
        self.assertEqual(1, err.count("node1 was told to stop by SIGUSR1, and all workers have saved and ended; exit status 75"), err)

    def test_workers_are_told_of_a_notice_by_the_signal_of_the_users_choice(self):
        out, err, status = self.notice("USR1", "--forward-signal=SIGTERM", "--preempt-exit-code=85")
        self.assertEqual([("SIGTERM", "SIGUSR1")] * 4,
                         [(told["got"], told["signal"]) for told in map(json.loads, out)])
        self.assertEqual(85, status, err)

    def test_the_deadline_is_what_slurm_leaves_or_the_user(self):
        for flags, seconds in (((), KILL_WAIT_S), (("--shutdown-timeout=40",), 40)):
            out, err, status = self.notice("TERM", *flags)
            self.assertEqual((4, 75), (len(out), status), err)
            for told in map(json.loads, out):
                self.assertAlmostEqual(seconds, told["deadline_s"] - told["time_s"], places=2)

    def test_workers_without_a_handler_that_slurm_ends_first_are_no_failure(self):
        """Slurm signals them before their agent, or after it."""
        for _ in range(4):
            step = self.cluster.popen(
                "srun", "-N2", "--ntasks-per-node=1", "-K0", "-W0", os.path.abspath(options.ddprun),
                "--nproc-per-node", "2", "--no-python", "sh", "-c", "echo $SLURM_JOB_ID; exec sleep 1000",
                stdout=-1, stderr=-1, text=True)
            job = {step.stdout.readline() for _ in range(4)}.pop().strip()
            self.cluster.run("scancel", "--signal=USR1", f"{job}.0")
            _, err = step.communicate(timeout=60)
            self.assertEqual(128 + signal.SIGUSR1, step.returncode, err)
            self.assertIn("was told to stop by SIGUSR1", err)
            self.assertIn("was ended by signal 10 (SIGUSR1)", err)
            self.assertNotIn("FAILED", err)

    def test_the_worker_that_did_not_save_is_named(self):
        out, err, status = self.notice("TERM", worker=SAVES.replace("FORGETFUL = None", "FORGETFUL = 3"))
        self.assertEqual(128 + signal.SIGTERM, status, err)
        self.assertRegex(err, r"node1 was told to stop by SIGTERM; rank 3 on node1 \(local rank 1, pid \d+\) "
                              r"was ended by signal 15 \(SIGTERM\); exit status 143")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--ddprun", required=True)
    _, rest = parser.parse_known_args(namespace=options)
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)
