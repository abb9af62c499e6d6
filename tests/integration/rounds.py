"""Judges from what workers themselves wrote whether two rounds ran at once (R2).

tests/support/round_worker appends a line for every millisecond in which it ran. All nodes of a test
are one machine, so their CLOCK_BOOTTIME is one clock. The judge knows nothing of ddprun: neither
what it was told nor what it decided.
"""

import collections


class Moment(collections.namedtuple("Moment", "ns generation round node rank pid")):
    """One line: this worker ran at this time."""

    @property
    def key(self):
        return self.generation, self.round

    def __str__(self):
        return (f"rank {self.rank} on {self.node} (pid {self.pid}) in round {self.round} of "
                f"generation {self.generation}")


def parse(text):
    """The moments of a log, in its order. A last line without an end was being written by a worker
    that was killed, and is none."""
    moments = []
    for number, line in enumerate(text.split("\n")[:-1], 1):
        words = line.split(" ")
        try:
            ns, generation, round_, node, rank, pid = words
            moments.append(Moment(int(ns), int(generation), int(round_), node, int(rank), int(pid)))
        except ValueError as error:
            raise ValueError(f"line {number} is no moment: {line!r}") from error
    return moments


def rounds_of(moments):
    """{(generation, round): its moments by time}, by time of their beginning."""
    rounds = {}
    for moment in sorted(moments):
        rounds.setdefault(moment.key, []).append(moment)
    return rounds


def _overlaps(rounds):
    """A round ends with the last moment of any of its workers; a later one begins behind that."""
    keys = sorted(rounds)
    for earlier in keys:
        for later in keys[keys.index(earlier) + 1:]:
            last, first = rounds[earlier][-1], rounds[later][0]
            if last.ns >= first.ns:
                yield (f"R2: {last} still ran {(last.ns - first.ns) / 1e6:.3f} ms after {first} "
                       "had begun")


def _doubles(rounds):
    """In a round each rank is one process."""
    for moments in rounds.values():
        owner = {}
        for moment in moments:
            other = owner.setdefault(moment.rank, moment)
            if (other.node, other.pid) != (moment.node, moment.pid):
                yield f"R3: {other} and {moment} have the same rank"
                owner[moment.rank] = moment


def violations(moments):
    """A sentence for each; none: all is well."""
    rounds = rounds_of(moments)
    return [*_overlaps(rounds), *_doubles(rounds)]
