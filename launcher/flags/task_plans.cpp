#include "launcher/flags/task_plans.hpp"

#include "base/file.hpp"
#include "base/format_error.hpp"
#include "launcher/flags/command.hpp"
#include "launcher/flags/core/tasks.hpp"
#include "launcher/flags/machine.hpp"
#include "launcher/flags/python.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>

namespace ddprun {
namespace {

constexpr std::size_t kGridBytesMax = 16UL << 20U;

/// Goes before the script's own arguments: these come later and therefore win.
Result<std::vector<std::string>> arguments_of_grid(
    const Given& grid, const std::string& content, const TaskPlace& place) {
  const auto row = place.row();
  if (!row) return with_context(grid.source, row.error());
  auto arguments = arguments_of_row(content, *row);
  if (!arguments)
    return with_context(fmt::format("{} '{}'", grid.source, grid.text), arguments.error());
  return arguments;
}

/// Empty if there is no grid.
Result<std::string> read_grid(const std::optional<Given>& grid) {
  if (!grid) return std::string();
  auto content = read_file(grid->text, kGridBytesMax);
  if (content && content->find('\0') == std::string::npos) return content;
  if (content) {
    return format_error(
        Errc::kCorrupt,
        "{} '{}': not a text file: it contains a NUL byte",
        grid->source,
        grid->text);
  }
  return format_error(Errc::kCorrupt, "{}: {}", grid->source, content.error().detail);
}

/// Sets what differs between jobs that run side by side.
void set_apart(const TaskPlace& place, std::optional<std::string> device, LaunchPlan& plan) {
  plan.task = TaskPlan{.id = place.id(), .device = std::move(device)};
  plan.run_id += fmt::format("_task{}", place.id());
  plan.usable_cpus = std::max(1, plan.usable_cpus / place.beside);
  if (!plan.cpus.empty()) plan.cpus = {plan.cpus[static_cast<std::size_t>(place.index)]};
  if (plan.streams.prefix_template.empty()) {
    plan.streams.prefix_template = fmt::format("[task{}]:", place.id());
  }
}

}  // namespace

Result<std::vector<LaunchPlan>> plans_of(const Options& options, const Environment& environment) {
  const auto content = read_grid(options.grid);
  if (!content) return content.error();
  TaskPlace place;
  place.beside = std::max(1, options.independent);
  if (options.grid || options.independent > 0) {
    const auto element = array_element(environment);
    if (!element) return element.error();
    place.element = *element;
  }
  const int gpus = options.independent > 0 ? visible_gpus(environment) : 0;
  auto devices = share_devices(place.beside, gpus, environment);
  if (!devices) return devices.error();

  auto check = resolve_program(options.plan.node_check.arguments, environment);
  if (!check) return with_context("--node-check", check.error());

  std::vector<LaunchPlan> plans;
  for (; place.index < place.beside; ++place.index) {
    Options own = options;
    if (options.grid) {
      const auto arguments = arguments_of_grid(*options.grid, *content, place);
      if (!arguments) return arguments.error();
      own.rest.insert(own.rest.begin() + 1, arguments->begin(), arguments->end());
    }
    auto command =
        resolve_command(own, {.environment = environment, .own_directory = own_directory()});
    if (!command) return command.error();
    own.plan.command = *std::move(command);
    own.plan.node_check.arguments = *check;
    auto& device = (*devices)[static_cast<std::size_t>(place.index)];
    if (options.independent > 0) set_apart(place, std::move(device), own.plan);
    plans.push_back(std::move(own.plan));
  }
  return plans;
}

}  // namespace ddprun
