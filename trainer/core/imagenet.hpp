#pragma once

// The names of ImageNet's archives of 2012, and the validation classes in its devkit.

#include "base/error.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

inline constexpr char kImagenetTrainTar[] = "ILSVRC2012_img_train.tar";
inline constexpr char kImagenetValTar[] = "ILSVRC2012_img_val.tar";
inline constexpr char kImagenetDevkit[] = "ILSVRC2012_devkit_t12.tar.gz";
// In the devkit, below its own folder.
inline constexpr char kImagenetMeta[] = "data/meta.mat";
inline constexpr char kImagenetTruth[] = "data/ILSVRC2012_validation_ground_truth.txt";

/// The class of each validation image, as its WordNet id, in order of the images' names.
/// `ground_truth` has a line with a number for each image; `meta` says which synset without
/// children has that number. Fails with kCorrupt, naming the file and, for the text, the line; and
/// with kLimit.
Result<std::vector<std::string>> imagenet_validation_classes(
    std::string_view meta, std::string_view ground_truth);

}  // namespace ddprun
