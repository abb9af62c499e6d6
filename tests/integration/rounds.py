"""Checks from the workers' own records whether two rounds ran at once (R2).

tests/support/round_worker appends a line for every millisecond in which it ran. All nodes of a test
are one machine, so their CLOCK_BOOTTIME is one clock. The check knows nothing of ddprun:
neither its messages nor its decisions.

A leader that forgot the job numbers its rounds from 1 again, so two rounds may have the same numbers.
Workers of one round agree on a token in its store, which tells such rounds apart.
"""

import collections
import re

_TOKEN = re.compile("[0-9a-f]{16}")


class Moment(collections.namedtuple("Moment", "ns term round node rank pid token",
                                    defaults=("",))):
    """One line: this worker ran at this time. Without a token the worker has not found out yet."""

    @property
    def key(self):
        return self.term, self.round

    @property
    def process(self):
        return self.node, self.pid

    def __str__(self):
        return (f"rank {self.rank} on {self.node} (pid {self.pid}) in round {self.round} of "
                f"term {self.term}")


def parse(text):
    """The moments of a log, in its order. A last line without an end was being written by a worker
    that was killed, and is none."""
    moments = []
    for number, line in enumerate(text.split("\n")[:-1], 1):
        words = line.split()
        try:
            ns, term, round_, node, rank, pid, *token = words
            if token and not (len(token) == 1 and _TOKEN.fullmatch(token[0])):
                raise ValueError(f"{token} is no token")
            moments.append(Moment(int(ns), int(term), int(round_), node, int(rank), int(pid),
                                  *token))
        except ValueError as error:
            raise ValueError(f"line {number} is no moment: {line!r}") from error
    return moments


def rounds_of(moments):
    """{(term, round): its moments by time}, by time of their beginning."""
    rounds = {}
    for moment in sorted(moments):
        rounds.setdefault(moment.key, []).append(moment)
    return rounds


def rounds_by_token(moments):
    """The moments of each round by time, in the order in which rounds began. Of those with the same
    numbers each has a token of its own."""
    tokens, rounds, unknown, alone = {}, {}, {}, {}
    # From the end, since a worker learns its token; a machine that comes back reuses process numbers.
    for moment in sorted(moments, reverse=True):
        token = tokens[moment.process, moment.key] = (
            moment.token or tokens.get((moment.process, moment.key)))
        if token is None:
            unknown.setdefault((*moment.key, moment.process), []).append(moment)
        else:
            rounds.setdefault((*moment.key, token), []).append(moment)
    for moments in (*rounds.values(), *unknown.values()):
        moments.reverse()
    for name, lost in sorted(unknown.items()):
        # A worker that ended before it knew: of the round that began nearest to it, with its rank free.
        key, rank, process = name[:2], lost[0].rank, lost[0].process
        same = [other for other, moments in rounds.items() if other[:2] == key and
                all(moment.rank != rank or moment.process == process for moment in moments)]
        if same:
            nearest = min(same, key=lambda other: abs(rounds[other][0].ns - lost[0].ns))
            rounds[nearest] = sorted(rounds[nearest] + lost)
        else:
            alone.setdefault(key, []).extend(lost)
    return sorted([*rounds.values(), *map(sorted, alone.values())])


def _overlaps(rounds):
    """A round ends with the last moment of any of its workers; a later one begins after that."""
    for number, earlier in enumerate(rounds):
        for later in rounds[number + 1:]:
            last, first = earlier[-1], later[0]
            if last.ns >= first.ns:
                yield (f"R2: {last} still ran {(last.ns - first.ns) / 1e6:.3f} ms after {first} "
                       "had begun")


def _regressions(rounds):
    """Numbers only grow, as long as some node remembers the job."""
    for earlier, later in zip(rounds, rounds[1:]):
        if later[0].key <= earlier[0].key:
            yield f"R1: {later[0]} began after {earlier[0]}"


def _doubles(rounds):
    """In a round each rank is one process."""
    for moments in rounds:
        owner = {}
        for moment in moments:
            other = owner.setdefault(moment.rank, moment)
            if other.process != moment.process:
                yield f"R3: {other} and {moment} have the same rank"
                owner[moment.rank] = moment


def violations(moments):
    """A sentence for each; none: all is well."""
    rounds = rounds_by_token(moments)
    return [*_overlaps(rounds), *_regressions(rounds), *_doubles(rounds)]
