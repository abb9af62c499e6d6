#include "trainer/idx_file.hpp"

#include "base/file.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include <sys/mman.h>
#include <sys/stat.h>
#include <zlib.h>

namespace ddprun {
namespace {

class MappedFile final : public FileBytes {
 public:
  MappedFile(void* address, std::size_t size) : address_(address), size_(size) {}
  ~MappedFile() override {
    if (address_ != nullptr) ::munmap(address_, size_);
  }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const override {
    return {static_cast<const std::byte*>(address_), size_};
  }

 private:
  void* address_;  // nullptr for an empty file, which mmap refuses
  std::size_t size_;
};

class InflatedFile final : public FileBytes {
 public:
  explicit InflatedFile(std::vector<std::byte> content) : content_(std::move(content)) {}
  std::span<const std::byte> bytes() const override { return content_; }

 private:
  std::vector<std::byte> content_;
};

Error too_large(const std::string& name) {
  return make_error(
      Errc::kLimit, fmt::format("{}: more than {} bytes", name, FileBytes::kBytesMax));
}

Result<std::unique_ptr<FileBytes>> map(const Descriptor& file, const std::string& name) {
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) return make_errno_error(errno, name);
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size > FileBytes::kBytesMax) return too_large(name);
  if (size == 0) return {std::make_unique<MappedFile>(nullptr, 0)};
  void* const address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (address == MAP_FAILED) return make_errno_error(errno, name);
  return {std::make_unique<MappedFile>(address, size)};
}

struct CloseGzip {
  void operator()(gzFile file) const { ::gzclose_r(file); }
};
using Gzip = std::unique_ptr<gzFile_s, CloseGzip>;

Error damaged(gzFile file, const std::string& name) {
  int code = Z_OK;
  const char* const why = ::gzerror(file, &code);
  if (code == Z_ERRNO) return make_errno_error(errno, name);
  const bool cut_off = code == Z_OK || code == Z_BUF_ERROR;
  return make_error(
      Errc::kCorrupt,
      cut_off ? fmt::format("{}: the gzip data is cut off", name)
              : fmt::format("{}: damaged gzip data ({})", name, why));
}

Result<std::unique_ptr<FileBytes>> inflate(Descriptor file, const std::string& name) {
  constexpr unsigned kChunkBytes = 1U << 20U;
  const Gzip gzip(::gzdopen(file.get(), "rb"));
  if (!gzip) return make_errno_error(ENOMEM, name);
  static_cast<void>(file.release());  // gzclose_r closes it
  ::gzbuffer(gzip.get(), kChunkBytes / 4);

  std::vector<std::byte> content;
  for (;;) {
    const std::size_t had = content.size();
    content.resize(had + kChunkBytes);
    const int got = ::gzread(gzip.get(), content.data() + had, kChunkBytes);
    if (got < 0) return damaged(gzip.get(), name);
    content.resize(had + static_cast<std::size_t>(got));
    if (content.size() > FileBytes::kBytesMax) return too_large(name);
    if (::gzdirect(gzip.get()) != 0) {
      return make_error(Errc::kCorrupt, name + ": no gzip data; a plain file must not end in .gz");
    }
    if (got == 0) break;
  }
  // gzread gives what there is before the cut; only the state tells that more was announced.
  int code = Z_OK;
  ::gzerror(gzip.get(), &code);
  if (code != Z_OK && code != Z_STREAM_END) return damaged(gzip.get(), name);
  content.shrink_to_fit();
  return {std::make_unique<InflatedFile>(std::move(content))};
}

}  // namespace

Result<std::unique_ptr<FileBytes>> FileBytes::open(const std::filesystem::path& path) {
  auto file = open_regular(path);
  if (!file) return file.error();
  if (path.extension() == ".gz") return inflate(*std::move(file), path.string());
  return map(*file, path.string());
}

Result<std::filesystem::path> find_data_file(
    const std::filesystem::path& directory, const std::string& stem) {
  for (const char* ending : {"", ".gz"}) {
    std::filesystem::path path = directory / (stem + ending);
    std::error_code ignored;  // what cannot be looked at is not there
    if (std::filesystem::exists(path, ignored)) return path;
  }
  return make_error(
      Errc::kNotFound,
      fmt::format("neither '{0}' nor '{0}.gz' in '{1}'", stem, directory.string()));
}

}  // namespace ddprun
