#include "slurm/core/record.hpp"

#include "base/format_error.hpp"
#include "base/parse.hpp"
#include "slurm/core/excerpt.hpp"

#include <algorithm>

namespace ddprun {

// Values may contain blanks, names do not.
std::optional<std::string_view> field_of(std::string_view record, std::string_view name) {
  for (std::size_t at = record.find(name); at != std::string_view::npos;
       at = record.find(name, at + 1)) {
    const bool begins = at == 0 || record[at - 1] == ' ' || record[at - 1] == '\n';
    const std::size_t equals = at + name.size();
    if (!begins || equals >= record.size() || record[equals] != '=') continue;
    const std::string_view rest = record.substr(equals + 1);
    return rest.substr(0, rest.find_first_of(" \n"));
  }
  return std::nullopt;
}

// "DOWN+NOT_RESPONDING", or "DOWN*" in older versions.
Result<bool> is_node_down(std::string_view record) {
  const auto state = field_of(record, "State");
  if (!state) {
    return format_error(Errc::kProtocol, "scontrol printed no State: '{}'", excerpt(record));
  }
  return std::ranges::any_of(
      split(*state, '+'), [](std::string_view flag) { return flag == "DOWN" || flag == "DOWN*"; });
}

}  // namespace ddprun
