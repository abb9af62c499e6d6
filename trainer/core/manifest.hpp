#pragma once

// manifest.json: describes a snapshot, and lists the files and checksums that make it complete.

#include "base/error.hpp"
#include "trainer/core/best.hpp"
#include "trainer/core/snapshot_name.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

/// One file of a snapshot, as the manifest lists it.
struct ManifestFile {
  std::string name;
  std::size_t size = 0;
  std::string sha256;  // 64 lower-case hex digits

  bool operator==(const ManifestFile&) const = default;
};

/// The content of manifest.json: everything in a snapshot except its tensors.
struct Manifest {
  static constexpr int kFormat = 1;
  static constexpr std::int64_t kWorldMax = 1'048'576;  // far more ranks than any system has

  SnapshotName name;
  std::int64_t epoch = 0;
  std::int64_t consumed = 0;
  std::int64_t batches = 0;
  std::int64_t world = 1;
  std::map<std::string, std::string> arguments;
  std::vector<ManifestFile> files;
  // Initialised here too: otherwise g++ warns if designated initialisers leave it out.
  std::optional<BestSoFar> best = std::nullopt;

  bool operator==(const Manifest&) const = default;
};

std::string manifest_json(const Manifest& manifest);

/// Fails with kCorrupt, naming the field that is missing or invalid.
Result<Manifest> parse_manifest(std::string_view text);

}  // namespace ddprun
