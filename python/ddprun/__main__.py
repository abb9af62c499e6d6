"""python -m ddprun: becomes the program ddprun, which runs scripts in this Python."""

import importlib.metadata
import os
import sys


def find_program():
    """The program that was installed with this package; None if it is gone."""
    try:
        files = importlib.metadata.files("ddprun") or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    for file in files:
        # Above the packages, in the directory for programs: ../../../bin/ddprun
        if file.name == "ddprun" and file.parts[0] == ".." and os.access(file.locate(), os.X_OK):
            return os.path.abspath(file.locate())
    return None


def main():
    program = find_program()
    if program is None:
        sys.exit("python -m ddprun: the program ddprun is not installed beside this package; "
                 "install it again: pip install --force-reinstall ddprun")
    os.environ.setdefault("PYTHON_EXEC", sys.executable)
    os.execv(program, ["ddprun", *sys.argv[1:]])


if __name__ == "__main__":
    main()
