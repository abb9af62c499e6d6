// The output flags, and warnings about those that are accepted but have no effect.

#include "launcher/flags/core/shared_setters.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <ranges>
#include <utility>

namespace ddprun {
namespace {

constexpr std::string_view kOutput = "Output";

constexpr char kExpectedStreams[] =
    "expected 0 (none), 1 (stdout), 2 (stderr), 3 (both), or a map by local rank such as 0:3,1:2";

std::optional<int> streams_of(std::string_view text) {
  const auto value = parse_int<int>(text);
  if (!value || *value < 0 || *value > 3) return std::nullopt;
  return value;
}

std::optional<int> rank_of(std::string_view text) {
  const auto rank = parse_int<int>(text);
  if (!rank || *rank < 0 || *rank >= WorkerCount::kMax) return std::nullopt;
  return rank;
}

Result<StreamChoice> choice_of(std::string_view text) {
  StreamChoice choice;
  if (const auto all = streams_of(trim(text))) {
    choice.all = *all;
    return choice;
  }
  for (const std::string_view piece : split(text, ',')) {
    const std::size_t colon = piece.find(':');
    if (colon == std::string_view::npos) return invalid_argument(kExpectedStreams);
    const auto rank = rank_of(trim(piece.substr(0, colon)));
    const auto streams = streams_of(trim(piece.substr(colon + 1)));
    if (!rank || !streams) return invalid_argument("'{}': {}", piece, kExpectedStreams);
    if (!choice.by_rank.emplace(*rank, *streams).second) {
      return invalid_argument("rank {} is named twice", *rank);
    }
  }
  return choice;
}

/// Splits at commas; two commas in a row stand for a comma in a piece.
std::vector<std::string> texts_of(std::string_view list) {
  std::vector<std::string> texts(1);
  for (std::size_t at = 0; at < list.size(); ++at) {
    if (list[at] != ',') {
      texts.back().push_back(list[at]);
    } else if (list.substr(at).starts_with(",,")) {
      texts.back().push_back(',');
      ++at;
    } else {
      texts.emplace_back();
    }
  }
  // Every line contains the empty text.
  std::erase_if(texts, [](const std::string& text) { return text.empty(); });
  return texts;
}

template <auto Choice>
Result<void> streams(const Given& given, Options& options) {
  auto choice = choice_of(given.text);
  if (!choice) return choice.error();
  options.*Choice = std::move(*choice);
  return {};
}

template <auto Texts>
Result<void> texts(const Given& given, Options& options) {
  options.plan.streams.*Texts = texts_of(given.text);
  return {};
}

void warn_of_absent_ranks(
    const Given& given, std::vector<int> ranks, int workers, std::vector<std::string>& warnings) {
  std::erase_if(ranks, [workers](int rank) { return rank < workers; });
  if (ranks.empty()) return;
  warnings.push_back(fmt::format(
      "{} '{}': there is no local rank {}; with --nproc-per-node {} the last one is {}",
      given.source,
      given.text,
      fmt::join(ranks, ", "),
      workers,
      workers - 1));
}

template <class Ranks>
std::vector<int> listed(const Ranks& ranks) {
  return {ranks.begin(), ranks.end()};
}

using Stream = StreamMode StreamsPlan::Modes::*;

bool is_teed_by_any(const LaunchPlan& plan, Stream stream) {
  if (plan.streams.no_files) return false;
  return std::ranges::any_of(std::views::iota(0, plan.workers), [&](int rank) {
    return plan.streams.modes(rank).*stream == StreamMode::kTee;
  });
}

Result<void> log_dir(const Given& given, Options& options) {
  if (given.text.empty())
    return invalid_argument("expected a directory; leave it out for a new one");
  options.plan.streams.no_files = given.text == "/dev/null";
  options.plan.streams.log_directory = given.text;
  return {};
}

Result<void> local_ranks_filter(const Given& given, Options& options) {
  if (given.text.empty()) return {};
  for (const std::string_view piece : split(given.text, ',')) {
    const auto rank = rank_of(trim(piece));
    if (!rank) return invalid_argument("'{}': expected local ranks such as 0,3", piece);
    options.plan.streams.console_ranks.insert(*rank);
  }
  return {};
}

Result<void> memory_log(const Given& given, Options& options) {
  if (given.text.empty())
    return invalid_argument("expected a directory; leave it out for no samples");
  options.plan.memory_log.directory = given.text;
  return {};
}

Result<void> memory_log_interval(const Given& given, Options& options) {
  const auto interval = parse_seconds(given.text);
  if (!interval || *interval < MemoryLogPlan::kIntervalMin ||
      *interval > MemoryLogPlan::kIntervalMax) {
    return invalid_argument("expected seconds, a number from 0.1 to 3600");
  }
  options.plan.memory_log.interval = *interval;
  return {};
}

Result<void> log_line_prefix_template(const Given& given, Options& options) {
  if (given.text.find('\n') != std::string::npos)
    return invalid_argument("a prefix must not contain a line break");
  options.plan.streams.prefix_template = given.text;
  return {};
}

Result<void> event_log_handler(const Given& given, Options& options) {
  options.plan.has_torch_events = given.text == "console";
  if (given.text == "console" || given.text == "null" || given.text == "dynamic_rendezvous") {
    return {};
  }
  if (given.text.starts_with("file:")) {
    return invalid_argument(
        "is not supported; events.jsonl in the log directory has every transition");
  }
  return invalid_argument("expected null, console or dynamic_rendezvous");
}

// clang-format off
// NOLINTBEGIN(modernize-use-designated-initializers): a table; the columns are those of Flag
constexpr std::array kOutputFlags = {
    Flag{kOutput, "log-dir", 0, "DIR", "a fresh one under $TMPDIR",
         "Directory for logs and error files; nothing in it is ever removed. /dev/null: no files.", true,
         log_dir},
    Flag{kOutput, "redirects", 'r', "0-3|RANK:0-3,...", "0",
         "Streams to log files: 1 stdout, 2 stderr, 3 both, or a map by local rank.", true, streams<&Options::redirects>},
    Flag{kOutput, "tee", 't', "0-3|RANK:0-3,...", "0", "Streams to log files and to the console.", true,
         streams<&Options::tee>},
    Flag{kOutput, "local-ranks-filter", 0, "RANKS", "all",
         "Show only these local ranks on the console, such as 0,3.", true, local_ranks_filter},
    Flag{kOutput, "duplicate-stdout-filters", 0, "TEXTS", "none",
         "Also write tee'd lines that contain one of these texts to filtered_stdout.log; ',,' stands for a comma.", true,
         texts<&StreamsPlan::duplicate_out>},
    Flag{kOutput, "duplicate-stderr-filters", 0, "TEXTS", "none",
         "The same for stderr and filtered_stderr.log.", true, texts<&StreamsPlan::duplicate_err>},
    Flag{kOutput, "memory-log", 0, "DIR", "none",
         "Write samples of memory and GPU use to files below DIR, for ddpctl analyze-memory.", true,
         memory_log},
    Flag{kOutput, "memory-log-interval", 0, "SECONDS", "5", "Time between samples of --memory-log; 0.1 to 3600.",
         true, memory_log_interval},
    Flag{kOutput, "log-line-prefix-template", 0, "TEXT", "[${role_name}${local_rank}]:",
         "Prefix of tee'd lines, with ${role_name}, ${local_rank}, ${rank} and ${hostname}; also TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE.", true,
         log_line_prefix_template},
    Flag{kOutput, "event-log-handler", 0, "null|console|dynamic_rendezvous", "null",
         "console: write torchrun's own events to stderr as JSON lines. events.jsonl in the log directory is always written.", true,
         event_log_handler},
};
// NOLINTEND(modernize-use-designated-initializers)
// clang-format on

}  // namespace

std::span<const Flag> output_flags() {
  return kOutputFlags;
}

void warn_of_no_effect(const CommandLine& line, Options& options) {
  const LaunchPlan& plan = options.plan;
  const auto absent = [&](const char* flag, std::vector<int> ranks) {
    const auto given = line.given.find(flag);
    if (given == line.given.end()) return;
    warn_of_absent_ranks(given->second, std::move(ranks), plan.workers, options.warnings);
  };
  absent("redirects", listed(options.redirects.by_rank | std::views::keys));
  absent("tee", listed(options.tee.by_rank | std::views::keys));
  absent("local-ranks-filter", listed(plan.streams.console_ranks));

  const auto unteed = [&](const char* flag, const char* tee, Stream stream) {
    const auto given = line.given.find(flag);
    if (given == line.given.end() || is_teed_by_any(plan, stream)) return;
    options.warnings.push_back(fmt::format(
        "{} '{}': filters only tee'd output, and nothing is tee'd; give {}{}",
        given->second.source,
        given->second.text,
        tee,
        plan.streams.no_files ? " and a --log-dir other than /dev/null" : ""));
  };
  unteed("duplicate-stdout-filters", "-t 1", &StreamsPlan::Modes::out);
  unteed("duplicate-stderr-filters", "-t 2", &StreamsPlan::Modes::err);

  const auto interval = line.given.find("memory-log-interval");
  if (interval == line.given.end() || !plan.memory_log.directory.empty()) return;
  options.warnings.push_back(fmt::format(
      "{} '{}': no samples are taken; give --memory-log",
      interval->second.source,
      interval->second.text));
}

}  // namespace ddprun
