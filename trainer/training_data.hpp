#pragma once

#include "base/error.hpp"
#include "trainer/core/data_options.hpp"
#include "trainer/core/model_kind.hpp"
#include "trainer/data/sample_source.hpp"

#include <cstdint>
#include <memory>
#include <vector>

namespace ddprun {

/// One kind of samples, and which of them are used.
struct SampleSet {
  std::unique_ptr<SampleSource> source;
  std::vector<std::int64_t>
      samples;  // numbers in `source`, in the order in which a pass visits all of them

  std::int64_t size() const { return std::ssize(samples); }
};

/// The training and test data of a run.
struct TrainingData {
  SampleSet train;
  SampleSet test;
  std::int64_t classes = 0;
  bool is_decoded = false;  // samples are separate files, which threads decode
};

/// Opens the data that `options` request; transforms yield `image`, and draw with `seed`. Every
/// rank opens the same data. Fails with kNotFound, kIo, kCorrupt, kLimit or kInvalidArgument,
/// naming the file or flag, the problem and the remedy.
Result<TrainingData> open_training_data(
    const DataOptions& options, ImageShape image, std::uint64_t seed);

/// The number of threads that decode on this rank, one of `local_world` on the node.
int data_workers(const DataOptions& options, const TrainingData& data, int local_world);

}  // namespace ddprun
