#include "trainer/core/report_fields.hpp"

#include "base/check.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>

namespace ddprun {
namespace {

// Keys stay in the order of insertion, so that a person can read the file.
using Json = nlohmann::ordered_json;

constexpr std::array<std::string_view, 44> kColumns = {
    "event",
    "time_s",
    "epoch",
    "step",
    "world",
    "attempt",
    "loss",
    "accuracy",
    "top5",
    "samples",
    "samples_per_s",
    "learning_rate",
    "grad_norm",
    "batch",
    "samples_of_run",
    "data_s",
    "copy_s",
    "compute_s",
    "optimizer_s",
    "snapshot_s",
    "other_s",
    "tokens_per_s",
    "tflops",
    "mfu",
    "eta_s",
    "seconds",
    "epoch_seconds",
    "path",
    "signal",
    "weights_sha256",
    "peak_rss_bytes",
    "peak_tensor_bytes",
    "dataset",
    "model",
    "parameters",
    "train_samples",
    "test_samples",
    "batch_size",
    "threads",
    "kernels",
    "torch",
    "elapsed_s",
    "loader_samples_per_s",
    "training_samples_per_s"};

Fields at(Progress progress) {
  return {{"epoch", progress.epoch}, {"step", progress.step}};
}

void add_sums(Fields& fields, const MetricSums& sums) {
  fields.emplace_back("loss", sums.mean_loss());
  fields.emplace_back("accuracy", sums.accuracy_percent());
}

void add_if_known(Fields& fields, std::string_view name, const std::optional<double>& value) {
  if (value) fields.emplace_back(name, *value);
}

struct FieldsOf {
  Fields operator()(const RunBegan& run) const {
    Fields fields = at(run.at);
    fields.emplace_back("world", std::int64_t{run.world});
    fields.emplace_back("attempt", run.attempt);
    fields.emplace_back("dataset", run.dataset);
    fields.emplace_back("model", run.model);
    fields.emplace_back("parameters", run.parameters);
    fields.emplace_back("train_samples", run.train_samples);
    fields.emplace_back("test_samples", run.test_samples);
    fields.emplace_back("batch_size", run.batch_size);
    fields.emplace_back("threads", std::int64_t{run.threads});
    fields.emplace_back("kernels", run.kernels);
    fields.emplace_back("torch", run.torch);
    return fields;
  }

  Fields operator()(const RunResumed& run) const {
    Fields fields = at(run.at);
    fields.emplace_back("samples_of_run", run.samples);
    return fields;
  }

  Fields operator()(const EpochBegan& epoch) const { return at(epoch.at); }

  Fields operator()(const StepDone& step) const {
    Fields fields = at(step.at);
    add_sums(fields, step.sums);
    fields.emplace_back("batch", step.batch);
    fields.emplace_back("samples_of_run", step.samples_of_run);
    fields.emplace_back("samples_per_s", step.rates.samples_per_s);
    fields.emplace_back("learning_rate", step.learning_rate);
    add_if_known(fields, "grad_norm", step.grad_norm);
    fields.emplace_back("data_s", step.phases.data_s);
    fields.emplace_back("copy_s", step.phases.copy_s);
    fields.emplace_back("compute_s", step.phases.compute_s);
    fields.emplace_back("optimizer_s", step.phases.optimizer_s);
    fields.emplace_back("snapshot_s", step.phases.snapshot_s);
    fields.emplace_back("other_s", step.phases.other_s);
    if (step.rates.eta_s > 0) fields.emplace_back("eta_s", step.rates.eta_s);
    add_if_known(fields, "tokens_per_s", step.rates.tokens_per_s);
    add_if_known(fields, "tflops", step.rates.tflops);
    add_if_known(fields, "mfu", step.rates.mfu);
    return fields;
  }

  Fields operator()(const EpochTrained& epoch) const {
    Fields fields = at(epoch.at);
    add_sums(fields, epoch.sums);
    fields.emplace_back("samples", epoch.sums.samples);
    fields.emplace_back("samples_per_s", epoch.samples_per_s);
    fields.emplace_back("learning_rate", epoch.learning_rate);
    fields.emplace_back("seconds", epoch.seconds);
    fields.emplace_back("samples_of_run", epoch.samples_of_run);
    fields.emplace_back("elapsed_s", epoch.elapsed_s);
    fields.emplace_back("eta_s", epoch.eta_s);
    return fields;
  }

  Fields operator()(const EpochValidated& epoch) const {
    Fields fields = at(epoch.trained.at);
    add_sums(fields, epoch.sums);
    if (epoch.correct_top5) {
      fields.emplace_back("top5", 100 * *epoch.correct_top5 / epoch.sums.samples);
    }
    fields.emplace_back("samples", epoch.sums.samples);
    fields.emplace_back("samples_per_s", epoch.samples_per_s());
    fields.emplace_back("seconds", epoch.seconds);
    fields.emplace_back("epoch_seconds", epoch.epoch_seconds);
    return fields;
  }

  Fields operator()(const SnapshotSaved& snapshot) const {
    Fields fields = at(snapshot.at);
    fields.emplace_back("path", snapshot.path);
    return fields;
  }

  Fields operator()(const RunStopped& run) const {
    Fields fields = at(run.at);
    fields.emplace_back("signal", run.signal);
    return fields;
  }

  Fields operator()(const RunEnded& run) const {
    Fields fields = at(run.at);
    add_sums(fields, run.sums);
    fields.emplace_back("weights_sha256", run.weights_sha256);
    fields.emplace_back("seconds", run.seconds);
    fields.emplace_back("samples_per_s", run.samples_per_s);
    fields.emplace_back("peak_rss_bytes", run.peak_rss_bytes);
    fields.emplace_back("peak_tensor_bytes", run.peak_tensor_bytes);
    if (run.ceiling) {
      fields.emplace_back("loader_samples_per_s", run.ceiling->loader_samples_per_s);
      fields.emplace_back("training_samples_per_s", run.ceiling->training_samples_per_s);
    }
    return fields;
  }
};

struct NameOf {
  std::string_view operator()(const RunBegan&) const { return "start"; }
  std::string_view operator()(const RunResumed&) const { return "resumed"; }
  std::string_view operator()(const EpochBegan&) const { return ""; }
  std::string_view operator()(const StepDone&) const { return "step"; }
  std::string_view operator()(const EpochTrained&) const { return "epoch"; }
  std::string_view operator()(const EpochValidated&) const { return "validation"; }
  std::string_view operator()(const SnapshotSaved&) const { return "snapshot"; }
  std::string_view operator()(const RunStopped&) const { return "stopped"; }
  std::string_view operator()(const RunEnded&) const { return "final"; }
};

/// As in RFC 4180: quoted if it contains a comma, a quote or a line break.
std::string csv_text(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char letter : text) {
    if (letter == '"') quoted += '"';
    quoted += letter;
  }
  return quoted + '"';
}

struct CsvCell {
  std::string operator()(std::int64_t number) const { return std::to_string(number); }
  std::string operator()(double number) const {
    return std::isfinite(number) ? fmt::format("{}", number) : "";
  }
  std::string operator()(const std::string& text) const { return csv_text(text); }
};

std::string joined(const std::array<std::string, kColumns.size()>& cells) {
  std::string line;
  for (const std::string& cell : cells) {
    if (&cell != cells.data()) line += ',';
    line += cell;
  }
  return line + "\r\n";
}

std::size_t column(std::string_view name) {
  const auto* const found = std::ranges::find(kColumns, name);
  DDPRUN_CHECK(found != kColumns.end());
  return static_cast<std::size_t>(found - kColumns.begin());
}

}  // namespace

std::string_view record_name(const ReportEvent& event) {
  return std::visit(NameOf(), event);
}

Fields fields_of(const ReportEvent& event) {
  return std::visit(FieldsOf(), event);
}

std::string json_record(const ReportEvent& event, double time_s) {
  const std::string_view name = record_name(event);
  if (name.empty()) return "";
  Json json = {{"event", name}, {"time_s", time_s}};
  for (const auto& [key, value] : fields_of(event)) {
    std::visit([&](const auto& known) { json[std::string(key)] = known; }, value);
  }
  // A path need not be UTF-8, and a record with a replaced letter is better than none.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string csv_header() {
  std::array<std::string, kColumns.size()> cells;
  std::ranges::copy(kColumns, cells.begin());
  return joined(cells);
}

std::string csv_row(const ReportEvent& event, double time_s) {
  const std::string_view name = record_name(event);
  if (name.empty()) return "";
  std::array<std::string, kColumns.size()> cells;
  cells.at(column("event")) = name;
  cells.at(column("time_s")) = fmt::format("{}", time_s);
  for (const auto& [key, value] : fields_of(event)) {
    cells.at(column(key)) = std::visit(CsvCell(), value);
  }
  return joined(cells);
}

}  // namespace ddprun
