"""Habits that no compiler checks: dropped results, detached coroutines, debts without a reason."""

import re
import unittest

from source_tree import ROOMS, SourceFile, cpp_files, files

# A statement that begins with co_await discards its value. g++ does not warn, although Result is
# [[nodiscard]].
_STATEMENT = re.compile(r"(?:^|[;{}]|\)|\belse)\s*co_await\b([^;]*);")
_VALUELESS = re.compile(r"this_coro::|\bjoin\(\)|\basync_wait\(|\basio::(post|dispatch)\(")
_VOID_COROUTINE = re.compile(r"awaitable<void>\s+(?:\w+::)*(\w+)\s*\(")
_OTHER_COROUTINE = re.compile(r"awaitable<(?!void>)[^;{}()]*>\s+(?:\w+::)*(\w+)\s*\(")

LINES_MAX = {"trainer/train.cpp": 810}  # else 450

_DEBT = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
_GOOD_DEBT = re.compile(r"TODO\((perf|robust|port|someday)\): \S+ \S+")


def coroutines_without_a_result(sources):
    """Names that everywhere in the tree mean a coroutine without a result."""
    void, other = set(), set()
    for file in sources:
        void.update(_VOID_COROUTINE.findall(file.code))
        other.update(_OTHER_COROUTINE.findall(file.code))
    return void - other


def dropped_results(file, void_coroutines):
    found = []
    for match in _STATEMENT.finditer(file.code):
        awaited = match[1]
        callee = re.search(r"(\w+)\s*\(", awaited)
        if _VALUELESS.search(awaited) or (callee and callee[1] in void_coroutines):
            continue
        line = file.line_of(match.start(1))
        found.append(f"{file.path}:{line}: 'co_await{awaited.split('(')[0]}(…);' drops its result; "
                     "answer it, return it, or name it and cast it to void with the reason")
    return found


def detached_coroutines(file):
    return [f"{file.path}:{file.line_of(match.start())}: an exception under detached vanishes; "
            "spawn it in a TaskScope whose owner awaits join()"
            for match in re.finditer(r"\bdetached\b", file.code)]


def bad_debts(file):
    found = []
    for match in _DEBT.finditer(file.text):
        if not _GOOD_DEBT.match(file.text, match.start()):
            found.append(f"{file.path}:{file.line_of(match.start())}: write a debt as "
                         "'TODO(perf|robust|port|someday): what and why', or pay it")
    return found


class Conduct(unittest.TestCase):
    def assert_nothing(self, found):
        self.assertEqual([], found, "\n" + "\n".join(found))

    def test_no_statement_drops_the_result_of_an_await(self):
        sources = [f for f in cpp_files() if f.room in ROOMS]
        void = coroutines_without_a_result(sources)
        self.assert_nothing([s for f in sources for s in dropped_results(f, void)])

    def test_no_coroutine_is_detached(self):
        self.assert_nothing([s for f in cpp_files() for s in detached_coroutines(f)])

    def test_every_debt_has_a_kind_and_a_reason(self):
        texts = [f for f in files(".cpp", ".hpp", ".py", ".sh", ".cmake", "CMakeLists.txt")
                 if not f.path.startswith("tests/tidy/")]
        self.assert_nothing([s for f in texts for s in bad_debts(f)])

    def test_no_file_is_too_long_to_be_read_in_one_go(self):
        self.assert_nothing([
            f"{f.path}: {f.text.count(chr(10))} lines; part it by purpose"
            for f in cpp_files() if f.room in ROOMS and f.text.count("\n") > LINES_MAX.get(f.path, 450)])

    def test_functions_that_exit_are_called_at_the_top_only(self):
        """exit() runs destructors of statics while other threads live, so main returns instead."""
        found = [f"{f.path}:{f.line_of(m.start())}: return the status to main instead"
                 for f in cpp_files() if f.room in ROOMS
                 for m in re.finditer(r"(?<![\w.>])(?:std::|::)?exit\(", f.code)]
        self.assert_nothing(found)


class TheRulesThemselves(unittest.TestCase):
    def dropped(self, body, void=frozenset()):
        text = f"asio::awaitable<void> f() {{\n  {body}\n}}\n"
        return dropped_results(SourceFile("agent/agent.cpp", text), void)

    def test_a_dropped_result_is_seen(self):
        self.assertTrue(self.dropped("co_await send(frame);"))
        self.assertTrue(self.dropped("if (ready) co_await send(frame);"))
        self.assertTrue(self.dropped("ready = true;\n  co_await before(deadline, send(frame));"))

    def test_an_await_without_a_result_is_not(self):
        self.assertFalse(self.dropped("co_await scope.join();"))
        self.assertFalse(self.dropped("co_await asio::this_coro::throw_if_cancelled(false);"))
        self.assertFalse(self.dropped("co_await serve(socket);", {"serve"}))
        self.assertFalse(self.dropped("const auto sent = co_await send(frame);"))
        self.assertFalse(self.dropped("co_return co_await send(frame);"))
        self.assertFalse(self.dropped("// co_await send(frame);"))

    def test_a_name_with_two_meanings_is_no_coroutine_without_a_result(self):
        text = "asio::awaitable<void> a();\nasio::awaitable<Result<int>> a();\nawaitable<void> b();"
        self.assertEqual({"b"}, coroutines_without_a_result([SourceFile("agent/a.hpp", text)]))

    def test_a_detached_coroutine_is_seen(self):
        self.assertTrue(detached_coroutines(
            SourceFile("agent/a.cpp", "co_spawn(context, run(), asio::detached);")))

    def test_a_debt_without_a_reason_is_seen(self):
        self.assertTrue(bad_debts(SourceFile("a.cpp", "// TODO: later\n")))
        self.assertTrue(bad_debts(SourceFile("a.cpp", "// FIXME\n")))
        self.assertFalse(bad_debts(SourceFile("a.cpp", "// TODO(perf): one copy less, 3 %\n")))


if __name__ == "__main__":
    unittest.main()
