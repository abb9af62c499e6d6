#include "trainer/data/transform.hpp"

#include "base/check.hpp"
#include "trainer/data/resample.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <vector>

namespace ddprun {
namespace {

Error wrong_size(const Image& image, std::string_view expected) {
  return make_error(
      Errc::kInvalidArgument,
      fmt::format(
          "an image of {} x {} pixels, expected {}",
          image.size.width,
          image.size.height,
          expected));
}

/// PIL resizes interleaved pixels; planar ones are converted first.
Image interleaved(const Image& image) {
  Image result{
      .size = image.size,
      .channels = image.channels,
      .layout = Image::Layout::kInterleaved,
      .pixels = std::vector<std::uint8_t>(image.pixels.size())};
  const std::int64_t plane = image.size.height * image.size.width;
  std::uint8_t* to = result.pixels.data();
  for (std::int64_t at = 0; at < plane; ++at) {
    for (std::int64_t c = 0; c < image.channels; ++c) {
      *to++ = image.pixels[static_cast<std::size_t>(c * plane + at)];
    }
  }
  return result;
}

}  // namespace

Transform::Transform(const TransformPlan& plan) : plan_(plan) {
  DDPRUN_CHECK(plan.channels == 1 || plan.channels == 3);
  DDPRUN_CHECK(plan.side >= 1 && plan.side <= kSideMax);
  for (std::size_t c = 0; c < values_.size(); ++c) {
    for (std::size_t byte = 0; byte < values_[c].size(); ++byte) {
      // P13: three operations in this order; multiplying by 1/255 would round differently.
      const float part = static_cast<float>(byte) / 255.0F;
      const float centred = part - plan.mean[c];
      values_[c][byte] = centred / plan.deviation[c];
    }
  }
}

Result<void> Transform::write(const Image& image, Draws& draws, std::span<float> out) const {
  DDPRUN_CHECK(std::ssize(out) == plan_.floats());
  if (image.channels > plan_.channels) {
    return make_error(Errc::kInvalidArgument, "a coloured image, expected a grey one");
  }
  const ImageSize side{.height = plan_.side, .width = plan_.side};
  switch (plan_.fit) {
    case Fit::kExact: {
      if (image.size != side) {
        return wrong_size(image, fmt::format("{0} x {0}", plan_.side));
      }
      const bool is_flipped = plan_.flip == Flip::kHalf && draw_flip(draws);
      copy(image, {.height = plan_.side, .width = plan_.side}, is_flipped, out.data());
      return {};
    }
    case Fit::kPaddedCrop: {
      const std::optional<Crop> part = draw_crop(draws, image.size, plan_.side, plan_.padding);
      if (!part) {
        return wrong_size(
            image, fmt::format("at least {} less {} of padding", plan_.side, 2 * plan_.padding));
      }
      const bool is_flipped = plan_.flip == Flip::kHalf && draw_flip(draws);
      copy(image, *part, is_flipped, out.data());
      return {};
    }
    case Fit::kResizedCrop:
    case Fit::kCentreCrop:
      return resize_and_cut(image, draws, out.data());
  }
  return {};
}

Result<void> Transform::resize_and_cut(const Image& image, Draws& draws, float* out) const {
  if (image.layout == Image::Layout::kPlanar && image.channels > 1) {
    return resize_and_cut(interleaved(image), draws, out);
  }
  const Crop whole{.height = image.size.height, .width = image.size.width};
  if (plan_.fit == Fit::kResizedCrop) {
    const Crop part = draw_resized_crop(draws, image.size);
    const bool is_flipped = plan_.flip == Flip::kHalf && draw_flip(draws);
    resize(image, part, {.height = plan_.side, .width = plan_.side}, is_flipped, out);
    return {};
  }
  const ImageSize size = resized(image.size, plan_.resize);
  if (size.height * size.width > kPixelsMax) {
    return wrong_size(image, "one that is less long and narrow");
  }
  const bool is_flipped = plan_.flip == Flip::kHalf && draw_flip(draws);
  resize(image, whole, size, is_flipped, out);
  return {};
}

/// Without resizing. `part` may extend beyond the image, where pixels are zero.
void Transform::copy(const Image& image, const Crop& part, bool is_flipped, float* out) const {
  for (std::int64_t c = 0; c < plan_.channels; ++c) {
    const std::array<float, 256>& values = values_[static_cast<std::size_t>(c)];
    const std::int64_t channel = std::min(c, image.channels - 1);
    const std::uint8_t* const plane = image.pixels.data() + channel * image.channel_stride();
    for (std::int64_t y = 0; y < part.height; ++y) {
      const std::int64_t row = part.row + y;
      if (row < 0 || row >= image.size.height) {
        out = std::fill_n(out, part.width, values[0]);
        continue;
      }
      const std::uint8_t* const pixels = plane + row * image.row_stride();
      for (std::int64_t x = 0; x < part.width; ++x) {
        const std::int64_t column = part.column + (is_flipped ? part.width - 1 - x : x);
        const bool is_inside = column >= 0 && column < image.size.width;
        *out++ = values[is_inside ? pixels[column * image.column_stride()] : 0];
      }
    }
  }
}

/// The part of an image, and which of its pixels make which pixels of the square.
struct Transform::Resizing {
  PixelRows rows;  // of the part
  std::int64_t width = 0;
  std::int64_t channels = 0;
  AxisWeights across;
  AxisWeights down;
  bool is_flipped = false;
};

/// The square in the middle of `part` resized to `size`; all of it if that is the square.
void Transform::resize(
    const Image& image, const Crop& part, ImageSize size, bool is_flipped, float* out) const {
  const Crop middle = centre_crop(size, plan_.side);
  // A side longer than the resized part would be padded; every plan resizes to at least its side.
  DDPRUN_CHECK(middle.row >= 0 && middle.column >= 0);
  const Resizing how{
      .rows =
          {.first = image.pixels.data() + part.row * image.row_stride() +
                    part.column * image.column_stride(),
           .stride = image.row_stride()},
      .width = part.width,
      .channels = image.channels,
      .across = AxisWeights(part.width, size.width, {.first = middle.column, .count = plan_.side}),
      .down = AxisWeights(part.height, size.height, {.first = middle.row, .count = plan_.side}),
      .is_flipped = is_flipped};
  if (is_height_first({.height = part.height, .width = part.width}, size)) {
    resize_height_first(how, out);
  } else {
    resize_width_first(how, out);
  }
}

void Transform::resize_width_first(const Resizing& how, float* out) const {
  const std::int64_t row_bytes = plan_.side * how.channels;
  const std::int64_t begin = how.down.begin();
  std::vector<std::uint8_t> narrowed(
      static_cast<std::size_t>((how.down.end() - begin) * row_bytes));
  for (std::int64_t y = begin; y < how.down.end(); ++y) {
    const std::span<std::uint8_t> to = std::span(narrowed).subspan(
        static_cast<std::size_t>((y - begin) * row_bytes), static_cast<std::size_t>(row_bytes));
    resample_row(how.rows.first + y * how.rows.stride, how.across, how.channels, to);
  }

  std::vector<std::int32_t> sums(static_cast<std::size_t>(row_bytes));
  std::vector<std::uint8_t> line(static_cast<std::size_t>(row_bytes));
  for (std::int64_t y = 0; y < plan_.side; ++y) {
    const AxisWeights::Taps taps = how.down.taps(y);
    const PixelRows rows{
        .first = narrowed.data() + (taps.first - begin) * row_bytes, .stride = row_bytes};
    blend_rows(rows, taps.weights, sums, line);
    put_row(line.data(), how.channels, how.is_flipped, out + y * plan_.side);
  }
}

void Transform::resize_height_first(const Resizing& how, float* out) const {
  const auto blended_bytes = static_cast<std::size_t>(how.width * how.channels);
  std::vector<std::int32_t> sums(blended_bytes);
  std::vector<std::uint8_t> blended(blended_bytes);
  std::vector<std::uint8_t> line(static_cast<std::size_t>(plan_.side * how.channels));
  for (std::int64_t y = 0; y < plan_.side; ++y) {
    const AxisWeights::Taps taps = how.down.taps(y);
    const PixelRows rows{
        .first = how.rows.first + taps.first * how.rows.stride, .stride = how.rows.stride};
    blend_rows(rows, taps.weights, sums, blended);
    resample_row(blended.data(), how.across, how.channels, line);
    put_row(line.data(), how.channels, how.is_flipped, out + y * plan_.side);
  }
}

/// Writes one row of interleaved bytes to the sample's planes; `out` is its place in the first.
void Transform::put_row(
    const std::uint8_t* pixels, std::int64_t channels, bool is_flipped, float* out) const {
  const std::int64_t plane = plan_.side * plan_.side;
  for (std::int64_t c = 0; c < plan_.channels; ++c) {
    const std::array<float, 256>& values = values_[static_cast<std::size_t>(c)];
    const std::uint8_t* const first = pixels + std::min(c, channels - 1);
    float* const to = out + c * plane;
    if (is_flipped) {
      for (std::int64_t x = 0; x < plan_.side; ++x) {
        to[plan_.side - 1 - x] = values[first[x * channels]];
      }
    } else {
      for (std::int64_t x = 0; x < plan_.side; ++x) {
        to[x] = values[first[x * channels]];
      }
    }
  }
}

}  // namespace ddprun
