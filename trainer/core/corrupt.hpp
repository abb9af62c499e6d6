#pragma once

#include "base/error.hpp"

#include <string>
#include <utility>

namespace ddprun {

/// The error of a file whose content is damaged; `detail` says what is wrong.
inline Error corrupt(std::string detail) {
  return make_error(Errc::kCorrupt, std::move(detail));
}

}  // namespace ddprun
