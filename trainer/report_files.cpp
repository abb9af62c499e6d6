#include "trainer/report_files.hpp"

#include "base/standard_streams.hpp"
#include "trainer/core/report_fields.hpp"
#include "trainer/core/tensorboard.hpp"
#include "trainer/record_file.hpp"
#include "trainer/wandb_file.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <utility>

#include <unistd.h>

namespace ddprun {
namespace {

namespace fs = std::filesystem;
using Sink = std::unique_ptr<ReportSink>;

class JsonSink : public ReportSink {
 public:
  explicit JsonSink(RecordFile file) : file_(std::move(file)) {}

  Result<void> write(const ReportEvent& event, double time_s) override {
    return file_.write(json_record(event, time_s));
  }

 private:
  RecordFile file_;
};

class CsvSink : public ReportSink {
 public:
  explicit CsvSink(RecordFile file) : file_(std::move(file)) {}

  Result<void> write(const ReportEvent& event, double time_s) override {
    return file_.write(csv_row(event, time_s));
  }

 private:
  RecordFile file_;
};

class TensorboardSink : public ReportSink {
 public:
  TensorboardSink(RecordFile file, ScalarNames names, std::int64_t step_every)
      : file_(std::move(file)), names_(names), step_every_(step_every) {}

  Result<void> write(const ReportEvent& event, double time_s) override {
    const ScalarSet set = scalars_of(event, names_, step_every_);
    if (set.scalars.empty()) return {};
    return file_.write(tensorboard_record(time_s, set.step, set.scalars));
  }

 private:
  RecordFile file_;
  ScalarNames names_;
  std::int64_t step_every_;
};

Result<Sink> open_metrics(const std::string& path) {
  auto file = RecordFile::open(path);
  if (!file) return file.error();
  return Sink(std::make_unique<JsonSink>(*std::move(file)));
}

/// A file has the header once, however often the run is restarted.
Result<Sink> open_csv(const std::string& path) {
  auto file = RecordFile::open(path);
  if (!file) return file.error();
  std::error_code error;
  const bool is_new = fs::file_size(path, error) == 0 || error;
  const auto written = is_new ? file->write(csv_header()) : Result<void>();
  if (!written) return written.error();
  return Sink(std::make_unique<CsvSink>(*std::move(file)));
}

Result<Sink> open_tensorboard(
    const std::string& directory, const ReportFileOptions& options, double time_s) {
  std::error_code error;
  fs::create_directories(directory, error);
  if (error) return make_errno_error(error.value(), directory);
  const std::string name = tensorboard_file_name(
      static_cast<std::int64_t>(time_s), this_host(), std::int64_t{::getpid()}, 0);
  auto file = RecordFile::open((fs::path(directory) / name).string());
  if (!file) return file.error();
  const auto written = file->write(tensorboard_version_record(time_s));
  if (!written) return written.error();
  return Sink(std::make_unique<TensorboardSink>(
      *std::move(file), options.scalar_names, options.step_every));
}

void warn(const std::string& name, const Error& why) {
  write_stderr(fmt::format(
      "ddptrain: {}: {}; nothing more is written there, training continues\n", name, why.detail));
}

}  // namespace

Result<ReportFiles> ReportFiles::open(const ReportFileOptions& options, double time_s) {
  ReportFiles files;
  if (options.metrics_file) {
    auto opened = open_metrics(*options.metrics_file);
    if (!opened) return with_context("--metrics-file", opened.error());
    files.metrics_ = *std::move(opened);
  }
  if (options.csv_file) files.add("--csv-file", open_csv(*options.csv_file));
  if (options.tensorboard_dir) {
    files.add("--tensorboard-dir", open_tensorboard(*options.tensorboard_dir, options, time_s));
  }
  if (options.wandb) files.add("wandb", open_wandb(*options.wandb, options, time_s));
  return files;
}

void ReportFiles::add(std::string name, Result<Sink> opened) {
  if (!opened) return warn(name, opened.error());
  others_.push_back({.name = std::move(name), .sink = *std::move(opened)});
}

Result<void> ReportFiles::write(const ReportEvent& event, double time_s) {
  std::erase_if(others_, [&](const Optional& other) {
    const auto written = other.sink->write(event, time_s);
    if (!written) warn(other.name, written.error());
    return !written;
  });
  if (!metrics_) return {};
  return metrics_->write(event, time_s);
}

}  // namespace ddprun
