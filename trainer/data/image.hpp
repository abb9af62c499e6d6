#pragma once

#include "trainer/core/augment.hpp"

#include <cstdint>
#include <vector>

namespace ddprun {

/// An image as its file holds it: 8-bit pixels, top row first.
struct Image {
  enum class Layout : std::uint8_t {
    kInterleaved,  // (height, width, channels), as a JPEG decoder gives them
    kPlanar,       // (channels, height, width), as CIFAR-10 has them
  };

  ImageSize size;
  std::int64_t channels = 3;  // 1 is grey, 3 is red, green, blue
  Layout layout = Layout::kInterleaved;
  std::vector<std::uint8_t> pixels;

  /// How far apart in `pixels` two neighbours are.
  std::int64_t column_stride() const { return layout == Layout::kPlanar ? 1 : channels; }
  std::int64_t row_stride() const { return size.width * column_stride(); }
  std::int64_t channel_stride() const {
    return layout == Layout::kPlanar ? size.height * size.width : 1;
  }
};

/// No image has more pixels than this, whatever its header says.
inline constexpr std::int64_t kPixelsMax = 64'000'000;

}  // namespace ddprun
