#pragma once

#include "base/log.hpp"
#include "base/standard_streams.hpp"

#include <array>
#include <cstddef>
#include <utility>

namespace ddprun {

/// As report(), without memory from the heap or a lock, and past log_to(): straight to stderr. What
/// does not fit into 1,023 bytes is cut off.
template <class... Args>
void report_in_place(fmt::format_string<Args...> format, Args&&... args) {
  std::array<char, 1024> line{};
  const char* const last = line.data() + line.size() - 1;  // for the end of the line
  char* end = line.data();
  const auto room = [&] { return static_cast<std::size_t>(last - end); };
  end = fmt::format_to_n(end, room(), "{}: ", spdlog::default_logger_raw()->name()).out;
  end = fmt::format_to_n(end, room(), format, std::forward<Args>(args)...).out;
  *end++ = '\n';
  write_stderr({line.data(), static_cast<std::size_t>(end - line.data())});
}

}  // namespace ddprun
