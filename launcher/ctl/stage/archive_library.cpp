#include "launcher/ctl/stage/archive_library.hpp"

#include "base/format_error.hpp"

#include <string>

#include <dlfcn.h>

namespace ddprun {
namespace {

constexpr const char* kLibrary = "libarchive.so.13";

}  // namespace

Result<ArchiveLibrary> ArchiveLibrary::load() {
  ArchiveLibrary loaded;
  void* const library = ::dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);  // never unloaded
  bool has_all = library != nullptr;
  const auto find = [&]<class Function>(Function*& function, const char* name) {
    if (!has_all) return;
    function = reinterpret_cast<Function*>(::dlsym(library, name));
    has_all = function != nullptr;
  };
  find(loaded.errno_of, "archive_errno");
  find(loaded.error_string, "archive_error_string");
  find(loaded.read_new, "archive_read_new");
  find(loaded.read_free, "archive_read_free");
  find(loaded.read_open_fd, "archive_read_open_fd");
  find(loaded.read_next_header, "archive_read_next_header");
  find(loaded.read_data_block, "archive_read_data_block");
  find(loaded.read_support_filter_bzip2, "archive_read_support_filter_bzip2");
  find(loaded.read_support_filter_gzip, "archive_read_support_filter_gzip");
  find(loaded.read_support_filter_xz, "archive_read_support_filter_xz");
  find(loaded.read_support_filter_zstd, "archive_read_support_filter_zstd");
  find(loaded.read_support_format_tar, "archive_read_support_format_tar");
  find(loaded.read_support_format_zip, "archive_read_support_format_zip");
  find(loaded.write_disk_new, "archive_write_disk_new");
  find(loaded.write_disk_set_options, "archive_write_disk_set_options");
  find(loaded.write_header, "archive_write_header");
  find(loaded.write_data_block, "archive_write_data_block");
  find(loaded.write_finish_entry, "archive_write_finish_entry");
  find(loaded.write_close, "archive_write_close");
  find(loaded.write_free, "archive_write_free");
  find(loaded.entry_filetype, "archive_entry_filetype");
  find(loaded.entry_hardlink, "archive_entry_hardlink");
  find(loaded.entry_pathname, "archive_entry_pathname");
  find(loaded.entry_symlink, "archive_entry_symlink");
  if (has_all) return loaded;
  const char* const why = ::dlerror();
  return format_error(
      Errc::kNotFound,
      "cannot load libarchive: {}; install the package libarchive13",
      why == nullptr ? kLibrary : why);
}

}  // namespace ddprun
