#pragma once

#include "base/descriptor.hpp"
#include "base/error.hpp"
#include "base/time.hpp"

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

/// A regular file, to be read. A FIFO, device, directory or socket in its place is refused with
/// kIo, and at once: nothing waits for the other end. Fails with kNotFound or kIo, naming the path.
Result<Descriptor> open_regular(const std::filesystem::path& path);

/// The whole of a regular file. Fails with kNotFound, kIo, or kLimit when it is larger than
/// `bytes_max`.
Result<std::string> read_file(const std::filesystem::path& path, std::size_t bytes_max);

/// All that comes through a pipe, until its other ends are closed. Fails with kTimedOut if that has
/// not happened by `deadline`, with kLimit where more than `bytes_max` came, and with kIo.
Result<std::string> read_to_end(int pipe, TimePoint deadline, std::size_t bytes_max);

/// Replaces `path`, or the target of a link, in one step: a reader sees the old content or all of
/// the new one, after a crash of the machine too. Written beside it, synced, renamed, directory
/// synced. Fails with kIo or kNotFound, also where a device, FIFO or directory stands in its place,
/// and leaves nothing behind then.
Result<void> replace_file(const std::filesystem::path& path, std::string_view content);

/// The same for a content in pieces, one behind the other.
Result<void> replace_file(
    const std::filesystem::path& path, const std::vector<std::string_view>& pieces);

/// What was made, renamed or removed in a directory outlives a crash of the machine. Fails with kIo
/// or kNotFound.
Result<void> sync_directory(const std::filesystem::path& directory);

/// The same for all that was written to the file system on which `directory` is. Fails as above.
Result<void> sync_file_system(const std::filesystem::path& directory);

/// Writes into what `path` names, be it a link, a device, or a file in a directory that takes no
/// new ones; a file that is not there is made. Waits for nobody. Fails with kIo or kNotFound.
Result<void> overwrite_file(const std::filesystem::path& path, std::string_view content);

}  // namespace ddprun
