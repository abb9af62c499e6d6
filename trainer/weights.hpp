#pragma once

#include "base/error.hpp"
#include "trainer/model.hpp"

#include <string>

namespace ddprun {

/// Overwrites the model's weights with those in a file of safetensors or of Python's torch.save, as
/// far as names fit; a head with another number of classes keeps its own. Yields one line that says
/// what fitted, for a person. Fails with kNotFound, kIo, kCorrupt or kInvalidArgument, naming file
/// and tensor.
Result<std::string> begin_with(const Model& model, const std::string& path);

/// Overwrites all weights with those of a file, of a snapshot, or of the newest intact one in a
/// directory of snapshots. Fails as begin_with() and find_snapshot(), and with kInvalidArgument if
/// there are not exactly the model's tensors, naming those that differ.
Result<void> take_weights(const Model& model, const std::string& from);

}  // namespace ddprun
