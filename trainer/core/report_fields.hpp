#pragma once

// An event as named values, once for all text files: a JSON line and a CSV row of one event hold
// the same names and the same numbers, to the last bit. docs/metrics.md has the table.

#include "trainer/core/report_event.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace ddprun {

using FieldValue = std::variant<std::int64_t, double, std::string>;

/// Names end with their unit where they have one.
using Fields = std::vector<std::pair<std::string_view, FieldValue>>;

/// "start", "resumed", "step", "epoch", "validation", "snapshot", "stopped" or "final"; empty for
/// an event that has no record (EpochBegan).
std::string_view record_name(const ReportEvent& event);

/// epoch and step first, then the event's own. What is not known is left out.
Fields fields_of(const ReportEvent& event);

/// {"event":…,"time_s":…,"epoch":…,"step":…,…} and a line break; `time_s` is the wall clock in
/// seconds since 1970. A number that is none is null. Empty where record_name() is.
std::string json_record(const ReportEvent& event, double time_s);

/// The first line of a CSV file (RFC 4180): every column there is, in a fixed order to which later
/// versions only append.
std::string csv_header();

/// The row of `event`: cells it has no value for are empty, as are numbers that are none. Empty
/// where record_name() is.
std::string csv_row(const ReportEvent& event, double time_s);

}  // namespace ddprun
