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
      samples;  // numbers in `source`, in the order in which a walk over all goes

  std::int64_t size() const { return std::ssize(samples); }
};

/// What a run trains and is tested on.
struct TrainingData {
  SampleSet train;
  SampleSet test;
  std::int64_t classes = 0;
  bool is_decoded = false;  // samples are files of their own, which threads decode
};

/// Opens what `options` ask for; transforms yield `image`, and are drawn by `seed`. Every rank
/// opens the same. Fails with kNotFound, kIo, kCorrupt, kLimit or kInvalidArgument, naming the file
/// or flag, what is wrong with it and what to do.
Result<TrainingData> open_training_data(
    const DataOptions& options, ImageShape image, std::uint64_t seed);

/// How many threads decode on this rank, one of `local_world` on the node.
int data_workers(const DataOptions& options, const TrainingData& data, int local_world);

}  // namespace ddprun
