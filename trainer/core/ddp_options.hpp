#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

namespace ddprun {

/// How long a rank waits for another in a collective, unless somebody says otherwise: torch's.
inline constexpr std::chrono::seconds kPeerTimeout = std::chrono::minutes(30);

/// What gradients are turned into for the way between ranks, and back from behind it.
enum class Compression : std::uint8_t { kNone, kFp16, kBf16 };

/// How gradients are averaged. The names, and what they mean, are those of Python's
/// DistributedDataParallel.
struct DdpOptions {
  /// Gradients are sent in pieces of about this size, >= 1; none: 25, and the first piece, which
  /// is there last, 1.
  // Initialised here too, or g++ warns where designated initialisers leave it out.
  std::optional<std::int64_t> bucket_cap_mib = {};  // NOLINT(readability-redundant-member-init)
  bool finds_unused = false;        // find_unused_parameters: some have no gradient in a step
  bool has_static_graph = false;    // every step uses the same parameters
  bool gradients_are_views = true;  // gradient_as_bucket_view: no copy of them beside the buckets
  bool broadcasts_buffers = true;   // rank 0's running statistics are everybody's
  Compression compression =
      Compression::kNone;  // the communication hooks fp16_compress, bf16_compress

  bool operator==(const DdpOptions&) const = default;
};

}  // namespace ddprun
