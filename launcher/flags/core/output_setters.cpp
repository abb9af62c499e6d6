// Parses and checks the values of the output flags.

#include "base/format_error.hpp"
#include "base/parse.hpp"
#include "launcher/flags/core/options.hpp"

#include <utility>

namespace ddprun::setters {
namespace {

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

}  // namespace

Result<void> log_dir(const Given& given, Options& options) {
  if (given.text.empty())
    return invalid_argument("expected a directory; leave it out for a new one");
  options.plan.streams.no_files = given.text == "/dev/null";
  options.plan.streams.log_directory = given.text;
  return {};
}

Result<void> redirects(const Given& given, Options& options) {
  auto choice = choice_of(given.text);
  if (!choice) return choice.error();
  options.redirects = std::move(*choice);
  return {};
}

Result<void> tee(const Given& given, Options& options) {
  auto choice = choice_of(given.text);
  if (!choice) return choice.error();
  options.tee = std::move(*choice);
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

Result<void> duplicate_stdout_filters(const Given& given, Options& options) {
  options.plan.streams.duplicate_out = texts_of(given.text);
  return {};
}

Result<void> duplicate_stderr_filters(const Given& given, Options& options) {
  options.plan.streams.duplicate_err = texts_of(given.text);
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

Result<void> logs_specs(const Given& given, Options& /*options*/) {
  if (given.text == "default") return {};
  return invalid_argument(
      "names a Python plug-in, which ddprun does not load; leave it out and use --log-dir, -r and "
      "-t");
}

}  // namespace ddprun::setters
