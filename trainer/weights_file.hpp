#pragma once

// Files of weights that are exchanged with Python: safetensors, and those of torch.save().

#include "base/error.hpp"
#include "trainer/core/state_dict.hpp"
#include "trainer/core/torch_file.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace ddprun {

enum class WeightsFormat : std::uint8_t { kSafetensors, kTorch };

/// A file in memory. All results point into it.
class WeightsFile {
 public:
  /// Parses `content`. Fails as read_weights_file() does, without the path.
  static Result<std::unique_ptr<WeightsFile>> decode(std::string content);

  ~WeightsFile() = default;
  WeightsFile(const WeightsFile&) = delete;
  WeightsFile& operator=(const WeightsFile&) = delete;

  WeightsFormat format() const { return format_; }

  /// The model's parameters and buffers, with `module.` removed from their names.
  const StateDict& weights() const { return weights_; }

  /// The optimizer's state, for read_optimizer(); null if the file has none.
  const PyValue* optimizer() const { return find_optimizer(file_.root); }

  /// The content of a torch file; for safetensors a dict of the tensors.
  const PyValue& root() const { return file_.root; }

 private:
  explicit WeightsFile(std::string content) : content_(std::move(content)) {}

  Result<void> read_safetensors();
  Result<void> read_torch();

  std::string content_;
  WeightsFormat format_ = WeightsFormat::kTorch;
  TorchFile file_;
  StateDict weights_;
};

inline constexpr std::size_t kWeightsBytesMax = std::size_t{1} << 40U;

/// Reads a file of weights with any name: its first bytes identify the format. Checks every length,
/// checksum and global in it. Fails with kNotFound, kIo or kLimit, with kCorrupt if it is damaged
/// or has more than values and tensors, with kInvalidArgument if it contains no weights; all name
/// the path.
Result<std::unique_ptr<WeightsFile>> read_weights_file(
    const std::filesystem::path& path, std::size_t bytes_max = kWeightsBytesMax);

/// Writes `value` for torch.load(), in one step: a reader finds the old file or the new one. Fails
/// with kIo or kNotFound, and then leaves nothing behind.
Result<void> write_torch_file(const std::filesystem::path& path, const PyValue& value);

/// The same for safetensors. REQUIRES: as for encode_safetensors().
Result<void> write_safetensors_file(
    const std::filesystem::path& path,
    std::vector<TensorView> tensors,
    const std::map<std::string, std::string>& metadata);

}  // namespace ddprun
