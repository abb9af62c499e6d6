"""`ddpctl submit` on a real Slurm: a job runs the code of its commit, and finds its output folder.

    submit_cluster_test.py --ddpctl PROGRAM [unittest arguments]
"""

import argparse
import os
import subprocess
import sys
import unittest

from cluster import PATIENCE_S, Cluster, first, skip_without_cluster

options = argparse.Namespace()
REFUSED = 1
SCRIPT = """#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=1 --output=log/%x/%j.out

echo "script of old: $*, $GIT_COMMIT"
srun sh -c '. ./program.sh'
"""
PROGRAM = 'echo "program of old on $(hostname): $GIT_COMMIT $(pwd)"\n'


def setUpModule():
    skip_without_cluster()


class Submit(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = cls.enterClassContext(Cluster(2))

    def setUp(self):
        self.repository = self.cluster.shared / self._testMethodName
        self.repository.mkdir()
        self.git("init", "--quiet")
        self.write("job.sh", SCRIPT)
        self.write("sub/program.sh", PROGRAM)
        self.write(".gitignore", "log/\ncheckpoints/\n")
        self.commit = self.commit_all()
        self.code = self.repository / ".git/ddprun-code" / self.commit

    # Verbs. -------------------------------------------------------------------------------------

    def git(self, *words):
        who = ("-c", "user.name=name", "-c", "user.email=name@example.org")
        return subprocess.run(["git", *who, *words], cwd=self.repository, capture_output=True,
                              text=True, check=True, timeout=PATIENCE_S).stdout.strip()

    def write(self, name, text):
        (self.repository / name).parent.mkdir(exist_ok=True)
        (self.repository / name).write_text(text)

    def commit_all(self):
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", "All of it")
        return self.git("rev-parse", "HEAD")

    def submit(self, *words, check=True, env=None):
        """From the folder `sub`."""
        return self.cluster.run(os.path.abspath(options.ddpctl), "submit", *words, check=check,
                                cwd=self.repository / "sub", env=env)

    def submitted(self, *words, **more):
        """The job's id, from sbatch's output."""
        job = int(self.submit("--parsable", *words, **more).stdout)
        self.addCleanup(self.cluster.run, "scancel", str(job), check=False)
        return job

    def jobs(self):
        return self.cluster.run("squeue", "--noheader", "--states=all", "--format=%i").stdout

    def output(self, job, name="log/job.sh"):
        """Of a job that ended well."""
        ended = self.cluster.wait_until_over(job)
        path = self.repository / "sub" / name / f"{job}.out"
        self.assertEqual("COMPLETED", ended["JobState"], ended)
        return path.read_text()

    def assert_old(self, output, *arguments):
        """The whole code is what was committed when the job was submitted."""
        lines = sorted(output.splitlines())
        self.assertEqual(
            [f"program of old on node{node}: {self.commit} {self.code}/sub" for node in range(2)] +
            [f"script of old: {' '.join(arguments)}, {self.commit}"], lines)

    # Claims. ------------------------------------------------------------------------------------

    def test_a_dirty_tree_is_refused_and_sbatch_not_called(self):
        before = self.jobs()
        self.write("sub/program.sh", "echo new\n")
        refused = self.submit("../job.sh", check=False)
        self.assertEqual((REFUSED, ""), (refused.returncode, refused.stdout))
        self.assertIn("sub/program.sh; commit them", refused.stderr)
        self.assertEqual(before, self.jobs())

    def test_an_edit_after_submit_does_not_reach_the_job(self):
        job = self.submitted("--hold", "../job.sh", "one", "two")
        self.write("job.sh", "#!/bin/sh\necho new\n")
        self.write("sub/program.sh", "echo new\n")
        self.commit_all()
        self.cluster.run("scontrol", "release", str(job))
        self.assert_old(self.output(job), "one", "two")

    def test_a_requeued_job_still_runs_what_was_submitted(self):
        job = self.submitted("--hold", "--requeue", "../job.sh")
        self.cluster.run("scontrol", "release", str(job))
        self.output(job)
        self.write("sub/program.sh", "echo new\n")
        self.cluster.run("scontrol", "requeue", str(job))
        self.cluster.start_again(job)
        self.assert_old(self.output(job), "")

    def test_the_folder_of_the_output_is_made(self):
        """Slurm would end such a job with 0:53 and without a message."""
        job = self.submitted("--job-name=try", "-N1", "--output=log/%x/%j.out", "../job.sh")
        self.assertIn("script of old", self.output(job, "log/try"))

    def test_a_folder_named_by_the_job_is_made_before_it_runs(self):
        self.write("job.sh", SCRIPT.replace("log/%x/%j.out", "checkpoints/%j/out.txt"))
        self.commit = self.commit_all()
        submitted = self.submit("-N1", "../job.sh")
        self.assertRegex(submitted.stdout, r"\ASubmitted batch job \d+\n\Z")
        for job in (int(submitted.stdout.split()[-1]), self.submitted("-N1", "../job.sh")):
            self.assertEqual("COMPLETED", self.cluster.wait_until_over(job)["JobState"])
            output = self.repository / f"sub/checkpoints/{job}/out.txt"
            self.assertIn("script of old", output.read_text())

    def test_a_job_that_is_to_be_held_stays_so_though_its_folder_is_made(self):
        job = self.submitted("--hold", "--output=checkpoints/%j/out.txt", "../job.sh")
        self.assertEqual("JobHeldUser", self.cluster.job(job)["Reason"])
        self.assertTrue((self.repository / f"sub/checkpoints/{job}").is_dir())

    def test_a_job_whose_folder_cannot_be_made_is_held_and_says_what_to_do(self):
        self.write("sub/taken", "")
        self.commit_all()
        ended = self.submit("--output=taken/%j/out.txt", "../job.sh", check=False)
        job = int(ended.stdout.split()[-1])
        self.addCleanup(self.cluster.run, "scancel", str(job), check=False)
        self.assertNotEqual(0, ended.returncode)
        self.assertRegex(ended.stderr, f"job {job} was submitted and is held: .*taken/{job}.*"
                                       f"'scontrol release {job}'")
        self.assertEqual("JobHeldUser", self.cluster.job(job)["Reason"])

    def test_it_has_the_name_of_its_script(self):
        job = self.submitted("--hold", "../job.sh")
        self.assertEqual("job.sh", self.cluster.job(job)["JobName"])

    def test_without_our_environment_it_still_finds_its_code(self):
        job = self.submitted("--export=NONE", *first(1), "--output=log/%x/%j.out", "--wrap",
                             ". ./program.sh")
        self.assertEqual(f"program of old on node0: {self.commit} {self.code}/sub\n",
                         self.output(job, "log/wrap"))

    def test_a_command_instead_of_a_script(self):
        job = self.submitted(*first(1), "--output=log/%x/%j.out", "--wrap", ". ./program.sh")
        self.assertEqual(f"program of old on node0: {self.commit} {self.code}/sub\n",
                         self.output(job, "log/wrap"))

    def test_what_sbatch_says_and_how_it_ends_is_passed_on(self):
        accepted = self.submit("--hold", "../job.sh")
        self.assertRegex(accepted.stdout, r"\ASubmitted batch job \d+\n\Z")
        refused = self.submit("--partition=nowhere", "../job.sh", check=False)
        self.assertEqual(1, refused.returncode)
        self.assertIn("sbatch: error:", refused.stderr)

    def test_a_dry_run_submits_nothing(self):
        before = self.jobs()
        self.assertIn("srun sh -c", self.submit("--dry-run", "../job.sh").stdout)
        self.assertEqual(before, self.jobs())

    def test_where_its_code_is_gone_it_says_so(self):
        job = self.submitted("--hold", "--output=log/%j.out", "../job.sh")
        self.code.rename(self.code.with_name("gone"))
        self.cluster.run("scontrol", "release", str(job))
        ended = self.cluster.wait_until_over(job)
        self.assertEqual(("FAILED", "78:0"), (ended["JobState"], ended["ExitCode"]))
        self.assertIn(str(self.code), (self.repository / f"sub/log/{job}.out").read_text())


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--ddpctl", required=True)
    _, rest = parser.parse_known_args(namespace=options)
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)
