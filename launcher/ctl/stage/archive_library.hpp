#pragma once

// libarchive, loaded only for extraction: ddpctl starts without it and without the dozen libraries
// that it needs, even if it is not installed.

#include "base/error.hpp"

#include <archive.h>
#include <archive_entry.h>

namespace ddprun {

/// The functions that we call, under their own names without "archive_".
class ArchiveLibrary {
  /// An address in the library, as whatever the caller takes it for.
  struct Symbol {
    void* address;
    template <class Function>
    operator Function*() const {  // NOLINT(google-explicit-constructor)
      return reinterpret_cast<Function*>(address);
    }
  };

  ArchiveLibrary();
  Symbol function(const char* name);

  // Before the functions, which are looked up in it.
  void* library_;  // never unloaded
  bool has_all_;

 public:
  /// Fails with kNotFound and the name of the package.
  static Result<ArchiveLibrary> load();

  decltype(&::archive_errno) errno_of = function("archive_errno");
  decltype(&::archive_error_string) error_string = function("archive_error_string");

  decltype(&::archive_read_new) read_new = function("archive_read_new");
  decltype(&::archive_read_free) read_free = function("archive_read_free");
  decltype(&::archive_read_open_fd) read_open_fd = function("archive_read_open_fd");
  decltype(&::archive_read_next_header) read_next_header = function("archive_read_next_header");
  decltype(&::archive_read_data_block) read_data_block = function("archive_read_data_block");
  decltype(&::archive_read_support_filter_bzip2) read_support_filter_bzip2 =
      function("archive_read_support_filter_bzip2");
  decltype(&::archive_read_support_filter_gzip) read_support_filter_gzip =
      function("archive_read_support_filter_gzip");
  decltype(&::archive_read_support_filter_xz) read_support_filter_xz =
      function("archive_read_support_filter_xz");
  decltype(&::archive_read_support_filter_zstd) read_support_filter_zstd =
      function("archive_read_support_filter_zstd");
  decltype(&::archive_read_support_format_tar) read_support_format_tar =
      function("archive_read_support_format_tar");
  decltype(&::archive_read_support_format_zip) read_support_format_zip =
      function("archive_read_support_format_zip");

  decltype(&::archive_write_disk_new) write_disk_new = function("archive_write_disk_new");
  decltype(&::archive_write_disk_set_options) write_disk_set_options =
      function("archive_write_disk_set_options");
  decltype(&::archive_write_header) write_header = function("archive_write_header");
  decltype(&::archive_write_data_block) write_data_block = function("archive_write_data_block");
  decltype(&::archive_write_finish_entry) write_finish_entry =
      function("archive_write_finish_entry");
  decltype(&::archive_write_close) write_close = function("archive_write_close");
  decltype(&::archive_write_free) write_free = function("archive_write_free");

  decltype(&::archive_entry_filetype) entry_filetype = function("archive_entry_filetype");
  decltype(&::archive_entry_hardlink) entry_hardlink = function("archive_entry_hardlink");
  decltype(&::archive_entry_pathname) entry_pathname = function("archive_entry_pathname");
  decltype(&::archive_entry_symlink) entry_symlink = function("archive_entry_symlink");
};

}  // namespace ddprun
