#pragma once

#include "base/error.hpp"
#include "trainer/data/image.hpp"

#include <string_view>

namespace ddprun {

/// The pixels of a JPEG or PNG file, distinguished by its first bytes: ImageNet has a PNG file
/// whose name ends in .JPEG. Fails as decode_jpeg() and decode_png() do, and with kCorrupt for a
/// file of another format, which it names.
Result<Image> decode_image(std::string_view file);

}  // namespace ddprun
