#pragma once

#include "launcher/ctl/doctor/core/diagnosis.hpp"

#include <string>
#include <string_view>

namespace ddprun {

/// A line each: "[ok] SUBJECT: SEEN" or "[!!] SUBJECT: CAUSE; REMEDY", with the node's name behind
/// the mark if there is one. Control characters become '?'.
std::string findings_text(const Findings& findings, std::string_view node);

/// One JSON object and a newline, as docs/slurm.md describes it. A text that is no UTF-8 has its
/// bad bytes replaced.
std::string findings_json(const Findings& findings, std::string_view node);

/// Reads what findings_json() wrote. Fails with kProtocol.
Result<Findings> parse_findings(std::string_view json);

}  // namespace ddprun
