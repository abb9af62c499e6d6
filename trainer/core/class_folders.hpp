#pragma once

// Which file is which sample, and of which class, if the folders define it. The order is that of
// torchvision's ImageFolder, so sample numbers have the same meaning there and here.

#include "base/error.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

/// The file of one sample, relative to the folder of its split.
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

/// Whether torchvision's ImageFolder treats a file of this name as an image: .jpg, .jpeg, .png,
/// .ppm, .bmp, .pgm, .tif, .tiff and .webp, in any case.
bool has_image_ending(std::string_view path);

/// The layout `<class>/…/<file>`: classes in order of their names; samples by class, folder and
/// name. `paths` may contain other files too. Fails with kNotFound if there is no class, or a class
/// without images, naming up to five such classes.
Result<LabelledFiles> label_by_folder(
    std::vector<std::string> classes, const std::vector<std::string>& paths);

/// The layout of Tiny-ImageNet's val folder: `images/<file>`, and lines of file name, tab, class,
/// tab and anything else. Samples by class and name: the order of an ImageFolder with the same
/// files sorted into it. `classes` are those of the training split.
///
/// Fails with kCorrupt, naming the line, if it lacks two fields or has another class; with
/// kNotFound if an annotated file is not in `paths`, or there are no lines.
Result<LabelledFiles> label_by_annotations(
    std::vector<std::string> classes,
    const std::vector<std::string>& paths,
    std::string_view annotations);

}  // namespace ddprun
