#include "trainer/core/tensor_diff.hpp"

#include "base/check.hpp"

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

namespace ddprun {
namespace {

/// A number with a sign, exponent bits and mantissa bits in the layout of IEEE 754.
struct SmallFloat {
  int mantissa_bits;
  int exponent_bits;
};

double decode(unsigned bits, SmallFloat format) {
  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  const unsigned mantissa = bits & ((1U << format.mantissa_bits) - 1);
  const unsigned exponent_max = (1U << format.exponent_bits) - 1;
  const unsigned exponent = bits >> format.mantissa_bits & exponent_max;
  const bool negative = (bits >> (format.mantissa_bits + format.exponent_bits) & 1U) != 0;
  double value = 0;
  if (exponent == exponent_max) {
    value = mantissa == 0 ? std::numeric_limits<double>::infinity()
                          : std::numeric_limits<double>::quiet_NaN();
  } else if (exponent == 0) {
    value = std::ldexp(mantissa, 1 - bias - format.mantissa_bits);
  } else {
    const unsigned whole = mantissa | 1U << format.mantissa_bits;
    value = std::ldexp(whole, static_cast<int>(exponent) - bias - format.mantissa_bits);
  }
  return negative ? -value : value;
}

/// 8 bits, without infinities: all values except one NaN are numbers.
double decode_e4m3(unsigned bits) {
  constexpr unsigned kMagnitude = 0x7f;
  constexpr unsigned kTopBinade = 0x78;
  if ((bits & kMagnitude) == kMagnitude) return std::numeric_limits<double>::quiet_NaN();
  constexpr SmallFloat kFormat{.mantissa_bits = 3, .exponent_bits = 4};
  if ((bits & kTopBinade) != kTopBinade) return decode(bits, kFormat);
  // One binade lower there are no special values; the value there is half.
  return 2 * decode(bits - (1U << 3U), kFormat);
}

template <class T>
T load(const std::byte* from) {
  T value{};
  std::memcpy(&value, from, sizeof value);
  return value;
}

double value_at(DType dtype, const std::byte* from) {
  switch (dtype) {
    case DType::kF64:
      return load<double>(from);
    case DType::kI64:
      return static_cast<double>(load<std::int64_t>(from));
    case DType::kF32:
      return load<float>(from);
    case DType::kI32:
      return load<std::int32_t>(from);
    case DType::kF16:
      return decode(load<std::uint16_t>(from), {.mantissa_bits = 10, .exponent_bits = 5});
    case DType::kBF16:
      return decode(load<std::uint16_t>(from), {.mantissa_bits = 7, .exponent_bits = 8});
    case DType::kI16:
      return load<std::int16_t>(from);
    case DType::kI8:
      return load<std::int8_t>(from);
    case DType::kU8:
    case DType::kBool:
      return load<std::uint8_t>(from);
    case DType::kF8E4M3:
      return decode_e4m3(load<std::uint8_t>(from));
    case DType::kF8E5M2:
      return decode(load<std::uint8_t>(from), {.mantissa_bits = 2, .exponent_bits = 5});
  }
  return 0;
}

double difference(DType dtype, const std::byte* left, const std::byte* right) {
  if (dtype == DType::kI64) {  // doubles cannot distinguish neighbours beyond 2^53
    const auto a = load<std::int64_t>(left);
    const auto b = load<std::int64_t>(right);
    const auto high = static_cast<std::uint64_t>(std::max(a, b));
    return static_cast<double>(high - static_cast<std::uint64_t>(std::min(a, b)));
  }
  const double a = value_at(dtype, left);
  const double b = value_at(dtype, right);
  return a == b ? 0 : std::abs(a - b);  // equal infinities differ by 0
}

}  // namespace

TensorDiff compare(const TensorView& left, const TensorView& right) {
  DDPRUN_CHECK(left.dtype == right.dtype && left.shape == right.shape);
  DDPRUN_CHECK(left.bytes.size() == right.bytes.size());
  const std::size_t unit = size_of(left.dtype);
  TensorDiff diff{.elements = left.bytes.size() / unit};
  for (std::size_t place = 0; place < left.bytes.size(); place += unit) {
    const std::byte* const a = left.bytes.data() + place;
    const std::byte* const b = right.bytes.data() + place;
    if (std::memcmp(a, b, unit) == 0) continue;
    ++diff.different;
    const double by = difference(left.dtype, a, b);
    // NaN compares false with everything; once stored, it stays.
    if (!(by <= diff.largest) && !std::isnan(diff.largest)) diff.largest = by;
  }
  return diff;
}

}  // namespace ddprun
