#pragma once

#include "trainer/data/image_source.hpp"

#include <memory>
#include <string>
#include <vector>

namespace ddprun {

/// Images of one size that are held in memory as bytes: IDX pairs and CIFAR-10.
class StoredImages final : public ImageSource {
 public:
  /// A pair of IDX files of `split`, `train-…` or `t10k-…`, plain or .gz, with 10 classes. Fails
  /// with kNotFound, kIo, kCorrupt or kLimit, naming the file, and --data-dir if it is missing.
  static Result<std::unique_ptr<ImageSource>> open_idx(
      const std::string& data_dir, DataSplit split);

  /// The data_batch_*, or the test_batch, of CIFAR-10's binary or Python version, in order of their
  /// names, where CifarFiles::open() finds them. The names of the classes come from
  /// batches.meta.txt or batches.meta. Fails as above.
  static Result<std::unique_ptr<ImageSource>> open_cifar10(
      const std::string& data_dir, DataSplit split);

  std::int64_t size() const override { return std::ssize(labels_); }
  const std::vector<std::string>& classes() const override { return classes_; }
  std::int64_t label(std::int64_t sample) const override;
  Result<Image> read(std::int64_t sample) const override;

 private:
  StoredImages() = default;

  ImageSize image_;
  std::int64_t channels_ = 1;
  std::vector<std::string> classes_;
  std::vector<std::uint8_t> pixels_;  // (size(), channels, height, width)
  std::vector<std::uint8_t> labels_;  // (size())
};

}  // namespace ddprun
