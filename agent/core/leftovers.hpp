#pragma once

// --leftover: what to do with processes that workers which exited with 0 left behind.

#include "base/time.hpp"

#include <cstdint>

namespace ddprun {

enum class LeftoverMode : std::uint8_t {
  kKill,
  kWait,  // until they have ended, or the limit has passed
  kKeep,  // they outlive ddprun
};

struct LeftoverPlan {
  LeftoverMode mode = LeftoverMode::kKill;
  Duration limit = std::chrono::minutes(10);  // of kWait
};

}  // namespace ddprun
