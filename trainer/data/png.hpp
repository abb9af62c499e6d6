#pragma once

#include "base/error.hpp"
#include "trainer/data/image.hpp"

#include <string_view>

namespace ddprun {

/// The pixels of a PNG file, equal to PIL's `Image.open(file).convert("RGB")`: palettes are looked
/// up, grey becomes RGB, transparency is dropped, and of 16 bits per channel the upper 8 are used;
/// but grey of 16 bits is clamped to 255.
///
/// Fails with kCorrupt if the file is not a PNG, ends early or is damaged; with kLimit above
/// kPixelsMax. Chunks other than size, palette and pixels are skipped, even if damaged.
Result<Image> decode_png(std::string_view file);

}  // namespace ddprun
