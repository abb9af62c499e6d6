#pragma once

#include "trainer/core/ddp_options.hpp"
#include "trainer/process_group.hpp"

#include <torch/csrc/distributed/c10d/reducer.hpp>

namespace ddprun {

/// Makes `reducer` send gradients in half as many bytes, like Python's communication hooks
/// fp16_compress_hook and bf16_compress_hook, with the same bits: gradients are divided by the
/// world size in the small type before they are summed. REQUIRES: no backward pass has begun.
void compress_gradients(c10d::Reducer& reducer, const ProcessGroup& group, Compression compression);

}  // namespace ddprun
