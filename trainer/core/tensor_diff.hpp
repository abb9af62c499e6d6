#pragma once

#include "trainer/core/safetensors.hpp"

#include <cstddef>

namespace ddprun {

/// The difference of two tensors of the same type and shape.
struct TensorDiff {
  std::size_t elements = 0;
  std::size_t different = 0;  // with different bits: 0.0 and -0.0 differ
  double largest = 0;         // difference of values; NaN if one of them, or both, is NaN

  bool equal() const { return different == 0; }
};

/// Compares element by element. REQUIRES: the same dtype and shape.
TensorDiff compare(const TensorView& left, const TensorView& right);

}  // namespace ddprun
