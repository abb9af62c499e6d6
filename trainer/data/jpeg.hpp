#pragma once

#include "base/error.hpp"
#include "trainer/data/image.hpp"

#include <string_view>

namespace ddprun {

/// The pixels of a JPEG file, equal to PIL's `Image.open(file).convert("RGB")`: grey images become
/// RGB, and CMYK images are read as Adobe's inverted ones.
///
/// Fails with kCorrupt if the file is not a JPEG, ends early or is damaged, also where libjpeg
/// would only warn and fill with grey. Fails with kLimit above kPixelsMax.
Result<Image> decode_jpeg(std::string_view file);

}  // namespace ddprun
