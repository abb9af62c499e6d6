"""Is given its local rank as older scripts are, and compares it with the environment's."""

import argparse
import os

parser = argparse.ArgumentParser()
parser.add_argument("--local_rank", type=int, required=True)
assert parser.parse_args().local_rank == int(os.environ["LOCAL_RANK"])
