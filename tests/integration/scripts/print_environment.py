"""Prints its whole environment as one JSON line."""

import json
import os
import sys

sys.stdout.write(json.dumps(dict(os.environ), sort_keys=True) + "\n")
