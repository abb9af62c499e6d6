#!/usr/bin/env python3
"""Runs clang-tidy on every source of the given compile databases, and remembers which were clean.

    scripts/run_clang_tidy.py CLANG_TIDY build/dev/compile_commands.json [build/release/compile_commands.json]

A file is checked again only if an input of its result changed: its text, the text of a project
header that it includes directly or indirectly, the settings, the compile command or clang-tidy itself.
Comment lines do not count, unless they contain NOLINT.
All clones of a machine share the record: $XDG_CACHE_HOME/ddprun/tidy, or ~/.cache/...
If a file is in two databases, the first one counts.
"""

import concurrent.futures
import functools
import hashlib
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
DATABASE = ROOT / "build" / "lint"
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "ddprun/tidy"
COMMENT = re.compile(rb"^[ \t]*//(?!.*NOLINT).*$", re.MULTILINE)
INCLUDE = re.compile(rb'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)


def for_clang(command):
    """The command without options that only g++ knows: its precompiled header (every file includes what
    it needs) and its own warnings; also without debugging information, which does not change the result,
    and without -Werror, since the settings say what is an error."""
    kept = []
    words = iter(shlex.split(command))
    for word in words:
        if word in ("-Winvalid-pch", "-Werror", "-g", "-g1") or word.startswith("-Wno-"):
            continue
        if word == "-include":
            header = next(words)
            if "cmake_pch" not in header:
                kept += [word, header]
            continue
        kept.append(word)
    # The compiler launcher at the front does not change the result.
    if kept and os.path.basename(kept[0]) == "ccache":
        kept = kept[1:]
    return shlex.join(kept)


def read_databases(paths):
    entries = {}
    for path in paths:
        for entry in json.loads(pathlib.Path(path).read_text()):
            source = pathlib.Path(entry["file"])
            if not source.is_relative_to(ROOT) or source.is_relative_to(ROOT / "build"):
                continue
            command = for_clang(entry["command"])
            entries.setdefault(source, {**entry, "command": command})
    return entries


def closure(source, known):
    """The project files that `source` includes, itself first, then in order of appearance."""
    files, todo = [], [source]
    while todo:
        file = todo.pop()
        if file in files:
            continue
        files.append(file)
        if file not in known:
            text = COMMENT.sub(b"//", file.read_bytes())
            names = [name.decode() for name in INCLUDE.findall(text)]
            found = [p for n in names for p in (ROOT / n, file.parent / n) if p.is_file()]
            known[file] = (hashlib.sha256(text).hexdigest(), found)
        todo += known[file][1]
    return files


def fingerprint(entry, source, settings, known):
    digest = hashlib.sha256(settings)
    digest.update(entry["command"].replace(str(ROOT), "").encode())
    for file in closure(source, known):
        digest.update(f"{file.relative_to(ROOT)} {known[file][0]}\n".encode())
    return digest.hexdigest()


def check(program, source):
    """clang-tidy's warnings for one file; empty if there are none."""
    done = subprocess.run(
        [program, "--quiet", "-p", str(DATABASE), str(source)],
        capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return ""
    return done.stdout.strip() or done.stderr.strip() or f"{program} ended with {done.returncode}"


def main(program, *databases):
    entries = read_databases(databases)
    DATABASE.mkdir(parents=True, exist_ok=True)
    (DATABASE / "compile_commands.json").write_text(json.dumps(list(entries.values()), default=str))
    CACHE.mkdir(parents=True, exist_ok=True)

    settings = subprocess.run([program, "--version"], capture_output=True, check=True).stdout
    for file in sorted(ROOT.glob(".clang-tidy")) + sorted(ROOT.glob("*/.clang-tidy")):
        settings += file.read_bytes()
    known = {}
    stamps = {s: CACHE / fingerprint(e, s, settings, known) for s, e in entries.items()}
    changed = sorted(source for source, stamp in stamps.items() if not stamp.exists())
    print(f"{len(changed)} of {len(entries)} files to check", flush=True)

    objections = 0
    told = set()  # report a header once, not once per file that includes it
    with concurrent.futures.ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        for source, objection in zip(changed, pool.map(functools.partial(check, program), changed)):
            if objection:
                objections += 1
                for item in re.split(r"\n(?=\S+:\d+:\d+: (?:error|warning))", objection):
                    if item not in told:
                        told.add(item)
                        print(item.replace(f"{ROOT}/", ""), flush=True)
            else:
                stamps[source].touch()
    if objections:
        print(f"{objections} files with warnings", file=sys.stderr)
    return 1 if objections else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
