#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

namespace ddprun {

/// How long a rank waits for another in a collective by default: torch's value.
inline constexpr std::chrono::seconds kPeerTimeout = std::chrono::minutes(30);

/// The type to which gradients are converted while they are sent between ranks.
enum class Compression : std::uint8_t { kNone, kFp16, kBf16 };

/// How gradients are averaged. Names and meanings are those of Python's
/// DistributedDataParallel.
struct DdpOptions {
  /// The approximate size of the pieces in which gradients are sent, >= 1; none: 25, but 1 for the
  /// first piece, which is ready last.
  // Initialised here too, or g++ warns where designated initialisers leave it out.
  std::optional<std::int64_t> bucket_cap_mib = {};  // NOLINT(readability-redundant-member-init)
  bool finds_unused = false;        // find_unused_parameters: some have no gradient in a step
  bool has_static_graph = false;    // every step uses the same parameters
  bool gradients_are_views = true;  // gradient_as_bucket_view: no copy besides the buckets
  bool broadcasts_buffers = true;   // rank 0's running statistics are used by all ranks
  Compression compression =
      Compression::kNone;  // the communication hooks fp16_compress, bf16_compress

  bool operator==(const DdpOptions&) const = default;
};

}  // namespace ddprun
