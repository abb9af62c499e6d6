#pragma once

// What lies in a directory of snapshots, by name, and the choice of the snapshot that is taken up.
//
// Order among rounds (R10). The round that starts to use a directory first makes a claim there: a
// number larger than all before. Claims, not clocks, order what different rounds wrote; term
// and round alone could not, since a job that is submitted again counts them from the start.

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

  /// "snapshot-c000007-g000001-r000003-s000000000150": sorts by age as text, too, as long as no
  /// number outgrows its zeros.
  std::string to_string() const;

  /// None for a name that to_string() would not give.
  static std::optional<SnapshotName> parse(std::string_view text);

  auto operator<=>(const SnapshotName&) const = default;
};

/// The name of the file that says who made `claim`: "claim-c000007".
std::string claim_name(std::uint64_t claim);

/// Where a snapshot is written before it is complete: "partial-snapshot-c…".
std::string partial_name(const SnapshotName& name);

/// Where the round that holds `claim` moves `entry` to delete it: "swept-c000007-…".
std::string swept_name(std::uint64_t claim, std::string_view entry);

/// What lies in a directory of snapshots. Names that are not ours are in none of these.
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
  std::uint64_t claim_max = 0;  // the largest that occurs in any name
};

SnapshotEntries sort_entries(const std::vector<std::string>& names);

/// The snapshots the round that holds `claim` may take up, the best first: the newest of older
/// claims. One of this claim or a later one is not for it to take up.
std::vector<SnapshotName> candidates(std::vector<SnapshotName> found, std::uint64_t claim);

/// The snapshots that are not needed any more once `keep` sound ones are there, the oldest first.
/// Those in `damaged` do not count among the `keep`, and go once they are older than all of these.
/// `best` stays, however old, unless it is damaged. REQUIRES: keep >= 1.
std::vector<SnapshotName> superfluous(
    std::vector<SnapshotName> found,
    const std::vector<SnapshotName>& damaged,
    std::size_t keep,
    const std::optional<SnapshotName>& best = std::nullopt);

}  // namespace ddprun
