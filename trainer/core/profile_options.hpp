#pragma once

#include "trainer/core/profile_schedule.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace ddprun {

/// What profilers record of a run.
struct ProfileOptions {
  std::optional<std::string> directory =
      std::nullopt;  // of the traces; none: no steps are recorded
  ProfileSchedule schedule;
  std::int64_t epochs = 2;  // steps of the first epochs of the run are recorded
  std::optional<std::int64_t> captured_epoch = std::nullopt;  // its number; shown to nsys
};

}  // namespace ddprun
