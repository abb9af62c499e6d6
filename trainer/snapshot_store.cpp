#include "trainer/snapshot_store.hpp"

#include "base/check.hpp"
#include "base/digest.hpp"
#include "base/environment.hpp"
#include "base/file.hpp"
#include "base/log.hpp"
#include "base/parse.hpp"
#include "trainer/core/corrupt.hpp"
#include "trainer/snapshot_files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <system_error>
#include <utility>

#include <unistd.h>

namespace ddprun {
namespace {

constexpr char kManifest[] = "manifest.json";
constexpr char kManifestSum[] = "manifest.json.sha256";
constexpr std::size_t kManifestBytesMax = std::size_t{16} << 20U;
constexpr std::size_t kClaimBytesMax = 4096;

/// The one line of manifest.json.sha256, in the format of sha256sum.
std::string sum_line(std::string_view manifest) {
  return fmt::format("{}  {}\n", sha256_hex(manifest), kManifest);
}

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

Error superseded(const std::filesystem::path& directory, std::uint64_t claim) {
  const auto owner = read_file(directory / claim_name(claim), kClaimBytesMax);
  return make_error(
      Errc::kCancelled,
      fmt::format(
          "the snapshot directory {} belongs to a newer round or another job now ({}); give each "
          "job "
          "its own --snapshot-dir",
          directory.string(),
          owner ? trim(*owner) : "unknown"));
}

/// The new snapshot is safe, so it is not a failure of the job if old ones cannot be removed.
void warn_of(const Error& error) {
  spdlog::warn("cannot remove old snapshots: {}", error.detail);
}

/// The first of `names` that is intact; adds those before it to `damaged`.
Result<SnapshotStore::Found> first_sound(
    const std::filesystem::path& directory,
    const std::vector<SnapshotName>& names,
    std::vector<SnapshotName>& damaged) {
  SnapshotStore::Found found;
  for (const SnapshotName& name : names) {
    auto loaded = load_snapshot(directory / name.to_string());
    if (loaded) {
      found.snapshot = *std::move(loaded);
      return found;
    }
    damaged.push_back(name);
    found.damaged.push_back(loaded.error());
  }
  if (found.damaged.empty()) return found;
  return corrupt(fmt::format(
      "none of the {} snapshots in {} is intact, the newest because of {}; restore one, or move "
      "them away to start over",
      found.damaged.size(),
      directory.string(),
      found.damaged.front().detail));
}

}  // namespace

Result<Manifest> read_manifest(const std::filesystem::path& path) {
  const auto text = read_file(path / kManifest, kManifestBytesMax);
  if (!text) return text.error();
  const auto sum = read_file(path / kManifestSum, kManifestBytesMax);
  if (!sum) return sum.error();
  if (*sum != sum_line(*text)) {
    return corrupt(fmt::format(
        "{}: its sha256 differs from the one in {}", (path / kManifest).string(), kManifestSum));
  }
  auto manifest = parse_manifest(*text);
  if (!manifest) return with_context(path.string(), manifest.error());
  const auto name = SnapshotName::parse(path.filename().string());
  if (name && *name != manifest->name) {
    return corrupt(
        fmt::format("{}: its manifest is that of {}", path.string(), manifest->name.to_string()));
  }
  return manifest;
}

Result<std::vector<std::byte>> read_listed(
    const std::filesystem::path& directory, const ManifestFile& file) {
  auto content = read_exactly(directory / file.name, file.size);
  if (!content) return content.error();
  const std::string sum = sha256_hex(*content);
  if (sum == file.sha256) return content;
  return corrupt(fmt::format(
      "{}: its sha256 is {}, but the manifest says {}",
      (directory / file.name).string(),
      sum,
      file.sha256));
}

Result<std::unique_ptr<LoadedSnapshot>> load_snapshot(const std::filesystem::path& path) {
  const auto manifest = read_manifest(path);
  if (!manifest) return manifest.error();
  std::vector<std::vector<std::byte>> files;
  std::map<std::string, std::span<const std::byte>> contents;
  for (const ManifestFile& file : manifest->files) {
    auto content = read_listed(path, file);
    if (!content) return content.error();
    files.push_back(*std::move(content));  // the bytes themselves do not move
    contents.emplace(file.name, files.back());
  }
  auto state = decode_state(*manifest, contents);
  if (!state) return with_context(path.string(), state.error());
  return std::make_unique<LoadedSnapshot>(manifest->name, *std::move(state), std::move(files));
}

Result<std::optional<Manifest>> peek_newest(const std::filesystem::path& directory) {
  if (std::error_code ignored; !std::filesystem::is_directory(directory, ignored)) {
    return std::optional<Manifest>();  // claim() creates it, or reports why it cannot
  }
  auto entries = list_snapshots(directory);
  if (!entries) return entries.error();
  std::ranges::sort(entries->snapshots, std::greater{});
  for (const SnapshotName& name : entries->snapshots) {
    auto manifest = read_manifest(directory / name.to_string());
    if (manifest) return std::optional(*std::move(manifest));
  }
  return std::optional<Manifest>();
}

Result<SnapshotStore::Found> find_snapshot(const std::filesystem::path& path) {
  if (std::error_code ignored; std::filesystem::exists(path / kManifest, ignored)) {
    auto loaded = load_snapshot(path);
    if (!loaded) return loaded.error();
    return SnapshotStore::Found{.snapshot = *std::move(loaded), .damaged = {}};
  }
  auto entries = list_snapshots(path);
  if (!entries) return entries.error();
  std::ranges::sort(entries->snapshots, std::greater{});
  std::vector<SnapshotName> damaged;
  return first_sound(path, entries->snapshots, damaged);
}

Result<std::unique_ptr<SnapshotStore>> SnapshotStore::claim(SnapshotStoreOptions options) {
  DDPRUN_CHECK(options.keep >= 1);
  auto const made = make_directories(options.directory);
  if (!made) return made.error();
  std::unique_ptr<SnapshotStore> store(new SnapshotStore(std::move(options)));
  auto const taken = store->take_claim();
  if (!taken) return taken.error();
  auto const swept = store->sweep();
  if (!swept) return swept.error();
  auto const still_ours = store->check_claim();
  if (!still_ours) return still_ours.error();
  return store;
}

Result<SnapshotStore::Found> SnapshotStore::newest() {
  const auto entries = list_snapshots(options_.directory);
  if (!entries) return entries.error();
  return first_sound(options_.directory, candidates(entries->snapshots, claim_), damaged_);
}

Result<SnapshotName> SnapshotStore::write(const SnapshotState& state) {
  const SnapshotName name = name_of_step(state.step);
  if (std::error_code ignored; std::filesystem::exists(path_of(name), ignored)) return name;
  auto written = check_claim();
  if (written) written = write_aside(state, name);
  if (written) written = publish(name);
  if (!written) {
    remove_tree(path_aside(name));
    // If a newer round has removed the files, that is the reason to report.
    const auto ours = check_claim();
    return ours ? written.error() : ours.error();
  }
  prune(state.best);
  return name;
}

SnapshotName SnapshotStore::name_of_step(std::int64_t step) const {
  return {.claim = claim_, .step = step, .term = options_.term, .round = options_.round};
}

std::filesystem::path SnapshotStore::path_of(const SnapshotName& name) const {
  return options_.directory / name.to_string();
}

std::filesystem::path SnapshotStore::path_aside(const SnapshotName& name) const {
  return options_.directory / partial_name(name);
}

Result<void> SnapshotStore::take_claim() {
  const std::string owner = fmt::format(
      "run_id={} term={} round={} host={} pid={}\n",
      options_.run_id,
      options_.term,
      options_.round,
      host_name(),
      ::getpid());
  const auto entries = list_snapshots(options_.directory);
  if (!entries) return entries.error();
  claim_ = entries->claim_max + 1;
  const auto created = create_claim(options_.directory / claim_name(claim_), owner);
  if (!created) return created.error();
  if (*created) return {};
  // Another round claimed in between. It may be the newer one, so this round gives up.
  return superseded(options_.directory, claim_);
}

Result<void> SnapshotStore::sweep() const {
  const auto entries = list_snapshots(options_.directory);
  if (!entries) return entries.error();
  // Renamed before deletion: then a writer of an older round that is about to rename finds nothing,
  // and a crash in between leaves no snapshot with missing files.
  for (const auto& partial : entries->partial) {
    if (partial.claim >= claim_) continue;
    const auto moved = move_entry(
        options_.directory / partial.name, options_.directory / swept_name(claim_, partial.name));
    if (!moved) return moved.error();
    remove_tree(options_.directory / swept_name(claim_, partial.name));
  }
  for (const auto& swept : entries->swept) {
    if (swept.claim < claim_) remove_tree(options_.directory / swept.name);
  }
  for (const auto& claim : entries->claims) {
    if (claim.claim < claim_) remove_tree(options_.directory / claim.name);
  }
  return sync_entries(options_.directory);
}

Result<void> SnapshotStore::check_claim() const {
  const auto entries = list_snapshots(options_.directory);
  if (!entries) return entries.error();
  if (entries->claim_max <= claim_) return {};
  return superseded(options_.directory, entries->claim_max);
}

Result<void> SnapshotStore::write_aside(
    const SnapshotState& state, const SnapshotName& name) const {
  const std::filesystem::path aside = path_aside(name);
  auto made = make_new_directory(aside);
  if (!made) return made;
  Manifest manifest = manifest_of(state, name);
  for (const auto& [file, tensors] : encode_state(state)) {
    std::vector<std::span<const std::byte>> pieces = {bytes_of(tensors.head)};
    pieces.insert(pieces.end(), tensors.bodies.begin(), tensors.bodies.end());
    auto sum = write_new_file(aside / file, pieces);
    if (!sum) return sum.error();
    manifest.files.push_back({.name = file, .size = tensors.size(), .sha256 = *std::move(sum)});
  }
  const std::string text = manifest_json(manifest);
  for (const auto& [file, content] : {std::pair(kManifest, text), {kManifestSum, sum_line(text)}}) {
    auto const sum = write_new_file(aside / file, {bytes_of(content)});
    if (!sum) return sum.error();
  }
  return sync_entries(aside);
}

Result<void> SnapshotStore::publish(const SnapshotName& name) const {
  auto ours = check_claim();
  if (!ours) return ours;
  const auto renamed = move_entry(path_aside(name), path_of(name));
  if (!renamed) return renamed.error();
  if (!*renamed) {
    return make_error(
        Errc::kIo,
        fmt::format("cannot save {}: it was removed meanwhile", path_aside(name).string()));
  }
  auto synced = sync_entries(options_.directory);
  if (!synced) return synced;
  // A round that claimed before the rename may have made its list without this snapshot.
  return check_claim();
}

void SnapshotStore::prune(const std::optional<BestSoFar>& best) const {
  const auto entries = list_snapshots(options_.directory);
  if (!entries) return warn_of(entries.error());
  std::vector<std::filesystem::path> swept;
  const auto kept = best ? std::optional(best->snapshot) : std::nullopt;
  for (const SnapshotName& name : superfluous(entries->snapshots, damaged_, options_.keep, kept)) {
    const auto to = options_.directory / swept_name(claim_, name.to_string());
    const auto moved = move_entry(path_of(name), to);
    if (!moved) return warn_of(moved.error());
    swept.push_back(to);
  }
  // If a file's removal became durable before the rename, a crash would leave a damaged snapshot.
  const auto synced = sync_entries(options_.directory);
  if (!synced) return warn_of(synced.error());
  for (const auto& path : swept) {
    remove_tree(path);
  }
}

}  // namespace ddprun
