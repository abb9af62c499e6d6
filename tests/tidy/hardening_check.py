"""Fails if a program lacks one of the compiler's defences:

    hardening_check.py PROGRAM...

They limit what a mistake in code that reads bytes of strangers could be used for.
"""

import subprocess
import sys


def listed(program, *what):
    return subprocess.run(["readelf", "--wide", *what, program], capture_output=True, text=True, check=True).stdout


def missing(program):
    dynamic, symbols = listed(program, "--dynamic"), listed(program, "--dyn-syms")
    defences = {
        "a position-independent program (-pie)": "PIE" in dynamic,
        "tables of functions that cannot be written (-z relro)": "GNU_RELRO" in listed(program, "--segments"),
        "and that are complete at the start (-z now)": "BIND_NOW" in dynamic or "Flags: NOW" in dynamic,
        "stacks with a canary (-fstack-protector-strong)": "__stack_chk_fail" in symbols,
        "copies of known size that are checked (-D_FORTIFY_SOURCE=3)": "_chk@" in symbols.replace("__stack_chk", ""),
    }
    return [defence for defence, is_there in defences.items() if not is_there]


def main(programs):
    lacking = [f"{program} lacks: {defence}" for program in programs for defence in missing(program)]
    print("\n".join(lacking))
    return 1 if lacking else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
