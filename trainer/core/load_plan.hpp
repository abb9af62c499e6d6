#pragma once

// Which tensors of a file are copied into which of a model: `--pretrained`, planned before anything
// is copied. Names are Python's: those of a state_dict, of a plain model or of one wrapped in DDP.

#include "base/error.hpp"
#include "trainer/core/safetensors.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

/// A tensor of the model that is to be filled.
struct TensorSpec {
  std::string name;  // "layer1.0.conv1.weight"
  DType dtype = DType::kF32;
  std::vector<std::int64_t> shape;
};

/// What did not fit, by name without "module."; all empty if the file fits exactly.
struct LoadReport {
  std::vector<std::string> missing;     // in the model, not in the file: these keep their values
  std::vector<std::string> unexpected;  // in the file, not in the model
  std::vector<std::string> reshaped;    // of the head, with another shape in the file: also kept

  bool is_complete() const { return missing.empty() && unexpected.empty() && reshaped.empty(); }

  bool operator==(const LoadReport&) const = default;
};

/// One line for a person: "all 122 tensors" or "120 of 122 tensors; of another shape: fc.bias …".
/// Names the first few of each list.
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

/// Matches by name, ignoring a leading "module." of the file's names, which DistributedDataParallel
/// adds. `head` is the layer that yields the scores ("fc"): there another number of classes is only
/// reported, while any other difference in shape is an error. Fails with kInvalidArgument, naming
/// the tensor; also if two tensors have the same name, if a float meets an integer, and if nothing
/// fits at all.
Result<LoadPlan> plan_load(
    const std::vector<TensorSpec>& model,
    const std::vector<TensorView>& file,
    std::string_view head);

}  // namespace ddprun
