#pragma once

// A record as scontrol prints it: "Name=value Other=value", on one line or several.

#include "base/error.hpp"

#include <optional>
#include <string_view>

namespace ddprun {

/// The value of `name`, up to the next blank; none: there is no such field.
std::optional<std::string_view> field_of(std::string_view record, std::string_view name);

/// Whether Slurm has given up the node of which `scontrol show node --oneliner` printed `record`.
/// Fails with kProtocol where that has no State.
Result<bool> is_node_down(std::string_view record);

}  // namespace ddprun
