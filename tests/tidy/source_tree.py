"""The files of the project as the tests of the design see them."""

import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
ROOMS = ("base", "slurm", "rendezvous", "agent", "launcher", "bench", "trainer")
LINES_MAX = 450  # of a source file or a page, to be read in one go

_INCLUDE = re.compile(r'^\s*#\s*include\s*(?:<([^>]+)>|"([^"]+)")', re.MULTILINE)
_NOT_CODE = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(?P<d>\w*)\(.*?\)(?P=d)"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'',
    re.DOTALL)


class SourceFile:
    """One file: its path from the root, and its text with and without comments and literals."""

    def __init__(self, path, text):
        self.path = path
        self.text = text

    @property
    def room(self):
        return self.path.split("/")[0]

    @property
    def in_core(self):
        return "core" in self.path.split("/")[:-1]

    @property
    def includes(self):
        """(line, header, is_ours) of each #include; ours are those in quotes."""
        found = []
        for match in _INCLUDE.finditer(self.text):
            line = self.text.count("\n", 0, match.start(1 if match[1] else 2)) + 1
            found.append((line, match[1] or match[2], match[2] is not None))
        return found

    @property
    def code(self):
        """The text with comments and literals blanked, lines kept."""

        def blank(match):
            return re.sub(r"[^\n]", " ", match[0])

        # A digit separator (1'000) is no literal.
        return _NOT_CODE.sub(blank, re.sub(r"(?<=\d)'(?=\d)", "_", self.text))

    def line_of(self, offset):
        return self.text.count("\n", 0, offset) + 1


def files(*suffixes):
    """All files that git tracks, or would, with one of these suffixes."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\n")
    paths = [p for p in listed if p.endswith(suffixes) and (ROOT / p).is_file()]
    return [SourceFile(p, (ROOT / p).read_text()) for p in sorted(set(paths))]


def cpp_files():
    return files(".cpp", ".hpp")
