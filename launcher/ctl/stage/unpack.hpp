#pragma once

#include "base/error.hpp"

#include <cstdint>

namespace ddprun {

struct Unpacked {
  std::uint64_t files = 0;  // members of every kind
  std::uint64_t bytes = 0;  // of their contents
};

/// Extracts a tar (plain, or compressed with gzip, bzip2, xz or zstd) or zip archive into a
/// directory, both given as descriptors, with the times of its members but without their owners;
/// never outside of it (check_entry). Changes the working directory of the process meanwhile.
///
/// Fails with kCorrupt if the archive has another format or is damaged; kLimit beyond 100 million
/// members; kNotFound without libarchive; kIo if the directory takes no more. It is then half
/// filled.
Result<Unpacked> unpack(int archive, int directory);

}  // namespace ddprun
