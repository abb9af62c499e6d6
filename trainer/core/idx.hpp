#pragma once

// The IDX format of MNIST and similar data sets: a big-endian magic number (type and number of
// dimensions), one big-endian u32 per dimension, then the bytes. Turns bytes into images and
// labels, or fails with the reason; idx_file.cpp reads the bytes.

#include "base/error.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

namespace ddprun {

/// Grey images, one byte per pixel. The pixels are a view of the parsed bytes.
struct IdxImages {
  std::int64_t count = 0;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::span<const std::byte> pixels;  // (count, rows, columns)
};

/// One class number per sample, each below the requested number of classes.
struct IdxLabels {
  std::int64_t count = 0;
  std::span<const std::byte> classes;  // (count)
};

/// More samples, or more pixels per side, are treated as corruption.
inline constexpr std::int64_t kIdxSamplesMax = 100'000'000;
inline constexpr std::int64_t kIdxSideMax = 4096;

/// Reads an idx3-ubyte file. Fails with kCorrupt if the magic number differs, a size is 0 or too
/// large, or the file is shorter or longer than its header says.
Result<IdxImages> parse_idx_images(std::span<const std::byte> file);

/// Reads an idx1-ubyte file; every label must be below `classes`. Fails like parse_idx_images().
Result<IdxLabels> parse_idx_labels(std::span<const std::byte> file, int classes);

}  // namespace ddprun
