#pragma once

#include "base/descriptor.hpp"
#include "trainer/core/class_folders.hpp"
#include "trainer/data/image_source.hpp"
#include "trainer/data/tar_index.hpp"

#include <memory>
#include <string>
#include <vector>

namespace ddprun {

/// JPEG and PNG files, each read on demand: from a directory, or from a tar archive that is not
/// unpacked.
class EncodedImages final : public ImageSource {
 public:
  /// `data_dir` is a directory, or an uncompressed tar archive whose root, or a folder in it, is
  /// that directory. In it, `train` and `val` have a folder for each class, as for torchvision's
  /// ImageFolder; or `val` has `images` and `val_annotations.txt`, as in Tiny-ImageNet. A directory
  /// without such a folder may have ImageNet's own archives instead: ILSVRC2012_img_train.tar;
  /// ILSVRC2012_img_val.tar with ILSVRC2012_devkit_t12.tar.gz.
  ///
  /// Fails with kNotFound, kIo, kCorrupt or kLimit, naming --data-dir and the remedy.
  static Result<std::unique_ptr<ImageSource>> open(const std::string& data_dir, DataSplit split);

  std::int64_t size() const override { return std::ssize(files_); }
  const std::vector<std::string>& classes() const override { return classes_; }
  std::int64_t label(std::int64_t sample) const override;
  Result<Image> read(std::int64_t sample) const override;

  /// The bytes of a sample's file. Fails like read(), except for errors that only decoding finds.
  Result<std::string> read_encoded(std::int64_t sample) const;

 private:
  EncodedImages() = default;
  static Result<std::unique_ptr<ImageSource>> open_directory(
      const std::string& data_dir, DataSplit split);
  static Result<std::unique_ptr<ImageSource>> open_archive(
      const std::string& data_dir, DataSplit split);
  static Result<std::unique_ptr<ImageSource>> open_imagenet(
      const std::string& data_dir, DataSplit split);
  std::string name_of(std::int64_t sample) const;

  std::string root_;  // base of the paths, with a slash at its end
  std::vector<std::string> classes_;
  std::vector<LabelledFile> files_;
  Descriptor archive_;             // none: the files are in root_
  std::vector<FilePart> extents_;  // of the files in the archive
};

}  // namespace ddprun
