"""Habits that no compiler checks: dropped results, detached coroutines, debts without a reason."""

import re
import unittest

from source_tree import LINES_MAX, ROOMS, SourceFile, cpp_files, files

# A statement that begins with co_await discards its value. g++ does not warn, although Result is
# [[nodiscard]].
_STATEMENT = re.compile(r"(?:^|[;{}]|\)|\belse)\s*co_await\b([^;]*);")
_VALUELESS = re.compile(r"this_coro::|\bjoin\(\)|\basync_wait\(|\basio::(post|dispatch)\(")
_VOID_COROUTINE = re.compile(r"awaitable<void>\s+(?:\w+::)*(\w+)\s*\(")
_OTHER_COROUTINE = re.compile(r"awaitable<(?!void>)[^;{}()]*>\s+(?:\w+::)*(\w+)\s*\(")

LONG_FILES = {"trainer/train.cpp": 810}  # else LINES_MAX

MEMBERS_MAX = 12
_CLASS = re.compile(r"\b(?:class|struct)\s+(?:\[\[\w+\]\]\s*)?(\w+)(?:\s+final)?\s*(?::[^;{}()]*)?\{")
_NO_MEMBER = re.compile(r"(?:using|friend|static|typedef|enum|class|struct|template|union)\b")

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


def end_of_block(code, start):
    """The offset of the brace that closes the block which begins before `start`."""
    depth = 1
    for brace in re.finditer(r"[{}]", code[start:]):
        depth += 1 if brace[0] == "{" else -1
        if depth == 0:
            return start + brace.start()
    return len(code)


def data_members(body):
    """How many data members the body of a class declares, those of its nested types not counted."""
    outer = re.sub(r"^\s*#.*$|\b(?:public|private|protected)\s*:", "", body, flags=re.MULTILINE)
    for inner in (r"<[^<>;{}]*>", r"\{[^{}]*\}"):
        while inner_text := re.search(inner, outer):
            mark = "" if inner[0] == "<" else "@"
            outer = outer[:inner_text.start()] + mark + outer[inner_text.end():]
    # A function ends with its body, anything else with a semicolon.
    statements = re.split(r";|(?<=\))[^;@(]*@", outer)
    return sum(1 for text in map(str.strip, statements)
               if text and "(" not in text and not _NO_MEMBER.match(text))


def crowded_classes(file):
    found = []
    for match in _CLASS.finditer(file.code):
        end = end_of_block(file.code, match.end())
        count = data_members(file.code[match.end():end])
        comment = file.text[:match.start()].rpartition("\n\n")[2] + file.text[match.start():end]
        if count > MEMBERS_MAX and not re.search(r"ore than\s+(?://+ )?twelve", comment):
            found.append(f"{file.path}:{file.line_of(match.start())}: {match[1]} has {count} data "
                         f"members; part it, or say why it has 'more than twelve' in a comment")
    return found


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
            for f in cpp_files() if f.room in ROOMS and f.text.count("\n") > LONG_FILES.get(f.path, LINES_MAX)])

    def test_no_class_has_too_many_members_without_a_reason(self):
        # Not the trainer's: its loop and its options are to be parted first.
        self.assert_nothing([s for f in cpp_files() if f.room in ROOMS and f.room != "trainer"
                             for s in crowded_classes(f)])

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

    def test_data_members_are_counted(self):
        self.assertEqual(5, data_members("""
            explicit A(int b) : b_{b}, c_(b) {}
            void f() const { int no = 1; }
            int g(int x) const;
            static constexpr int kNo = 1;
            using No = int;
            struct Inner { int no; int nor; };
            enum class No { kA, kB };
            int b_ = 1;
            std::function<void(int)> c_;
            std::map<int, std::vector<int>> d_{{1, {}}};
           private:
            Inner e_;
            const int* f_;"""))

    def test_a_crowded_class_is_seen(self):
        members = "".join(f"  int a{i}_;\n" for i in range(13))
        self.assertTrue(crowded_classes(SourceFile("agent/a.hpp", f"class A {{\n{members}}};\n")))
        self.assertFalse(crowded_classes(
            SourceFile("agent/a.hpp", f"// More than twelve: why.\nclass A {{\n{members}}};\n")))

    def test_a_debt_without_a_reason_is_seen(self):
        self.assertTrue(bad_debts(SourceFile("a.cpp", "// TODO: later\n")))
        self.assertTrue(bad_debts(SourceFile("a.cpp", "// FIXME\n")))
        self.assertFalse(bad_debts(SourceFile("a.cpp", "// TODO(perf): one copy less, 3 %\n")))


if __name__ == "__main__":
    unittest.main()
