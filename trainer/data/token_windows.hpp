#pragma once

#include "base/error.hpp"

#include <torch/torch.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace ddprun {

/// Text as the numbers of its tokens, for a language model of one's own: a file that holds nothing
/// but unsigned little-endian numbers, as nanoGPT's prepare.py and numpy's tofile() write it. The
/// file is mapped, and read where a window needs it; the kernel keeps what fits in memory.
///
/// Window i has the tokens i·length to (i+1)·length - 1, and for targets those one place further:
/// no token is given twice, and what is left at the end is left out.
class TokenWindows {
 public:
  /// How wide a number is.
  enum class Width : std::uint8_t { kUint16 = 2, kUint32 = 4 };  // bytes

  struct Options {
    std::int64_t length = 1024;    // of a window, tokens, >= 1
    Width width = Width::kUint16;  // enough for GPT-2's vocabulary
    // Tokens are smaller than this; none: unchecked. Initialised here too, or g++ warns where
    // designated initialisers leave it out.
    std::optional<std::int64_t> vocabulary = {};  // NOLINT(readability-redundant-member-init)
  };

  /// What a language model takes and what it is to say, both (windows, length) int64.
  struct Batch {
    torch::Tensor inputs;
    torch::Tensor targets;
  };

  /// Fails with kNotFound or kIo where there is no such file, and with kCorrupt where it is no
  /// whole number of tokens, or has fewer than one window and its last target.
  static Result<TokenWindows> open(const std::string& path, const Options& options);

  /// How many windows there are, >= 1: what epoch_order() is given.
  std::int64_t size() const { return (tokens_.size(0) - 1) / options_.length; }

  /// These windows, in this order. Fails with kCorrupt, naming file, place and token, where one is
  /// not of the vocabulary. REQUIRES: each lies in 0..size()-1.
  Result<Batch> read(std::span<const std::int64_t> windows) const;

 private:
  TokenWindows(std::string path, const Options& options, torch::Tensor tokens)
      : path_(std::move(path)), options_(options), tokens_(std::move(tokens)) {}

  std::string path_;
  Options options_;
  torch::Tensor tokens_;  // (tokens) of the file's width, mapped
};

}  // namespace ddprun
