#include "base/check.hpp"

#include "base/exit_status.hpp"
#include "base/standard_streams.hpp"

#include <array>
#include <cstdio>

#include <unistd.h>

namespace ddprun {

void check_failed(const char* claim, const char* file, int line) noexcept {
  std::array<char, 1024> text{};
  std::snprintf(
      text.data(),
      text.size(),
      "ddprun: internal error, please report it: %s does not hold (%s:%d)\n",
      claim,
      file,
      line);
  write_stderr(text.data());  // this thread may hold the log's lock
  ::_exit(kExitDefect);
}

}  // namespace ddprun
