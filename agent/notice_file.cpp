#include "agent/notice_file.hpp"

#include "agent/core/notice.hpp"

#include <fmt/format.h>

#include <chrono>
#include <utility>

#include <sys/mman.h>
#include <unistd.h>

namespace ddprun {

NoticeFile::NoticeFile() : file_(::memfd_create("ddprun-notice", MFD_CLOEXEC)) {
  if (file_) path_ = fmt::format("/proc/{}/fd/{}", ::getpid(), file_.get());
}

void NoticeFile::write(int signal, const NoticePlan& plan) {
  if (!file_ || std::exchange(has_written_, true)) return;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  static_cast<void>(write_all(
      file_.get(), notice_json(signal, std::chrono::duration<double>(now).count(), plan)));
}

}  // namespace ddprun
