#include "base/log.hpp"

#include <fmt/format.h>
#include <spdlog/sinks/stdout_color_sinks.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <memory>
#include <string>

namespace ddprun {

Result<void> start_log(std::string_view program, std::string_view level) {
  static const std::map<std::string, spdlog::level::level_enum, std::less<>> levels = {
      {"", spdlog::level::warn},
      {"debug", spdlog::level::debug},
      {"info", spdlog::level::info},
      {"warning", spdlog::level::warn},
      {"warn", spdlog::level::warn},
      {"error", spdlog::level::err},
      {"critical", spdlog::level::critical}};
  std::string name(level);
  std::ranges::transform(
      name, name.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const auto found = levels.find(name);
  if (found == levels.end()) {
    return make_error(
        Errc::kInvalidArgument,
        fmt::format("LOGLEVEL '{}': expected DEBUG, INFO, WARNING, ERROR or CRITICAL", level));
  }
  // Each of our programs logs from one thread at a time, except the trainer, which does not log.
  auto sink = std::make_shared<spdlog::sinks::stderr_color_sink_mt>();
  auto logger = std::make_shared<spdlog::logger>(std::string(program), std::move(sink));
  logger->set_pattern(kLogPattern);
  logger->set_level(found->second);
  spdlog::set_default_logger(std::move(logger));
  return {};
}

}  // namespace ddprun
