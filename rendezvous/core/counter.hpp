#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace ddprun {

/// The number at the front of a stored counter, read as C's stoll in base 10 does: leading white
/// space and a sign are allowed, and the first byte that is no digit ends it. None without a digit,
/// or if it does not fit.
std::optional<std::int64_t> read_counter(std::string_view text);

}  // namespace ddprun
