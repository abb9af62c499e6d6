#include "trainer/idx_file.hpp"

#include "base/file.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <memory>
#include <string>
#include <utility>

#include <zlib.h>

namespace ddprun {
namespace {

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
      cut_off ? fmt::format("{}: the gzip data is truncated", name)
              : fmt::format("{}: damaged gzip data ({})", name, why));
}

Result<std::string> inflate(Descriptor file, const std::string& name) {
  constexpr unsigned kChunkBytes = 1U << 20U;
  const Gzip gzip(::gzdopen(file.get(), "rb"));
  if (!gzip) return make_errno_error(ENOMEM, name);
  static_cast<void>(file.release());  // gzclose_r closes it
  ::gzbuffer(gzip.get(), kChunkBytes / 4);

  std::string content;
  for (;;) {
    const std::size_t had = content.size();
    content.resize(had + kChunkBytes);
    const int got = ::gzread(gzip.get(), content.data() + had, kChunkBytes);
    if (got < 0) return damaged(gzip.get(), name);
    content.resize(had + static_cast<std::size_t>(got));
    if (content.size() > kDataFileBytesMax) {
      return make_error(
          Errc::kLimit,
          fmt::format("{}: larger than {} bytes after decompression", name, kDataFileBytesMax));
    }
    if (::gzdirect(gzip.get()) != 0) {
      return make_error(
          Errc::kCorrupt, name + ": not gzip data; the name of a plain file must not end in .gz");
    }
    if (got == 0) break;
  }
  // gzread yields the data before the truncation; only its state shows that more should follow.
  int code = Z_OK;
  ::gzerror(gzip.get(), &code);
  if (code != Z_OK && code != Z_STREAM_END) return damaged(gzip.get(), name);
  content.shrink_to_fit();
  return content;
}

}  // namespace

Result<std::string> read_data_file(const std::filesystem::path& path) {
  if (path.extension() != ".gz") return read_file(path, kDataFileBytesMax);
  auto file = open_regular(path);
  if (!file) return file.error();
  return inflate(*std::move(file), path.string());
}

Result<std::filesystem::path> find_data_file(
    const std::filesystem::path& directory, const std::string& stem) {
  for (const char* ending : {"", ".gz"}) {
    std::filesystem::path path = directory / (stem + ending);
    std::error_code ignored;  // an inaccessible file counts as missing
    if (std::filesystem::exists(path, ignored)) return path;
  }
  return make_error(
      Errc::kNotFound,
      fmt::format("neither '{0}' nor '{0}.gz' in '{1}'", stem, directory.string()));
}

}  // namespace ddprun
