#pragma once

#include <cstdint>

namespace ddprun {

/// One connection. Never used twice, so late news of an old one cannot hit a new one.
enum class Link : std::uint64_t {};

/// From a node that leads to the coordinator beside it.
inline constexpr Link kSelfLink{0};

}  // namespace ddprun
