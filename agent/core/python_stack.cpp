#include "agent/core/python_stack.hpp"

#include "base/parse.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <ranges>

namespace ddprun {
namespace {

constexpr std::size_t kFramesMax = 200;

bool begins_thread(std::string_view line) {
  return line.ends_with("(most recent call first):") &&
         (line.starts_with("Thread 0x") || line.starts_with("Current thread 0x"));
}

/// `  File "train.py", line 31 in main`.
std::optional<PythonFrame> parse_frame(std::string_view line) {
  constexpr std::string_view kFile = "  File \"";
  constexpr std::string_view kLine = "\", line ";
  constexpr std::string_view kIn = " in ";
  if (!line.starts_with(kFile)) return std::nullopt;
  line.remove_prefix(kFile.size());
  const std::size_t file_end = line.find(kLine);
  if (file_end == std::string_view::npos) return std::nullopt;
  const std::string_view rest = line.substr(file_end + kLine.size());
  const std::size_t number_end = rest.find(kIn);
  if (number_end == std::string_view::npos) return std::nullopt;
  return PythonFrame{
      .file = std::string(line.substr(0, file_end)),
      .line = parse_int<int>(rest.substr(0, number_end)).value_or(0),
      .function = std::string(rest.substr(number_end + kIn.size()))};
}

bool is_of(const PythonFrame& frame, std::string_view part) {
  return frame.file.find(part) != std::string::npos;
}

/// Around the calls of a package.
bool is_wrapper(const PythonFrame& frame) {
  constexpr std::array<std::string_view, 5> kNames = {
      "wrapper", "decorate_context", "inner", "_fn", "__call__"};
  return std::ranges::find(kNames, frame.function) != kNames.end() ||
         frame.function.starts_with('_');
}

/// Where ranks wait for each other. The backward pass of DDP reduces the gradients, and its forward
/// pass the buffers.
bool is_of_collective(const PythonFrame& frame) {
  constexpr std::array<std::string_view, 4> kWhere = {
      "/torch/distributed/", "/torch/nn/parallel/", "/torch/autograd/", "/torch/_tensor.py"};
  return std::ranges::any_of(
      kWhere, [&frame](std::string_view part) { return is_of(frame, part); });
}

bool is_of_loader(const PythonFrame& frame) {
  return is_of(frame, "/torch/utils/data/");
}

}  // namespace

bool PythonFrame::is_users() const {
  constexpr std::array<std::string_view, 4> kOthers = {
      "/site-packages/", "/dist-packages/", "/lib/python3", "/lib64/python3"};
  return !file.starts_with('<') && std::ranges::none_of(kOthers, [this](std::string_view part) {
    return file.find(part) != std::string::npos;
  });
}

std::string PythonFrame::place() const {
  return fmt::format("{}:{}", file.substr(file.rfind('/') + 1), line);
}

std::string PythonFrame::to_string() const {
  if (function.starts_with('<')) return place();
  return fmt::format("{} ({})", function, place());
}

std::vector<PythonFrame> main_thread_of(std::string_view text) {
  std::vector<PythonFrame> frames;
  for (const std::string_view line : split(text, '\n')) {
    // The threads are written in the order of their age, the newest first.
    if (begins_thread(line)) frames.clear();
    if (frames.size() == kFramesMax) continue;
    if (auto frame = parse_frame(line)) frames.push_back(*std::move(frame));
  }
  // What has run the script: texts of ours, and runpy.
  const auto is_of_file = [](const PythonFrame& frame) { return !frame.file.starts_with('<'); };
  const auto outermost = std::ranges::find_if(frames | std::views::reverse, is_of_file);
  if (outermost != frames.rend()) frames.erase(outermost.base(), frames.end());
  return frames;
}

Activity activity_of(const std::vector<PythonFrame>& frames) {
  if (frames.empty()) return {};
  Activity activity;
  const auto users = std::ranges::find_if(frames, &PythonFrame::is_users);
  if (users != frames.end()) activity.where = users->place();
  activity.kind = Activity::Kind::kElsewhere;
  activity.what = frames.front().to_string();
  // What the user's code has called waits, if it is one of these.
  if (is_of_collective(frames.front())) {
    activity.kind = Activity::Kind::kCollective;
    activity.what = frames.front().function;
    for (auto frame = frames.begin(); frame != users; ++frame) {
      if (is_of_collective(*frame) && !is_wrapper(*frame)) activity.what = frame->function;
    }
  } else if (std::ranges::any_of(frames, is_of_loader)) {
    activity.kind = Activity::Kind::kData;
    const auto caller = std::ranges::find_if(
        std::ranges::find_if(frames, is_of_loader), frames.end(), &PythonFrame::is_users);
    if (caller != frames.end()) activity.where = caller->place();
  }
  return activity;
}

std::string Activity::to_string() const {
  const std::string at = where.empty() || what.ends_with(where + ")") || what == where
                             ? ""
                             : fmt::format(" ({})", where);
  switch (kind) {
    case Kind::kUnknown:
      return "is somewhere";
    case Kind::kCollective:
      return fmt::format("waits in {}{}", what, at);
    case Kind::kData:
      return fmt::format("waits for its data{}: it is in {}", at, what);
    case Kind::kElsewhere:
      return at.empty() ? fmt::format("is in {}", what)
                        : fmt::format("is in {}, called from {}", what, where);
  }
  return "";
}

}  // namespace ddprun
