"""Reads the report of a doctor, for the tests of `ddpctl doctor`."""

import json
import os

JOB = 7001
PATIENCE_S = 120
# Of a ddprun: a worker that prints the port of the store, and runs on.
PORT_TELLER = ("--nproc-per-node", "1", "--no-python", "sh", "-c", "echo $MASTER_PORT; exec sleep 3600")


class Report:
    """What one doctor printed, as JSON."""

    def __init__(self, test, status, out, err):
        self.test = test
        test.assertEqual("", err[-2000:])
        report = json.loads(out)
        test.assertEqual(1, out.count("\n"))
        self.node = report["node"]
        self.findings = {found["subject"]: found for found in report["findings"]}
        for found in self.findings.values():
            test.assertEqual(found["is_well"], found["remedy"] == "" or found["is_warning"], found)
        is_well = all(found["is_well"] for found in self.findings.values())
        test.assertEqual((is_well, 0 if is_well else 1), (report["is_well"], status), out)

    def _find(self, subject):
        self.test.assertIn(subject, self.findings)
        return self.findings[subject]

    def assert_well(self, subject, seen=""):
        found = self._find(subject)
        self.test.assertTrue(found["is_well"], found)
        self.test.assertIn(seen, found["seen"])

    def assert_warned(self, subject, seen, remedy):
        found = self._find(subject)
        self.test.assertTrue(found["is_warning"], found)
        self.test.assertIn(seen, found["seen"])
        self.test.assertIn(remedy, found["remedy"])

    def assert_wrong(self, subject, seen, remedy):
        found = self._find(subject)
        self.test.assertFalse(found["is_well"], found)
        self.test.assertIn(seen, found["seen"])
        self.test.assertIn(remedy, found["remedy"])


def environment(**more):
    """Our environment, without variables that change the report."""
    ours = {name: value for name, value in os.environ.items()
            if not name.startswith(("SLURM", "PET_", "CUDA_", "NCCL_", "GLOO_"))
            and name not in ("LOGLEVEL", "TMPDIR")}
    return ours | more


def step(node, nodes=2):
    """The variables of a step on nodes 10.77.0.1, 10.77.0.2, …"""
    return {"SLURM_JOB_ID": str(JOB), "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_NODES": str(nodes),
            "SLURM_STEP_NUM_TASKS": str(nodes), "SLURM_STEP_NODELIST": f"10.77.0.[1-{nodes}]",
            "SLURM_STEP_TASKS_PER_NODE": f"1(x{nodes})", "SLURM_NODEID": str(node),
            "SLURM_PROCID": str(node), "SLURM_LOCALID": "0"}
