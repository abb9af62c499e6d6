#include "trainer/replica_check.hpp"

#include "trainer/core/replicas.hpp"
#include "trainer/model.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstring>
#include <string>
#include <vector>

namespace ddprun {

Result<void> check_same_flags(const TrainOptions& options, const ProcessGroup& group) {
  std::string flags = flags_of_job(options);
  std::vector<torch::Tensor> length{torch::tensor({std::ssize(flags)}, torch::kInt64)};
  group->broadcast(length)->wait();
  flags.resize(static_cast<std::size_t>(length[0].item<std::int64_t>()));
  std::vector<torch::Tensor> bytes{
      torch::from_blob(flags.data(), {std::ssize(flags)}, torch::kUInt8)};
  group->broadcast(bytes)->wait();
  return check_flags_of_rank_0(flags, options);
}

Result<void> check_replicas(const torch::nn::Module& model, const ProcessGroup& group) {
  const std::string hex = weights_sha256(model);
  const auto length = static_cast<std::int64_t>(hex.size());
  torch::Tensor mine = torch::empty({1, length}, torch::kUInt8);
  std::memcpy(mine.mutable_data_ptr(), hex.data(), hex.size());
  torch::Tensor all = torch::empty({group->getSize(), length}, torch::kUInt8);
  group->_allgather_base(all, mine)->wait();

  std::vector<std::string> fingerprints;
  for (std::int64_t rank = 0; rank < group->getSize(); ++rank) {
    const torch::Tensor row = all[rank];
    fingerprints.emplace_back(static_cast<const char*>(row.const_data_ptr()), hex.size());
  }
  const auto odd = odd_ranks(fingerprints);
  if (odd.empty()) return {};
  if (odd.size() == fingerprints.size()) {
    return make_error(
        Errc::kBadNumbers,
        fmt::format(
            "the weights of ranks 0 to {} differ, and there is no majority to tell whose are "
            "right: memory or a processor of one of them may be faulty; start again from the last "
            "snapshot",
            fingerprints.size() - 1));
  }
  return make_error(
      Errc::kBadNumbers,
      fmt::format(
          "the weights of rank {} differ from those of the others: memory or a processor there may "
          "be "
          "faulty; start again from the last snapshot, without that machine if it happens again",
          fmt::join(odd, ", ")));
}

}  // namespace ddprun
