#pragma once

// What people are told while those who are left of a round may not lead anew.

#include "rendezvous/core/messages.hpp"

#include <string>
#include <vector>

namespace ddprun {

struct QuorumLossFacts {
  std::vector<std::string> round = {};    // the hosts of the last round, as they were offered it
  std::vector<std::string> here = {};     // those that wait, this one included
  std::vector<std::string> missing = {};  // those that this node can tell to be silent
  // Whether it would be enough that of each in `missing`
  bool ends_by_reset = false;        // the kernel says that nothing of it is left
  bool ends_by_replacement = false;  // another node has taken its name or rank
  bool ends_by_fence = false;        // nothing were heard, if there were a fence
  bool trusts_replacement = false;
};

/// Names those that are lost, as many as fit in a line. Yields nothing if none is.
QuorumLoss quorum_loss(const QuorumLossFacts& facts);

/// Those of "n0,n1,n2".
std::vector<std::string> split_hosts(const std::string& hosts);

}  // namespace ddprun
