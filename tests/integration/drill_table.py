"""Common parts of drills that try each of many cases several times: flags, and a line for each case.

Times are printed, but not asserted.
"""

import collections
import concurrent.futures
import functools
import itertools
import os
import random
import re
import signal
import statistics
import sys
import time

SAID_AT_ONCE_S = 2  # what takes longer is counted as late, but not as wrong

STOOD_STILL_S = 0.2  # the guard kills an agent that is hardly later than that with its lease
TRIES = 5
TOLD_EACH = 200  # runs

# `meanwhile_s`: how late those that were left ran by themselves. `void`: runs of it that do not count.
Outcome = collections.namedtuple("Outcome", "case is_right seen seconds account meanwhile_s void",
                                 defaults=(None, 0))


def listed(convert):
    """For argparse: values with commas between."""
    return lambda text: [convert(each) for each in text.split(",") if each]


def add_flags(parser, jobs):
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=jobs)
    parser.add_argument("--logs", help="where the words of all nodes go, of each wrong run")


def submit(cases, repeats, start, logs=None):
    """{case: futures of its runs}, as `start(case)` returns them. In random order: short runs keep the
    processors busy, and runs that mostly wait leave them idle. A wrong run is reported at once, since a
    table of thousands takes an hour, and its account goes to `logs`."""
    runs = {case: [] for case in cases}
    waiting = [case for case in runs for _ in range(repeats)]
    random.Random(0).shuffle(waiting)
    ended = itertools.count(1)
    if logs:
        os.makedirs(logs, exist_ok=True)
    for number, case in enumerate(waiting):
        future = start(case)
        future.add_done_callback(functools.partial(_tell_if_wrong, logs, number))
        future.add_done_callback(functools.partial(_tell_progress, ended, len(waiting)))
        runs[case].append(future)
    return runs


def _tell_if_wrong(logs, number, future):
    outcome = None if future.cancelled() or future.exception() else future.result()
    if not outcome or outcome.is_right:
        return
    print(f"{time.strftime('%T')} wrong: {outcome.case} | {outcome.seen}", file=sys.stderr, flush=True)
    if logs:
        name = re.sub(r"[^\w.:+]+", "_", str(outcome.case))
        with open(os.path.join(logs, f"{name}.{number}"), "w") as log:
            log.write(outcome.account)


def _tell_progress(ended, total, _):
    number = next(ended)
    if number % TOLD_EACH == 0:
        print(f"{time.strftime('%T')} {number} of {total} runs have ended", file=sys.stderr, flush=True)


def undisturbed(try_once, case, stalls):
    """The outcome of try_once(case). A run during which the machine stood still does not count, right or wrong:
    it is reported and repeated."""
    for void in range(TRIES):
        begin_ns = stalls.now_ns()
        outcome = try_once(case)._replace(void=void)
        stood_still_s = stalls.longest_s(begin_ns, stalls.now_ns())
        if stood_still_s < STOOD_STILL_S:
            return outcome
        print(f"{time.strftime('%T')} void: {case} | {outcome.seen}, but the machine stood still for "
              f"{stood_still_s:.2f} s", file=sys.stderr, flush=True)
    return outcome


def line_of(case, answer, outcomes):
    right = [outcome for outcome in outcomes if outcome.is_right]
    times = sorted(outcome.seconds for outcome in right if outcome.seconds is not None)
    seen = collections.Counter(outcome.seen for outcome in outcomes)
    late = sum(seconds > SAID_AT_ONCE_S for seconds in times)
    said = "; ".join(f"{count} × {what}" if len(outcomes) > 1 else what
                     for what, count in seen.most_common())
    figures = (f" min {times[0]:.2f} median {statistics.median(times):.2f} max {times[-1]:.2f} s"
               if times else "")
    meanwhile = [outcome.meanwhile_s for outcome in outcomes if outcome.meanwhile_s is not None]
    if meanwhile:
        figures += f", those left {max(meanwhile):.2f} s after lease + margin"
    return (f"{'ok   ' if len(right) == len(outcomes) else 'WRONG'} {case} → {answer}: "
            f"{len(right)} of {len(outcomes)}{f' ({late} late)' if late else ''}{figures} | {said}")


def report(runs, expected, on_failure=lambda outcome: None):
    """Prints a line for each case once all futures in `runs` are done, and the sum. Ctrl-C or SIGTERM ends
    it earlier, with the runs that are over by then. Yields the exit status."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    futures = [future for each in runs.values() for future in each]
    try:
        concurrent.futures.wait(futures)
    except KeyboardInterrupt:
        for future in futures:
            future.cancel()
        print("no more runs are begun", file=sys.stderr, flush=True)
    total = right = tried = void = 0
    for case, futures in runs.items():
        outcomes = [future.result() for future in futures if not future.cancelled()]
        if not outcomes:
            continue
        print(line_of(case, expected(case), outcomes), flush=True)
        failed = [outcome for outcome in outcomes if not outcome.is_right]
        if failed:
            on_failure(failed[0])
        tried += 1
        total += len(outcomes)
        right += len(outcomes) - len(failed)
        void += sum(outcome.void for outcome in outcomes)
    print(f"{right} of {total} returns ended right, in {tried} cases; {void} more in which the machine stood "
          f"still for {STOOD_STILL_S} s do not count")
    return 0 if right == total else 1
