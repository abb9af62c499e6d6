// Measures how long training waits for a snapshot of MIB MiB with nothing to overlap, and a memcpy
// of as many bytes into allocated memory:
//
//   snapshot_bench MIB [REPEATS]
//
// Prints one line of JSON: medians in milliseconds. The snapshots go to the temporary directory.

#include "base/time.hpp"
#include "tests/support/training_state.hpp"
#include "trainer/snapshot_saver.hpp"
#include "trainer/snapshot_store.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include <unistd.h>

namespace ddprun {
namespace {

double median_ms(std::vector<double> seconds) {
  std::ranges::sort(seconds);
  return 1e3 * seconds[seconds.size() / 2];
}

/// Copies all tensors of `state`, one after the other, as the saver does.
void copy_tensors(const SnapshotState& state, std::vector<std::byte>& into) {
  std::size_t place = 0;
  for (const auto* const views : {&state.model, &state.optimizer}) {
    for (const TensorView& view : *views) {
      if (into.size() < place + view.bytes.size()) into.resize(place + view.bytes.size());
      std::memcpy(into.data() + place, view.bytes.data(), view.bytes.size());
      place += view.bytes.size();
    }
  }
}

int run(std::size_t mib, int repeats) {
  const auto directory =
      std::filesystem::temp_directory_path() / fmt::format("snapshot_bench.{}", ::getpid());
  auto store = SnapshotStore::claim({.directory = directory, .keep = 1, .run_id = "bench"});
  if (!store) {
    std::cerr << store.error().detail << "\n";
    return 1;
  }
  const TrainingState training(1, mib << 20U);
  std::vector<double> stalls;
  std::vector<double> copies;
  std::vector<std::byte> bare;
  copy_tensors(training.state(), bare);
  {
    SnapshotSaver saver(*std::move(store));
    for (int i = 0; i <= repeats; ++i) {  // the first one also allocates, and is not counted
      SnapshotState state = training.state();
      state.step = i + 1;
      const TimePoint began = Clock::now();
      saver.begin(std::move(state));
      saver.wait_until_copied();
      const double stall = to_seconds(Clock::now() - began);
      const auto written = saver.finish();
      if (!written) {
        std::cerr << written.error().detail << "\n";
        return 1;
      }
      const TimePoint bare_began = Clock::now();
      copy_tensors(training.state(), bare);
      if (i == 0) continue;
      stalls.push_back(stall);
      copies.push_back(to_seconds(Clock::now() - bare_began));
    }
  }
  std::filesystem::remove_all(directory);
  std::cout << fmt::format(
      R"({{"mib": {}, "stall_ms": {:.3f}, "memcpy_ms": {:.3f}}})"
      "\n",
      mib,
      median_ms(stalls),
      median_ms(copies));
  return 0;
}

}  // namespace
}  // namespace ddprun

int main(int argc, char* const* argv) {
  if (argc < 2) {
    std::cerr << "usage: snapshot_bench MIB [REPEATS]\n";
    return 2;
  }
  return ddprun::run(std::stoul(argv[1]), argc > 2 ? std::stoi(argv[2]) : 9);
}
