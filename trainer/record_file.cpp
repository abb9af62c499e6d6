#include "trainer/record_file.hpp"

#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

namespace ddprun {

RecordFile::RecordFile(Descriptor file, std::string path)
    : file_(std::move(file)), path_(std::move(path)) {}

Result<RecordFile> RecordFile::open(const std::string& path) {
  constexpr mode_t kMode = 0644;
  Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, kMode));
  if (!file) {
    Error error = make_errno_error(errno, path);
    error.detail += "; give a file that this user may write, in a directory that exists";
    return error;
  }
  return RecordFile(std::move(file), path);
}

Result<void> RecordFile::write(std::string_view record) {
  if (!file_) return {};
  if (!write_all(file_.get(), record)) return make_errno_error(errno, path_);
  return {};
}

}  // namespace ddprun
