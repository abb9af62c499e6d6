#include "agent/core/line_splitter.hpp"

#include "base/check.hpp"

namespace ddprun {

LineSplitter::LineSplitter(std::size_t line_bytes_max) : line_bytes_max_(line_bytes_max) {
  DDPRUN_CHECK(line_bytes_max > 0);
}

}  // namespace ddprun
