"""Another project finds the installed kit, builds the program in examples/, and has ddptrain's weights."""

import os
import pathlib
import subprocess
import tempfile
import unittest

import jobs

PROJECT = jobs.HERE.parents[1] / "examples/program"


def run(*command):
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise AssertionError(f"{command} ended with {done.returncode}\n{done.stdout}")


class Package(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        root = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        run("cmake", "--install", os.environ["BUILD"], "--prefix", root / "prefix")
        run("cmake", "-S", PROJECT, "-B", root / "build", "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
            f"-DCMAKE_PREFIX_PATH={root / 'prefix'}")
        run("cmake", "--build", root / "build")
        cls.program = str(root / "build/mnist")

    def test_the_example_has_the_weights_of_ddptrain_and_python(self):
        flags = ["--dataset", "fashion-mnist", "--data-dir", "/usr/share/datasets/fashion-mnist", "--model", "convnet",
                 "--epochs", "2", "--limit-train-samples", "1280", "--limit-test-samples", "10"]
        for world in (1, 2):
            ours = jobs.final(jobs.Run([self.program, "1280"], world).wait())
            self.assertEqual(jobs.final(jobs.Run([jobs.DDPTRAIN, *flags], world).wait())["weights_sha256"],
                             ours["weights_sha256"], world)

    def test_the_example_ends_in_one_line_where_a_peer_is_lost(self):
        started = jobs.Run([self.program, "6400"], 2)
        self.assertIn("epoch 0: loss", started.ranks[0].stdout.readline())
        started.ranks[1].kill()
        status, _, err = started.wait()[0]
        self.assertEqual(75, status, err)
        self.assertRegex(err, r"^mnist: rank 0: (lost another rank|the store at) .*\n$")


if __name__ == "__main__":
    unittest.main(verbosity=2)
