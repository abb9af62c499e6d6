#pragma once

#include "launcher/ctl/doctor/core/diagnosis.hpp"

#include <string>
#include <string_view>

namespace ddprun {

/// One line each: "[ok] SUBJECT: SEEN" or "[!!] SUBJECT: CAUSE; REMEDY", with the node's name after
/// the mark if `node` is not empty. Control characters become '?'.
std::string findings_text(const Findings& findings, std::string_view node);

/// One JSON object and a newline, as docs/slurm.md describes it. Invalid bytes in a text that is
/// not UTF-8 are replaced.
std::string findings_json(const Findings& findings, std::string_view node);

/// Reads what findings_json() wrote. Fails with kProtocol.
Result<Findings> parse_findings(std::string_view json);

}  // namespace ddprun
