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

/// Opens a regular file for reading. Fails with kNotFound or kIo, naming the path, and at once with
/// kIo for a FIFO, device, directory or socket: it never waits for the other end.
Result<Descriptor> open_regular(const std::filesystem::path& path);

/// The content of a regular file. Fails with kNotFound, kIo, or kLimit if it is larger than
/// `bytes_max`.
Result<std::string> read_file(const std::filesystem::path& path, std::size_t bytes_max);

/// A pipe whose ends are close-on-exec. Fails with kIo.
Result<Pipe> make_pipe();

/// Everything that arrives through a pipe, until its other ends are closed. Fails with kTimedOut if
/// that has not happened by `deadline`, with kLimit after more than `bytes_max`, and with kIo.
Result<std::string> read_to_end(int pipe, TimePoint deadline, std::size_t bytes_max);

/// Replaces `path`, or the target of a link, in one step: a reader sees the old content or all of
/// the new one, even after a crash of the machine. Writes a file beside it, syncs, renames, and
/// syncs the directory. Fails with kIo or kNotFound, also if `path` is a device, FIFO or directory,
/// and then leaves nothing behind.
Result<void> replace_file(const std::filesystem::path& path, std::string_view content);

/// The same for content in several pieces.
Result<void> replace_file(
    const std::filesystem::path& path, const std::vector<std::string_view>& pieces);

/// Makes created, renamed and removed entries of a directory survive a crash of the machine. Fails
/// with kIo or kNotFound.
Result<void> sync_directory(const std::filesystem::path& directory);

/// The same for all data written to the file system of `directory`. Fails as above.
Result<void> sync_file_system(const std::filesystem::path& directory);

/// Writes to `path` itself, even if it is a link, a device, or in a directory that takes no new
/// files; creates a missing file. Waits for no other process. Fails with kIo or kNotFound.
Result<void> overwrite_file(const std::filesystem::path& path, std::string_view content);

}  // namespace ddprun
