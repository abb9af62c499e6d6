#pragma once

// Which machine this is, for agents that meet again after one of them was lost.

#include "rendezvous/core/messages.hpp"

#include <filesystem>

namespace ddprun {

/// By the files of the kernel and of the distribution under `root`, which stands for "/". What is
/// missing, longer than the messages take, not printable or not set up yet ("uninitialized") is
/// empty: unknown.
Machine own_machine(const std::filesystem::path& root = "/");

}  // namespace ddprun
