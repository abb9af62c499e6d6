#pragma once

#include "trainer/core/model_kind.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace ddprun {

/// Where samples come from.
enum class DatasetKind : std::uint8_t {
  kMnist,         // IDX files
  kFashionMnist,  // IDX files
  kCifar10,       // records of 3,073 bytes
  kTinyImagenet,  // the folder of tiny-imagenet-200, or a tar of it
  kImageFolder,   // train/CLASS/*.jpg and val/CLASS/*.jpg
  kImagenet,      // the same, or the archives that ImageNet comes in
  kFake,          // noise, as torchvision's FakeData
  kCrusoe,        // smeared noise, made from the number of the sample
};

/// The flag value that names it.
const char* name_of(DatasetKind kind);

/// Which samples a run trains on, and how they come into memory.
struct DataOptions {
  DatasetKind kind = DatasetKind::kFashionMnist;
  std::string directory;                  // or the tar file; empty for what is made up
  std::optional<std::string> transforms;  // the name of a preset; none: the data set's own
  std::optional<std::int64_t>
      image_side;  // pixels, where the transforms can make any; none: the preset's
  std::optional<std::int64_t> limit_train;  // the first N; none: all
  std::optional<std::int64_t> limit_test;
  double validation_share = 0;         // of the training samples, held out in place of the test set
  bool is_stratified = false;          // of each class the same share is held out
  std::uint64_t validation_seed = 42;  // which ones
  bool drops_tail = false;             // what the world size does not divide; else it is padded
  std::optional<int> workers;          // threads of a rank that decode; none: its share of the CPUs
  int prefetch = 2;                    // batches ahead of the one in use
  bool draws_as_python =
      false;  // transforms draw from the default generator, as in Python's main process
  std::int64_t fake_train = 1'281'167;  // samples of made-up data
  std::int64_t fake_test = 20'000;

  bool operator==(const DataOptions&) const = default;
};

/// The images that the data set's own transforms yield; `of_model` where they yield any size.
ImageShape image_of(DatasetKind kind, ImageShape of_model);

/// How many classes the data set has; none where its directory decides.
std::optional<std::int64_t> classes_of(DatasetKind kind);

}  // namespace ddprun
