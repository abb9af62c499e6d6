"""Our optimizers, schedules, loss scaling, clipping and autocast against Python's, bit for bit.

optimizer_peer runs a few small jobs in C++ and prints a hash or all digits of each result; the same
jobs are run here by torch.optim, torch.amp and torch.nn.utils.

    optimizers_test.py           the test
    optimizers_test.py --time    the time of a step, ours, libtorch's and Python's
"""

import hashlib
import math
import os
import pathlib
import subprocess
import sys
import time
import unittest

import jobs

os.environ.update(jobs.ENVIRONMENT)  # read when torch is loaded

import torch  # noqa: E402
import torch.nn.functional as functional  # noqa: E402
from torch import nn  # noqa: E402

PEER = os.environ.get(
    "OPTIMIZER_PEER", str(pathlib.Path(__file__).resolve().parents[2] / "build/release/bin/optimizer_peer"))

KINDS = {
    "sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW,
    "adadelta": torch.optim.Adadelta, "rmsprop": torch.optim.RMSprop,
    "adagrad": torch.optim.Adagrad}

CASES = {kind: (kind, {}) for kind in KINDS}
CASES |= {f"{kind}_decay": (kind, {"weight_decay": 0.05}) for kind in KINDS}
CASES |= {
    "sgd_momentum": ("sgd", {"lr": 0.1, "momentum": 0.9}),
    "sgd_nesterov": ("sgd", {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
    "sgd_all": ("sgd", {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 5e-4}),
    "adam_betas": ("adam", {"betas": (0.4, 0.98)}),
    "rmsprop_momentum": ("rmsprop", {"momentum": 0.9}),
    "rmsprop_all": ("rmsprop", {"momentum": 0.9, "centered": True, "weight_decay": 1e-3}),
    "rmsprop_centered": ("rmsprop", {"centered": True, "weight_decay": 1e-3}),
    "adagrad_lr_decay": ("adagrad", {"lr_decay": 0.01}),
}


def sha256(tensors):
    digest = hashlib.sha256()
    for tensor in tensors:
        digest.update(tensor.detach().contiguous().numpy().tobytes())
    return digest.hexdigest()


def rates(optimizer, schedule, epochs):
    for epoch in range(epochs):
        yield epoch, optimizer.param_groups[0]["lr"]
        optimizer.step()
        schedule.step()


def schedules(results):
    def one(lr):
        return torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=lr)

    step = one(0.3)
    for epoch, rate in rates(step, torch.optim.lr_scheduler.StepLR(step, 7, 0.7), 90):
        results[f"schedule/step/{epoch}"] = rate

    def factor(epoch):
        if epoch < 7:
            return (epoch + 1) / 7
        return 0.5 * (1 + math.cos(math.pi * ((epoch - 7) / (90 - 7))))

    cosine = one(3e-4)
    for epoch, rate in rates(cosine, torch.optim.lr_scheduler.LambdaLR(cosine, factor), 90):
        results[f"schedule/cosine/{epoch}"] = rate

    world = 6
    for epoch in range(90):
        for batch in (0, 1, 33, 70):
            fraction = epoch + batch / 71
            rate = 0.0125 * world
            if epoch < 5:
                rate *= 1 / world * (fraction * (world - 1) / 5 + 1)
            for milestone in (30, 60, 80):
                rate = rate / 10 if epoch >= milestone else rate
            results[f"schedule/decay/{epoch}/{batch}"] = rate


def make_parameters():
    torch.manual_seed(0)
    shapes = [(7,), (262144,), (262145,), (300, 211), (), (2, 3, 5, 7), (525003,)]
    parameters = [torch.randn(shape).requires_grad_() for shape in shapes]
    return [*parameters, torch.randn(40, 30).t().detach().requires_grad_()]


def optimizer(results, name):
    parameters = make_parameters()
    kind, options = CASES[name]
    made = KINDS[kind](parameters, **options)
    for step in range(6):
        for index, parameter in enumerate(parameters):
            gradient = torch.randn_like(parameter)
            has_none = index == 0 or (index == 1 and step % 2 == 0)
            parameter.grad = None if has_none else gradient
        if step == 3:
            made.param_groups[0]["lr"] *= 0.3
        made.step()
    for index, parameter in enumerate(parameters):
        results[f"optimizer/{name}/weights/{index}"] = sha256([parameter])
    for index, state in made.state_dict()["state"].items():
        for key, value in state.items():
            if value is not None:  # SGD without momentum keeps a None
                results[f"optimizer/{name}/state/{index}.{key}"] = sha256([value])


def scaler(results):
    torch.manual_seed(0)
    net = nn.Linear(20, 10)
    made = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    grad_scaler = torch.amp.GradScaler("cpu", growth_interval=3)
    for step in range(12):
        inputs, outputs = torch.randn(16, 20), torch.randn(16, 10)
        made.zero_grad()
        grad_scaler.scale(functional.mse_loss(net(inputs), outputs)).backward()
        if step == 3:
            net.bias.grad[2] = math.inf
        if step == 4:
            net.weight.grad[1][5] = math.nan
        if step % 2 == 0:
            grad_scaler.unscale_(made)
            norm = nn.utils.clip_grad_norm_(net.parameters(), 0.5)
            results[f"scaler/norm/{step}"] = norm.item()
        before = grad_scaler.get_scale()
        grad_scaler.step(made)
        grad_scaler.update()
        results[f"scaler/stepped/{step}"] = float(grad_scaler.get_scale() >= before)
        results[f"scaler/scale/{step}"] = grad_scaler.get_scale()
        results[f"scaler/weights/{step}"] = sha256(net.parameters())
    for key, value in grad_scaler.state_dict().items():
        results[f"scaler/state/{key}"] = float(value)


def clips(results):
    torch.manual_seed(0)
    for count in (1, 2, 9):
        parameters = []
        for index in range(count):
            parameters.append(torch.randn(100, 7).requires_grad_())
            parameters[-1].grad = torch.randn(100, 7) * (index + 1.0)
        for limit in ("1000000", "3.7", "1", "0.01"):
            norm = nn.utils.clip_grad_norm_(parameters, float(limit))
            results[f"clip/{count}/{limit}/norm"] = norm.item()
            results[f"clip/{count}/{limit}/gradients"] = sha256([p.grad for p in parameters])


def autocast(results, name, dtype, with_scaler):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Conv2d(8, 16, 3), nn.ReLU(),
                        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(2304, 10))
    made = torch.optim.AdamW(net.parameters())
    grad_scaler = torch.amp.GradScaler("cpu", enabled=with_scaler)
    for step in range(5):
        images, labels = torch.randn(16, 1, 28, 28), torch.randint(10, (16,))
        made.zero_grad()
        with torch.autocast("cpu", dtype):
            output = net(images)
            loss = functional.cross_entropy(output, labels)
        if step == 0:
            results[f"autocast/{name}/type"] = {
                torch.bfloat16: "BFloat16", torch.float16: "Half"}[output.dtype]
        grad_scaler.scale(loss).backward()
        grad_scaler.step(made)
        grad_scaler.update()
        results[f"autocast/{name}/loss/{step}"] = loss.item()
        results[f"autocast/{name}/weights/{step}"] = sha256(net.parameters())


def pythons(threads):
    torch.set_num_threads(threads)
    results = {}
    schedules(results)
    for name in CASES:
        optimizer(results, name)
    scaler(results)
    clips(results)
    autocast(results, "bf16", torch.bfloat16, with_scaler=False)
    autocast(results, "fp16", torch.float16, with_scaler=True)
    return results


def ask_peer(*arguments):
    done = subprocess.run([PEER, *arguments], env=os.environ | jobs.ENVIRONMENT, timeout=300,
                          stdout=subprocess.PIPE, text=True, check=True)
    return dict(line.split("=", 1) for line in done.stdout.splitlines())


def is_equal(ours, theirs):
    if isinstance(theirs, str):
        return ours == theirs
    return float(ours) == theirs or (math.isnan(float(ours)) and math.isnan(theirs))


class Equality(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.ours = ask_peer("1")
        cls.theirs = pythons(threads=1)

    def assert_equal(self, group, least):
        ours, theirs = ({k: v for k, v in results.items() if k.startswith(group + "/")}
                        for results in (self.ours, self.theirs))
        self.assertEqual(sorted(ours), sorted(theirs))
        self.assertGreaterEqual(len(ours), least)
        differ = [f"{k}: ours {ours[k]}, Python's {theirs[k]}"
                  for k in ours if not is_equal(ours[k], theirs[k])]
        self.assertEqual(differ, [])

    def test_learning_rates_are_those_of_pythons_schedulers(self):
        self.assert_equal("schedule", 540)

    def test_optimizers_leave_pythons_weights_and_state(self):
        self.assert_equal("optimizer", 20 * 8)

    def test_the_grad_scaler_skips_scales_and_grows_as_pythons(self):
        self.assert_equal("scaler", 12 * 3)
        scales = [float(self.ours[f"scaler/scale/{step}"]) for step in range(12)]
        self.assertEqual(scales[:6], [65536, 65536, 131072, 65536, 32768, 32768])

    def test_clipping_returns_and_leaves_what_pythons_does(self):
        self.assert_equal("clip", 24)

    def test_a_net_under_bfloat16_autocast_learns_pythons_weights(self):
        self.assert_equal("autocast/bf16", 11)

    def test_a_net_under_float16_autocast_with_a_scaler_learns_pythons_weights(self):
        self.assert_equal("autocast/fp16", 11)


class EqualityOfTwoThreads(unittest.TestCase):
    def test_optimizers_leave_pythons_weights_there_too(self):
        ours, theirs = ask_peer("2"), pythons(threads=2)
        torch.set_num_threads(1)
        differ = [k for k in theirs
                  if k.startswith("optimizer/") and not is_equal(ours[k], theirs[k])]
        self.assertEqual(differ, [])


def least_ms(repeats, step):
    """Of a core; other load can only add to it."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        step()
        times.append((time.process_time() - start) * 1e3)
    return min(times)


def print_times():
    torch.set_num_threads(1)
    rows = {name: float(ms) for name, ms in ask_peer("--time").items()}
    for millions in (1, 25):
        torch.manual_seed(0)
        parameters = []
        for _ in range(millions):
            parameters += [torch.randn(1000, 1000), torch.randn(1000)]
        for parameter in parameters:
            parameter.requires_grad_().grad = torch.randn_like(parameter)
        for kind, maker in KINDS.items():
            made = maker(parameters, **({"momentum": 0.9} if kind == "sgd" else {}))
            rows[f"python/{kind}/{millions}M"] = least_ms(101 if millions == 1 else 15, made.step)
    for name, ms in rows.items():
        print(f"{name:24} {ms:9.3f} ms")


if __name__ == "__main__":
    if sys.argv[1:] == ["--time"]:
        print_times()
    else:
        unittest.main(verbosity=2)
