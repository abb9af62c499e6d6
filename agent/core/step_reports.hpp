#pragma once

#include "base/worker_contract.hpp"
#include "rendezvous/core/messages.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace ddprun {

/// The number that the script has told, else the count; as a message may have it.
std::int64_t step_of(const contract::StepSlot& slot);

/// How far the workers of this node are, by what they write to their slots: each that has made a
/// step, or announced a pause. `slots` are by local rank, `now_ns` is CLOCK_MONOTONIC. Nothing that
/// stands in a slot is trusted: a worker may write anything.
std::vector<StepReport> step_reports(
    std::span<const contract::StepSlot> slots, std::int64_t now_ns);

}  // namespace ddprun
