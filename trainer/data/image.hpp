#pragma once

#include "trainer/core/augment.hpp"

#include <cstdint>
#include <vector>

namespace ddprun {

/// An image as stored in its file: 8-bit pixels, top row first.
struct Image {
  enum class Layout : std::uint8_t {
    kInterleaved,  // (height, width, channels), as from a JPEG decoder
    kPlanar,       // (channels, height, width), as in CIFAR-10
  };

  ImageSize size;
  std::int64_t channels = 3;  // 1 is grey, 3 is red, green, blue
  Layout layout = Layout::kInterleaved;
  std::vector<std::uint8_t> pixels;

  /// The distance in `pixels` between two neighbours.
  std::int64_t column_stride() const { return layout == Layout::kPlanar ? 1 : channels; }
  std::int64_t row_stride() const { return size.width * column_stride(); }
  std::int64_t channel_stride() const {
    return layout == Layout::kPlanar ? size.height * size.width : 1;
  }
};

/// The maximum number of pixels of an image, whatever its header says.
inline constexpr std::int64_t kPixelsMax = 64'000'000;

}  // namespace ddprun
