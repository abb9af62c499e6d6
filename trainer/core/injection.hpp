#pragma once

// Faults on demand, for drills: which one, when, and on which rank.

#include "base/error.hpp"

#include <cstdint>
#include <optional>
#include <string_view>

namespace ddprun {

/// What goes wrong.
enum class Fault : std::uint8_t {
  kKill,      // SIGKILL, as the kernel's out-of-memory killer sends it
  kSegv,      // a write through a null pointer
  kHang,      // the rank stands still until it is killed
  kSlow,      // this step and all later ones take so many milliseconds longer
  kNan,       // the loss is no number
  kOom,       // more memory is asked for than there can be
  kDiskFull,  // no snapshot can be written in this step and later
};

/// One --inject: a fault before the weights are updated for the given time.
struct Injection {
  Fault fault = Fault::kKill;
  std::int64_t step = 1;                    // counted from 1, as in the metrics file
  std::int64_t delay_ms = 0;                // kSlow's
  std::optional<std::int64_t> rank = 0;     // none: every rank
  std::optional<std::int64_t> attempt = 0;  // restarts of the workers before; none: every attempt

  bool operator==(const Injection&) const = default;
};

/// Reads `FAULT@STEP[:MS][,rank=N|all][,attempt=N|all]`, such as `kill@50`, `slow@10:200,rank=1`
/// or `nan@3,rank=all,attempt=all`. Fails with kInvalidArgument, naming what is wrong and the form.
Result<Injection> parse_injection(std::string_view text);

/// Whether `injection` is for this rank of this attempt.
bool is_for(const Injection& injection, std::int64_t rank, std::int64_t attempt);

/// Whether its fault occurs in `step`: kSlow and kDiskFull last, the others come once.
bool is_due(const Injection& injection, std::int64_t step);

}  // namespace ddprun
