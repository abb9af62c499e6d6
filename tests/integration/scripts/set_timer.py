"""In the first attempt rank 1 stays too long in a block that torch's own timer guards."""

import os
import signal
import sys

from torch.distributed.elastic import timer

if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
    timer.configure(timer.FileTimerClient(os.environ["TORCHELASTIC_TIMER_FILE"]))
    with timer.expires(after=1000):
        pass  # released
    if os.environ["RANK"] == "1":
        with timer.expires(after=0.01):
            signal.pause()
    signal.pause()
sys.stdout.write(f"rank {os.environ['RANK']} attempt {os.environ['TORCHELASTIC_RESTART_COUNT']}\n")
