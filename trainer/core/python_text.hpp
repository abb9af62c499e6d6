#pragma once

// Numbers and strings in the format of Python 3, for lines that must equal those of Python
// programs. fmt rounds as Python does; this adds what differs: NaN, infinities, ".0" and commas.

#include "trainer/core/report_event.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace ddprun {

/// f"{value:.{digits}f}". A NaN has no sign.
std::string python_fixed(double value, int digits);

/// f"{fraction:.{digits}%}": 0.5 is "50.00%" with two digits.
std::string python_percent(double fraction, int digits);

/// f"{value:,}": 1199882 is "1,199,882".
std::string python_grouped(std::int64_t value);

/// repr() of a float: the shortest text that reads back as the same number.
std::string python_repr(double value);

/// repr() of a str. `text` is UTF-8; characters beyond ASCII are treated as printable.
std::string python_repr(std::string_view text);

/// repr() of an argparse.Namespace with these attributes.
std::string python_namespace(const Arguments& arguments);

}  // namespace ddprun
