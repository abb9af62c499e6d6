#pragma once

// Where to crop an image and whether to mirror it, as torchvision 0.26's v1 transforms decide.
// Random numbers come in through Draws, so a decision can be replayed; data/transform.cpp moves the
// pixels.

#include <array>
#include <cstdint>
#include <optional>

namespace ddprun {

/// The random numbers of an augmentation, in torchvision's order.
class Draws {
 public:
  virtual ~Draws() = default;

  /// A whole number in 0..n-1: `torch.randint(0, n, (1,))`. REQUIRES: n >= 1.
  virtual std::int64_t below(std::int64_t n) = 0;

  /// A number in low..high: `torch.empty(1).uniform_(low, high)`, with float's precision.
  virtual float uniform(float low, float high) = 0;

  /// The same, uniform in the logarithm: `torch.exp(torch.empty(1).uniform_(log low, log high))`.
  /// Separate because torch's exponential differs from the C library's.
  virtual float log_uniform(float low, float high) = 0;

 protected:
  Draws() = default;
  Draws(const Draws&) = default;
  Draws& operator=(const Draws&) = default;
};

/// Draws that depend only on these numbers: a sample is augmented alike for any reader, in any
/// order, at any world size and after any restart.
///
/// Philox4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel Random Numbers: As Easy as 1, 2, 3; SC 2011)
/// with the seed as key, and sample, epoch and position as counter.
class KeyedDraws final : public Draws {
 public:
  struct Key {
    std::uint64_t seed = 0;
    std::int64_t epoch = 0;  // 0..2^32-1
    std::int64_t sample = 0;
  };

  explicit KeyedDraws(const Key& key) : key_(key) {}

  std::int64_t below(std::int64_t n) override;
  float uniform(float low, float high) override;
  float log_uniform(float low, float high) override;

 private:
  std::uint32_t next();

  Key key_;
  std::uint32_t drawn_ = 0;
  std::array<std::uint32_t, 4> block_{};
};

/// Rows and columns of pixels. Both are at least 1.
struct ImageSize {
  std::int64_t height = 1;
  std::int64_t width = 1;

  bool operator==(const ImageSize&) const = default;
};

/// A part of an image; row and column may be negative if the image is padded.
struct Crop {
  std::int64_t row = 0;
  std::int64_t column = 0;
  std::int64_t height = 1;
  std::int64_t width = 1;

  bool operator==(const Crop&) const = default;
};

/// RandomCrop(side, padding), in coordinates of the image without padding. Draws nothing if only
/// one place fits; none if the crop does not fit.
std::optional<Crop> draw_crop(
    Draws& draws, ImageSize image, std::int64_t side, std::int64_t padding);

/// The crop of RandomResizedCrop: 8 % to 100 % of the area at a ratio of 3/4 to 4/3. After ten
/// tries that do not fit: the largest centred part with an allowed ratio.
Crop draw_resized_crop(Draws& draws, ImageSize image);

/// RandomHorizontalFlip(0.5): true for half of all draws.
bool draw_flip(Draws& draws);

/// Resize(side): the shorter side becomes `side`, the longer one is rounded down to whole pixels.
ImageSize resized(ImageSize image, std::int64_t side);

/// CenterCrop(side); an offset of half a pixel is rounded to even. Row and column are negative if
/// the image is smaller and must be padded.
Crop centre_crop(ImageSize image, std::int64_t side);

}  // namespace ddprun
