#pragma once

#include <torch/version.h>

namespace ddprun {

/// Identifies the build that a program and its module must share. The last number increases with
/// each change of Device or DeviceModule.
inline constexpr char kDeviceInterface[] =
    "ddprun " DDPRUN_VERSION ", torch " TORCH_VERSION ", devices 1";

}  // namespace ddprun
