#pragma once

// The IDX format of MNIST and its kin: a big-endian magic number (type and number of dimensions),
// one big-endian u32 per dimension, then the bytes. Here bytes become images and labels, or are
// refused with the reason; idx_file.cpp gets the bytes.

#include "base/error.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

namespace ddprun {

/// Grey images, one byte per pixel. The pixels are a view of the bytes that were parsed.
struct IdxImages {
  std::int64_t count = 0;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::span<const std::byte> pixels;  // (count, rows, columns)
};

/// One class number per sample, each below the number of classes asked for.
struct IdxLabels {
  std::int64_t count = 0;
  std::span<const std::byte> classes;  // (count)
};

/// Neither more samples nor more pixels per side than this are believed.
inline constexpr std::int64_t kIdxSamplesMax = 100'000'000;
inline constexpr std::int64_t kIdxSideMax = 4096;

/// Reads an idx3-ubyte file. Fails with kCorrupt when the magic number is another one, a size is 0
/// or absurd, or the file is shorter or longer than its header says.
Result<IdxImages> parse_idx_images(std::span<const std::byte> file);

/// Reads an idx1-ubyte file; every label must be below `classes`. Fails like parse_idx_images().
Result<IdxLabels> parse_idx_labels(std::span<const std::byte> file, int classes);

}  // namespace ddprun
