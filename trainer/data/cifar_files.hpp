#pragma once

#include "base/error.hpp"
#include "trainer/core/cifar.hpp"
#include "trainer/data/image_source.hpp"
#include "trainer/data/tar_index.hpp"

#include <map>
#include <string>
#include <vector>

namespace ddprun {

/// The files of one split of CIFAR-10, wherever they lie: in a directory or, held in memory, in a
/// tar archive, plain or gzipped.
class CifarFiles {
 public:
  /// `data_dir` is such an archive, a directory of the files, or one that has a
  /// `cifar-10-batches-bin`, a `cifar-10-batches-py`, a `cifar-10-binary.tar.gz` or a
  /// `cifar-10-python.tar.gz`; the first of these that has files of the split counts. Fails with
  /// kNotFound, kIo, kCorrupt or kLimit, naming --data-dir or the file.
  static Result<CifarFiles> open(const std::string& data_dir, DataSplit split);

  /// At least one.
  const CifarBatches& batches() const { return batches_; }

  /// What a file of this name beside them, or one of them, holds. Fails as open() does.
  Result<std::string> read(const std::string& name) const;

  /// For messages.
  std::string path_of(const std::string& name) const { return place_ + "/" + name; }

 private:
  static Result<CifarFiles> in_directory(const std::string& directory, std::string_view stem);
  static Result<CifarFiles> in_archive(const std::string& path, std::string_view stem);

  std::string place_;
  CifarBatches batches_;
  std::string archive_;                      // empty: the files lie in the directory `place_`
  std::map<std::string, FilePart> members_;  // of the archive, by name without folders
};

}  // namespace ddprun
