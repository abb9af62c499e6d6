#pragma once

// The files that a run writes for programs: JSON lines, CSV, TensorBoard's and wandb's. Rank 0
// opens them; core/ makes the formats.

#include "base/error.hpp"
#include "trainer/core/report_event.hpp"
#include "trainer/core/scalars.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ddprun {

/// The values of --metrics-file and similar flags; a file without a name is not written.
struct ReportFileOptions {
  struct Wandb {
    std::string directory;  // "wandb/" is created in it
    std::string run_id;     // empty: a random id
    std::string project;
    std::string group;
    std::string run_name;
    /// Shown with the flags; see wandb_config().
    std::map<std::string, std::string> environment;
  };

  std::optional<std::string> metrics_file;  // JSON lines; a FIFO works too
  std::optional<std::string> csv_file;
  std::optional<std::string> tensorboard_dir;  // created if it does not exist
  std::optional<Wandb> wandb;
  ScalarNames scalar_names = ScalarNames::kMila;
  std::int64_t step_every = 20;  // steps between two points of a curve
};

/// One file and its format.
class ReportSink {
 public:
  ReportSink() = default;
  virtual ~ReportSink() = default;
  ReportSink(const ReportSink&) = delete;
  ReportSink& operator=(const ReportSink&) = delete;
  /// Appends the record of `event` in this format. Fails with kIo.
  virtual Result<void> write(const ReportEvent& event, double time_s) = 0;
};

/// All files of a run. Only the metrics file is essential: if it cannot be opened or written, that
/// is an error. If another file fails, that is reported once on stderr, and the file is not written
/// any more: training does not stop for a curve.
class ReportFiles {
 public:
  /// Opens the files for appending. `time_s` is wall-clock time, for names and first records. Fails
  /// with kIo or kNotFound for the metrics file.
  static Result<ReportFiles> open(const ReportFileOptions& options, double time_s);

  /// When this returns, the event is in the files, even if the process is killed next, but not if
  /// the machine crashes. Fails with kIo for the metrics file.
  Result<void> write(const ReportEvent& event, double time_s);

 private:
  struct Optional {
    std::string name;
    std::unique_ptr<ReportSink> sink;
  };

  void add(std::string name, Result<std::unique_ptr<ReportSink>> opened);

  std::unique_ptr<ReportSink> metrics_;
  std::vector<Optional> others_;
};

}  // namespace ddprun
