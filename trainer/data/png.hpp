#pragma once

#include "base/error.hpp"
#include "trainer/data/image.hpp"

#include <string_view>

namespace ddprun {

/// The pixels of a PNG file, as PIL's `Image.open(file).convert("RGB")` gives them: palettes are
/// looked up, grey is made RGB, transparency is dropped, of 16 bits a channel the upper 8 count;
/// but grey of 16 bits is cut off at 255.
///
/// Fails with kCorrupt when the file is no PNG, ends early or is damaged; with kLimit above
/// kPixelsMax. What is neither size, palette nor pixels is skipped, damaged or not.
Result<Image> decode_png(std::string_view file);

}  // namespace ddprun
