#include "trainer/burn_in.hpp"

#include "base/standard_streams.hpp"

#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

namespace ddprun {

BurnIn::BurnIn(double hours, ProcessGroup group)
    : end_(
          began_ + std::chrono::duration_cast<Duration>(
                       std::chrono::duration<double, std::ratio<3600>>(hours))),
      group_(std::move(group)) {}

double BurnIn::remaining_s() const {
  return std::max(to_seconds(end_ - Clock::now()), 0.0);
}

bool BurnIn::is_over(std::int64_t iteration) {
  const bool is_late = Clock::now() >= end_;
  std::vector<torch::Tensor> verdict{torch::tensor({is_late ? 1 : 0}, torch::kInt64)};
  group_->broadcast(verdict)->wait();  // from rank 0
  if (is_burn_in_barrier(iteration)) group_->barrier()->wait();
  return verdict.front().item<std::int64_t>() != 0;
}

void BurnIn::record(BurnInMoment moment) const {
  if (group_->getRank() != 0 || !is_burn_in_told(moment.iteration)) return;
  moment.elapsed_s = to_seconds(Clock::now() - began_);
  moment.remaining_s = remaining_s();
  // One lost line of many is no reason to end; only the last line must not be lost.
  static_cast<void>(write_stdout(burn_in_line(moment) + "\n"));
}

}  // namespace ddprun
