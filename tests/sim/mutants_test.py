"""Shows that the simulation finds bugs: each mutant breaks one rule of the protocol, in one place,
and has to be caught within a bounded number of schedules. docs/development.md lists them.

Each mutant is a copy of the sources with one text replaced, compiled and run; a text that is not
found exactly once is an error, so that the list cannot rot. What a program said of its seeds it says
again, so it is remembered under the program's hash, in $XDG_CACHE_HOME/ddprun/mutants or ~/.cache/...
"""

import argparse
import concurrent.futures
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
CORE = "rendezvous/core"
INCLUDE = re.compile(r'^#include "([^"]+)\.hpp"', re.MULTILINE)


def sources_of(stem):
    """The sources of STEM and of every header that it includes, directly or not: STEM.cpp, and STEM_*.cpp without
    a header of its own."""
    found, todo = set(), [ROOT / stem]
    while todo:
        stem = todo.pop()
        parts = {path for path in stem.parent.glob(f"{stem.name}_*.cpp") if not path.with_suffix(".hpp").is_file()}
        for path in ({stem.with_suffix(".hpp"), stem.with_suffix(".cpp")} | parts) - found:
            if path.is_file():
                found.add(path)
                todo += [ROOT / include for include in INCLUDE.findall(path.read_text())]
    return sorted(str(path.relative_to(ROOT)) for path in found if path.suffix == ".cpp")


SOURCES = sources_of("tests/sim/ddprun_sim")
SEEDS = "1:60000"
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "ddprun/mutants"
DIED = "status "  # without a word: it may have been killed, so that is no verdict to remember
# A mutant's headers are copied just before they are read, which ccache would not trust.
CCACHE = {"CCACHE_SLOPPINESS": "include_file_mtime,include_file_ctime"}

# name: [(file, what stands there, what the mutant has instead)]
MUTANTS = {
    "lease counted from receipt": [
        ("follower.cpp", "workers_.extend(sent_at + std::min(reply.grant, lease), out);",
         "workers_.extend(now + std::min(reply.grant, lease), out);")],
    "vote without expiry": [
        ("voter.cpp", "is_leader_dead() || now >= leader_.hold_until;",
         "is_leader_dead() || now >= leader_.hold_until - leader_.lease;")],
    "proof without majority": [
        ("quorum.cpp", "    if (!by_majority && !(by_half && tie_breaker.is_allowed)) continue;",
         "    const bool has_proof = dead_leaders(votes).newest.term != 0;\n"
         "    if (!has_proof && !by_majority && !(by_half && tie_breaker.is_allowed)) continue;")],
    "leader without majority": [
        ("leader_lease.cpp", "  until_ = until >= now ?", "  if (is_confirmed_) until = kNever;\n"
         "  until_ = until >= now ?")],
    "start without acknowledgement": [
        ("rounds.cpp", "  if (round_.acknowledged.size() < round_.to_run.size()) return false;\n",
         "  return lease_.until() > now;\n")],
    "a thawed agent that spawns": [
        ("worker_lease.cpp", "  if (now >= until_) return false;\n", ""),
        ("worker_lease.cpp", "  if (!are_running() || now < until_ || std::exchange(is_killed_, true)) return;",
         "  const TimePoint until = until_ + 2 * voter_.leader().lease;\n"
         "  if (!are_running() || now < until || std::exchange(is_killed_, true)) return;")],
    "a voter restarted with its vote": [
        ("voter.cpp", "  if (newest.number == 0) return state_.offered.is_member;\n", "  return true;\n"),
        ("candidate.cpp", "  if (vote.voter_state.instance != votes_.at(self_).voter_state.instance) return;\n", ""),
        ("quorum.cpp", "    for (const VoterSet* reported : voter_sets_of(vote.voter_state)) {\n      if (reported->round != round",
         "    if (vote.voter_state.committed.size == 0) found.members.insert(node);\n"
         "    for (const VoterSet* reported : voter_sets_of(vote.voter_state)) {\n      if (reported->round != round")],
    "budget forgotten": [
        ("rounds.cpp", "restarts_(context.policy, election_result.progress.restarts_used)", "restarts_(context.policy, 0)")],
    "verdict not repeated": [
        ("candidate.cpp", "    if (voter_state.verdict) result.verdict = voter_state.verdict;\n", "")],
    "saved though not all have": [
        ("job_end.cpp", "  if (!std::ranges::all_of(round.to_run, has_saved)) return notice_;\n", "")],
    "a round while an old one may run": [
        ("gathering.cpp", "  if (roster_.any_may_run()) return {};  // R2\n", "")],
    "death taken from a closed connection": [
        ("coordinator.cpp",
         "  // Suspected, no more: a round is never started on the strength of a closed connection.\n",
         "  rounds_.lost(node->info.incarnation, now, out);\n  node->may_run = false;\n")],
    "a successor that does not wait for leases": [
        ("candidate.cpp", "on_proof ? setting_.lease + setting_.margin : setting_.regroup;",
         "on_proof ? Duration::zero() : setting_.regroup;")],
    "a voter set that was not started, left out": [
        ("candidate.cpp", "  known.insert(committed);\n", "  known = {committed};\n")],
    "grants beyond what the leader's majority holds": [
        ("leader_lease.cpp", "  const bool is_limited = until < confirmed.heartbeat_at + timing_.lease;",
         "  const bool is_limited = false;")],
    "a deposed leader that does not wait for what it granted": [
        ("voter.cpp", "  own_.may_vote_at = std::max(now, own_.past.granted_until) + leader_.margin;",
         "  own_.may_vote_at = now;")],
    "a survivor that joins a bootstrap leader": [
        ("voter.cpp", "  const bool is_ours = may_join(welcome.instance, welcome.has_begun);",
         "  const bool is_ours = true;"),
        ("rendezvous_node_callers.cpp", "  if (theirs.exists() && theirs != leads.instance()) {", "  if (false) {"),
        ("rendezvous_node_callers.cpp", "  if (!is_ours || !is_bootstrapping) return;", "  return;"),
        ("rendezvous_node_callers.cpp", "  const bool is_ours = hello.voter_state.obeyed == ours;",
         "  const bool is_ours = hello.voter_state.obeyed.term == ours.term;")],
    "a spare that joins a bootstrap leader": [
        ("voter.cpp", "  if (!is_other || knows_that_it_has_begun()) return false;",
         "  if (!is_other || has_begun(state_)) return false;"),
        ("voter.cpp", "  return has_begun_there || !begun_.exists() || begun_ == instance;", "  return true;"),
        ("voter.cpp", "      .awaits = state_.instance.exists() ? Instance() : begun_};", "      .awaits = {}};")],
    "a leadership known by its term alone": [
        ("voter.cpp", "  const bool is_ours = leadership == state_.obeyed;\n  // A lifeline",
         "  const bool is_ours = leadership.term == state_.obeyed.term;\n  // A lifeline")],
    "its own term again": [
        ("election.cpp", "member_.vote_for_itself(newest + step, now)", "member_.vote_for_itself(newest, now)")],
    "late proofs, whichever node may have led": [
        ("quorum.hpp", "  const bool counts = is_nobody_elsewhere(rule, tally) || !others_may_lead(rule, tally);",
         "  const bool counts = true;")],
    "a replaced leader that may have led on with others": [
        ("quorum.hpp", "  return all_wait && tally.size >= rule.nodes.max();", "  return all_wait;")],
    "a tie-breaker that keeps a round": [
        ("leader_lease.cpp", "  voter_sets_.push_back(*std::move(begun));",
         "  begun->half_suffices = begun->size % 2 == 0;\n  voter_sets_.push_back(*std::move(begun));")],
    "a tie-breaker at once": [
        ("coordinator.cpp", "  past.over_for_all_at = lease_.spoke_at() + policy.lease + policy.margin * 5 / 4;",
         "  past.over_for_all_at = {};")],
    "a tie-breaker counted twice": [
        ("quorum.hpp", "tally.has_leader && is_half(tally.given, size)",
         "tally.has_leader && is_half(tally.given + 1, size)")],
    "a fence for each node": [
        ("tests/sim/cluster.cpp", "fences_.emplace(std::pair(claim.instance, claim.round), claim.node);",
         "fences_.emplace(std::pair(claim.node, claim.round), claim.node);")],
    "a place given away under a lease": [
        ("coordinator.cpp", "  if (holder != nullptr) return postpone(link, hello, *holder, now, out);\n",
         "  if (holder != nullptr && holder->info.incarnation != self()) {\n"
         "    const Incarnation gone = holder->info.incarnation;\n"
         "    rounds_.lost(gone, now, out);\n    lease_.forget(gone);\n    roster_.remove(gone);\n"
         "  } else if (holder != nullptr) {\n    return postpone(link, hello, *holder, now, out);\n  }\n")],
    "a job that begins at once": [
        ("gathering.cpp", "  } else if (!has_begun && may_be_elsewhere(policy)) {", "  } else if (false) {")],
    "a leader that ran no workers is counted among those that did": [
        ("candidate.cpp", "(leader_is_dead && newest.leader_ran ? 1 : 0)", "(leader_is_dead ? 1 : 0)")],
    "an unfit node in the place of another": [
        ("rank_plan.cpp", "      if (participant.is_unfit) return 3;\n", "")],
    "one that slept begins at once": [
        ("gathering.cpp", "  if (now - kOverslept > wakes_by_) {", "  if (false) {")],
    "an end without H taken for a proof": [
        ("tests/sim/cluster.cpp", "    if (member.life != line->member_life || !line->is_known_held) return;",
         "    if (member.life != line->member_life) return;")],
}


# Found by one schedule in tens of thousands, if at all: for the night.
RARE = ("a tie-breaker at once", "a replaced leader that may have led on with others",
        "a deposed leader that does not wait for what it granted", "one that slept begins at once")


def mutated(name):
    """The sources that the mutant `name` changes, by their paths; ends if a text does not stand there once."""
    sources = {}
    for file, old, new in MUTANTS[name]:
        where = file if "/" in file else f"{CORE}/{file}"
        text = sources.get(where) or (ROOT / where).read_text()
        if text.count(old) != 1:
            sys.exit(f"mutant '{name}': its text stands {text.count(old)} times in {where}; mend the list:\n{old}")
        sources[where] = text.replace(old, new)
    return sources


def compile_one(compiler, tree, source, out):
    """No path of the tree is in the object, so that equal sources make equal programs, and ccache knows them."""
    command = [*compiler, "-std=c++20", "-O1", "-I.", "-c", source, "-o", str(out)]
    done = subprocess.run(command, cwd=tree, env=os.environ | CCACHE, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{source} does not compile:\n{done.stderr[-4000:]}")
    return out


def object_of(source):
    return source.replace("/", "_").replace(".cpp", ".o")


def run(program, seeds):
    """What the simulation says of the first rule that it finds broken; empty if it finds none."""
    done = subprocess.run([str(program), "--seeds", seeds], capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return ""
    return done.stdout.splitlines()[0] if done.stdout else f"{DIED}{done.returncode}"


def link(compiler, objects, program):
    subprocess.run([*compiler, *map(str, objects), "-o", str(program), "-lfmt"], check=True)
    return program


def hunt(compiler, base, name, seeds):
    """How the mutant `name` is caught: the first broken rule; empty if it escapes."""
    tree = base / "mutant" / name.replace(" ", "_")
    for room in ("rendezvous", "base", "tests/sim"):
        shutil.copytree(ROOT / room, tree / room)
    changed = mutated(name)
    for where, text in changed.items():
        (tree / where).write_text(text)
    # A header reaches everything that includes it.
    dirty = set(SOURCES) if any(f.endswith(".hpp") for f in changed) else changed
    objects = []
    for source in SOURCES:
        out = base / object_of(source)
        if source in dirty:
            out = compile_one(compiler, tree, source, tree / object_of(source))
        objects.append(out)
    program = link(compiler, objects, tree / "sim")
    known = CACHE / hashlib.sha256(program.read_bytes() + seeds.encode()).hexdigest()
    if known.exists():
        return known.read_text()
    verdict = run(program, seeds)
    if not verdict.startswith(DIED):
        CACHE.mkdir(parents=True, exist_ok=True)
        written = known.with_suffix(f".{os.getpid()}")  # nobody reads half of one
        written.write_text(verdict)
        written.rename(known)
    return verdict


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--compiler", default="c++")
    parser.add_argument("--only", default="", help="mutants whose name has this in it")
    parser.add_argument("--rare", action="store_true", help="also those that more schedules have to find")
    parser.add_argument("--seeds", default=SEEDS, help="schedules that each is given, A:B")
    parser.add_argument("--check-texts", action="store_true", help="only see that each mutant's text still stands")
    options = parser.parse_args()
    for name in MUTANTS:
        mutated(name)
    if options.check_texts:
        return
    compiler = [*filter(None, [shutil.which("ccache")]), options.compiler]
    with tempfile.TemporaryDirectory(prefix="mutants_") as folder:
        base = pathlib.Path(folder)
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            jobs = [pool.submit(compile_one, compiler, ROOT, source, base / object_of(source))
                    for source in SOURCES]
            objects = [job.result() for job in jobs]
            broken = run(link(compiler, objects, base / "sim"), "1:1000")
            if broken:
                sys.exit(f"without a mutant: {broken}")
            wanted = [name for name in MUTANTS if options.only in name and (options.rare or name not in RARE)]
            found = {name: pool.submit(hunt, compiler, base, name, options.seeds) for name in wanted}
            escaped = []
            for name, job in found.items():
                caught = job.result()
                print(f"{'caught ' if caught else 'ESCAPED'}  {name}: {caught}", flush=True)
                if not caught:
                    escaped.append(name)
    if escaped:
        sys.exit(f"{len(escaped)} of {len(found)} mutants escaped within the seeds {options.seeds}")
    print(f"all {len(found)} mutants are caught")


if __name__ == "__main__":
    main()
