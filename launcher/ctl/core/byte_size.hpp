#pragma once

#include "base/error.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace ddprun {

/// "1.5 GiB".
std::string size_text(std::uint64_t bytes);

/// Reads a number of bytes, optionally with K, M, G or T after it (powers of 1024): "512M". Fails
/// with kInvalidArgument.
Result<std::uint64_t> parse_size(std::string_view text);

}  // namespace ddprun
