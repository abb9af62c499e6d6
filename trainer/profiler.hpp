#pragma once

#include "base/error.hpp"
#include "trainer/core/profile_schedule.hpp"
#include "trainer/device.hpp"

#include <ATen/record_function.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace ddprun {

/// Records some steps of this rank with torch's own profiler, Kineto, with shapes, memory and
/// floating-point operations, and writes a Chrome trace for each cycle, as Python's torch.profiler
/// does with tensorboard_trace_handler(worker_name="rank_<R>").
///
///   for each step: profiler.begin_step();  ...  profiler.end_step();
///   profiler.finish();
///
/// All calls come from the thread that trains. A trace that cannot be written is reported on
/// stderr, and training continues.
class Profiler {
 public:
  /// Facts about the run that the traces contain.
  struct Context {
    int rank = 0;
    int world = 1;
    Device* device = nullptr;  // never null; outlives the profiler
  };

  /// Creates the directory. Fails with kIo or kNotFound.
  static Result<std::unique_ptr<Profiler>> open(
      std::string directory, const ProfileSchedule& schedule, const Context& context);

  ~Profiler();
  Profiler(const Profiler&) = delete;
  Profiler& operator=(const Profiler&) = delete;

  void begin_step();
  void end_step();

  /// Writes the recorded part of an unfinished cycle, as Python does at the end of its `with`.
  void finish();

 private:
  enum class Stage : std::uint8_t { kIdle, kWarm, kRecording };

  Profiler(std::string directory, const ProfileSchedule& schedule, const Context& context);
  void warm_up();
  void record();
  void save();

  const std::string directory_;
  const ProfileSchedule schedule_;
  const Context context_;
  const bool has_gpu_;  // GPU kernels are recorded, too
  Stage stage_ = Stage::kIdle;
  std::int64_t step_ = 0;        // the current or next step
  std::int64_t first_step_ = 0;  // first recorded step
  std::optional<at::RecordFunction> step_range_;
};

}  // namespace ddprun
