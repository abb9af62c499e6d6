#include "trainer/wandb_file.hpp"

#include "base/exit_status.hpp"
#include "trainer/core/wandb.hpp"
#include "trainer/record_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <filesystem>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <unistd.h>

namespace ddprun {
namespace {

namespace fs = std::filesystem;

/// Writes points as they come, and after each row the newest value of each: so a killed run has a
/// summary, too.
class WandbSink : public ReportSink {
 public:
  WandbSink(
      RecordFile file,
      WandbRun run,
      const ReportFileOptions& options,
      std::map<std::string, std::string> environment)
      : file_(std::move(file)),
        records_(std::move(run)),
        names_(options.scalar_names),
        step_every_(options.step_every),
        environment_(std::move(environment)) {}

  Result<void> begin() {
    std::string bytes = log_.begin();  // a separate statement: operands of + have no order
    bytes += log_.frame(records_.header());
    return file_.write(bytes);
  }

  Result<void> write(const ReportEvent& event, double time_s) override {
    std::string bytes;
    if (const auto* const run = std::get_if<RunBegan>(&event)) {
      bytes = log_.frame(records_.run(wandb_config(*run, environment_)));
    }
    const ScalarSet set = scalars_of(event, names_, step_every_);
    if (!set.scalars.empty()) {
      keep_newest(set.scalars);
      bytes += log_.frame(records_.history(set.scalars, time_s));
      bytes += log_.frame(records_.summary(newest_, time_s));
    }
    if (std::holds_alternative<RunEnded>(event)) {
      bytes += log_.frame(records_.end(kExitOk, time_s));
    }
    if (std::holds_alternative<RunStopped>(event)) {
      bytes += log_.frame(records_.end(kExitTryAgain, time_s));
    }
    return bytes.empty() ? Result<void>() : file_.write(bytes);
  }

 private:
  void keep_newest(const std::vector<Scalar>& scalars) {
    for (const Scalar& scalar : scalars) {
      const auto found = std::ranges::find(newest_, scalar.tag, &Scalar::tag);
      if (found == newest_.end()) {
        newest_.push_back(scalar);
      } else {
        found->value = scalar.value;
      }
    }
  }

  RecordFile file_;
  WandbLog log_;
  WandbRecords records_;
  ScalarNames names_;
  std::int64_t step_every_;
  std::map<std::string, std::string> environment_;
  std::vector<Scalar> newest_;
};

std::string id_by_chance() {
  std::random_device chance;
  constexpr unsigned kHalf = 32;
  return wandb_id_of((std::uint64_t{chance()} << kHalf) | chance());
}

CalendarTime calendar_time(std::time_t time) {
  constexpr int kFirstYear = 1900;
  std::tm parts{};
  ::localtime_r(&time, &parts);
  return {
      .year = parts.tm_year + kFirstYear,
      .month = parts.tm_mon + 1,
      .day = parts.tm_mday,
      .hour = parts.tm_hour,
      .minute = parts.tm_min,
      .second = parts.tm_sec};
}

/// Runs that started in the same second with the same id, as after a quick restart, are named after
/// the following seconds.
Result<fs::path> make_directory(const fs::path& parent, std::time_t time, const std::string& id) {
  constexpr std::time_t kTries = 60;
  std::error_code error;
  fs::create_directories(parent, error);
  for (std::time_t i = 0; i < kTries && !error; ++i) {
    fs::path directory = parent / wandb_directory_name(calendar_time(time + i), id);
    if (fs::create_directory(directory, error)) return directory;
  }
  if (error) return make_errno_error(error.value(), parent.string());
  return make_error(
      Errc::kIo,
      fmt::format("{}: {} directories of run '{}' already exist", parent.string(), kTries, id));
}

}  // namespace

std::string this_host() {
  constexpr std::size_t kNameMax = 256;
  std::array<char, kNameMax> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "unknown";
  return name.data();
}

Result<std::unique_ptr<ReportSink>> open_wandb(
    const ReportFileOptions::Wandb& asked, const ReportFileOptions& options, double time_s) {
  const std::string id = asked.run_id.empty() ? id_by_chance() : asked.run_id;
  const auto sound = check_wandb_id(id);
  if (!sound) return sound.error();
  const auto directory =
      make_directory(fs::path(asked.directory) / "wandb", static_cast<std::time_t>(time_s), id);
  if (!directory) return directory.error();
  std::error_code error;
  for (const char* const name : {"files", "logs"}) {
    fs::create_directory(*directory / name, error);
    if (error) return make_errno_error(error.value(), (*directory / name).string());
  }
  auto file = RecordFile::open((*directory / wandb_file_name(id)).string());
  if (!file) return file.error();
  WandbRun run{
      .id = id,
      .project = asked.project,
      .group = asked.group,
      .display_name = asked.run_name,
      .host = this_host(),
      .start_s = time_s};
  auto sink =
      std::make_unique<WandbSink>(*std::move(file), std::move(run), options, asked.environment);
  const auto begun = sink->begin();
  if (!begun) return begun.error();
  return std::unique_ptr<ReportSink>(std::move(sink));
}

}  // namespace ddprun
