#pragma once

// The fence (--fence-dir): files on a file system that all nodes share. Each voter set has one,
// which holds the incarnation of the only node of that voter set that may lead.
//
// A separate thread creates and reads the files, so a file system that hangs delays neither the
// heartbeats nor the end of the job. Everything else here is for the agent's thread.

#include "agent/writer_thread.hpp"
#include "base/deadline.hpp"
#include "base/error.hpp"
#include "base/time.hpp"
#include "rendezvous/core/effects.hpp"

#include <boost/asio/io_context.hpp>

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>

namespace ddprun {

/// Checks that `directory` is a directory in which files can be created and linked. Leaves nothing
/// behind. Blocks. Fails with kIo or kNotFound, naming the directory.
Result<void> check_fence_directory(const std::filesystem::path& directory);

/// The file of the voter set that is claimed, "JOB-INSTANCE-TERM-NUMBER.fence".
std::string fence_file_name(std::string_view job, const effects::ClaimFence& claim);

/// Claims the voter set unless another node holds it, and returns the node that does. The result
/// survives a crash of this machine and of the file server; claiming again changes nothing. Blocks.
/// Fails with kIo or kNotFound; then the claim may or may not have taken effect.
Result<Incarnation> claim_fence(
    const std::filesystem::path& directory, std::string_view job, const effects::ClaimFence& claim);

class Fence {
 public:
  /// The claim, and the node that holds it.
  using OnHeld = std::function<void(const effects::ClaimFence& claim, Incarnation holder)>;

  /// Claims in `directory` for nodes of `job`. Fails with kIo if no thread can be started.
  static Result<std::unique_ptr<Fence>> open(
      asio::io_context& context, std::filesystem::path directory, std::string job, OnHeld on_held);

  /// Abandons a claim in progress and drops its result.
  ~Fence();
  Fence(const Fence&) = delete;
  Fence& operator=(const Fence&) = delete;

  /// Returns at once. The loop calls `on_held` later, once the holder is known. A claim that is in
  /// progress is not made twice.
  void claim(const effects::ClaimFence& claim);

  /// Reports a file system that does not respond, and repeats failed claims, until cancelled.
  asio::awaitable<void> watch();

 private:
  struct Shared;

  Fence(
      asio::io_context& context,
      std::shared_ptr<Shared> shared,
      std::unique_ptr<WriterThread> thread,
      OnHeld on_held);

  /// Voter sets of different instances of the job may have the same number.
  using Key = std::pair<Incarnation, RoundId>;

  static Key key_of(const effects::ClaimFence& claim) { return {claim.instance, claim.round}; }
  void make(const effects::ClaimFence& claim);
  void answered(const effects::ClaimFence& claim, const Result<Incarnation>& holder);

  // Two owners: the thread may have to be abandoned in the middle of a claim.
  const std::shared_ptr<Shared> shared_;
  const std::unique_ptr<WriterThread> thread_;
  const OnHeld on_held_;
  Timer timer_;  // until a result is due, or a failed claim is repeated
  std::set<Key> under_way_;
  std::map<Key, effects::ClaimFence> failed_;
  Duration pause_;        // before a failed claim is repeated
  std::string reported_;  // the failure in the last log line; empty: none since
};

}  // namespace ddprun
