#pragma once

#include "base/error.hpp"

#include <torch/torch.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace ddprun {

/// Text as token numbers, for a custom language model: a file that contains only unsigned
/// little-endian numbers, as nanoGPT's prepare.py and numpy's tofile() write it. The file is
/// mapped, and read when a window needs it; the kernel caches what fits in memory.
///
/// Window i has the tokens i·length to (i+1)·length - 1, and its targets are shifted by one: no
/// token occurs twice, and the remainder at the end is not used.
class TokenWindows {
 public:
  /// The width of a number.
  enum class Width : std::uint8_t { kUint16 = 2, kUint32 = 4 };  // bytes

  struct Options {
    std::int64_t length = 1024;    // of a window, tokens, >= 1
    Width width = Width::kUint16;  // enough for GPT-2's vocabulary
    // Tokens are smaller than this; none: unchecked. Initialised here too: otherwise g++ warns if
    // designated initialisers leave it out.
    std::optional<std::int64_t> vocabulary = {};  // NOLINT(readability-redundant-member-init)
  };

  /// The input and the expected output of a language model, both (windows, length) int64.
  struct Batch {
    torch::Tensor inputs;
    torch::Tensor targets;
  };

  /// Fails with kNotFound or kIo if there is no such file, and with kCorrupt if it is not a whole
  /// number of tokens, or is shorter than one window and its last target.
  static Result<TokenWindows> open(const std::string& path, const Options& options);

  /// The number of windows, >= 1: the argument for epoch_order().
  std::int64_t size() const { return (tokens_.size(0) - 1) / options_.length; }

  /// These windows, in this order. Fails with kCorrupt, naming file, position and token, if a token
  /// is not in the vocabulary. REQUIRES: each window is in 0..size()-1.
  Result<Batch> read(std::span<const std::int64_t> windows) const;

 private:
  TokenWindows(std::string path, const Options& options, torch::Tensor tokens)
      : path_(std::move(path)), options_(options), tokens_(std::move(tokens)) {}

  std::string path_;
  Options options_;
  torch::Tensor tokens_;  // (tokens) with the width of the file, mapped
};

}  // namespace ddprun
