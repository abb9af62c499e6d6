#include "trainer/core/torch_file.hpp"

#include "trainer/core/corrupt.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <string>

namespace ddprun {
namespace {

constexpr std::string_view kFolder = "archive/";
constexpr std::string_view kPickle = "data.pkl";
constexpr std::string_view kStorages = "data/";

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};  // NOLINT
}

/// The number of elements of the storage that a tensor spans from its offset; none if that does not
/// fit in 63 bits. REQUIRES: no length is 0.
std::optional<std::int64_t> reach_of(const StoredTensor& tensor) {
  std::int64_t last = 0;
  for (std::size_t i = 0; i < tensor.shape.size(); ++i) {
    std::int64_t steps = 0;
    const bool too_far = __builtin_mul_overflow(tensor.shape[i] - 1, tensor.strides[i], &steps) ||
                         __builtin_add_overflow(last, steps, &last);
    if (too_far) return std::nullopt;
  }
  return last + 1;
}

bool is_dense(const StoredTensor& tensor) {
  const auto dense = dense_strides(tensor.shape);
  for (std::size_t i = 0; i < dense.size(); ++i) {
    if (tensor.shape[i] != 1 && tensor.strides[i] != dense[i]) return false;
  }
  return true;
}

/// The elements in row-major order. REQUIRES: all of them are within `storage`, `to` has room.
void gather(
    const StoredTensor& tensor, std::span<const std::byte> storage, std::span<std::byte> to) {
  const std::size_t unit = size_of(tensor.dtype);
  std::vector<std::int64_t> index(tensor.shape.size());
  std::int64_t from = tensor.offset;
  for (std::size_t place = 0; place < to.size(); place += unit) {
    std::memcpy(to.data() + place, storage.data() + static_cast<std::size_t>(from) * unit, unit);
    for (std::size_t i = index.size(); i-- > 0;) {
      from += tensor.strides[i];
      if (++index[i] < tensor.shape[i]) break;
      from -= tensor.strides[i] * tensor.shape[i];
      index[i] = 0;
    }
  }
}

/// Finds the bytes of tensors in an archive.
class Storages {
 public:
  explicit Storages(const TorchFileLimits& limits) : limits_(limits) {}

  void add(std::string_view key, std::span<const std::byte> bytes) { bytes_.emplace(key, bytes); }

  Result<TensorView> find(const StoredTensor& tensor) {
    const auto found = bytes_.find(tensor.storage);
    if (found == bytes_.end()) return bad(tensor, "is not in the file");
    const std::span<const std::byte> storage = found->second;
    if (storage.size() != tensor.storage_bytes) {
      return bad(
          tensor, fmt::format("has {} bytes, expected {}", storage.size(), tensor.storage_bytes));
    }
    const auto size = size_of_tensor(tensor.dtype, tensor.shape);
    if (!size) return bad(tensor, "has a tensor of an impossible size");
    TensorView view{.name = {}, .dtype = tensor.dtype, .shape = tensor.shape, .bytes = {}};
    if (*size == 0) return view;

    const auto elements = static_cast<std::int64_t>(storage.size() / size_of(tensor.dtype));
    const auto reach = reach_of(tensor);
    if (!reach || tensor.offset > elements || *reach > elements - tensor.offset) {
      return bad(tensor, "is smaller than a tensor in it");
    }
    if (is_dense(tensor)) {
      const auto offset = static_cast<std::size_t>(tensor.offset) * size_of(tensor.dtype);
      view.bytes = storage.subspan(offset, *size);
      return view;
    }
    if (*size > limits_.copied_bytes_max - copied_) {
      return make_error(
          Errc::kLimit,
          fmt::format(
              "tensors with strides of more than {} bytes in total", limits_.copied_bytes_max));
    }
    copied_ += *size;
    gather(tensor, storage, copies_.emplace_back(*size));
    view.bytes = copies_.back();
    return view;
  }

  std::vector<std::vector<std::byte>> take_copies() { return std::move(copies_); }

 private:
  static Error bad(const StoredTensor& tensor, std::string_view why) {
    return corrupt(fmt::format("storage '{}' {}", tensor.storage, why));
  }

  const TorchFileLimits& limits_;
  std::map<std::string_view, std::span<const std::byte>> bytes_;
  std::vector<std::vector<std::byte>> copies_;
  std::size_t copied_ = 0;
};

/// The folder that contains all entries, with its slash. Fails if no folder has a pickle.
Result<std::string_view> folder_of(const std::vector<ZipEntry>& entries) {
  for (const ZipEntry& entry : entries) {
    const std::size_t slash = entry.name.find('/');
    if (slash == std::string_view::npos || entry.name.substr(slash + 1) != kPickle) continue;
    return entry.name.substr(0, slash + 1);
  }
  return corrupt("no data.pkl in a folder; it is a zip archive, but not from torch.save()");
}

}  // namespace

Result<TorchFile> decode_torch_file(
    std::span<const std::byte> file, const TorchFileLimits& limits) {
  const auto entries = decode_zip(file, limits.zip);
  if (!entries) return entries.error();
  const auto folder = folder_of(*entries);
  if (!folder) return folder.error();

  Storages storages(limits);
  std::string_view pickle;
  bool has_version = false;
  for (const ZipEntry& entry : *entries) {
    if (!entry.name.starts_with(*folder)) continue;  // torch ignores everything else, too
    const std::string_view name = entry.name.substr(folder->size());
    if (name == kPickle) pickle = text_of(entry.bytes);
    has_version = has_version || name == "version";
    if (name.starts_with(kStorages)) storages.add(name.substr(kStorages.size()), entry.bytes);
    if (name == "byteorder" && text_of(entry.bytes) != "little") {
      return corrupt("byteorder: its numbers are not little-endian");
    }
    if (name == "constants.pkl") {
      return corrupt("it is a TorchScript program; save its state_dict() with torch.save()");
    }
  }
  if (!has_version) return corrupt("no version beside data.pkl; it is not from torch.save()");
  const TensorSource source = [&](const StoredTensor& tensor) { return storages.find(tensor); };
  auto root = read_pickle(pickle, source, limits.pickle);
  if (!root) return root.error();
  return TorchFile{.root = *std::move(root), .copies = storages.take_copies()};
}

EncodedZip encode_torch_file(const PyValue& value) {
  WrittenPickle pickle = write_pickle(value);
  std::vector<ZipContent> contents;
  const auto add = [&](std::string_view name, std::string text, std::span<const std::byte> bytes) {
    contents.push_back(
        {.name = fmt::format("{}{}", kFolder, name), .text = std::move(text), .bytes = bytes});
  };
  add(kPickle, std::move(pickle.text), {});
  add(".format_version", "1", {});
  add(".storage_alignment", std::to_string(kZipAlignment), {});
  add("byteorder", "little", {});
  for (std::size_t i = 0; i < pickle.storages.size(); ++i) {
    add(fmt::format("{}{}", kStorages, i), "", pickle.storages[i]);
  }
  add("version", "3\n", {});
  return encode_zip(contents);
}

}  // namespace ddprun
