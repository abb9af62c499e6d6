#include "agent/core/hang_report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <map>
#include <ranges>

namespace ddprun {
namespace {

constexpr std::size_t kFramesShown = 20;

using Indices = std::vector<std::size_t>;

Indices chosen(const std::vector<HungWorker>& workers, auto condition) {
  Indices found;
  for (std::size_t i = 0; i < workers.size(); ++i) {
    if (condition(workers[i])) found.push_back(i);
  }
  return found;
}

bool is_stopped(const HungWorker& worker) {
  return worker.state == 'T';
}

/// No signal ends its wait.
bool is_uninterruptible(const HungWorker& worker) {
  return worker.state == 'D';
}

/// It makes no step for a reason that is not one of the others'.
bool is_out(const HungWorker& worker) {
  return worker.pid == 0 || is_stopped(worker) || is_uninterruptible(worker);
}

/// All but the largest group of workers that do the same; empty: they all do, or no group is the
/// largest.
Indices minority(const std::vector<HungWorker>& workers, auto what_of) {
  std::map<decltype(what_of(workers.front())), std::size_t> sizes;
  for (const HungWorker& worker : workers) {
    ++sizes[what_of(worker)];
  }
  const auto largest =
      std::ranges::max_element(sizes, {}, [](const auto& group) { return group.second; });
  const auto as_large = std::ranges::count_if(
      sizes, [&largest](const auto& group) { return group.second == largest->second; });
  if (as_large != 1) return {};
  return chosen(
      workers, [&](const HungWorker& worker) { return what_of(worker) != largest->first; });
}

/// "rank 3", "ranks 0, 1, 3".
std::string ranks_text(const std::vector<const HungWorker*>& workers) {
  std::vector<int> ranks;
  ranks.reserve(workers.size());
  for (const HungWorker* const worker : workers) {
    ranks.push_back(worker->rank);
  }
  return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", fmt::join(ranks, ", "));
}

/// "wait in" for "waits in".
std::string in_plural(std::string text) {
  for (const auto& [one, many] :
       {std::pair("waits ", "wait "),
        std::pair("computes", "compute"),
        std::pair("is ", "are "),
        std::pair("has ", "have ")}) {
    if (text.starts_with(one)) return many + text.substr(std::string_view(one).size());
  }
  return text;
}

std::string kernel_text(const HungWorker& worker) {
  if (is_out(worker) || worker.frames.empty()) return "";
  if (worker.computes) return "; it computes";
  if (worker.wakes) return "; it wakes up often";
  if (worker.wait_channel.empty()) return "";
  return fmt::format("; asleep in the kernel ({})", worker.wait_channel);
}

std::string culprit_text(const HungWorker& worker) {
  std::string text = fmt::format(
      "  rank {} (local rank {}{}) {}, at step {}{}\n",
      worker.rank,
      worker.local_rank,
      worker.pid == 0 ? "" : fmt::format(", pid {}", worker.pid),
      worker.activity(),
      worker.step,
      kernel_text(worker));
  for (std::size_t i = 0; i < std::min(worker.frames.size(), kFramesShown); ++i) {
    const PythonFrame& frame = worker.frames[i];
    text += fmt::format("    | {}, line {}, in {}\n", frame.file, frame.line, frame.function);
  }
  if (worker.frames.size() > kFramesShown) {
    text += fmt::format("    | ... and {} more\n", worker.frames.size() - kFramesShown);
  }
  return text;
}

/// The others, those that do the same at the same step together.
std::string others_text(const std::vector<HungWorker>& workers, const Indices& culprits) {
  std::map<std::pair<std::string, std::int64_t>, std::vector<const HungWorker*>> groups;
  for (std::size_t i = 0; i < workers.size(); ++i) {
    if (std::ranges::find(culprits, i) != culprits.end()) continue;
    groups[{workers[i].activity(), workers[i].step}].push_back(&workers[i]);
  }
  std::string text;
  for (const auto& [what, members] : groups) {
    const auto& [activity, step] = what;
    text += fmt::format(
        "  {} {}, at step {}\n",
        ranks_text(members),
        members.size() == 1 ? activity : in_plural(activity),
        step);
  }
  return text;
}

}  // namespace

std::string HungWorker::activity() const {
  if (pid == 0) return "has exited with status 0";
  if (is_stopped(*this)) return "is stopped by a signal, such as SIGSTOP";
  if (is_uninterruptible(*this)) {
    return fmt::format(
        "waits for a disk or a device inside the kernel{}, where no signal reaches it",
        wait_channel.empty() ? "" : fmt::format(" ({})", wait_channel));
  }
  if (!frames.empty()) return activity_of(frames).to_string();
  if (computes) return "computes; no stack is known";
  if (wait_channel.empty()) return "is asleep; no stack is known";
  return fmt::format("is asleep in the kernel ({}); no stack is known", wait_channel);
}

bool HungWorker::waits() const {
  if (is_out(*this)) return false;
  return activity_of(frames).kind == Activity::Kind::kCollective;
}

bool HangReport::is_elsewhere() const {
  const bool all_wait = std::ranges::all_of(workers, &HungWorker::waits);
  return has_others && (all_wait || culprits_of(workers).empty());
}

bool HangReport::is_debugged() const {
  const auto is_of_debugger = [](const PythonFrame& frame) {
    return frame.file.ends_with("/pdb.py") || frame.file.ends_with("/bdb.py") ||
           frame.file.find("/debugpy/") != std::string::npos;
  };
  return std::ranges::any_of(workers, [&is_of_debugger](const HungWorker& worker) {
    return worker.state == 't' || std::ranges::any_of(worker.frames, is_of_debugger);
  });
}

bool HangReport::computes(bool waits_may_spin) const {
  const bool any_waits = std::ranges::any_of(workers, &HungWorker::waits);
  return std::ranges::any_of(workers, [&](const HungWorker& worker) {
    if (worker.waits()) return false;
    return any_waits || !waits_may_spin ? worker.computes || worker.wakes : worker.moves;
  });
}

std::vector<std::size_t> culprits_of(const std::vector<HungWorker>& workers) {
  if (workers.size() < 2) return chosen(workers, [](const HungWorker& /*one*/) { return true; });
  // Programs that are no Python may wait for it.
  Indices out = chosen(workers, is_out);
  const bool is_clear = std::ranges::all_of(workers, [](const HungWorker& worker) {
    return is_out(worker) || worker.waits() || worker.frames.empty();
  });
  if (!out.empty() && out.size() < workers.size() && is_clear) return out;
  Indices not_waiting = chosen(workers, std::not_fn(&HungWorker::waits));
  if (!not_waiting.empty() && not_waiting.size() < workers.size()) return not_waiting;
  Indices elsewhere = minority(workers, [](const HungWorker& worker) { return worker.activity(); });
  if (!elsewhere.empty()) return elsewhere;
  return minority(workers, [](const HungWorker& worker) { return worker.step; });
}

std::vector<const HungWorker*> to_be_ended(const HangReport& report) {
  std::vector<const HungWorker*> ended;
  if (report.is_elsewhere()) return ended;
  for (const std::size_t culprit : culprits_of(report.workers)) {
    if (report.workers[culprit].pid != 0) ended.push_back(&report.workers[culprit]);
  }
  if (!ended.empty()) return ended;
  for (const HungWorker& worker : report.workers) {
    if (worker.pid != 0) ended.push_back(&worker);
  }
  return ended;
}

std::string hang_paragraph(const HangReport& report) {
  const Indices culprits = report.is_elsewhere() ? Indices() : culprits_of(report.workers);
  std::string text = fmt::format(
      "ddprun: {} hangs on {}: no worker of this node has made a step for {:.1f} s{}; attempt {}\n",
      report.title,
      report.host,
      to_seconds(report.silent_for),
      report.slowest == Duration()
          ? ""
          : fmt::format(" (the slowest of the last took {:.2g} s)", to_seconds(report.slowest)),
      report.attempt);
  for (const std::size_t culprit : culprits) {
    text += culprit_text(report.workers[culprit]);
  }
  text += others_text(report.workers, culprits);
  if (!report.stacks.empty())
    text += fmt::format("  the stacks of all threads: {}\n", report.stacks);
  if (report.is_elsewhere()) {
    text +=
        "  next: ddprun waits; the rank that hangs is on another node, or all ranks wait for each "
        "other\n";
  } else if (!report.restarts) {
    text += "  next: ddprun waits (--on-hang restart would restart the job)\n";
  } else {
    const auto ended = to_be_ended(report);
    text += fmt::format(
        "  next: {} {} ended, {}\n",
        ranks_text(ended),
        ended.size() == 1 ? "is" : "are",
        report.has_restarts ? "so that the job restarts"
                            : "and so the job is (--max-restarts would allow a restart)");
  }
  return text;
}

}  // namespace ddprun
