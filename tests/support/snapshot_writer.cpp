// snapshot_writer DIRECTORY BYTES COUNT [BEST_EVERY]: a rank 0 that only saves
// snapshots.
//
// It resumes from the newest snapshot, prints "taken STEP" (0: none), then saves COUNT snapshots of
// about BYTES and prints "saved STEP" when each is durable. Every BEST_EVERYth step is the best so
// far, with its own number as accuracy. Exits with 75 if another round took over, with 74 if the
// disk refused, with 3 if the loaded snapshot differs from what was saved.

#include "base/parse.hpp"
#include "tests/support/training_state.hpp"
#include "trainer/snapshot_store.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <optional>
#include <span>

#include <unistd.h>

namespace ddprun {
namespace {

void say(const char* what, std::int64_t step) {
  const std::string line = fmt::format("{} {}\n", what, step);
  static_cast<void>(
      ::write(STDOUT_FILENO, line.data(), line.size()) < 0);  // a reader may be missing
}

int fail(const Error& error) {
  static_cast<void>(std::fprintf(stderr, "%s\n", error.detail.c_str()));
  return error.is(Errc::kCancelled) ? 75 : 74;
}

int save_snapshots(
    const char* directory, std::size_t bytes, std::int64_t count, std::int64_t best_every) {
  auto store = SnapshotStore::claim({.directory = directory, .run_id = "writer"});
  if (!store) return fail(store.error());
  const auto found = (*store)->newest();
  if (!found) return fail(found.error());
  std::int64_t step = 0;
  std::optional<BestSoFar> best;
  if (found->snapshot != nullptr) {
    step = found->snapshot->state().step;
    best = found->snapshot->state().best;
    if (!TrainingState(step, bytes).equals(found->snapshot->state())) return 3;
  }
  say("taken", step);
  const std::int64_t last = step + count;
  while (step < last) {
    const TrainingState training(++step, bytes);
    SnapshotState state = training.state();
    if (best_every > 0 && step % best_every == 0) {
      best = BestSoFar{
          .metric = BestMetric::kAccuracy,
          .value = static_cast<double>(step),
          .epoch = state.epoch,
          .snapshot = (*store)->name_of_step(step)};
    }
    state.best = best;
    const auto saved = (*store)->write(state);
    if (!saved) return fail(saved.error());
    say("saved", step);
  }
  return 0;
}

}  // namespace
}  // namespace ddprun

int main(int argc, char** argv) {
  const std::span arguments(argv, static_cast<std::size_t>(argc));
  if (arguments.size() != 4 && arguments.size() != 5) return 2;
  const auto bytes = ddprun::parse_int<std::size_t>(arguments[2]);
  const auto count = ddprun::parse_int<std::int64_t>(arguments[3]);
  const auto best_every =
      ddprun::parse_int<std::int64_t>(arguments.size() == 5 ? arguments[4] : "0");
  if (!bytes || !count || !best_every) return 2;
  return ddprun::save_snapshots(arguments[1], *bytes, *count, *best_every);
}
