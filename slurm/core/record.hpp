#pragma once

// A record as scontrol prints it: "Name=value Other=value", on one line or several.

#include "base/error.hpp"

#include <optional>
#include <string_view>

namespace ddprun {

/// The value of `name`, up to the next blank; none: there is no such field.
std::optional<std::string_view> field_of(std::string_view record, std::string_view name);

/// Whether Slurm considers the node of `record`, from `scontrol show node --oneliner`, as down.
/// Fails with kProtocol if the record has no State.
Result<bool> is_node_down(std::string_view record);

}  // namespace ddprun
