#pragma once

// Python's tracebacks in what a worker wrote to stderr. torch writes "[rank0]: " before each of
// their lines.

#include <cstddef>
#include <string_view>

namespace ddprun {

/// Where the last Python traceback begins, with those of the exceptions that led to its own; npos:
/// there is none.
std::size_t traceback_begin(std::string_view text);

/// The line with the exception of the last Python traceback, whatever was written after it; else
/// the last line.
std::string_view cause_line(std::string_view text);

}  // namespace ddprun
