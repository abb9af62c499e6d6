"""The files in slurm/templates and slurm/env, as far as they can be tested without a cluster."""

import pathlib
import re
import shutil
import subprocess
import unittest

SLURM = pathlib.Path(__file__).resolve().parents[2] / "slurm"
TEMPLATES = sorted((SLURM / "templates").iterdir())
PRESETS = SLURM / "env"
# What each preset sets, given the second.
SETS = {
    "infiniband.sh": ({"NCCL_SOCKET_IFNAME": "^docker,lo", "NCCL_IB_DISABLE": "0",
                       "NCCL_IB_HCA": "mlx5", "NCCL_DEBUG": "WARN"}, {}),
    "ethernet.sh": ({"GLOO_SOCKET_IFNAME": "eth0", "NCCL_SOCKET_IFNAME": "=eth0",
                     "NCCL_IB_DISABLE": "1", "NCCL_DEBUG": "WARN"}, {}),
    "debug.sh": ({"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,NET,GRAPH,ENV",
                  "NCCL_DEBUG_FILE": "nccl.%h.%p.log", "TORCH_DISTRIBUTED_DEBUG": "DETAIL",
                  "PYTHONFAULTHANDLER": "1"}, {}),
    "flight_recorder.sh": ({"TORCH_FR_BUFFER_SIZE": "20000", "TORCH_NCCL_DUMP_ON_TIMEOUT": "1"}, {}),
    "in_job.sh": ({"SRUN_CPUS_PER_TASK": "8", "TMPDIR": "/local/42"},
                  {"SLURM_CPUS_PER_TASK": "8", "SLURM_TMPDIR": "/local/42"}),
}


def sourced(name, environment):
    """The variables that it adds to the environment of a strict script that sources it."""
    script = 'set -eu; source "$0"; exec /usr/bin/env -0'
    out = subprocess.run(["bash", "-c", script, PRESETS / name], env=environment, check=True,
                         capture_output=True, text=True).stdout
    after = dict(line.split("=", 1) for line in out.split("\0") if line)
    shells_own = {"PWD", "SHLVL", "_", "OLDPWD"}
    return {key: value for key, value in after.items()
            if environment.get(key) != value and key not in shells_own}


class Templates(unittest.TestCase):
    def test_bash_and_shellcheck_read_them_and_the_presets(self):
        checks = [["bash", "-n"], *([["shellcheck"]] if shutil.which("shellcheck") else [])]
        for check in checks:
            checked = subprocess.run([*check, *TEMPLATES, *PRESETS.iterdir()],
                                     capture_output=True, text=True)
            self.assertEqual((0, ""), (checked.returncode, checked.stdout + checked.stderr))

    def test_the_document_names_each(self):
        document = (SLURM.parent / "docs/slurm.md").read_text()
        named = set(re.findall(r"^\| `(\w+\.sh)` \|", document, re.MULTILINE))
        self.assertEqual({file.name for file in [*TEMPLATES, *PRESETS.iterdir()]}, named)

    def test_no_setting_stands_where_sbatch_reads_no_more(self):
        """The directives end at the first command; --open-mode once came after one, and was ignored."""
        for file in TEMPLATES:
            commands = re.search(r"^[^#\n].*", file.read_text(), re.MULTILINE | re.DOTALL)[0]
            self.assertNotIn("#SBATCH", commands, file.name)

    def test_without_a_program_they_say_how_they_are_submitted(self):
        for file in TEMPLATES:
            said = subprocess.run(["bash", file], capture_output=True, text=True)
            self.assertEqual(1, said.returncode, file.name)
            self.assertRegex(said.stderr, rf"what to run: (sbatch|bash) {file.name} ")


class Presets(unittest.TestCase):
    """They set what they document, and change nothing that was set before."""

    def test_each_is_known_here(self):
        self.assertEqual(set(SETS), {file.name for file in PRESETS.iterdir()})

    def test_each_sets_what_is_not_set(self):
        for name, (expected, given) in SETS.items():
            with self.subTest(name):
                self.assertEqual(expected, sourced(name, given))

    def test_what_is_set_stays(self):
        for name, (expected, given) in SETS.items():
            for variable in expected:
                with self.subTest(name, variable=variable):
                    self.assertNotIn(variable, sourced(name, given | {variable: "mine"}))

    def test_outside_a_job_there_is_nothing_to_say(self):
        self.assertEqual({}, sourced("in_job.sh", {}))

    def test_another_interface_is_nccls_as_well(self):
        self.assertEqual("=ens3", sourced("ethernet.sh", {"GLOO_SOCKET_IFNAME": "ens3"})[
            "NCCL_SOCKET_IFNAME"])

    def test_each_variable_has_its_reason(self):
        for name in SETS:
            lines = (PRESETS / name).read_text().splitlines()
            for before, line in zip(lines, lines[1:]):
                if line.startswith("export"):
                    self.assertRegex(before, r"^(#|export)", f"{name}: {line}")


if __name__ == "__main__":
    unittest.main(verbosity=2)
