"""Another project finds the installed kit, builds the program in examples/, and gets ddptrain's weights; and
each component is installed from a tree that has nothing else."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import jobs

SOURCE = jobs.HERE.parents[1]
PROJECT = SOURCE / "examples/program"
BUILD = pathlib.Path(os.environ["BUILD"])
COMPONENTS = ("launcher", "trainer", "kit", "slurm", "docs")


def run(*command, env=None):
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          env=env)
    if done.returncode:
        raise AssertionError(f"{command} ended with {done.returncode}\n{done.stdout}")


class Package(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.root = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        run("cmake", "--install", BUILD, "--prefix", cls.root / "prefix")
        # At a fixed path, so that ccache sees the same paths in each run.
        project = shutil.copytree(PROJECT, cls.root / "program")
        cls.build(project, cls.root / "build")
        cls.program = str(cls.root / "build/mnist")

    @classmethod
    def build(cls, project, directory):
        env = dict(os.environ)
        if shutil.which("ccache"):
            env |= {"CMAKE_CXX_COMPILER_LAUNCHER": "ccache", "CCACHE_BASEDIR": str(cls.root), "CCACHE_NOHASHDIR": "1",
                    "CCACHE_SLOPPINESS": "time_macros,include_file_mtime,include_file_ctime"}
        run("cmake", "-S", project, "-B", directory, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
            f"-DCMAKE_PREFIX_PATH={cls.root / 'prefix'}", env=env)
        run("cmake", "--build", directory, env=env)

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

    @unittest.skipUnless((BUILD / "bin/ddprun_cuda.so").exists(), "built without CUDA")
    def test_a_program_that_lies_elsewhere_finds_the_module_of_gpus_beside_the_library(self):
        """It opens CUDA, which sees no GPU."""
        source = self.root / "asks"
        source.mkdir()
        (source / "CMakeLists.txt").write_text((PROJECT / "CMakeLists.txt").read_text().replace("mnist", "asks"))
        (source / "asks.cpp").write_text("""
            #include "trainer/devices.hpp"
            #include <cstdio>
            int main() {
              const auto opened = ddprun::open_device(ddprun::DeviceKind::kCuda, {});
              std::puts(opened ? "a GPU" : opened.error().detail.c_str());
            }""")
        self.build(source, self.root / "asks-build")
        unseen = {**os.environ, "CUDA_VISIBLE_DEVICES": "-1"}
        asked = subprocess.run([self.root / "asks-build/asks"], capture_output=True, text=True, env=unseen, check=True)
        self.assertRegex(asked.stdout, "^--device cuda: this process sees no GPU ")


def files_below(directory):
    return {str(path.relative_to(directory)) for path in directory.rglob("*") if not path.is_dir()}


class Components(unittest.TestCase):
    def setUp(self):
        self.root = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def installed(self, build, *component):
        prefix = self.root / "-".join(["prefix", *component])
        run("cmake", "--install", build, "--prefix", prefix, *(["--component", *component] if component else []))
        return files_below(prefix)

    def test_the_components_together_are_the_whole(self):
        parts = [self.installed(BUILD, component) for component in COMPONENTS]
        self.assertEqual(sum(map(len, parts)), len(set().union(*parts)), "a file belongs to two")
        self.assertEqual(self.installed(BUILD), set().union(*parts))

    def test_a_component_is_installed_from_a_tree_in_which_only_its_targets_are_built(self):
        tree = self.root / "tree"
        run("cmake", "-S", SOURCE, "-B", tree, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DDDPRUN_TESTS=OFF",
            f"-DDDPRUN_VENV={sys.prefix}")
        self.assertIn("share/ddprun/slurm/templates", "".join(self.installed(tree, "slurm")))
        self.assertIn("share/doc/ddprun/LICENSE", self.installed(tree, "docs"))
        built = {"launcher": ["bin/ddprun", "bin/ddpctl"],
                 "trainer": [f"bin/{name}" for name in ("ddptrain", "ddprun_cuda.so") if (BUILD / "bin" / name).exists()],
                 "kit": [str(path.relative_to(BUILD)) for path in BUILD.rglob("*.a")]}
        for component, files in built.items():
            for file in files:
                (tree / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(BUILD / file, tree / file)
            self.assertEqual(self.installed(BUILD, component), self.installed(tree, component))


if __name__ == "__main__":
    unittest.main(verbosity=2)
