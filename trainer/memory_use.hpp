#pragma once

#include "base/error.hpp"

#include <cstdint>
#include <filesystem>

namespace ddprun {

/// The most memory this process has had in RAM, in bytes. `proc` is where the kernel tells of
/// processes. Fails with kNotFound, kIo or kCorrupt.
Result<std::int64_t> peak_rss_bytes(const std::filesystem::path& proc = "/proc");

}  // namespace ddprun
