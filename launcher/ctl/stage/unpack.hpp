#pragma once

#include "base/error.hpp"

#include <cstdint>

namespace ddprun {

struct Unpacked {
  std::uint64_t files = 0;  // members of every kind
  std::uint64_t bytes = 0;  // of their contents
};

/// Extracts a tar (plain, or by gzip, bzip2, xz or zstd) or zip archive into a directory, both
/// given as descriptors, with the times but without the owners of its members; never outside of it
/// (check_entry). The working directory of the process is another one meanwhile.
///
/// Fails with kCorrupt where the archive is no such, or damaged; kLimit beyond 100 million members;
/// kNotFound without libarchive; kIo where the directory takes no more. Half of it is there then.
Result<Unpacked> unpack(int archive, int directory);

}  // namespace ddprun
