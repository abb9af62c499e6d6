#pragma once

// Injected faults for drills: which one, when, and on which rank.

#include "base/error.hpp"

#include <cstdint>
#include <optional>
#include <string_view>

namespace ddprun {

/// The kind of fault.
enum class Fault : std::uint8_t {
  kKill,      // SIGKILL, as from the kernel's out-of-memory killer
  kSegv,      // a write through a null pointer
  kHang,      // the rank hangs until it is killed
  kSlow,      // this step and all later ones take delay_ms longer
  kNan,       // the loss is NaN
  kOom,       // more memory is requested than there can be
  kDiskFull,  // no snapshot can be written from this step on
};

/// One --inject: a fault before update `step` of the weights.
struct Injection {
  Fault fault = Fault::kKill;
  std::int64_t step = 1;                    // counted from 1, as in the metrics file
  std::int64_t delay_ms = 0;                // kSlow's
  std::optional<std::int64_t> rank = 0;     // none: every rank
  std::optional<std::int64_t> attempt = 0;  // number of restarts before; none: every attempt

  bool operator==(const Injection&) const = default;
};

/// Reads `FAULT@STEP[:MS][,rank=N|all][,attempt=N|all]`, such as `kill@50`, `slow@10:200,rank=1` or
/// `nan@3,rank=all,attempt=all`. Fails with kInvalidArgument, naming what is wrong and the syntax.
Result<Injection> parse_injection(std::string_view text);

/// Whether `injection` is for this rank of this attempt.
bool is_for(const Injection& injection, std::int64_t rank, std::int64_t attempt);

/// Whether its fault occurs in `step`: kSlow and kDiskFull persist, the others occur once.
bool is_due(const Injection& injection, std::int64_t step);

}  // namespace ddprun
