#pragma once

#include "base/error.hpp"
#include "trainer/core/cifar.hpp"
#include "trainer/data/image_source.hpp"
#include "trainer/data/tar_index.hpp"

#include <map>
#include <string>
#include <vector>

namespace ddprun {

/// The files of one split of CIFAR-10, in a directory or in a tar archive, plain or gzipped, that
/// is held in memory.
class CifarFiles {
 public:
  /// `data_dir` is such an archive, a directory of the files, or a directory with a
  /// `cifar-10-batches-bin`, a `cifar-10-batches-py`, a `cifar-10-binary.tar.gz` or a
  /// `cifar-10-python.tar.gz`; the first of these with files of the split is used. Fails with
  /// kNotFound, kIo, kCorrupt or kLimit, naming --data-dir or the file.
  static Result<CifarFiles> open(const std::string& data_dir, DataSplit split);

  /// At least one.
  const CifarBatches& batches() const { return batches_; }

  /// The content of one of them, or of another file of this name beside them. Fails as open() does.
  Result<std::string> read(const std::string& name) const;

  /// For messages.
  std::string path_of(const std::string& name) const { return place_ + "/" + name; }

 private:
  static Result<CifarFiles> in_directory(const std::string& directory, std::string_view stem);
  static Result<CifarFiles> in_archive(const std::string& path, std::string_view stem);

  std::string place_;
  CifarBatches batches_;
  std::string archive_;                      // empty: the files are in the directory `place_`
  std::map<std::string, FilePart> members_;  // of the archive, by name without folders
};

}  // namespace ddprun
