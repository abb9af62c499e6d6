#include "trainer/core/snapshot_name.hpp"

#include "base/check.hpp"
#include "base/parse.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

namespace ddprun {
namespace {

constexpr std::string_view kClaimPrefix = "claim-";
constexpr std::string_view kPartialPrefix = "partial-";
constexpr std::string_view kSweptPrefix = "swept-";

/// Reads `letter` and a number with at least `digits` digits, as to_string() pads it.
template <class T>
std::optional<T> read_padded(std::string_view text, char letter, std::size_t digits) {
  if (text.empty() || text.front() != letter) return std::nullopt;
  text.remove_prefix(1);
  if (text.size() < digits || text.front() == '-') return std::nullopt;
  if (text.size() > digits && text.front() == '0') return std::nullopt;
  return parse_int<T>(text);
}

std::optional<std::uint64_t> read_claim(std::string_view text) {
  return read_padded<std::uint64_t>(text, 'c', 6);
}

/// The text after `prefix`; none if it does not begin with it.
std::optional<std::string_view> after_prefix(std::string_view prefix, std::string_view text) {
  if (!text.starts_with(prefix)) return std::nullopt;
  return text.substr(prefix.size());
}

}  // namespace

std::string SnapshotName::to_string() const {
  return fmt::format("snapshot-c{:06}-g{:06}-r{:06}-s{:012}", claim, term, round, step);
}

std::optional<SnapshotName> SnapshotName::parse(std::string_view text) {
  const auto parts = split(text, '-');
  if (parts.size() != 5 || parts[0] != "snapshot") return std::nullopt;
  const auto claim = read_padded<std::uint64_t>(parts[1], 'c', 6);
  const auto term = read_padded<std::uint64_t>(parts[2], 'g', 6);
  const auto round = read_padded<std::uint64_t>(parts[3], 'r', 6);
  const auto step = read_padded<std::int64_t>(parts[4], 's', 12);
  if (!claim || !term || !round || !step) return std::nullopt;
  return SnapshotName{.claim = *claim, .step = *step, .term = *term, .round = *round};
}

std::string claim_name(std::uint64_t claim) {
  return fmt::format("{}c{:06}", kClaimPrefix, claim);
}

std::string partial_name(const SnapshotName& name) {
  return fmt::format("{}{}", kPartialPrefix, name.to_string());
}

std::string swept_name(std::uint64_t claim, std::string_view entry) {
  return fmt::format("{}c{:06}-{}", kSweptPrefix, claim, entry);
}

SnapshotEntries sort_entries(const std::vector<std::string>& names) {
  SnapshotEntries entries;
  const auto note = [&entries](std::uint64_t claim) {
    entries.claim_max = std::max(entries.claim_max, claim);
  };
  const auto keep = [&note](auto& list, const std::string& name, std::uint64_t claim) {
    note(claim);
    list.push_back({.name = name, .claim = claim});
  };
  for (const std::string& name : names) {
    if (const auto snapshot = SnapshotName::parse(name)) {
      note(snapshot->claim);
      entries.snapshots.push_back(*snapshot);
    } else if (const auto number = after_prefix(kClaimPrefix, name)) {
      if (const auto claim = read_claim(*number)) keep(entries.claims, name, *claim);
    } else if (const auto inner = after_prefix(kPartialPrefix, name)) {
      if (const auto partial = SnapshotName::parse(*inner)) {
        keep(entries.partial, name, partial->claim);
      }
    } else if (const auto swept = after_prefix(kSweptPrefix, name)) {
      if (const auto claim = read_claim(swept->substr(0, swept->find('-')))) {
        keep(entries.swept, name, *claim);
      }
    }
  }
  return entries;
}

std::vector<SnapshotName> candidates(std::vector<SnapshotName> found, std::uint64_t claim) {
  std::erase_if(found, [claim](const SnapshotName& name) { return name.claim >= claim; });
  std::ranges::sort(found, std::greater{});
  return found;
}

std::vector<SnapshotName> superfluous(
    std::vector<SnapshotName> found,
    const std::vector<SnapshotName>& damaged,
    std::size_t keep,
    const std::optional<SnapshotName>& best) {
  DDPRUN_CHECK(keep >= 1);
  std::ranges::sort(found, std::greater{});
  std::size_t sound = 0;
  const auto oldest_kept = std::ranges::find_if(found, [&](const SnapshotName& name) {
    return std::ranges::find(damaged, name) == damaged.end() && ++sound == keep;
  });
  if (oldest_kept == found.end()) return {};
  std::vector<SnapshotName> old(std::next(oldest_kept), found.end());
  const bool is_best_sound = best && std::ranges::find(damaged, *best) == damaged.end();
  if (is_best_sound) std::erase(old, *best);
  std::ranges::reverse(old);
  return old;
}

}  // namespace ddprun
