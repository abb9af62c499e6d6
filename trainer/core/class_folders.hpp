#pragma once

// Which file is which sample, and of which class, where the folders say it. The order is that of
// torchvision's ImageFolder, so sample numbers mean the same there and here.

#include "base/error.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

/// One sample's file, relative to the folder of its split.
struct LabelledFile {
  std::string path;
  std::int64_t label = 0;

  bool operator==(const LabelledFile&) const = default;
};

/// Samples in order, and the class names in order of their labels.
struct LabelledFiles {
  std::vector<std::string> classes;
  std::vector<LabelledFile> files;
};

/// Whether torchvision's ImageFolder takes a file of this name for an image: .jpg, .jpeg, .png,
/// .ppm, .bmp, .pgm, .tif, .tiff and .webp, in any case.
bool has_image_ending(std::string_view path);

/// The layout `<class>/…/<file>`: the classes in order of their names; samples by class, folder and
/// name. `paths` may hold other files too. Fails with kNotFound where there is no class, or none of
/// its files is an image, naming up to five such classes.
Result<LabelledFiles> label_by_folder(
    std::vector<std::string> classes, const std::vector<std::string>& paths);

/// The layout of Tiny-ImageNet's val folder: `images/<file>`, and lines of file name, tab, class,
/// tab, whatever else. Samples by class and name: the order of an ImageFolder into which the files
/// were sorted. `classes` are those of the training split.
///
/// Fails with kCorrupt, naming the line, where it has no two fields or another class; with
/// kNotFound where an annotated file is not in `paths`, or no line is there at all.
Result<LabelledFiles> label_by_annotations(
    std::vector<std::string> classes,
    const std::vector<std::string>& paths,
    std::string_view annotations);

}  // namespace ddprun
