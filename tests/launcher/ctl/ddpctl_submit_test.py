"""`ddpctl submit` up to the call of sbatch, in work trees of a real git.

    ddpctl_submit_test.py --ddpctl PROGRAM [unittest arguments]

No sbatch is on the path here. So status 127 means that it would have been called, and any other status that
it would not. tests/slurm/submit_cluster_test.py tests the rest.
"""

import argparse
import os
import pathlib
import resource
import shutil
import subprocess
import sys
import tempfile
import unittest

options = argparse.Namespace()
PATIENCE_S = 60
REFUSED, BAD_USAGE, NOT_FOUND = 1, 2, 127
SCRIPT = "#!/bin/bash\n#SBATCH --output=log/%x-%j.out\n\npython3 train.py \"$@\"\n"


class DdpctlSubmit(unittest.TestCase):
    def setUp(self):
        self.room = pathlib.Path(tempfile.mkdtemp(prefix="ddprun_submit_test_")).resolve()
        self.addCleanup(shutil.rmtree, self.room)
        (self.room / "bin").mkdir()
        for name in ("git", "bash"):
            (self.room / "bin" / name).symlink_to(shutil.which(name))
        self.repository = self.room / "repository"
        self.repository.mkdir()

    # Verbs. -------------------------------------------------------------------------------------

    def environment(self):
        ours = {name: value for name, value in os.environ.items()
                if not name.startswith(("GIT_", "SBATCH_", "SLURM_"))}
        who = {f"GIT_{whose}_{what}": f"{what.lower()}@example.org"
               for whose in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        return ours | who | {"PATH": str(self.room / "bin"), "HOME": str(self.room),
                             "TMPDIR": str(self.room), "GIT_CONFIG_NOSYSTEM": "1"}

    def git(self, *words):
        ended = subprocess.run(["git", *words], cwd=self.repository, env=self.environment(),
                               capture_output=True, text=True, check=True, timeout=PATIENCE_S)
        return ended.stdout.strip()

    def write(self, name, text):
        path = self.repository / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def commit(self, **files):
        """A repository with job.sh, train.py and `files`, all committed."""
        self.git("init", "--quiet")
        for name, text in ({"job.sh": SCRIPT, "train.py": "print(1)\n"} | files).items():
            self.write(name, text)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", "All of it")
        return self.git("rev-parse", "HEAD")

    def submit(self, *words, folder=None, **more):
        return subprocess.run([options.ddpctl, "submit", *map(str, words)],
                              cwd=folder or self.repository, env=self.environment(),
                              stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=PATIENCE_S, **more)

    def assert_refused(self, ended, status, *parts):
        """With one line that has all of `parts`, and no code for a job."""
        self.assertEqual((status, ""), (ended.returncode, ended.stdout), ended.stderr)
        self.assertRegex(ended.stderr, r"\Addpctl: [^\n]+\n\Z")
        for part in parts:
            self.assertIn(part, ended.stderr)
        self.assertEqual([], list(self.repository.glob(".git/ddprun-code")))

    def assert_would_be_called(self, ended):
        self.assertEqual((NOT_FOUND, "ddpctl: there is no sbatch on PATH\n"),
                         (ended.returncode, ended.stderr))

    def code_of(self, commit):
        return self.repository / ".git/ddprun-code" / commit

    # What is refused. ---------------------------------------------------------------------------

    def test_outside_of_a_work_tree(self):
        self.assert_refused(self.submit("job.sh"), REFUSED, "not a git repository", "committed")

    def test_without_a_commit(self):
        self.git("init", "--quiet")
        self.assert_refused(self.submit("job.sh"), REFUSED, "no commit yet")

    def test_a_file_that_was_edited(self):
        commit = self.commit()
        self.write("train.py", "print(2)\n")
        self.assert_refused(self.submit("job.sh"), REFUSED, f"{commit[:12]}: train.py; commit them")

    def test_a_file_that_is_staged_only(self):
        self.commit()
        self.write("train.py", "print(2)\n")
        self.git("add", "train.py")
        self.assert_refused(self.submit("job.sh"), REFUSED, ": train.py;")

    def test_a_file_that_was_removed(self):
        self.commit()
        (self.repository / "train.py").unlink()
        self.assert_refused(self.submit("job.sh"), REFUSED, ": train.py;")

    def test_a_file_that_git_does_not_know_even_where_git_status_is_told_to_hide_it(self):
        self.commit()
        self.git("config", "status.showUntrackedFiles", "no")
        for number in range(7):
            self.write(f"new {number}.py", "")
        self.assert_refused(self.submit("job.sh"), REFUSED, "new 0.py, new 1.py", "and 2 more")

    def test_a_change_elsewhere_in_the_work_tree(self):
        self.commit(**{"sub/job.sh": SCRIPT})
        self.write("train.py", "print(2)\n")
        self.assert_refused(self.submit("job.sh", folder=self.repository / "sub"), REFUSED,
                            ": train.py;")

    def test_submodules(self):
        self.commit(**{".gitmodules": ""})
        self.assert_refused(self.submit("job.sh"), REFUSED, "submodules")

    def test_a_folder_that_the_commit_does_not_have(self):
        self.commit()
        (self.repository / "empty").mkdir()
        self.assert_refused(self.submit("../job.sh", folder=self.repository / "empty"), REFUSED,
                            "'empty'")

    def test_a_dirty_tree_in_a_dry_run(self):
        self.commit()
        self.write("train.py", "print(2)\n")
        self.assert_refused(self.submit("--dry-run", "job.sh"), REFUSED, ": train.py;")

    def test_bad_usage(self):
        self.commit(**{"job.py": "#!/usr/bin/env python3\n"})
        self.assert_refused(self.submit(), BAD_USAGE, "SCRIPT is required")
        self.assert_refused(self.submit("--chdir=/x", "job.sh"), BAD_USAGE, "--chdir '/x'")
        self.assert_refused(self.submit("job.py"), BAD_USAGE, "job.py", "'python3'")
        self.assert_refused(self.submit("-o", "%N/out.txt", "job.sh"), BAD_USAGE,
                            "--output: '%N/out.txt'")

    def test_a_script_that_is_not_there(self):
        self.commit()
        self.assert_refused(self.submit("jop.sh"), NOT_FOUND, "SCRIPT", "jop.sh")

    def test_without_git(self):
        (self.room / "bin/git").unlink()
        self.assert_refused(self.submit("job.sh"), NOT_FOUND, "git")

    # What is made. ------------------------------------------------------------------------------

    def test_an_ignored_file_is_no_change(self):
        self.commit(**{".gitignore": "*.pt\n"})
        self.write("snapshot.pt", "")
        self.assert_would_be_called(self.submit("job.sh"))

    def test_the_code_is_complete_and_may_not_be_written(self):
        commit = self.commit(**{".gitattributes": "secret.py export-ignore\n", "secret.py": "x",
                                "a/b/c.py": "y"})
        self.assert_would_be_called(self.submit("job.sh"))
        code = self.code_of(commit)
        for name, text in (("train.py", "print(1)\n"), ("secret.py", "x"), ("a/b/c.py", "y")):
            self.assertEqual(text, (code / name).read_text())
        for path in (code, *code.rglob("*")):
            self.assertFalse(path.stat().st_mode & 0o222, path)
        self.assertEqual([commit], [path.name for path in code.parent.iterdir()])

    def test_submissions_of_a_commit_share_its_code(self):
        commit = self.commit()
        self.submit("job.sh")
        first = self.code_of(commit).stat()
        self.submit("job.sh")
        self.assertEqual(first.st_ino, self.code_of(commit).stat().st_ino)

    def test_the_code_may_lie_elsewhere(self):
        commit = self.commit()
        self.assert_would_be_called(self.submit("--code-dir", self.room / "a b", "job.sh"))
        self.assertTrue((self.room / "a b" / commit / "train.py").is_file())
        self.assertFalse(self.code_of(commit).exists())

    def test_code_that_was_unpacked_by_half_is_not_kept(self):
        """As on a full disk: git ends in the middle of a file."""
        commit = self.commit(**{"large.bin": "x" * 1_000_000})

        def limit_files():
            resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

        ended = self.submit("job.sh", preexec_fn=limit_files)
        self.assertEqual(75, ended.returncode, ended.stderr)
        self.assertEqual([], list(self.code_of(commit).parent.iterdir()))
        self.assert_would_be_called(self.submit("job.sh"))
        self.assertEqual(1_000_000, (self.code_of(commit) / "large.bin").stat().st_size)

    def test_nothing_is_left_in_the_folder_for_temporary_files(self):
        self.commit()
        self.submit("job.sh")
        self.assertEqual(["bin", "repository"], sorted(os.listdir(self.room)))

    def test_a_dry_run_prints_the_script_and_makes_nothing(self):
        commit = self.commit(**{"a b/job.sh": SCRIPT})
        ended = self.submit("-N2", "--dry-run", "job.sh", "--lr", "0.1 0.2",
                            folder=self.repository / "a b")
        self.assertEqual(0, ended.returncode, ended.stderr)
        code = self.code_of(commit)
        self.assertEqual(
            "#!/bin/bash\n#SBATCH --output=log/%x-%j.out\n\n"
            "# Added by ddpctl submit: later edits do not affect this job.\n"
            f"export GIT_COMMIT={commit} DDPRUN_CODE={code}\n"
            f"cd -- '{code}/a b' || exit 78\n\n"
            'python3 train.py "$@"\n', ended.stdout)
        self.assertEqual(
            "ddpctl: would create log/\n"
            "ddpctl: would call sbatch -N2 job.sh --lr '0.1 0.2' with this script:\n", ended.stderr)
        subprocess.run(["bash", "-n"], input=ended.stdout, text=True, check=True)
        self.assertFalse(code.parent.exists())
        self.assertFalse((self.repository / "a b/log").exists())

    def test_a_command_instead_of_a_script(self):
        commit = self.commit()
        ended = self.submit("--dry-run", "--wrap", "python3 train.py")
        self.assertEqual(0, ended.returncode, ended.stderr)
        self.assertTrue(ended.stdout.startswith("#!/bin/sh\n"), ended.stdout)
        self.assertTrue(ended.stdout.endswith(
            f"cd -- {self.code_of(commit)} || exit 78\n\npython3 train.py\n"), ended.stdout)
        self.assertIn("would call sbatch wrap with", ended.stderr)

    def test_a_script_from_elsewhere_is_taken_as_it_is(self):
        self.commit()
        template = self.room / "template.sh"
        template.write_text("#!/bin/bash\nsrun ddprun \"$@\"\n")
        ended = self.submit("--dry-run", template, "train.py")
        template.unlink()
        self.assertEqual(0, ended.returncode, ended.stderr)
        self.assertIn('\nsrun ddprun "$@"\n', ended.stdout)

    def test_help(self):
        ended = self.submit("--help")
        self.assertEqual((0, ""), (ended.returncode, ended.stderr))
        for flag in ("--dry-run", "--code-dir DIR"):
            self.assertIn(flag, ended.stdout)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ddpctl", required=True)
    rest = parser.parse_known_args(namespace=options)[1]
    options.ddpctl = os.path.abspath(options.ddpctl)
    unittest.main(argv=[sys.argv[0], *rest])


if __name__ == "__main__":
    main()
