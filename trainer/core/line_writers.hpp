#pragma once

// One visitor for each line style, and a base that says nothing: a style overrides what it tells
// of. Private to line_style.cpp; the formats are those of docs/metrics.md.

#include "trainer/core/line_style.hpp"
#include "trainer/core/report_event.hpp"

#include <string>
#include <vector>

namespace ddprun {

using Lines = std::vector<std::string>;

/// "step epoch=… step=… batch=…/… loss=…", and what else is known of it.
std::string step_line(const StepDone& step);

/// "phases epoch=… step=… data_s=…": where the time of a step went.
std::string phase_line(const StepDone& step);

/// "rank=… epoch=… step=… loss=…": a rank's own step, and the most memory that it has had.
std::string rank_line(const StepDone& step, int rank);

/// For events that a style has no line for. A step's is there only if somebody asked for steps.
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
  /// How manieth epoch of the run it is, from 1.
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
