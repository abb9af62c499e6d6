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
  Manifest manifest;       // empty where `damage` says why
  std::int64_t age_s = 0;  // since it was complete
  std::string damage;      // empty: complete, as far as sizes tell
  bool is_best = false;    // as the newest sound manifest has it; then `manifest.best` is of it
};

std::string snapshot_list_text(const std::vector<SnapshotRow>& rows);
std::string snapshot_list_json(const std::vector<SnapshotRow>& rows);

/// "5 min".
std::string age_text(std::int64_t seconds);

std::string snapshot_text(const Manifest& manifest, const SnapshotState& state);
std::string snapshot_json(const Manifest& manifest, const SnapshotState& state);

/// A line for each difference of arguments, position, ranks and tensors; none if there is none.
/// What a snapshot is called does not count.
std::vector<std::string> differences(const SnapshotState& left, const SnapshotState& right);

/// The same of tensors by name, each line behind `place`.
std::vector<std::string> tensor_differences(
    const std::string& place,
    const std::vector<TensorView>& left,
    const std::vector<TensorView>& right);

}  // namespace ddprun
