#pragma once

// What GET /status of a leader returns. docs/reference.md describes each field.

#include "base/error.hpp"
#include "base/time.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

/// The job as the leader sees it. More than twelve members: /status has as many fields.
struct JobStatus {
  enum class State : std::uint8_t {
    kGathering,  // waits for nodes, or for their replies to an offer
    kPausing,    // waits before it offers the next round, usually because workers crashed on start
    kRunning,    // a round runs
    kStopping,   // its workers are being stopped; another round or the end follows
    kEnded,      // the verdict is known
  };

  struct Worker {
    enum class State : std::uint8_t { kRunning, kSucceeded, kFailed, kStopped };

    int rank = 0;
    int local_rank = 0;
    int pid = 0;
    State state = State::kRunning;
    std::optional<std::int64_t> step = std::nullopt;   // it has made, or told; none: it counts none
    std::optional<Duration> step_time = std::nullopt;  // of one, lately
    std::optional<Duration> step_age = std::nullopt;   // since the last one, when its node told
    std::optional<std::string> busy_with = std::nullopt;  // a pause that it has announced

    bool operator==(const Worker&) const = default;
  };

  struct Node {
    enum class State : std::uint8_t {
      kWaiting,    // belongs to the round, and its workers have not started
      kRunning,    // its workers run
      kFailed,     // one of its workers failed
      kStopped,    // its workers were stopped
      kSucceeded,  // its workers all exited with 0
      kSpare,      // stands by
      kSuspected,  // silent or disconnected, and not yet known to be lost
    };

    std::string host;
    std::string address;            // where it listens, "10.0.0.1:29400"
    std::uint64_t incarnation = 0;  // of its agent
    State state = State::kWaiting;
    bool is_leader = false;
    std::optional<int> group_rank;          // none: a spare
    std::optional<Duration> heartbeat_age;  // since its last heartbeat; none: the leader itself
    std::string unfit;                      // why it should run no workers; empty: it is fit
    std::vector<Worker> workers;            // of this round, by local rank

    bool operator==(const Node&) const = default;
  };

  std::string job;      // its id
  std::string version;  // of the leader's ddprun
  State state = State::kGathering;
  std::int64_t term = 0;
  std::int64_t round = 0;  // 0: none yet
  int attempt = 0;
  int restarts_used = 0;
  int restarts_max = 0;
  int nodes_min = 1;
  int nodes_max = 1;
  Duration lease{};
  std::string reason;              // why the previous round ended; empty: there was none
  std::optional<int> exit_status;  // with kEnded
  std::vector<Node> nodes;         // by group rank, then the spares

  bool operator==(const JobStatus&) const = default;
};

/// The state as the verb of a job: "waits for nodes".
std::string_view state_text(JobStatus::State state);

/// What everybody may know of a job whose nodes authenticate each other.
struct PublicStatus {
  JobStatus::State state = JobStatus::State::kGathering;
  bool is_one_node = false;  // no other node can join it
  std::string hint;          // how its user sees more

  bool operator==(const PublicStatus&) const = default;
};

/// The states of a node, in the order of the enumerators.
inline constexpr std::array<std::string_view, 7> kNodeStates = {
    "waiting", "running", "failed", "stopped", "succeeded", "spare", "suspected"};

/// More than the largest job needs: 16,384 nodes with 8 workers each.
inline constexpr std::size_t kStatusBytesMax = std::size_t{32} * 1024 * 1024;

/// `status` as one JSON object and a newline, as docs/reference.md describes it. Bytes that are not
/// UTF-8 are replaced.
std::string to_json(const JobStatus& status);

/// The same for what everybody may know.
std::string to_json(const PublicStatus& status);

/// Reads that, as parse_status() does.
Result<PublicStatus> parse_public_status(std::string_view json);

/// Reads what to_json() wrote, also in a later version: unknown fields are skipped. Fails with
/// kProtocol, naming the field that is missing, repeated, of another type or out of its range.
Result<JobStatus> parse_status(std::string_view json);

}  // namespace ddprun
