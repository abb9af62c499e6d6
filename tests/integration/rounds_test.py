"""Checks that rounds.py reports violations, and only those."""

import unittest

import rounds

A, B = "a" * 16, "b" * 16


def log(*lines):
    return rounds.parse("".join(f"{line}\n" for line in lines))


class Judge(unittest.TestCase):
    def test_has_nothing_against_rounds_that_follow_each_other(self):
        self.assertEqual([], rounds.violations(log(
            "100 1 1 n0 0 11", "100 1 1 n1 1 21", "200 1 1 n0 0 11", "201 1 1 n1 1 21",
            "202 1 2 n0 0 12", "203 1 2 n1 1 22", "300 2 3 n1 0 23")))

    def test_has_nothing_against_an_empty_log(self):
        self.assertEqual([], rounds.violations(log()))

    def test_condemns_an_earlier_round_that_still_runs_on_another_node(self):
        found = rounds.violations(log(
            "1000000 1 1 n0 0 11", "1000000 1 1 n1 1 21", "2000000 1 2 n0 0 12",
            "3500000 1 1 n1 1 21"))
        self.assertEqual(["R2: rank 1 on n1 (pid 21) in round 1 of term 1 still ran 1.500 ms "
                          "after rank 0 on n0 (pid 12) in round 2 of term 1 had begun"], found)

    def test_condemns_the_same_instant(self):
        self.assertEqual(1, len(rounds.violations(log("5 1 1 n0 0 1", "5 1 2 n1 0 2"))))

    def test_condemns_a_leader_that_continues_beside_its_successor(self):
        found = rounds.violations(log("1 1 7 n0 0 1", "2 2 8 n1 0 2", "3 1 7 n0 0 1"))
        self.assertEqual(1, len(found))
        self.assertIn("term 1 still ran", found[0])

    def test_condemns_an_overlap_with_a_round_that_is_not_the_next(self):
        found = rounds.violations(log("1 1 1 n0 0 1", "2 1 2 n1 0 2", "3 1 3 n1 0 3", "4 1 1 n0 0 1"))
        self.assertEqual(2, len(found))

    def test_looks_at_times_and_not_at_the_order_of_lines(self):
        late = log("9 1 2 n0 0 2", "1 1 1 n0 0 1", "8 1 1 n0 0 1")
        self.assertEqual([], rounds.violations(late))

    def test_condemns_a_rank_that_two_nodes_have(self):
        found = rounds.violations(log("1 1 1 n0 0 1", "2 1 1 n1 0 2"))
        self.assertEqual(1, len(found))
        self.assertTrue(found[0].startswith("R3: "), found)

    def test_condemns_a_worker_that_is_started_twice_in_a_round(self):
        self.assertEqual(1, len(rounds.violations(log("1 1 1 n0 0 1", "2 1 1 n0 0 2"))))

    def test_tells_rounds_with_the_same_numbers_apart_by_what_their_workers_agreed_on(self):
        """A leader that forgot the job begins with 1 again; rank 1 of its first world lives on."""
        found = rounds.violations(log(
            f"1 1 1 n0 0 11 {A}", f"1 1 1 n1 1 21 {A}", f"1000 1 1 n0 0 12 {B}",
            f"1000 1 1 n2 1 31 {B}", f"1000000 1 1 n1 1 21 {A}"))
        self.assertEqual(2, len(found))
        self.assertIn("R2: rank 1 on n1 (pid 21) in round 1 of term 1 still ran", found[0])
        self.assertTrue(found[1].startswith("R1: "), found)

    def test_knows_a_worker_by_its_own_words_where_a_process_number_comes_again(self):
        """As in a container that is started again."""
        self.assertEqual([], rounds.violations(log(
            f"1 1 1 n0 0 11 {A}", "2 1 1 n1 1 21", f"3 1 1 n1 1 21 {A}",
            "8 1 2 n1 1 21", f"9 1 2 n1 1 21 {B}")))
        found = rounds.violations(log(
            f"1 1 1 n1 1 21 {A}", "8 1 1 n1 1 21", f"9 1 1 n1 1 21 {B}"))
        self.assertEqual(1, len(found), found)
        self.assertTrue(found[0].startswith("R1: "), found)

    def test_condemns_numbers_that_begin_again(self):
        found = rounds.violations(log(f"1 1 1 n0 0 11 {A}", f"9 1 1 n0 0 12 {B}"))
        self.assertEqual(["R1: rank 0 on n0 (pid 12) in round 1 of term 1 began after rank 0 "
                          "on n0 (pid 11) in round 1 of term 1"], found)

    def test_counts_a_worker_that_does_not_know_its_round_yet_to_the_nearest(self):
        self.assertEqual([], rounds.violations(log(
            "1 1 1 n0 0 11", f"2 1 1 n0 0 11 {A}", "2 1 1 n1 1 21", f"9 1 2 n0 0 12 {B}")))

    def test_counts_no_worker_to_a_round_in_which_another_has_its_rank(self):
        """It was killed in the first moments of a round of its own."""
        found = rounds.violations(log(f"1 1 1 n0 0 11 {A}", "2 1 1 n1 0 21", f"3 1 1 n0 0 11 {A}"))
        self.assertEqual(2, len(found), found)
        self.assertTrue(found[0].startswith("R2: "), found)
        self.assertTrue(found[1].startswith("R1: "), found)


class Log(unittest.TestCase):
    def test_may_end_within_a_line(self):
        self.assertEqual(1, len(rounds.parse("1 1 1 n0 0 1\n2 1 1 n0")))

    def test_is_refused_if_a_line_is_torn(self):
        for torn in ("1 1 1 n0 0\n", "1 1 1 n0 0 1 7\n", "1 1 1 n0 0 1 0123456789abcdef 7\n", "x 1 1 n0 0 1\n", "\n"):
            with self.assertRaisesRegex(ValueError, "line 1 is no moment"):
                rounds.parse(torn)


if __name__ == "__main__":
    unittest.main()
