"""For every model, a run that is killed anywhere and resumed has the same bits as an undisturbed run.

    cuts_test.py [--cuts N] [--seed S]

Each model is trained once undisturbed, and once in pieces: each piece is ended by SIGKILL before a
random step, and the next resumes from what is on disk by then. The seed is printed.
"""

import argparse
import pathlib
import random
import signal
import sys
import tempfile
import unittest

import jobs
from kit_test import make_cifar10

# Name, flags, world size, steps of the whole run. What carries over differs: dropout's generators, the
# statistics of batch normalisation, the moments of Adam, a schedule, the scale of the loss, half an epoch.
STREAM = "--dataset cifar10 --limit-test-samples 20 --batch-size 8"
MODELS = {
    "conv net with dropout": ("--model simple_conv_net --limit-train-samples 330 --batch-size 8 --epochs 2", 2, 42),
    "conv net, Adadelta, StepLR": (
        "--model my_net --limit-train-samples 200 --batch-size 8 --epochs 3 --optimizer adadelta "
        "--learning-rate 1 --schedule step --step-size 1 --gamma 0.7", 1, 75),
    "conv net, accumulating": ("--model convnet --limit-train-samples 240 --batch-size 4 --accumulate 3 "
                               "--epochs 2", 1, 40),
    "conv net, fp16": ("--model convnet --limit-train-samples 240 --batch-size 8 --amp fp16 --epochs 2", 1, 60),
    "ResNet-18, SGD with momentum": (
        f"{STREAM} --model resnet18 --limit-train-samples 96 --momentum 0.9 --weight-decay 1e-4", 2, 6),
    "small ViT, AdamW, warm-up": (
        f"{STREAM} --model crusoe_vit_tiny --limit-train-samples 160 --epochs 2 --optimizer adamw "
        "--learning-rate 0.001 --weight-decay 0.05 --schedule warmup_cosine --warmup-epochs 1", 1, 40),
}
options = argparse.Namespace(cuts=50, seed=None)


class Cuts(unittest.TestCase):
    def setUp(self):
        self.directory = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        make_cifar10(self.directory)

    def command(self, flags, *more):
        where = ["--data-dir", str(self.directory)]
        if "cifar10" not in flags:
            dataset, directory = jobs.find_data()
            where = ["--dataset", dataset, "--data-dir", directory, "--limit-test-samples", "20"]
        return [jobs.DDPTRAIN, *flags.split(), *where, *more]

    def train(self, flags, world, *more):
        return jobs.Run(self.command(flags, *more), world).wait()

    def assert_same_bits_in_pieces(self, name, flags, world, cuts, every):
        undisturbed = jobs.final(self.train(flags, world))
        snapshots = ["--snapshot-dir", str(self.directory / name), "--snapshot-every-steps", str(every)]
        for step, victim in cuts:
            results = self.train(flags, world, *snapshots, "--inject", f"kill@{step},rank={victim}")
            self.assertEqual(-signal.SIGKILL, results[victim][0], results)
        self.assertEqual(undisturbed, jobs.final(self.train(flags, world, *snapshots)))

    def test_runs_in_pieces_have_the_bits_of_whole_ones(self):
        chance = random.Random(options.seed)
        share, more = divmod(options.cuts, len(MODELS))
        for index, (name, (flags, world, steps)) in enumerate(MODELS.items()):
            count = share + (index < more)
            # Later and later: a piece that is killed before its first snapshot resumes from the previous one.
            cuts = [(step, chance.randrange(world))
                    for step in sorted(chance.randrange(2, steps + 1) for _ in range(count))]
            every = chance.randrange(1, 5)
            with self.subTest(name, world=world, cuts=cuts, every=every):
                self.assert_same_bits_in_pieces(name, flags, world, cuts, every)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--cuts", type=int, default=50)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    options, rest = parser.parse_known_args()
    print(f"cuts_test.py --seed {options.seed}", file=sys.stderr)
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)
