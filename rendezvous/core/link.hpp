#pragma once

#include <cstdint>

namespace ddprun {

/// One connection. Never used twice, so late news of an old one cannot hit a new one.
enum class Link : std::uint64_t {};

}  // namespace ddprun
