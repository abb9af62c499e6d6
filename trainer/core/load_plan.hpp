#pragma once

// Which tensors of a file go into which of a model: `--pretrained`, decided before anything is
// copied. Names are Python's: those of a state_dict, of a plain model or of one wrapped in DDP.

#include "base/error.hpp"
#include "trainer/core/safetensors.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

/// A tensor of the model, to be filled.
struct TensorSpec {
  std::string name;  // "layer1.0.conv1.weight"
  DType dtype = DType::kF32;
  std::vector<std::int64_t> shape;
};

/// What did not fit, by name without "module."; all empty if the file is just the model's.
struct LoadReport {
  std::vector<std::string> missing;     // in the model, not in the file: these keep their values
  std::vector<std::string> unexpected;  // in the file, not in the model
  std::vector<std::string> reshaped;    // of the head, and of another shape in the file: kept, too

  bool is_complete() const { return missing.empty() && unexpected.empty() && reshaped.empty(); }

  bool operator==(const LoadReport&) const = default;
};

/// One line for a person: "all 122 tensors" or "120 of 122 tensors; of another shape: fc.bias …".
/// Of each list the first few are named.
std::string summary_of(const LoadReport& report, std::size_t tensors);

struct LoadPlan {
  struct Copy {
    std::size_t from = 0;  // index into the file's views
    std::size_t to = 0;    // index into the model's tensors

    bool operator==(const Copy&) const = default;
  };
  std::vector<Copy> copies;  // in the model's order; floats may differ in width
  LoadReport report;
};

/// Matches by name; a leading "module." of the file's names, which DistributedDataParallel puts
/// there, does not count. `head` is the layer that gives the scores ("fc"): there another number
/// of classes is reported, while everything else of another shape is an error. Fails with
/// kInvalidArgument, naming the tensor, then; also when two tensors have one name, when a float
/// meets an integer, and when nothing fits at all.
Result<LoadPlan> plan_load(
    const std::vector<TensorSpec>& model,
    const std::vector<TensorView>& file,
    std::string_view head);

}  // namespace ddprun
