// Runs random schedules of faults against the real cores, and stops at the first broken rule.
//
//   ddprun_sim --seeds A:B     every seed from A to B
//   ddprun_sim --all A:B       likewise, without stopping
//   ddprun_sim --seconds S     random fresh seeds, for so long
//   ddprun_sim --seed N        one, with everything that happened

#include "base/parse.hpp"
#include "tests/sim/schedule.hpp"

#include <fmt/format.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::sim {
namespace {

using Real = std::chrono::steady_clock;

struct Totals {
  std::uint64_t schedules = 0;
  std::uint64_t events = 0;
  std::uint64_t rounds = 0;
  std::uint64_t failovers = 0;
  std::uint64_t jobs_done = 0;
  std::uint64_t jobs_lost = 0;
};

void print(const Totals& totals, Real::time_point since) {
  const double seconds = std::chrono::duration<double>(Real::now() - since).count();
  fmt::print(
      "{} schedules in {:.1f} s: {:.0f} a second; {} events, {} rounds, {} failovers, {} jobs "
      "done, {} lost without a majority or enough nodes; no rule broken\n",
      totals.schedules,
      seconds,
      static_cast<double>(totals.schedules) / seconds,
      totals.events,
      totals.rounds,
      totals.failovers,
      totals.jobs_done,
      totals.jobs_lost);
}

bool try_seed(std::uint64_t seed, Totals& totals) {
  const Outcome outcome = run_schedule(seed);
  ++totals.schedules;
  totals.events += outcome.events;
  totals.rounds += static_cast<std::uint64_t>(outcome.rounds);
  if (outcome.terms > 1) {
    totals.failovers += static_cast<std::uint64_t>(outcome.terms - 1);
  }
  totals.jobs_done += outcome.succeeded > 0 ? 1 : 0;
  totals.jobs_lost += outcome.succeeded == 0 && outcome.gave_up > 0 ? 1 : 0;
  for (const auto& violation : outcome.violations) {
    fmt::print("seed {}: {}\n", seed, violation);
  }
  if (!outcome.violations.empty()) fmt::print("replay with: ddprun_sim --seed {}\n", seed);
  return outcome.violations.empty();
}

int show(std::uint64_t seed) {
  const Outcome outcome = run_schedule(seed, true);
  for (const auto& line : outcome.log) {
    fmt::print("{}\n", line);
  }
  for (const auto& violation : outcome.violations) {
    fmt::print("seed {}: {}\n", seed, violation);
  }
  return outcome.violations.empty() ? 0 : 1;
}

int run_range(std::uint64_t first, std::uint64_t last, bool stops) {
  const auto since = Real::now();
  Totals totals;
  int broken = 0;
  for (std::uint64_t seed = first; seed <= last; ++seed) {
    if (!try_seed(seed, totals)) ++broken;
    if (broken > 0 && stops) return 1;
  }
  if (broken > 0) {
    fmt::print("{} of {} schedules broke a rule\n", broken, totals.schedules);
    return 1;
  }
  print(totals, since);
  return 0;
}

int run_for(double seconds) {
  const auto since = Real::now();
  std::random_device chance;
  Totals totals;
  while (std::chrono::duration<double>(Real::now() - since).count() < seconds) {
    const std::uint64_t seed = (std::uint64_t{chance()} << 32U) | chance();
    if (!try_seed(seed, totals)) return 1;
  }
  print(totals, since);
  return 0;
}

int usage() {
  fmt::print(stderr, "usage: ddprun_sim --seeds A:B | --all A:B | --seconds S | --seed N\n");
  return 2;
}

int main_of(std::span<const std::string> arguments) {
  if (arguments.size() != 2) return usage();
  const std::string& value = arguments[1];
  if (arguments[0] == "--seed") {
    const auto seed = parse_int<std::uint64_t>(value);
    return seed ? show(*seed) : usage();
  }
  if (arguments[0] == "--seeds" || arguments[0] == "--all") {
    const std::size_t colon = value.find(':');
    const auto first = parse_int<std::uint64_t>(value.substr(0, colon));
    const auto last = parse_int<std::uint64_t>(value.substr(colon + 1));
    return first && last && colon != std::string::npos
               ? run_range(*first, *last, arguments[0] == "--seeds")
               : usage();
  }
  if (arguments[0] == "--seconds") {
    const auto seconds = parse_double(value);
    return seconds && *seconds > 0 ? run_for(*seconds) : usage();
  }
  return usage();
}

}  // namespace
}  // namespace ddprun::sim

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // a violation is printed at once
  const std::vector<std::string> arguments(argv + (argc > 0 ? 1 : 0), argv + argc);
  return ddprun::sim::main_of(arguments);
}
