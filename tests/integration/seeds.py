"""Common parts of drills in which a seed is a case: flags, what is kept of a run, and the verdict.

    seeds.add_flags(parser, default="1:30", jobs=4)
    ...
    with concurrent.futures.ProcessPoolExecutor(options.jobs) as pool:
        return seeds.judge(pool, run, options.seeds)    # run(seed): (seed, what was wrong, statuses)
"""

import collections
import os


def span(text):
    """For argparse: "1:30", both included, or a single one."""
    ends = [int(each) for each in text.split(":")]
    return range(ends[0], ends[-1] + 1)


def add_flags(parser, default, jobs):
    parser.add_argument("--seeds", type=span, default=span(default))
    parser.add_argument("--jobs", type=int, default=jobs)
    parser.add_argument("--logs")


def keep(directory, seed, account):
    """Writes what happened in a run, for a person."""
    os.makedirs(directory, exist_ok=True)
    with open(os.path.join(directory, f"seed_{seed}"), "w") as log:
        log.write(account)


def verdict(right, seeds):
    """Prints how many runs were right. The exit status."""
    print(f"{right} of {len(seeds)} seeds ended right")
    return 0 if right == len(seeds) else 1


def judge(pool, run, seeds):
    """Runs each seed in `pool`, and prints which were wrong and how the jobs ended. The exit status."""
    ends = collections.Counter()
    right = 0
    for seed, wrong, statuses in pool.map(run, seeds):
        ends[str(statuses)] += 1
        right += not wrong
        if wrong:
            print(f"WRONG seed {seed}: {'; '.join(wrong)}", flush=True)
    print("how they ended:", ", ".join(f"{number} {statuses}" for statuses, number in ends.most_common()))
    return verdict(right, seeds)
