#pragma once

#include "trainer/core/safetensors.hpp"

#include <cstddef>

namespace ddprun {

/// How two tensors of one type and shape differ.
struct TensorDiff {
  std::size_t elements = 0;
  std::size_t different = 0;  // whose bits are not the same: 0.0 and -0.0 are two
  double largest = 0;         // difference of values; NaN where one of them, or both, is NaN

  bool equal() const { return different == 0; }
};

/// Compares element by element. REQUIRES: one dtype, one shape.
TensorDiff compare(const TensorView& left, const TensorView& right);

}  // namespace ddprun
