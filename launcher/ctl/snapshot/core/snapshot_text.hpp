#pragma once

// What `ddpctl snapshot` prints.

#include "trainer/core/manifest.hpp"
#include "trainer/core/snapshot.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace ddprun {

/// One row of `ls`.
struct SnapshotRow {
  std::string name;
  Manifest manifest;       // empty if `damage` is set
  std::int64_t age_s = 0;  // since it was complete
  std::string damage;      // empty: complete, judged by file sizes
  bool is_best = false;    // by the newest intact manifest; then `manifest.best` is its own
};

std::string snapshot_list_text(const std::vector<SnapshotRow>& rows);
std::string snapshot_list_json(const std::vector<SnapshotRow>& rows);

std::string snapshot_text(const Manifest& manifest, const SnapshotState& state);
std::string snapshot_json(const Manifest& manifest, const SnapshotState& state);

/// A line for each difference in arguments, position, ranks and tensors; empty if there is none.
/// The names of the snapshots are not compared.
std::vector<std::string> differences(const SnapshotState& left, const SnapshotState& right);

/// The differences of tensors by name; each line begins with `place`.
std::vector<std::string> tensor_differences(
    const std::string& place,
    const std::vector<TensorView>& left,
    const std::vector<TensorView>& right);

}  // namespace ddprun
