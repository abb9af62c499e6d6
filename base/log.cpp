#include "base/log.hpp"

#include "base/check.hpp"
#include "base/standard_streams.hpp"

#include <spdlog/details/os.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>
#include <map>
#include <memory>
#include <mutex>
#include <string>

namespace ddprun {
namespace {

constexpr char kReports[] = "reports";

/// By level, as spdlog's own sinks have them.
constexpr std::array kColours = {
    "\x1b[37m", "\x1b[36m", "\x1b[32m", "\x1b[33m\x1b[1m", "\x1b[31m\x1b[1m", "\x1b[1m\x1b[41m"};

/// Formats on the calling thread. Where it writes can change while other threads use it.
class Sink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  void write_to(const std::function<void(std::string_view)>& write) {
    const std::scoped_lock lock(mutex_);
    write_ = write;
  }

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t formatted;
    formatter_->format(message, formatted);
    const std::string_view text(formatted.data(), formatted.size());
    if (write_) return write_(text);
    const std::size_t from = message.color_range_start;
    const std::size_t to = message.color_range_end;
    if (!has_colours_ || from == to) return write_stderr(text);
    write_stderr(fmt::format(
        "{}{}{}\x1b[m{}",
        text.substr(0, from),
        kColours.at(message.level),
        text.substr(from, to - from),
        text.substr(to)));
  }
  void flush_() override {}

 private:
  const bool has_colours_ =
      spdlog::details::os::in_terminal(stderr) && spdlog::details::os::is_color_terminal();
  std::function<void(std::string_view)> write_;
};

std::shared_ptr<spdlog::logger> make_logger(
    std::string_view name, const char* pattern, const char* end_of_line) {
  auto logger = std::make_shared<spdlog::logger>(std::string(name), std::make_shared<Sink>());
  logger->set_formatter(std::make_unique<spdlog::pattern_formatter>(
      pattern, spdlog::pattern_time_type::local, end_of_line));
  return logger;
}

}  // namespace

Result<void> start_log(std::string_view program, std::string_view level) {
  static const std::map<std::string, spdlog::level::level_enum, std::less<>> levels = {
      {"", spdlog::level::warn},
      {"debug", spdlog::level::debug},
      {"info", spdlog::level::info},
      {"warning", spdlog::level::warn},
      {"warn", spdlog::level::warn},
      {"error", spdlog::level::err},
      {"critical", spdlog::level::critical}};
  spdlog::set_default_logger(make_logger(program, "%H:%M:%S.%e %n %^%l%$ %v", "\n"));
  spdlog::drop(kReports);
  spdlog::register_logger(make_logger(kReports, "%v", ""));
  std::string name(level);
  std::ranges::transform(
      name, name.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const auto found = levels.find(name);
  if (found == levels.end()) {
    return make_error(
        Errc::kInvalidArgument,
        fmt::format("LOGLEVEL '{}': expected DEBUG, INFO, WARNING, ERROR or CRITICAL", level));
  }
  spdlog::default_logger_raw()->set_level(found->second);
  return {};
}

void log_to(const std::function<void(std::string_view)>& write) {
  spdlog::apply_all([&write](const std::shared_ptr<spdlog::logger>& logger) {
    dynamic_cast<Sink&>(*logger->sinks().front()).write_to(write);
  });
}

void report_lines(std::string_view lines) {
  const auto reports = spdlog::get(kReports);
  DDPRUN_CHECK(reports);
  if (!lines.empty()) reports->info(lines);
}

}  // namespace ddprun
