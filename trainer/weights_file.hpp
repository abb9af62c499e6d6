#pragma once

// Files of weights that are exchanged with Python: safetensors, and what torch.save() writes.

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

/// A file in memory. What it hands out points into it.
class WeightsFile {
 public:
  /// Reads what lies in `content`. Fails as read_weights_file() does, without the path.
  static Result<std::unique_ptr<WeightsFile>> decode(std::string content);

  ~WeightsFile() = default;
  WeightsFile(const WeightsFile&) = delete;
  WeightsFile& operator=(const WeightsFile&) = delete;

  WeightsFormat format() const { return format_; }

  /// The model's parameters and buffers, `module.` taken away from their names.
  const StateDict& weights() const { return weights_; }

  /// The optimizer's state, for read_optimizer(); null when the file has none.
  const PyValue* optimizer() const { return find_optimizer(file_.root); }

  /// All of a file of torch's; a dict of the tensors for the other format.
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

/// Reads a file of weights, whatever its name: its first bytes tell the format. Every length,
/// checksum and global in it is checked. Fails with kNotFound, kIo or kLimit, with kCorrupt when it
/// is damaged or wants more than values and tensors, with kInvalidArgument when no weights are in
/// it; all name the path.
Result<std::unique_ptr<WeightsFile>> read_weights_file(
    const std::filesystem::path& path, std::size_t bytes_max = kWeightsBytesMax);

/// Writes `value` for torch.load(), in one step: whoever looks finds the old file or the new one.
/// Fails with kIo or kNotFound, and leaves nothing behind then.
Result<void> write_torch_file(const std::filesystem::path& path, const PyValue& value);

/// The same for safetensors. REQUIRES: what encode_safetensors() does.
Result<void> write_safetensors_file(
    const std::filesystem::path& path,
    std::vector<TensorView> tensors,
    const std::map<std::string, std::string>& metadata);

}  // namespace ddprun
