#pragma once

// Files of torch.save() and torch.load(): a zip archive of a pickle (`data.pkl`) and the bytes of
// each tensor's storage (`data/KEY`), all in one folder. Files of torch before 1.6 are not archives
// and are refused, and so are TorchScript programs.

#include "trainer/core/pickle.hpp"
#include "trainer/core/zip.hpp"

#include <cstddef>
#include <span>
#include <vector>

namespace ddprun {

/// What decode_torch_file accepts at most.
struct TorchFileLimits {
  // Initialised here too, or g++ warns where designated initialisers leave them out.
  ZipLimits zip = {};        // NOLINT(readability-redundant-member-init)
  PickleLimits pickle = {};  // NOLINT(readability-redundant-member-init)
  // Of tensors that lie with gaps or repeats in their storage, and have to be copied. One element
  // may claim to be a tensor of any size.
  std::size_t copied_bytes_max = std::size_t{16} << 30U;
};

/// What a file holds. The tensors in `root` are dense; they point into the bytes that were decoded,
/// where they need not be aligned, or into `copies`, which may be moved but not copied along.
struct TorchFile {
  PyValue root;
  std::vector<std::vector<std::byte>> copies;
};

/// Reads a whole file. Fails with kCorrupt, naming the entry or the place in the pickle, and with
/// kLimit.
Result<TorchFile> decode_torch_file(
    std::span<const std::byte> file, const TorchFileLimits& limits = {});

/// The file for `value`, which torch.load() reads with weights_only, too. The tensors in it are
/// borrowed. REQUIRES: what write_pickle() does.
EncodedZip encode_torch_file(const PyValue& value);

}  // namespace ddprun
