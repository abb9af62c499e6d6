"""The results of find_allocation() for environments of a real Slurm.

    allocation_cluster_test.py --print-allocation PROGRAM [unittest arguments]
"""

import argparse
import json
import os
import subprocess
import sys
import unittest

from cluster import PATIENCE_S, Cluster, first, skip_without_cluster

options = argparse.Namespace()
GPUS = 4


def setUpModule():
    skip_without_cluster()


class Allocations(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = cls.enterClassContext(Cluster(4, gpus=GPUS, settings={
            "LaunchParameters": "use_interactive_step"}))
        cls.program = os.path.abspath(options.print_allocation)

    def told(self, text):
        """The allocations in an output, by task."""
        found = [json.loads(line) for line in text.splitlines()]
        return sorted(found, key=lambda one: (one["step_id"], one["task_id"]) if one else ())

    def of_srun(self, *flags):
        return self.told(self.cluster.srun(*flags, self.program).stdout)

    def of_job(self, *flags, script):
        """The lines that a batch script prints, without Slurm's messages about a step that must wait."""
        job = self.cluster.sbatch(
            f"--error={self.cluster.shared}/job-%j.err", *flags, script=script.replace("PRINT", self.program))
        self.cluster.wait_for(job, "COMPLETED")
        return job, self.told(self.cluster.output_of(job))

    def assert_facts(self, expected, allocations):
        """`expected` is a list of each fact's values, by task."""
        for fact, values in expected.items():
            self.assertEqual(values, [one[fact] for one in allocations], fact)

    def test_a_bare_srun(self):
        self.assert_facts({
            "nodes": [["node0", "node1"]] * 2, "tasks_per_node": [[1, 1]] * 2,
            "node_id": [0, 1], "node_name": ["node0", "node1"], "task_id": [0, 1],
            "local_id": [0, 0], "job_nodes": [2, 2], "cpus": [1, 1], "gpus": [2, 2],
            "restarts": [0, 0], "array_task": [None] * 2, "is_heterogeneous": [False] * 2,
            "agents_share_nodes": ["", ""],
        }, self.of_srun(*first(2), "--ntasks-per-node=1", "--gpus-per-node=2"))

    def test_nodes_are_in_slurms_order_whatever_the_user_asked(self):
        allocations = self.of_srun("-w", "node3,node1", "-N2")
        self.assert_facts({"nodes": [["node1", "node3"]] * 2}, allocations)

    def test_uneven_tasks(self):
        self.assert_facts({
            "tasks_per_node": [[6, 1, 1]] * 8, "node_id": [0] * 6 + [1, 2],
            "local_id": [0, 1, 2, 3, 4, 5, 0, 0], "cpus": [6] * 6 + [1, 1], "gpus": [None] * 8,
        }, self.of_srun("-N3", "-n8"))

    def test_tasks_dealt_round_the_nodes(self):
        self.assert_facts({
            "tasks_per_node": [[3, 1]] * 4, "node_id": [0, 1, 0, 0], "local_id": [0, 0, 1, 2],
        }, self.of_srun("-N2", "-n4", "-m", "cyclic"))

    def test_gpus_are_those_of_the_task(self):
        for flags, gpus in ((["-N1", f"--gpus-per-node={GPUS}"], [4]),
                            (["-N1", "-n4", "--gpus-per-task=1"], [1] * 4),
                            (["-N1", "-n4", "--gpus=2", "--ntasks-per-gpu=2"], [1] * 4),
                            (["-N1", "-n2", "--gpus=4", "--gpu-bind=none"], [4] * 2),
                            (["-N1"], [None])):
            with self.subTest(flags):
                self.assert_facts({"gpus": gpus}, self.of_srun(*flags))

    def test_the_srun_it_names_is_right_in_a_job_with_more_tasks(self):
        crowded = self.of_srun("-N2", "--ntasks-per-node=4")
        line = crowded[0]["agents_share_nodes"]
        self.assertRegex(line, "^this step has 8 tasks on 2 nodes, .*; start it by srun .* ddprun$")
        srun = line[line.index("srun "):].removesuffix("ddprun") + "PRINT"
        _, steps = self.of_job("-N2", "--ntasks-per-node=4", script=f"""
            PRINT                                   # the script itself is no step
            srun --ntasks-per-node=1 PRINT
            {srun}
        """)
        self.assertIsNone(steps[0])
        self.assert_facts({
            "step_id": [0] * 8 + [1, 1], "tasks_per_node": [[4, 4]] * 8 + [[1, 1]] * 2,
            "agents_share_nodes": [line] * 8 + ["", ""],
        }, steps[1:])

    def test_a_step_that_is_smaller_than_its_job(self):
        job, steps = self.of_job(*first(3), "--ntasks-per-node=1", script="srun -N1 -n1 PRINT")
        self.assert_facts({
            "job_id": [job], "nodes": [["node0"]], "job_nodes": [3], "task_id": [0],
        }, steps)

    def test_an_array(self):
        job = self.cluster.sbatch("-N2", "--ntasks-per-node=1", "--array=3-5:2", "--output",
                                  f"{self.cluster.shared}/element-%a.out",
                                  script=f"srun {self.program}")
        ids = set()
        for element in (3, 5):
            ended = self.cluster.wait_for(f"{job}_{element}", "COMPLETED")
            text = (self.cluster.shared / f"element-{element}.out").read_text()
            self.assert_facts({
                "array_task": [element] * 2, "job_id": [int(ended["JobId"])] * 2,
            }, self.told(text))
            ids.add(ended["JobId"])
        self.assertEqual(2, len(ids))

    def test_a_heterogeneous_job(self):
        job, steps = self.of_job(script="""#SBATCH -N1 -w node0 --ntasks-per-node=1 --gpus-per-node=2
            #SBATCH hetjob
            #SBATCH -N2 -w node1,node2 --ntasks-per-node=1 --gpus-per-node=1
            srun --het-group=0,1 PRINT
            srun PRINT
        """.replace("            ", ""))
        all_nodes, one_node = ["node0", "node1", "node2"], ["node0"]
        self.assert_facts({
            "job_id": [job] * 4, "step_id": [0, 0, 0, 1], "nodes": [all_nodes] * 3 + [one_node],
            "node_id": [0, 1, 2, 0], "gpus": [2, 1, 1, 2], "is_heterogeneous": [True] * 4,
        }, steps)

    def test_a_requeued_job(self):
        job = self.cluster.sbatch("-N1", "--requeue", "--open-mode=append", "--error=/dev/null",
                                  script=f"""
            srun {self.program}
            [ -n "$SLURM_RESTART_COUNT" ] || {{ scontrol requeue $SLURM_JOB_ID; sleep infinity; }}
        """)
        self.cluster.start_again(job)
        self.cluster.wait_for(job, "COMPLETED")
        both = self.told(self.cluster.output_of(job))
        self.assert_facts({"restarts": [0, 1], "job_id": [job] * 2}, both)

    def test_a_shell_of_salloc(self):
        words = ["salloc", *first(2), "--ntasks-per-node=1"]
        both = f"{self.program}; srun {self.program}"
        here = self.told(self.cluster.run(*words, "sh", "-c", both).stdout)
        self.assertIsNone(here[0])
        self.assert_facts({"nodes": [["node0", "node1"]] * 2}, here[1:])

    def test_a_shell_of_salloc_that_is_a_step_of_its_own(self):
        answers = self.cluster.shared / "interactive.out"
        lines = f"(echo $SLURM_STEP_ID; {self.program}) >{answers}; exit\n"
        # salloc wants a terminal.
        words = ("script", "-qec", "salloc -N2 --ntasks-per-node=1", "/dev/null")
        with self.cluster.popen(*words, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                                env={"SHELL": "/bin/sh"}) as shell:
            shell.stdin.write(lines.encode())
            shell.stdin.flush()
            self.assertEqual(0, shell.wait(PATIENCE_S))
        step, told = answers.read_text().splitlines()
        self.assertEqual("null", told)
        self.assertGreaterEqual(int(step), 4294967280)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--print-allocation", required=True)
    rest = parser.parse_known_args(namespace=options)[1]
    unittest.main(argv=[sys.argv[0], *rest])


if __name__ == "__main__":
    main()
