#pragma once

// Python's tracebacks in what a worker wrote to stderr. torch writes "[rank0]: " before each of
// their lines.

#include <cstddef>
#include <string_view>

namespace ddprun {

/// Where the last Python traceback of the main thread begins, with those of the exceptions that led
/// to its own; where there is none of the main thread, that of the last one. npos: there is none.
std::size_t traceback_begin(std::string_view text);

/// The line with that traceback's exception, whatever was written after it; else the last line.
std::string_view cause_line(std::string_view text);

}  // namespace ddprun
