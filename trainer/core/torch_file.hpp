#pragma once

// Files of torch.save() and torch.load(): a zip archive of a pickle (`data.pkl`) and the bytes of
// each tensor's storage (`data/KEY`), all in one folder. Files of torch before 1.6 are not archives
// and are refused, as are TorchScript programs.

#include "trainer/core/pickle.hpp"
#include "trainer/core/zip.hpp"

#include <cstddef>
#include <span>
#include <vector>

namespace ddprun {

/// The limits of decode_torch_file().
struct TorchFileLimits {
  // Initialised here too: otherwise g++ warns if designated initialisers leave them out.
  ZipLimits zip = {};        // NOLINT(readability-redundant-member-init)
  PickleLimits pickle = {};  // NOLINT(readability-redundant-member-init)
  // For tensors with gaps or repeats in their storage, which must be copied. One element may claim
  // to be a tensor of any size.
  std::size_t copied_bytes_max = std::size_t{16} << 30U;
};

/// The content of a file. The tensors in `root` are dense; they point into the decoded bytes,
/// possibly unaligned, or into `copies`. So this may be moved, but not copied.
struct TorchFile {
  PyValue root;
  std::vector<std::vector<std::byte>> copies;
};

/// Reads a whole file. Fails with kCorrupt, naming the entry or the position in the pickle, and
/// with kLimit.
Result<TorchFile> decode_torch_file(
    std::span<const std::byte> file, const TorchFileLimits& limits = {});

/// The file for `value`, which torch.load() can read, also with weights_only. The tensors in it are
/// borrowed. REQUIRES: as for write_pickle().
EncodedZip encode_torch_file(const PyValue& value);

}  // namespace ddprun
