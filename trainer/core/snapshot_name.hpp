#pragma once

// The entries of a snapshot directory, by name, and the choice of the snapshot to resume from.
//
// Order among rounds (R10): a round that starts to use a directory first makes a claim there, a
// number larger than all before. Claims, not clocks, order what different rounds wrote. Term and
// round alone could not, since a job that is submitted again counts them from the start.

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

/// A snapshot's name: newer ones compare greater.
struct SnapshotName {
  std::uint64_t claim = 0;  // of the round that wrote it
  std::int64_t step = 0;
  std::uint64_t term = 0;  // "g" in the name and "generation" in the manifest, as of format 1
  std::uint64_t round = 0;

  /// "snapshot-c000007-g000001-r000003-s000000000150": as text it also sorts by age, until a number
  /// has more digits than its padding.
  std::string to_string() const;

  /// None for a name that to_string() does not produce.
  static std::optional<SnapshotName> parse(std::string_view text);

  auto operator<=>(const SnapshotName&) const = default;
};

/// The name of the file that identifies the owner of `claim`: "claim-c000007".
std::string claim_name(std::uint64_t claim);

/// The name of a snapshot before it is complete: "partial-snapshot-c…".
std::string partial_name(const SnapshotName& name);

/// The name to which the round that holds `claim` moves `entry` to delete it: "swept-c000007-…".
std::string swept_name(std::uint64_t claim, std::string_view entry);

/// The entries of a snapshot directory. Other names are ignored.
struct SnapshotEntries {
  struct Leftover {
    std::string name;
    std::uint64_t claim = 0;  // of the round that made it
    bool operator==(const Leftover&) const = default;
  };
  std::vector<SnapshotName> snapshots;
  std::vector<Leftover> claims;
  std::vector<Leftover> partial;
  std::vector<Leftover> swept;
  std::uint64_t claim_max = 0;  // the largest in any name
};

SnapshotEntries sort_entries(const std::vector<std::string>& names);

/// The snapshots from which the round that holds `claim` may resume, best first: the newest of
/// older claims. Snapshots of this claim or a later one are excluded.
std::vector<SnapshotName> candidates(std::vector<SnapshotName> found, std::uint64_t claim);

/// The snapshots that are no longer needed once `keep` intact ones exist, oldest first. Those in
/// `damaged` do not count among the `keep`, and are removed when they are older than all of these.
/// `best` stays at any age, unless it is damaged. REQUIRES: keep >= 1.
std::vector<SnapshotName> superfluous(
    std::vector<SnapshotName> found,
    const std::vector<SnapshotName>& damaged,
    std::size_t keep,
    const std::optional<SnapshotName>& best = std::nullopt);

}  // namespace ddprun
