#include "launcher/ctl/stage/unpack.hpp"

#include "base/descriptor.hpp"
#include "base/format_error.hpp"
#include "base/log.hpp"
#include "launcher/ctl/stage/archive_library.hpp"
#include "launcher/ctl/stage/core/staging.hpp"

#include <cerrno>
#include <clocale>
#include <memory>
#include <string>

#include <fcntl.h>
#include <locale.h>
#include <sys/stat.h>
#include <unistd.h>

namespace ddprun {
namespace {

constexpr std::uint64_t kMembersMax = 100'000'000;
constexpr std::uint64_t kMembersPerRemark = 1'000;
constexpr std::size_t kBlockBytes = 1UL << 20U;

/// Changes the working directory to `directory` for its lifetime: libarchive writes to relative
/// paths there, and refuses all others.
class WorkingIn {
 public:
  explicit WorkingIn(int directory)
      : before_(::open(".", O_PATH | O_DIRECTORY | O_CLOEXEC)),
        is_there_(before_ && ::fchdir(directory) == 0) {}
  ~WorkingIn() {
    if (!is_there_) return;
    [[maybe_unused]] const int returned = ::fchdir(before_.get());
  }
  WorkingIn(const WorkingIn&) = delete;
  WorkingIn& operator=(const WorkingIn&) = delete;

  explicit operator bool() const { return is_there_; }

 private:
  Descriptor before_;
  bool is_there_;
};

/// Makes this thread treat names as UTF-8: in "C", the locale of a batch job, libarchive can write
/// only ASCII names.
class NamesInUtf8 {
 public:
  NamesInUtf8() : utf8_(::newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr)) {
    if (utf8_ != nullptr) before_ = ::uselocale(utf8_);
  }
  ~NamesInUtf8() {
    if (utf8_ == nullptr) return;
    ::uselocale(before_);
    ::freelocale(utf8_);
  }
  NamesInUtf8(const NamesInUtf8&) = delete;
  NamesInUtf8& operator=(const NamesInUtf8&) = delete;

 private:
  locale_t utf8_;
  locale_t before_ = nullptr;
};

class Extraction {
 public:
  explicit Extraction(const ArchiveLibrary& library)
      : library_(library),
        reader_(library.read_new(), library.read_free),
        writer_(library.write_disk_new(), library.write_free) {}

  Result<Unpacked> run(int archive) {
    if (!reader_ || !writer_) return make_error(Errc::kIo, "no memory for libarchive");
    library_.read_support_filter_bzip2(reader_.get());
    library_.read_support_filter_gzip(reader_.get());
    library_.read_support_filter_xz(reader_.get());
    library_.read_support_filter_zstd(reader_.get());
    library_.read_support_format_tar(reader_.get());
    library_.read_support_format_zip(reader_.get());
    // Without the members' modes, which may have set-user-id bits: the umask decides.
    library_.write_disk_set_options(
        writer_.get(),
        ARCHIVE_EXTRACT_TIME | ARCHIVE_EXTRACT_SECURE_SYMLINKS | ARCHIVE_EXTRACT_SECURE_NODOTDOT |
            ARCHIVE_EXTRACT_SECURE_NOABSOLUTEPATHS);
    if (library_.read_open_fd(reader_.get(), archive, kBlockBytes) != ARCHIVE_OK) return damaged();
    for (;;) {
      archive_entry* entry = nullptr;
      const int got = library_.read_next_header(reader_.get(), &entry);
      if (got == ARCHIVE_EOF) break;
      if (got != ARCHIVE_OK) return damaged();
      const auto taken = take(entry);
      if (!taken) return taken.error();
    }
    // Directories get their times only now.
    if (library_.write_close(writer_.get()) < ARCHIVE_WARN) return not_written("the last member");
    return unpacked_;
  }

 private:
  ArchiveEntry described(archive_entry* entry) const {
    const auto text = [](const char* found) { return std::string(found == nullptr ? "" : found); };
    ArchiveEntry known{
        .kind = EntryKind::kOther, .path = text(library_.entry_pathname(entry)), .target = {}};
    if (const char* const target = library_.entry_hardlink(entry)) {
      known.kind = EntryKind::kHardlink;
      known.target = target;
      return known;
    }
    switch (library_.entry_filetype(entry)) {
      case S_IFREG:
        known.kind = EntryKind::kFile;
        break;
      case S_IFDIR:
        known.kind = EntryKind::kDirectory;
        break;
      case S_IFLNK:
        known.kind = EntryKind::kSymlink;
        known.target = text(library_.entry_symlink(entry));
        break;
      default:
        break;
    }
    return known;
  }

  Result<void> take(archive_entry* entry) {
    const ArchiveEntry known = described(entry);
    if (const auto fits = check_entry(known); !fits) return fits;
    if (++unpacked_.files > kMembersMax) {
      return format_error(Errc::kLimit, "more than {} members", kMembersMax);
    }
    if (unpacked_.files % kMembersPerRemark == 0) {
      spdlog::info(
          "{} files so far, {} bytes; next {}", unpacked_.files, unpacked_.bytes, known.path);
    }
    if (library_.write_header(writer_.get(), entry) != ARCHIVE_OK) return not_written(known.path);
    if (known.kind == EntryKind::kFile) {
      if (const auto copied = copy(known.path); !copied) return copied;
    }
    // A warning means a time that the file system cannot store.
    if (library_.write_finish_entry(writer_.get()) < ARCHIVE_WARN) return not_written(known.path);
    return {};
  }

  Result<void> copy(const std::string& path) {
    for (;;) {
      const void* block = nullptr;
      std::size_t size = 0;
      la_int64_t offset = 0;
      const int got = library_.read_data_block(reader_.get(), &block, &size, &offset);
      if (got == ARCHIVE_EOF) return {};
      if (got != ARCHIVE_OK) return damaged();
      const auto written = library_.write_data_block(writer_.get(), block, size, offset);
      if (written < ARCHIVE_OK) return not_written(path);
      unpacked_.bytes += size;
    }
  }

  std::string said(archive* which) const {
    const char* const text = library_.error_string(which);
    return text == nullptr ? "unknown format" : text;
  }

  Error damaged() const {
    return format_error(
        Errc::kCorrupt, "{}; check that it is a complete tar or zip archive", said(reader_.get()));
  }

  Error not_written(const std::string& path) const {
    const int error = library_.errno_of(writer_.get());
    if (error == ENOSPC || error == EDQUOT) {
      return with_context(
          "disk full; free some space, or give a DEST on another disk",
          make_errno_error(error, path));
    }
    return format_error(Errc::kIo, "{:.200}: {}", path, said(writer_.get()));
  }

  using Handle = std::unique_ptr<archive, decltype(&::archive_read_free)>;

  const ArchiveLibrary& library_;
  Handle reader_;
  Handle writer_;
  Unpacked unpacked_;
};

}  // namespace

Result<Unpacked> unpack(int archive, int directory) {
  const auto library = ArchiveLibrary::load();
  if (!library) return library.error();
  const NamesInUtf8 names;
  const WorkingIn there(directory);
  if (!there) return make_errno_error(errno, "the directory to extract into");
  return Extraction(*library).run(archive);
}

}  // namespace ddprun
