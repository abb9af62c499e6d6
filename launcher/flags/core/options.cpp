#include "launcher/flags/core/options.hpp"

#include "base/format_error.hpp"
#include "base/parse.hpp"
#include "base/worker_contract.hpp"

#include <fmt/format.h>

namespace ddprun {
namespace {

Result<void> apply(const Flag& flag, const Given& given, Options& options) {
  auto const applied = flag.apply(given, options);
  if (applied) return {};
  return with_context(fmt::format("{} '{}'", given.source, given.text), applied.error());
}

/// Variables with other names than PET_<NAME>: most of them are torchrun's.
Result<void> read_other_variables(
    const CommandLine& line, const Environment& environment, Options& options) {
  constexpr char kTimeout[] = "TORCH_ELASTIC_SHUTDOWN_TIMEOUT";
  const auto timeout = environment.find(kTimeout);
  if (timeout != environment.end() && !line.given.contains("shutdown-timeout")) {
    auto const set = apply(
        flag_named("shutdown-timeout"), {.text = timeout->second, .source = kTimeout}, options);
    if (!set) return set.error();
  }
  const auto auth = environment.find(contract::kAuth);
  if (auth != environment.end() && !auth->second.empty() && !options.auth) {
    auto const set =
        apply(flag_named("auth"), {.text = auth->second, .source = contract::kAuth}, options);
    if (!set) return set.error();
  }
  const auto prefix = environment.find("TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE");
  if (prefix != environment.end() && options.plan.streams.prefix_template.empty()) {
    options.plan.streams.prefix_template = prefix->second;
  }
  const auto timer = environment.find(contract::kEnableFileTimer);
  options.plan.has_file_timer = timer != environment.end() && timer->second == "1";
  const auto own_store = environment.find(contract::kDisableShareStore);
  options.plan.shared_store = own_store == environment.end() || own_store->second != "1";
  return {};
}

Result<void> plan_command(const CommandLine& line, Options& options) {
  const auto source = [&line](const char* flag) { return line.given.at(flag).source; };
  if (options.is_module && options.is_program) {
    return invalid_argument(
        "{} and {}: a module is run by Python; leave one of them out",
        source("module"),
        source("no-python"));
  }
  if (options.is_module && options.runs == Runs::kRunPath) {
    return invalid_argument(
        "{} and {}: a module has no path; leave one of them out",
        source("module"),
        source("run-path"));
  }
  if (options.runs == Runs::kRunPath) return {};  // wins over --no-python, as in torchrun
  if (options.is_module) options.runs = Runs::kModule;
  if (options.is_program) options.runs = Runs::kProgram;
  return {};
}

/// Accelerate counts the workers of all nodes together.
Result<void> plan_workers(const CommandLine& line, Options& options) {
  if (!options.all_workers) return {};
  const auto& [text, source] = line.given.at("num-processes");
  if (line.given.contains("nproc-per-node")) {
    return invalid_argument(
        "{} '{}' and {} both set the number of workers; leave one of them out",
        source,
        text,
        line.given.at("nproc-per-node").source);
  }
  const NodeRange& nodes = options.plan.rendezvous.nodes;
  if (nodes.min() != nodes.max()) {
    return invalid_argument(
        "{} '{}': counts the workers of all nodes, and there may be {} to {} of these; give "
        "--nproc-per-node",
        source,
        text,
        nodes.min(),
        nodes.max());
  }
  const int each = *options.all_workers / nodes.max();
  if (each * nodes.max() != *options.all_workers || each > WorkerCount::kMax) {
    return invalid_argument(
        "{} '{}': cannot be divided evenly among {} nodes, with 1 to {} on each",
        source,
        text,
        nodes.max(),
        WorkerCount::kMax);
  }
  options.workers = {.by = WorkerCount::By::kNumber, .number = each};
  return {};
}

/// Tee also writes the file, so it takes precedence over redirect for the same stream.
void plan_streams(Options& options) {
  const auto modes_of = [](int redirect, int tee) {
    const auto mode = [&](int bit) {
      if ((tee & bit) != 0) return StreamMode::kTee;
      return (redirect & bit) != 0 ? StreamMode::kFile : StreamMode::kInherit;
    };
    return StreamsPlan::Modes{.out = mode(1), .err = mode(2)};
  };
  const auto choice_of = [](const StreamChoice& choice, int rank) {
    const auto found = choice.by_rank.find(rank);
    return found == choice.by_rank.end() ? choice.all : found->second;
  };
  StreamsPlan& plan = options.plan.streams;
  plan.all = modes_of(options.redirects.all, options.tee.all);
  for (const StreamChoice* choice : {&options.redirects, &options.tee}) {
    for (const auto& [rank, value] : choice->by_rank) {
      plan.by_rank[rank] =
          modes_of(choice_of(options.redirects, rank), choice_of(options.tee, rank));
    }
  }
}

}  // namespace

Result<Options> read_options(const CommandLine& line, const Environment& environment) {
  Options options;
  const Flag& signals = flag_named("signals-to-handle");
  auto set = apply(signals, {.text = std::string(signals.initial), .source = ""}, options);
  for (const Flag& flag : all_flags()) {
    const auto given = line.given.find(flag.name);
    if (given == line.given.end()) continue;
    set = apply(flag, given->second, options);
    if (!set) return set.error();
  }
  set = read_other_variables(line, environment, options);
  if (!set) return set.error();
  set = plan_command(line, options);
  if (!set) return set.error();
  set = plan_rendezvous(line, options);
  if (!set) return set.error();
  set = plan_workers(line, options);
  if (!set) return set.error();
  plan_streams(options);
  options.plan.rdzv_backend = options.standalone ? "c10d" : options.backend;

  if (line.rest.empty() || line.rest.front().empty()) {
    return invalid_argument(
        "no script given; usage: ddprun [options] script [arguments of the script]");
  }
  options.rest = line.rest;
  // With an underscore: scripts written before torch 2 know only that spelling, and later ones are
  // supposed to accept both.
  if (options.passes_local_rank) {
    options.rest.insert(options.rest.begin() + 1, "--local_rank=${local_rank}");
  }
  return options;
}

}  // namespace ddprun
