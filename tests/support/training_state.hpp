#pragma once

// A realistic training state that is determined by its step, so that a reader can detect every
// wrong byte.

#include "trainer/core/snapshot.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <vector>

namespace ddprun {

/// The state after `step` steps, with about `bytes` of tensors. Owns the data of state().
class TrainingState {
 public:
  TrainingState(std::int64_t step, std::size_t bytes) : step_(step) {
    const auto elements = static_cast<std::int64_t>(bytes / sizeof(float) / 4);
    add(state_.model, "conv.weight", DType::kF32, {elements});
    add(state_.model, "batches_tracked", DType::kI64, {});
    add(state_.model, "fc.weight", DType::kF32, {2, elements / 2});
    add(state_.optimizer, "conv.weight.momentum", DType::kF32, {elements});
    add(state_.optimizer, "fc.weight.momentum", DType::kF32, {2, elements / 2});
    state_.parameters = {"fc.weight", "conv.weight"};
    state_.step = step;
    state_.epoch = step / 10;
    state_.batches = step % 10;
    state_.consumed = step % 10 * 128;
    state_.arguments = {{"model", "conv-net"}, {"seed", "0"}};
    for (int rank = 0; rank < 2; ++rank) {
      state_.ranks.push_back({.rng = noise(5056), .sums = {{"loss", 0.1 * double(step) + rank}}});
    }
  }
  ~TrainingState() = default;
  TrainingState(const TrainingState&) = delete;
  TrainingState& operator=(const TrainingState&) = delete;

  const SnapshotState& state() const { return state_; }

  /// Whether `other` equals this state to the last byte, in any order of its tensors.
  bool equals(const SnapshotState& other) const {
    return state_.step == other.step && state_.epoch == other.epoch &&
           state_.batches == other.batches && state_.consumed == other.consumed &&
           state_.arguments == other.arguments && state_.ranks == other.ranks &&
           state_.parameters == other.parameters && by_name(state_.model) == by_name(other.model) &&
           by_name(state_.optimizer) == by_name(other.optimizer);
  }

 private:
  struct Content {
    DType dtype;
    std::vector<std::int64_t> shape;
    std::vector<std::byte> bytes;
    bool operator==(const Content&) const = default;
  };

  static std::map<std::string, Content> by_name(const std::vector<TensorView>& tensors) {
    std::map<std::string, Content> contents;
    for (const TensorView& tensor : tensors) {
      contents.emplace(
          tensor.name,
          Content{
              .dtype = tensor.dtype,
              .shape = tensor.shape,
              .bytes = {tensor.bytes.begin(), tensor.bytes.end()}});
    }
    return contents;
  }

  /// Bytes that differ with the step and from call to call (the generator of SplitMix64).
  std::vector<std::byte> noise(std::size_t size) {
    std::vector<std::byte> bytes(size);
    std::uint64_t seed = static_cast<std::uint64_t>(step_) << 32U | ++calls_;
    for (std::size_t place = 0; place < size; place += sizeof seed) {
      seed += 0x9e3779b97f4a7c15U;
      std::uint64_t mixed = (seed ^ (seed >> 30U)) * 0xbf58476d1ce4e5b9U;
      mixed = (mixed ^ (mixed >> 27U)) * 0x94d049bb133111ebU;
      std::memcpy(bytes.data() + place, &mixed, std::min(sizeof mixed, size - place));
    }
    return bytes;
  }

  void add(
      std::vector<TensorView>& to,
      const char* name,
      DType dtype,
      const std::vector<std::int64_t>& shape) {
    std::size_t size = size_of(dtype);
    for (const std::int64_t length : shape) {
      size *= static_cast<std::size_t>(length);
    }
    buffers_.push_back(noise(size));
    to.push_back({.name = name, .dtype = dtype, .shape = shape, .bytes = buffers_.back()});
  }

  std::int64_t step_;
  std::uint64_t calls_ = 0;
  std::vector<std::vector<std::byte>> buffers_;  // moving one keeps its bytes in place
  SnapshotState state_;
};

}  // namespace ddprun
