#pragma once

// libarchive, loaded only for extraction: ddpctl starts without it and without the dozen libraries
// that it needs, even if it is not installed.

#include "base/error.hpp"

#include <archive.h>
#include <archive_entry.h>

namespace ddprun {

/// The functions that we call, under their own names without "archive_".
struct ArchiveLibrary {
  /// Fails with kNotFound and the name of the package.
  static Result<ArchiveLibrary> load();

  decltype(&::archive_errno) errno_of = nullptr;
  decltype(&::archive_error_string) error_string = nullptr;

  decltype(&::archive_read_new) read_new = nullptr;
  decltype(&::archive_read_free) read_free = nullptr;
  decltype(&::archive_read_open_fd) read_open_fd = nullptr;
  decltype(&::archive_read_next_header) read_next_header = nullptr;
  decltype(&::archive_read_data_block) read_data_block = nullptr;
  decltype(&::archive_read_support_filter_bzip2) read_support_filter_bzip2 = nullptr;
  decltype(&::archive_read_support_filter_gzip) read_support_filter_gzip = nullptr;
  decltype(&::archive_read_support_filter_xz) read_support_filter_xz = nullptr;
  decltype(&::archive_read_support_filter_zstd) read_support_filter_zstd = nullptr;
  decltype(&::archive_read_support_format_tar) read_support_format_tar = nullptr;
  decltype(&::archive_read_support_format_zip) read_support_format_zip = nullptr;

  decltype(&::archive_write_disk_new) write_disk_new = nullptr;
  decltype(&::archive_write_disk_set_options) write_disk_set_options = nullptr;
  decltype(&::archive_write_header) write_header = nullptr;
  decltype(&::archive_write_data_block) write_data_block = nullptr;
  decltype(&::archive_write_finish_entry) write_finish_entry = nullptr;
  decltype(&::archive_write_close) write_close = nullptr;
  decltype(&::archive_write_free) write_free = nullptr;

  decltype(&::archive_entry_filetype) entry_filetype = nullptr;
  decltype(&::archive_entry_hardlink) entry_hardlink = nullptr;
  decltype(&::archive_entry_pathname) entry_pathname = nullptr;
  decltype(&::archive_entry_symlink) entry_symlink = nullptr;
};

}  // namespace ddprun
