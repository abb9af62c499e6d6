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
  kFake,          // noise, like torchvision's FakeData
  kCrusoe,        // smeared noise, computed from the number of the sample
};

/// The flag value that names it.
const char* name_of(DatasetKind kind);

/// The samples of a run, and how they are loaded.
struct DataOptions {
  DatasetKind kind = DatasetKind::kFashionMnist;
  std::string directory;                  // or the tar file; empty for synthetic data
  std::optional<std::string> transforms;  // the name of a preset; none: the data set's own
  std::optional<std::int64_t>
      image_side;  // pixels, if the transforms allow any; none: the preset's
  std::optional<std::int64_t> limit_train;  // the first N; none: all
  std::optional<std::int64_t> limit_test;
  double validation_share = 0;         // of the training samples, held out instead of the test set
  bool is_stratified = false;          // the same share of each class is held out
  std::uint64_t validation_seed = 42;  // selects the held-out samples
  bool drops_tail = false;             // drop the remainder of the world size; else pad
  std::optional<int> workers;          // decoding threads of a rank; none: its share of the CPUs
  int prefetch = 2;                    // batches ahead of the one in use
  bool draws_as_python =
      false;  // transforms draw from the default generator, as in Python's main process
  std::int64_t fake_train = 1'281'167;  // samples of synthetic data
  std::int64_t fake_test = 20'000;

  bool operator==(const DataOptions&) const = default;
};

/// The images that the data set's own transforms yield; `of_model` if they can yield any size.
ImageShape image_of(DatasetKind kind, ImageShape of_model);

/// The number of classes of the data set; none if its directory decides.
std::optional<std::int64_t> classes_of(DatasetKind kind);

}  // namespace ddprun
