#pragma once

// One visitor for each line style, and a base that prints nothing: a style overrides the events
// that it prints. Private to line_style.cpp; docs/metrics.md has the formats.

#include "trainer/core/line_style.hpp"
#include "trainer/core/report_event.hpp"

#include <string>
#include <vector>

namespace ddprun {

using Lines = std::vector<std::string>;

/// "step epoch=… step=… batch=…/… loss=…", and any other known values.
std::string step_line(const StepDone& step);

/// "phases epoch=… step=… data_s=…": how a step spent its time.
std::string phase_line(const StepDone& step);

/// "rank=… epoch=… step=… loss=…": a rank's own step, and its peak memory.
std::string rank_line(const StepDone& step, int rank);

/// For events without a line in a style. Step events occur only if steps were requested.
struct SilentLines {
  const LineContext& context;

  Lines operator()(const RunBegan&) const { return {}; }
  Lines operator()(const RunResumed&) const { return {}; }
  Lines operator()(const EpochBegan&) const { return {}; }
  Lines operator()(const StepDone& step) const { return {step_line(step)}; }
  Lines operator()(const EpochTrained&) const { return {}; }
  Lines operator()(const EpochValidated&) const { return {}; }
  Lines operator()(const SnapshotSaved&) const { return {}; }
  Lines operator()(const RunStopped&) const { return {}; }
  Lines operator()(const RunEnded&) const { return {}; }

  bool is_first() const { return context.rank == 0; }
  /// The number of the epoch within the run, from 1.
  std::int64_t count_of(Progress at) const { return at.epoch - context.first_epoch + 1; }
};

struct PlainLines : SilentLines {
  using SilentLines::operator();
  Lines operator()(const RunBegan& run) const;
  Lines operator()(const RunResumed& run) const;
  Lines operator()(const EpochTrained& epoch) const;
  Lines operator()(const EpochValidated& epoch) const;
  Lines operator()(const RunStopped& run) const;
  Lines operator()(const RunEnded& run) const;
};

struct MilaImagenetLines : SilentLines {
  using SilentLines::operator();
  Lines operator()(const RunBegan& run) const;
  Lines operator()(const RunResumed& run) const;
  Lines operator()(const StepDone& step) const;
  Lines operator()(const EpochValidated& epoch) const;
  Lines operator()(const RunEnded& run) const;

  std::string prefix() const { return rank_prefix(context.rank, context.world); }
};

struct MilaCifarLines : SilentLines {
  using SilentLines::operator();
  Lines operator()(const RunBegan& run) const;
  Lines operator()(const EpochValidated& epoch) const;
  Lines operator()(const RunStopped& run) const;
  Lines operator()(const RunEnded& run) const;

  std::string prefix() const;
};

struct CrusoeMnistLines : SilentLines {
  using SilentLines::operator();
  Lines operator()(const RunBegan& run) const;
  Lines operator()(const StepDone& step) const;
  Lines operator()(const EpochTrained& epoch) const;
  Lines operator()(const SnapshotSaved& snapshot) const;
  Lines operator()(const RunEnded& run) const;
};

struct CrusoeVitLines : SilentLines {
  using SilentLines::operator();
  Lines operator()(const RunBegan& run) const;
  Lines operator()(const StepDone& step) const;
  Lines operator()(const EpochTrained& epoch) const;
  Lines operator()(const SnapshotSaved& snapshot) const;
  Lines operator()(const RunEnded& run) const;
};

struct KaustLines : SilentLines {
  using SilentLines::operator();
  Lines operator()(const RunBegan& run) const;
  Lines operator()(const EpochValidated& epoch) const;
  Lines operator()(const RunEnded& run) const;
};

struct OpenaccLines : SilentLines {
  using SilentLines::operator();
  Lines operator()(const RunBegan& run) const;
  Lines operator()(const EpochBegan& epoch) const;
  Lines operator()(const EpochValidated& epoch) const;
  Lines operator()(const SnapshotSaved& snapshot) const;
};

}  // namespace ddprun
