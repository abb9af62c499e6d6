#pragma once

#include "rendezvous/core/status.hpp"

#include <string>

namespace ddprun {

/// `status` for people: three lines on the job, then one line for each node. Control characters in
/// texts of the job are shown as '?', so that no terminal obeys them.
std::string status_text(const JobStatus& status);

}  // namespace ddprun
