"""Under @record, as torchrun's documentation advises; one rank raises."""

import os
import time

from torch.distributed.elastic.multiprocessing.errors import record


def give_up():
    raise ValueError("the rank with the bad luck gives up")


@record
def main():
    if int(os.environ["RANK"]) == int(os.environ["WORLD_SIZE"]) - 1:
        give_up()
    time.sleep(600)  # until the launcher stops it


if __name__ == "__main__":
    main()
