#include "agent/report.hpp"

#include "agent/environments.hpp"
#include "agent/error_file.hpp"
#include "base/environment.hpp"
#include "base/file.hpp"

#include <fmt/format.h>

#include <array>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <utility>

namespace ddprun {
namespace {

/// Fills in what the worker reported itself; forgets a path without a file.
void add_error_file(FailureDetails& details) {
  const auto content = read_error_file(details.error_file);
  const auto error = content ? parse_error_file(*content) : std::nullopt;
  if (!error) {
    details.error_file.clear();
    return;
  }
  details.message = error->message;
  details.traceback = error->traceback;
}

/// Finds the module that the culprit could not import, if that is why it ended.
void add_failed_import(FailureReport& report) {
  if (report.python.empty()) return;
  const FailureDetails& culprit = report.culprit;
  std::string module =
      missing_module(culprit.message.empty() ? culprit.last_lines : culprit.message);
  if (module.empty()) return;
  std::error_code gone;  // the working directory may have been deleted
  auto elsewhere = interpreters_with(
      module, report.python, std::filesystem::current_path(gone), current_environment());
  report.failed_import =
      FailedImport{.module = std::move(module), .elsewhere = std::move(elsewhere)};
}

/// The error message, if any.
std::string pass_up(const FailureDetails& culprit, const std::string& path) {
  const auto content = read_error_file(culprit.error_file);
  if (!content) return "";
  const ProcessEnd& end = culprit.failure.end;
  const int code = end.signal != 0 ? -end.signal : end.code;
  const auto written = overwrite_file(path, with_error_code(*content, code));
  if (written) return "";
  return fmt::format("ddprun: cannot copy the error file: {}\n", written.error().detail);
}

}  // namespace

ToldFailure report_failure(
    FailureReport report, std::span<const LastLines> last_lines, const std::string& pass_up_to) {
  report.culprit.last_lines = last_lines.front()();
  for (std::size_t i = 1; i < last_lines.size(); ++i) {
    report.others[i - 1].last_lines = last_lines[i]();
  }
  add_error_file(report.culprit);
  add_failed_import(report);
  const bool is_last = !report.outcome.restarts;
  ToldFailure out;
  if (is_last) {
    for (auto& other : report.others) {
      add_error_file(other);
    }
    out.text = failure_block(report);
  }
  out.text += failure_paragraph(report);
  if (!pass_up_to.empty()) out.text += pass_up(report.culprit, pass_up_to);
  out.last_output = last_output(report);
  return out;
}

std::string read_last_line(FailureDetails details, const LastLines& last_lines) {
  details.last_lines = last_lines();
  add_error_file(details);
  return comparable_line(last_words(details));
}

std::string wall_time(TimePoint at) {
  const auto ago = std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - at);
  const std::time_t when = std::time(nullptr) - ago.count();
  std::tm parts{};
  std::array<char, 32> text{};
  ::localtime_r(&when, &parts);
  const std::size_t size = std::strftime(text.data(), text.size(), "%Y-%m-%d_%H:%M:%S", &parts);
  return {text.data(), size};
}

}  // namespace ddprun
