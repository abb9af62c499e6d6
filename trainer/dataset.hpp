#pragma once

#include "base/error.hpp"
#include "trainer/core/idx.hpp"
#include "trainer/core/options.hpp"
#include "trainer/idx_file.hpp"

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace ddprun {

enum class Split : std::uint8_t { kTrain, kTest };

/// What one step sees.
struct Batch {
  torch::Tensor images;  // (N, 1, 28, 28) float32, normalised
  torch::Tensor labels;  // (N) int64

  std::int64_t size() const { return labels.size(0); }
};

/// Labelled grey images of 28 x 28 pixels in 10 classes, from a pair of IDX files.
///
/// The bytes stay as they are in the file; only the batch in use becomes floats, by the arithmetic
/// of rule P13: (byte / 255 - mean) / deviation.
class ImageDataset {
 public:
  static constexpr std::int64_t kSide = 28;
  static constexpr int kClasses = 10;

  /// Reads the files of `split` from `directory`, and keeps the first `limit` samples if given.
  /// Fails with kNotFound, kIo or kCorrupt, naming the file and what is wrong with it.
  static Result<std::unique_ptr<ImageDataset>> open(
      const std::string& directory,
      DatasetKind kind,
      Split split,
      std::optional<std::int64_t> limit);

  std::int64_t size() const { return size_; }

  /// The samples of these numbers, in this order. REQUIRES: each is in 0..size()-1.
  Batch batch(std::span<const std::int64_t> samples) const;

 private:
  ImageDataset() = default;

  std::string image_file_;
  std::string label_file_;
  IdxImages images_;
  IdxLabels labels_;
  std::int64_t size_ = 0;
  double mean_ = 0;
  double deviation_ = 1;
};

}  // namespace ddprun
