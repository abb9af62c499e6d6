"""Fails unless every documented variable is set, and creates a file named after its rank."""

import argparse
import os
import pathlib

PROMISED = (
    "LOCAL_RANK", "RANK", "GROUP_RANK", "ROLE_RANK", "ROLE_NAME", "LOCAL_WORLD_SIZE", "WORLD_SIZE", "ROLE_WORLD_SIZE",
    "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_MAX_RESTARTS", "TORCHELASTIC_RUN_ID",
    "TORCHELASTIC_ERROR_FILE", "OF_THE_PARENT")

parser = argparse.ArgumentParser()
parser.add_argument("--touch-file-dir", type=pathlib.Path)
parser.add_argument("--fail", action="store_true")
arguments = parser.parse_args()

missing = [name for name in PROMISED if name not in os.environ]
if arguments.fail or missing:
    raise RuntimeError(f"without {missing}")
(arguments.touch_file_dir / os.environ["RANK"]).touch()
