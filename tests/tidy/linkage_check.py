"""Fails if a program links a library that it must never load:

    linkage_check.py BANNED_PATTERN PROGRAM...

Start-up in milliseconds, and nodes without torch, depend on this.
"""

import re
import subprocess
import sys


def needed(program):
    listed = subprocess.run(
        ["readelf", "--dynamic", "--wide", program], capture_output=True, text=True, check=True)
    return re.findall(r"\(NEEDED\).*\[(.+?)\]", listed.stdout)


def main(banned, programs):
    broken = 0
    for program in programs:
        libraries = needed(program)
        if not libraries:
            sys.exit(f"{program}: readelf lists no library at all; is it a dynamic ELF file?")
        for library in libraries:
            if re.search(banned, library):
                broken += 1
                print(f"{program} needs {library}: remove the room that brings it in from the "
                      "program's LINKS (launcher/CMakeLists.txt)")
        print(f"{program}: {' '.join(libraries)}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
