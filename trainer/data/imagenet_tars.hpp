#pragma once

#include "base/descriptor.hpp"
#include "base/error.hpp"
#include "trainer/core/class_folders.hpp"
#include "trainer/data/tar_index.hpp"

#include <filesystem>
#include <vector>

namespace ddprun {

/// Images in a tar archive that is not unpacked.
struct ArchivedImages {
  Descriptor archive;
  LabelledFiles labelled;       // in the order of torchvision's ImageNet
  std::vector<FilePart> parts;  // positions in the archive: one for each file of `labelled`
};

/// The training images of ImageNet's own archive, which contains an archive for each class, named
/// after the class. Reads all headers once, of several classes at a time. Fails with kNotFound,
/// kIo, kCorrupt or kLimit, naming --data-dir and the archive.
Result<ArchivedImages> open_imagenet_train(const std::filesystem::path& tar);

/// The validation images of ImageNet's own archive. The devkit, a .tar.gz as published, has their
/// classes, in order of their names. Fails as above.
Result<ArchivedImages> open_imagenet_val(
    const std::filesystem::path& tar, const std::filesystem::path& devkit);

}  // namespace ddprun
