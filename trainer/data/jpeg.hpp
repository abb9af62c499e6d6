#pragma once

#include "base/error.hpp"
#include "trainer/data/image.hpp"

#include <string_view>

namespace ddprun {

/// The pixels of a JPEG file, as PIL's `Image.open(file).convert("RGB")` gives them: grey ones
/// become RGB, and CMYK ones are taken as Adobe's inverted ones.
///
/// Fails with kCorrupt when the file is no JPEG, ends early or is damaged; what libjpeg calls a
/// warning and fills with grey is refused too. Fails with kLimit above kPixelsMax.
Result<Image> decode_jpeg(std::string_view file);

}  // namespace ddprun
