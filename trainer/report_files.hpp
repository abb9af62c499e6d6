#pragma once

// The files that a run writes for programs: JSON lines, CSV, TensorBoard's and wandb's. Rank 0
// opens them; the formats are made in core/.

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

/// What --metrics-file and the like ask for; a file without a name is not written.
struct ReportFileOptions {
  struct Wandb {
    std::string directory;  // "wandb/" is made in it
    std::string run_id;     // empty: made by chance
    std::string project;
    std::string group;
    std::string run_name;
    /// Shown beside the flags; see wandb_config().
    std::map<std::string, std::string> environment;
  };

  std::optional<std::string> metrics_file;  // JSON lines; a FIFO works too
  std::optional<std::string> csv_file;
  std::optional<std::string> tensorboard_dir;  // made where it is missing
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
  /// Appends what the format has for `event`. Fails with kIo.
  virtual Result<void> write(const ReportEvent& event, double time_s) = 0;
};

/// All files of a run. Only the metrics file is the run's business: if it cannot be opened or
/// written, that is an error. Another that fails is named on stderr, once, and left alone
/// thereafter: no curve is worth a training.
class ReportFiles {
 public:
  /// Opens the files for appending. `time_s` is the wall clock, of names and first records. Fails
  /// with kIo or kNotFound for the metrics file.
  static Result<ReportFiles> open(const ReportFileOptions& options, double time_s);

  /// What was reported is in the files when this returns, even if the process is killed next; not
  /// if the machine is. Fails with kIo for the metrics file.
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
