#pragma once

// Resizing as in PIL: bilinear, over as many input pixels as one output pixel covers, along one
// axis and then along the other, in integers with bytes in between. The arithmetic is that of
// Pillow's Resample.c (precompute_coeffs, normalize_coeffs_8bpc and the two passes for 8 bits per
// channel), so the bytes are equal. The order of the axes is that of Pillow 13.0.0 (its pull
// request 9549); before, rows always came first, which changes some bytes by one.

#include "trainer/core/augment.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace ddprun {

/// The input pixels and weights of each output pixel along one axis.
class AxisWeights {
 public:
  /// A range of output pixels: first, first + 1, …
  struct Window {
    std::int64_t first = 0;
    std::int64_t count = 1;
  };

  /// For `out` pixels made from `in`, of which only those of `window` are needed. REQUIRES: in, out
  /// >= 1, and the window is within 0..out-1.
  AxisWeights(std::int64_t in, std::int64_t out, Window window);

  /// The input pixels first, first + 1, … of one output pixel, with their weights times 2^22.
  struct Taps {
    std::int64_t first = 0;
    std::span<const std::int32_t> weights;
  };

  /// REQUIRES: 0 <= at < the window's count.
  Taps taps(std::int64_t at) const;

  std::int64_t count() const { return static_cast<std::int64_t>(firsts_.size()); }

  /// The input pixels that the output pixels need: begin()..end()-1.
  std::int64_t begin() const { return taps(0).first; }
  std::int64_t end() const;

 private:
  std::int64_t taps_max_ = 0;
  std::vector<std::int64_t> firsts_;
  std::vector<std::int64_t> counts_;
  std::vector<std::int32_t> weights_;  // (count, taps_max_)
};

/// Whether Pillow shrinks the height before the width: if that removes more than twice as many rows
/// as columns.
constexpr bool is_height_first(ImageSize in, ImageSize out) {
  return in.height > out.height && in.height - out.height > 2 * (in.width - out.width);
}

/// Resizes one row: `row` points at its first pixel, `out` has room for columns.count() pixels of
/// `channels` interleaved bytes. REQUIRES: channels is 1 or 3.
void resample_row(
    const std::uint8_t* row,
    const AxisWeights& columns,
    std::int64_t channels,
    std::span<std::uint8_t> out);

/// Input rows, `stride` bytes apart.
struct PixelRows {
  const std::uint8_t* first = nullptr;
  std::int64_t stride = 0;
};

/// One output row of out.size() bytes from as many input rows as there are weights. `sums` is
/// scratch of the same size.
void blend_rows(
    const PixelRows& rows,
    std::span<const std::int32_t> weights,
    std::span<std::int32_t> sums,
    std::span<std::uint8_t> out);

}  // namespace ddprun
