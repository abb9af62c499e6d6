#pragma once

#include "base/error.hpp"

#include <cstdint>
#include <filesystem>

namespace ddprun {

/// The peak resident size of this process, in bytes. `proc`: where procfs is mounted. Fails with
/// kNotFound, kIo or kCorrupt.
Result<std::int64_t> peak_rss_bytes(const std::filesystem::path& proc = "/proc");

}  // namespace ddprun
