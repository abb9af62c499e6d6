#pragma once

#include "base/endpoint.hpp"
#include "base/error.hpp"

#include <string>

namespace ddprun {

struct StoreServeOptions {
  Endpoint endpoint;      // host "": all addresses; port 0: any free one
  std::string port_file;  // empty: none
};

/// Serves a store until SIGTERM or SIGINT, then closes every connection with FIN.
Result<void> serve_store(const StoreServeOptions& options);

}  // namespace ddprun
