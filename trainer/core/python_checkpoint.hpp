#pragma once

// The checkpoints of public training programs, made of a training state of ours: what each saves
// under which key, and what it calls the file. docs/snapshots.md has the table.

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
  kOpenAcc,         // the OpenACC bootcamp, a file of each rank
  kOpenAccWeights,  // the same, weights alone
  kSnapshot,        // pytorch/examples, the tutorial series on DDP
  kImagenet,        // pytorch/examples, imagenet
};

/// The flag values that name them, in the order above.
std::vector<std::string> checkpoint_style_names();
std::string_view name_of(CheckpointStyle style);
std::optional<CheckpointStyle> checkpoint_style_of(std::string_view name);

/// What is in those files and not in a snapshot.
struct CheckpointFacts {
  std::int64_t finished_epoch = -1;  // the last one, as its records are numbered; -1: none
  std::int64_t samples = 0;          // consumed since the job began, by all ranks
  double loss = 0;                   // of the last epoch
  double best_accuracy = 0;          // in percent
  std::string model;                 // its name
  PyDict group;                      // the optimizer's settings: see optimizer_group()
  PyDict schedule;                   // what state_dict() of the learning rate's schedule gives
};

/// Settings of an optimizer as Python keeps them in a group, all of them, so that load_state_dict()
/// leaves none out: torch's defaults for `kind` (sgd, adam, adamw, adadelta, rmsprop, adagrad),
/// with `settings` in their place. Fails with kInvalidArgument when the kind or a setting is
/// unknown.
Result<PyDict> optimizer_group(std::string_view kind, const PyDict& settings);

/// The kind that keeps such tensors, named PARAMETER.KEY or KEY.PARAMETER: "sgd" if there are none,
/// "adamw" for Adam's too, which has the same.
std::string_view optimizer_kind_of(const std::vector<TensorView>& tensors);

/// "epoch_3.pt", "checkpoint_epoch_3.pt", "model0.pt", ...
std::string checkpoint_file_name(CheckpointStyle style, std::int64_t finished_epoch, int rank);

/// What torch.save() would be given. The tensors point where those of `state` do, so it outlives
/// the value. Fails with kInvalidArgument when there are tensors of the optimizer and the state
/// does not tell the order of its parameters. REQUIRES: at least one rank.
Result<PyValue> checkpoint_value(
    CheckpointStyle style, const SnapshotState& state, const CheckpointFacts& facts);

}  // namespace ddprun
