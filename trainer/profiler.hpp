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

/// Records some steps of this rank by torch's own profiler, Kineto, with shapes, memory and
/// floating-point operations, and writes a Chrome trace for each cycle: what Python's
/// torch.profiler does with tensorboard_trace_handler(worker_name="rank_<R>").
///
///   for each step: profiler.begin_step();  ...  profiler.end_step();
///   profiler.finish();
///
/// All calls come from one thread, the one that trains. A trace that cannot be written is told on
/// stderr, and training goes on.
class Profiler {
 public:
  /// What the traces say of the run.
  struct Context {
    int rank = 0;
    int world = 1;
    Device* device = nullptr;  // never null; outlives the profiler
  };

  /// Makes the directory. Fails with kIo or kNotFound.
  static Result<std::unique_ptr<Profiler>> open(
      std::string directory, const ProfileSchedule& schedule, const Context& context);

  ~Profiler();
  Profiler(const Profiler&) = delete;
  Profiler& operator=(const Profiler&) = delete;

  void begin_step();
  void end_step();

  /// Writes what is recorded of a cycle that is not done, as Python does at the end of its `with`.
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
  const bool has_gpu_;  // its kernels are recorded, too
  Stage stage_ = Stage::kIdle;
  std::int64_t step_ = 0;        // the one under way or to come
  std::int64_t first_step_ = 0;  // that is recorded
  std::optional<at::RecordFunction> step_range_;
};

}  // namespace ddprun
