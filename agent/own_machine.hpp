#pragma once

// Identifies this machine, so that agents can tell whether a lost one is back on its machine.

#include "rendezvous/core/messages.hpp"

#include <filesystem>

namespace ddprun {

/// From files of the kernel and of the distribution under `root`, which stands for "/". An id is
/// empty (unknown) if it is missing, too long for a message, not printable, or not set up yet
/// ("uninitialized").
Machine own_machine(const std::filesystem::path& root = "/");

}  // namespace ddprun
