#pragma once

// An event as named values, the same for all text files: a JSON line and a CSV row of one event
// have the same names and the same numbers, to the last bit. docs/metrics.md has the table.

#include "trainer/core/report_event.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace ddprun {

using FieldValue = std::variant<std::int64_t, double, std::string>;

/// Names end with their unit if they have one.
using Fields = std::vector<std::pair<std::string_view, FieldValue>>;

/// "start", "resumed", "step", "epoch", "validation", "snapshot", "stopped" or "final"; empty for
/// an event that has no record (EpochBegan).
std::string_view record_name(const ReportEvent& event);

/// epoch and step first, then the event's own fields. Unknown values are left out.
Fields fields_of(const ReportEvent& event);

/// {"event":…,"time_s":…,"epoch":…,"step":…,…} and a line break; `time_s` is wall-clock time in
/// seconds since 1970. NaN and infinities become null. Empty if record_name() is empty.
std::string json_record(const ReportEvent& event, double time_s);

/// The first line of a CSV file (RFC 4180): all columns, in a fixed order; later versions only
/// append columns.
std::string csv_header();

/// The row of `event`: cells without a value, NaN and infinities are empty. The row is empty if
/// record_name() is.
std::string csv_row(const ReportEvent& event, double time_s);

}  // namespace ddprun
