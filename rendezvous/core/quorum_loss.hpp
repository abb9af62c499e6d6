#pragma once

// What people are told while those who are left of a round cannot elect a leader.

#include "rendezvous/core/messages.hpp"

#include <string>
#include <vector>

namespace ddprun {

struct QuorumLossFacts {
  std::vector<std::string> round;    // the hosts of the last round, as they were offered it
  std::vector<std::string> here;     // those that wait, this one included
  std::vector<std::string> missing;  // those that this node can tell to be silent
  std::vector<std::string> ended;    // of which nothing runs any more, as is proved
  std::vector<std::string> back;     // nodes that wait here, were in no round, and have such a name
  // Whether the wait would be over
  bool ends_by_reset = false;        // once the kernels of `missing` say that nothing is left there
  bool ends_by_replacement = false;  // once others have the names or ranks of `missing`
  bool ends_by_fence = false;        // by now, if there were a fence
  bool trusts_replacement = false;
  bool waits_for_fence = false;  // nothing else is missing than an answer of the fence
};

/// Names those that are lost, as many as fit in a line. Yields nothing if none is.
QuorumLoss quorum_loss(const QuorumLossFacts& facts);

/// "n0", "n0 and n1", "n0, n1 and 7 more".
std::string spelled_hosts(std::vector<std::string> hosts);

/// Of `all` those that are not in `others`, each of which stands for one.
std::vector<std::string> hosts_without(
    std::vector<std::string> all, const std::vector<std::string>& others);

/// Those of "n0,n1,n2".
std::vector<std::string> split_hosts(const std::string& hosts);

}  // namespace ddprun
