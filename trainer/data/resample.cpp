#include "trainer/data/resample.hpp"

#include "base/check.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace ddprun {
namespace {

// Bytes times weights of at most 1 need 8 bits and the sign in addition to these.
constexpr int kFractionBits = 32 - 8 - 2;
constexpr std::int32_t kHalf = 1 << (kFractionBits - 1);

std::int32_t to_fixed(double weight) {
  constexpr double kOne = 1 << kFractionBits;
  return static_cast<std::int32_t>((weight < 0 ? -0.5 : 0.5) + weight * kOne);
}

inline std::uint8_t to_byte(std::int32_t sum) {
  return static_cast<std::uint8_t>(std::clamp(sum >> kFractionBits, 0, 255));
}

template <std::size_t Channels>
void resample_row_of(const std::uint8_t* row, const AxisWeights& columns, std::uint8_t* out) {
  for (std::int64_t x = 0; x < columns.count(); ++x) {
    const AxisWeights::Taps taps = columns.taps(x);
    const std::uint8_t* pixel = row + taps.first * static_cast<std::int64_t>(Channels);
    std::array<std::int32_t, Channels> sums{};
    sums.fill(kHalf);
    for (const std::int32_t weight : taps.weights) {
      for (std::size_t c = 0; c < Channels; ++c) {
        sums[c] += pixel[c] * weight;
      }
      pixel += Channels;
    }
    for (std::size_t c = 0; c < Channels; ++c) {
      *out++ = to_byte(sums[c]);
    }
  }
}

/// Compiled twice: with integers, the wider instructions give the same bits.
[[gnu::always_inline]] inline void blend(
    const PixelRows& rows,
    std::span<const std::int32_t> weights,
    std::int32_t* sums,
    std::span<std::uint8_t> out) {
  const std::size_t n = out.size();
  for (std::size_t x = 0; x < n; ++x) {
    sums[x] = kHalf + rows.first[x] * weights[0];
  }
  for (std::size_t k = 1; k < weights.size(); ++k) {
    const std::uint8_t* const row = rows.first + static_cast<std::int64_t>(k) * rows.stride;
    const std::int32_t weight = weights[k];
    for (std::size_t x = 0; x < n; ++x) {
      sums[x] += row[x] * weight;
    }
  }
  for (std::size_t x = 0; x < n; ++x) {
    out[x] = to_byte(sums[x]);
  }
}

using Blend = void (*)(
    const PixelRows&, std::span<const std::int32_t>, std::int32_t*, std::span<std::uint8_t>);

void blend_anywhere(
    const PixelRows& rows,
    std::span<const std::int32_t> weights,
    std::int32_t* sums,
    std::span<std::uint8_t> out) {
  blend(rows, weights, sums, out);
}

#ifdef __x86_64__
[[gnu::target("avx2")]] void blend_by_avx2(
    const PixelRows& rows,
    std::span<const std::int32_t> weights,
    std::int32_t* sums,
    std::span<std::uint8_t> out) {
  blend(rows, weights, sums, out);
}

Blend best_blend() {
  return __builtin_cpu_supports("avx2") != 0 ? blend_by_avx2 : blend_anywhere;
}
#else
Blend best_blend() {
  return blend_anywhere;
}
#endif

}  // namespace

AxisWeights::AxisWeights(std::int64_t in, std::int64_t out, Window window) {
  DDPRUN_CHECK(in >= 1 && out >= 1 && window.first >= 0 && window.count >= 1);
  DDPRUN_CHECK(window.first + window.count <= out);
  const double scale = static_cast<double>(in) / static_cast<double>(out);
  const double reach = std::max(scale, 1.0);  // in input pixels, to either side of the centre
  taps_max_ = static_cast<std::int64_t>(std::ceil(reach)) * 2 + 1;
  weights_.resize(static_cast<std::size_t>(window.count * taps_max_));
  firsts_.reserve(static_cast<std::size_t>(window.count));
  counts_.reserve(static_cast<std::size_t>(window.count));

  std::vector<double> exact(static_cast<std::size_t>(taps_max_));
  for (std::int64_t at = 0; at < window.count; ++at) {
    const double centre = (static_cast<double>(window.first + at) + 0.5) * scale;
    const double from = centre - reach + 0.5;  // truncated, not rounded, as in Pillow
    const double to = centre + reach + 0.5;
    const auto first = std::max<std::int64_t>(static_cast<std::int64_t>(from), 0);
    const auto end = std::min<std::int64_t>(static_cast<std::int64_t>(to), in);
    const std::int64_t count = end - first;
    double sum = 0;
    for (std::int64_t k = 0; k < count; ++k) {
      const double distance =
          std::abs((static_cast<double>(k + first) - centre + 0.5) * (1.0 / reach));
      const double weight = distance < 1 ? 1 - distance : 0;
      exact[static_cast<std::size_t>(k)] = weight;
      sum += weight;
    }
    for (std::int64_t k = 0; k < count; ++k) {
      weights_[static_cast<std::size_t>(at * taps_max_ + k)] =
          to_fixed(exact[static_cast<std::size_t>(k)] / sum);
    }
    firsts_.push_back(first);
    counts_.push_back(count);
  }
}

AxisWeights::Taps AxisWeights::taps(std::int64_t at) const {
  const auto index = static_cast<std::size_t>(at);
  return {
      .first = firsts_[index],
      .weights = std::span(weights_).subspan(
          static_cast<std::size_t>(at * taps_max_), static_cast<std::size_t>(counts_[index]))};
}

std::int64_t AxisWeights::end() const {
  return firsts_.back() + counts_.back();
}

void resample_row(
    const std::uint8_t* row,
    const AxisWeights& columns,
    std::int64_t channels,
    std::span<std::uint8_t> out) {
  DDPRUN_CHECK(channels == 1 || channels == 3);
  DDPRUN_CHECK(std::ssize(out) == columns.count() * channels);
  if (channels == 1) return resample_row_of<1>(row, columns, out.data());
  resample_row_of<3>(row, columns, out.data());
}

void blend_rows(
    const PixelRows& rows,
    std::span<const std::int32_t> weights,
    std::span<std::int32_t> sums,
    std::span<std::uint8_t> out) {
  static const Blend best = best_blend();
  DDPRUN_CHECK(!weights.empty() && sums.size() == out.size());
  best(rows, weights, sums.data(), out);
}

}  // namespace ddprun
