"""A burn-in of some seconds, with all that a burn-in of hours does."""

import re
import time
import unittest

import jobs

HOURS = 0.002  # 7.2 s
LINE = re.compile(
    r"burn-in iteration=(\d+) loss=\d+\.\d{6} samples_per_s=[\d.]+ elapsed_s=([\d.]+) remaining_s=([\d.]+) "
    r"peak_rss_mib=\d+")


class BurnIn(unittest.TestCase):
    def burn_in(self, *flags, world=2):
        dataset, directory = jobs.find_data()
        return jobs.Run(
            [jobs.DDPTRAIN, "--dataset", dataset, "--data-dir", directory, "--model", "linear", "--batch-size", "16",
             "--limit-train-samples", "640", "--burn-in", str(HOURS), *flags], world)

    def test_continues_for_its_hours_and_ends_on_all_ranks_with_the_verdict(self):
        began = time.monotonic()
        results = self.burn_in().wait()
        self.assertGreaterEqual(time.monotonic() - began, HOURS * 3600)
        self.assertEqual([(0, ""), (0, "")], [(status, err) for status, _, err in results])
        lines = results[0][1].splitlines()
        self.assertEqual("BURN-IN TEST COMPLETED SUCCESSFULLY", lines[-1])
        self.assertEqual("", results[1][1])
        told = [LINE.fullmatch(line) for line in lines if line.startswith("burn-in ")]
        self.assertTrue(all(told), lines)
        # Twenty steps are an epoch: it continues after --epochs, and past a barrier.
        iterations = [int(line[1]) for line in told]
        self.assertEqual(list(range(10, 10 + 10 * len(told), 10)), iterations)
        self.assertGreater(iterations[-1], 100)
        for line in told:
            if float(line[3]) > 0:  # a step may end after the limit
                self.assertAlmostEqual(HOURS * 3600, float(line[2]) + float(line[3]), delta=0.15)

    def test_goes_through_its_schedule_again_and_again(self):
        results = self.burn_in("--epochs", "3", "--schedule", "warmup_cosine", "--warmup-epochs", "1",
                               "--log-every", "20", "-v", world=1).wait()
        self.assertEqual(0, results[0][0])
        rates = [line[2] for line in re.finditer(
            r"^step epoch=(\d+) .* batch=40/40 .* learning_rate=(\S+)", results[0][1], re.MULTILINE)]
        self.assertGreater(len(rates), 6)
        for epoch, rate in enumerate(rates):
            self.assertEqual(rates[epoch % 3], rate)
            self.assertGreater(float(rate), 0)

    def test_fails_with_the_verdict_and_the_status_of_the_fault(self):
        results = self.burn_in("--inject", "nan@12,rank=1").wait()
        self.assertEqual([75, 65], [status for status, _, _ in results])
        for status, out, _ in results:
            self.assertEqual("BURN-IN TEST FAILED", out.splitlines()[-1])
            self.assertNotIn("COMPLETED", out)

    def test_keeps_no_snapshots(self):
        for status, out, err in self.burn_in("--snapshot-dir", "s").wait():
            self.assertEqual((2, ""), (status, out))
            self.assertIn("leave --snapshot-dir out", err)

    def test_tells_tokens_of_a_transformer(self):
        results = jobs.Run(
            [jobs.DDPTRAIN, "--dataset", "crusoe", "--image-size", "32", "--fake-train-samples", "200", "--model",
             "crusoe_vit_tiny", "--batch-size", "4", "--hours", "0.001"], 1).wait()
        self.assertEqual(0, results[0][0], results[0][2])
        told = re.findall(r"samples_per_s=([\d.]+) tokens_per_s=([\d.]+)", results[0][1])
        self.assertTrue(told)
        for samples, tokens in told:
            self.assertAlmostEqual(5, float(tokens) / float(samples), delta=0.05)  # four patches, and the class's


if __name__ == "__main__":
    unittest.main(verbosity=2)
