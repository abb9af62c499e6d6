#pragma once

#include <torch/version.h>

namespace ddprun {

/// Names the build that a program and its module must have in common. The last number rises with
/// each change of Device or DeviceModule.
inline constexpr char kDeviceInterface[] =
    "ddprun " DDPRUN_VERSION ", torch " TORCH_VERSION ", devices 1";

}  // namespace ddprun
