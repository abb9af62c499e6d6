#pragma once

// The checkpoints of public training programs, made from our training state: what each saves under
// which key, and the name of its file. docs/snapshots.md has the table.

#include "trainer/core/python_value.hpp"
#include "trainer/core/snapshot.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

enum class CheckpointStyle : std::uint8_t {
  kDdprun,          // model, optimizer, epoch, step
  kMila,            // the Mila cluster's ImageNet example
  kMilaCifar,       // its CIFAR-10 examples
  kCrusoe,          // Crusoe's torchrun on Slurm
  kOpenAcc,         // the OpenACC bootcamp, one file per rank
  kOpenAccWeights,  // the same, only weights
  kSnapshot,        // pytorch/examples, the tutorial series on DDP
  kImagenet,        // pytorch/examples, imagenet
};

/// The flag values that name them, in the order above.
std::vector<std::string> checkpoint_style_names();
std::string_view name_of(CheckpointStyle style);
std::optional<CheckpointStyle> checkpoint_style_of(std::string_view name);

/// Content of those files that a snapshot does not have.
struct CheckpointFacts {
  std::int64_t finished_epoch = -1;  // the last one, as its records are numbered; -1: none
  std::int64_t samples = 0;          // consumed since the start of the job, by all ranks
  double loss = 0;                   // of the last epoch
  double best_accuracy = 0;          // in percent
  std::string model;                 // its name
  PyDict group;                      // the optimizer's settings: see optimizer_group()
  PyDict schedule;                   // the state_dict() of the learning rate schedule
};

/// All settings of an optimizer in the form of a Python parameter group, so that load_state_dict()
/// misses none: torch's defaults for `kind` (sgd, adam, adamw, adadelta, rmsprop, adagrad),
/// replaced by `settings` where given. Fails with kInvalidArgument if the kind or a setting is
/// unknown.
Result<PyDict> optimizer_group(std::string_view kind, const PyDict& settings);

/// The kind that has such tensors, named PARAMETER.KEY or KEY.PARAMETER: "sgd" without tensors,
/// "adamw" also for Adam, which has the same tensors.
std::string_view optimizer_kind_of(const std::vector<TensorView>& tensors);

/// "epoch_3.pt", "checkpoint_epoch_3.pt", "model0.pt", ...
std::string checkpoint_file_name(CheckpointStyle style, std::int64_t finished_epoch, int rank);

/// The value to give to torch.save(). Its tensors point to the data of `state`, which must outlive
/// it. Fails with kInvalidArgument if there are tensors of the optimizer but `state` has no order
/// of its parameters. REQUIRES: at least one rank.
Result<PyValue> checkpoint_value(
    CheckpointStyle style, const SnapshotState& state, const CheckpointFacts& facts);

}  // namespace ddprun
