#include "launcher/ctl/stage/stage.hpp"

#include "base/descriptor.hpp"
#include "base/environment.hpp"
#include "base/file.hpp"
#include "base/format_error.hpp"
#include "base/log.hpp"
#include "base/standard_streams.hpp"
#include "base/time.hpp"
#include "launcher/ctl/stage/core/staging.hpp"
#include "launcher/ctl/stage/staging_place.hpp"
#include "launcher/ctl/stage/unpack.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <sys/stat.h>
#include <unistd.h>

namespace ddprun {
namespace {

constexpr std::size_t kChunkBytes = 1UL << 20U;
constexpr std::size_t kSumsBytesMax = 16UL << 20U;

/// An open archive, and its state when it was opened.
struct Source {
  std::filesystem::path path;
  Descriptor file;
  Wanted wanted;
};

Result<std::pair<std::uint64_t, std::int64_t>> size_and_time(const Descriptor& file) {
  struct stat about {};
  if (::fstat(file.get(), &about) != 0) return make_errno_error(errno, "ARCHIVE");
  constexpr std::int64_t kNsPerS = 1'000'000'000;
  return std::pair(
      static_cast<std::uint64_t>(about.st_size),
      static_cast<std::int64_t>(about.st_mtim.tv_sec) * kNsPerS + about.st_mtim.tv_nsec);
}

Result<Source> open_source(const std::filesystem::path& path, std::optional<Checksum> checksum) {
  auto file = open_regular(path);
  if (!file && file.error().is(Errc::kNotFound)) {
    return invalid_argument(
        "ARCHIVE {}; check that its file system is mounted on this node", file.error().detail);
  }
  if (!file) return with_context("ARCHIVE", file.error());
  const auto known = size_and_time(*file);
  if (!known) return known.error();
  return Source{
      .path = path,
      .file = *std::move(file),
      .wanted = {
          .checksum = std::move(checksum), .bytes = known->first, .modified_ns = known->second}};
}

Result<std::optional<Checksum>> expected(const StageOptions& options) {
  if (options.checksum_file.empty()) return {options.checksum};
  const auto sums = read_file(options.checksum_file, kSumsBytesMax);
  if (!sums) return with_context("--checksum-file", sums.error());
  auto found = find_checksum(*sums, options.archive.filename().string());
  if (!found) {
    return with_context(
        fmt::format("--checksum-file {}", options.checksum_file.string()), found.error());
  }
  return {std::optional(*std::move(found))};
}

Result<void> verify(const Source& source) {
  if (!source.wanted.checksum) return {};
  Digest digest(source.wanted.checksum->kind);
  std::vector<std::byte> chunk(kChunkBytes);
  for (;;) {
    const ssize_t got = ::read(source.file.get(), chunk.data(), chunk.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return make_errno_error(errno, source.path.string());
    if (got == 0) break;
    digest.add(std::span(chunk).first(static_cast<std::size_t>(got)));
  }
  const Checksum found{.kind = source.wanted.checksum->kind, .hex = digest.finish_hex()};
  if (found == *source.wanted.checksum) return {};
  return format_error(
      Errc::kCorrupt,
      "ARCHIVE {}: wrong checksum: {}, expected {}; copy it again",
      source.path.string(),
      found.text(),
      source.wanted.checksum->hex);
}

/// Fails unless the verified archive is the one that was extracted.
Result<void> check_unchanged(const Source& source) {
  const auto now = size_and_time(source.file);
  if (!now) return now.error();
  if (*now == std::pair(source.wanted.bytes, source.wanted.modified_ns)) return {};
  return format_error(
      Errc::kCorrupt, "ARCHIVE {} changed while it was read; try again", source.path.string());
}

std::string node_name() {
  if (const char* const name = std::getenv("SLURMD_NODENAME")) return name;
  const std::string host = host_name();
  return host.empty() ? "this node" : host;
}

/// Extracts the archive and completes the destination.
Result<Unpacked> fill(const Source& source, StagingPlace& place) {
  if (const auto verified = verify(source); !verified) return verified.error();
  if (::lseek(source.file.get(), 0, SEEK_SET) != 0) return make_errno_error(errno, "ARCHIVE");
  if (const auto emptied = place.empty(); !emptied) return emptied.error();
  auto unpacked = unpack(source.file.get(), place.directory());
  if (!unpacked && unpacked.error().is(Errc::kCorrupt)) {
    return with_context(fmt::format("ARCHIVE {}", source.path.string()), unpacked.error());
  }
  if (!unpacked) {
    return with_context(
        fmt::format("cannot extract to {}", place.destination().string()), unpacked.error());
  }
  if (const auto same = check_unchanged(source); !same) return same.error();
  if (const auto done = place.finish(marker_text(source.wanted)); !done) return done.error();
  return unpacked;
}

Result<void> stage_here(const StageOptions& options, const Source& source, StagingPlace& place) {
  const TimePoint began = Clock::now();
  const auto unpacked = fill(source, place);
  if (!unpacked) {
    place.discard();
    return unpacked.error();
  }
  const std::chrono::duration<double> took = Clock::now() - began;
  return write_stdout(fmt::format(
      "{}: staged {} files, {} bytes from {} to {} in {:.1f} s, {}\n",
      node_name(),
      unpacked->files,
      unpacked->bytes,
      options.archive.string(),
      place.destination().string(),
      took.count(),
      source.wanted.checksum ? source.wanted.checksum->text() : "not verified"));
}

}  // namespace

Result<void> stage(const StageOptions& options) {
  auto checksum = expected(options);
  if (!checksum) return checksum.error();
  const auto source = open_source(options.archive, *std::move(checksum));
  if (!source) return source.error();
  auto place = StagingPlace::at(options.destination);
  if (!place) return place.error();
  const std::string marker = marker_text(source->wanted);
  // This loop ends: each turn means that another process has finished or failed with a message.
  for (;;) {
    const auto is_there = place->has(marker);
    if (!is_there) return is_there.error();
    if (*is_there) {
      spdlog::info("{} already exists", place->destination().string());
      return {};
    }
    const auto is_ours = place->hold();
    if (!is_ours) return is_ours.error();
    if (*is_ours) break;
  }
  // The process that held the lock may have finished between our check and our lock.
  const auto is_there = place->has(marker);
  if (!is_there || *is_there) {
    place->discard();
    return is_there ? Result<void>() : is_there.error();
  }
  return stage_here(options, *source, *place);
}

}  // namespace ddprun
