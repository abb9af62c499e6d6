"""Checks that links, anchors and named files in the documents exist."""

import re
import unittest

from source_tree import LINES_MAX, ROOT, SourceFile, files

_FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#{1,6}\s+(.+?)\s*$", re.MULTILINE)
_NAMED_FILE = re.compile(
    r"`((?:base|slurm|rendezvous|agent|launcher|trainer|tests|docs|cmake|scripts|\.ci)/[\w./-]*)`")


def slug(heading):
    """The anchor that GitHub gives a heading."""
    kept = re.sub(r"[^\w\- ]", "", heading.replace("`", "").lower())
    return kept.replace(" ", "-")


def anchors(text):
    return {slug(heading) for heading in _HEADING.findall(_FENCE.sub("", text))}


def broken_references(file):
    found = []
    prose = _FENCE.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), file.text)
    for match in _LINK.finditer(prose):
        target = match[1]
        if re.match(r"\w+:", target):
            continue
        path, _, anchor = target.partition("#")
        where = f"{file.path}:{file.line_of(match.start())}"
        there = (ROOT / file.path).parent / path
        if path and not there.exists():
            found.append(f"{where}: the link '{target}' leads nowhere")
        elif anchor and anchor not in anchors(there.read_text() if path else file.text):
            found.append(f"{where}: '{target}' names a heading that is not there")
    for match in _NAMED_FILE.finditer(prose):
        if not (ROOT / match[1]).exists():
            found.append(f"{file.path}:{file.line_of(match.start())}: there is no {match[1]}; name "
                         "the file that does it now")
    return found


class Documents(unittest.TestCase):
    def test_what_they_point_at_exists(self):
        documents = files(".md")
        self.assertIn("README.md", [file.path for file in documents])
        found = [sentence for file in documents for sentence in broken_references(file)]
        self.assertEqual([], found, "\n" + "\n".join(found))

    def test_every_document_is_reachable_from_the_readme(self):
        linked, todo = set(), ["README.md"]
        while todo:
            path = todo.pop()
            if path in linked or not (ROOT / path).is_file():
                continue
            linked.add(path)
            for target in _LINK.findall((ROOT / path).read_text()):
                there = ((ROOT / path).parent / target.split("#")[0]).resolve()
                if there.suffix == ".md" and there.is_relative_to(ROOT):
                    todo.append(str(there.relative_to(ROOT)))
        missing = [f.path for f in files(".md") if f.path.startswith("docs/") and
                   f.path not in linked]
        self.assertEqual([], missing, "no link leads to these; add one to README.md")

    def test_no_page_is_too_long_to_be_read_in_one_go(self):
        found = [f"{file.path}: {file.text.count(chr(10))} lines; part it by purpose"
                 for file in files(".md") if file.text.count("\n") > LINES_MAX]
        self.assertEqual([], found, "\n".join(found))


class TheRuleItself(unittest.TestCase):
    def broken(self, text):
        return broken_references(SourceFile("README.md", text))

    def test_sees_a_broken_link_anchor_and_file(self):
        self.assertTrue(self.broken("[a](docs/nothing.md)"))
        self.assertTrue(self.broken("# Here\n[a](#there)"))
        self.assertTrue(self.broken("See `agent/nothing.cpp`."))

    def test_follows_what_exists(self):
        self.assertFalse(self.broken("# The way, `in`\n[a](#the-way-in) [b](LICENSE)"))
        self.assertFalse(self.broken("See `base/error.hpp` and `base/`, https://a.b/c."))
        self.assertFalse(self.broken("```\n[a](docs/nothing.md)\n```\n"))


if __name__ == "__main__":
    unittest.main()
