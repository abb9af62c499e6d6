#pragma once

#include "agent/core/launch_plan.hpp"
#include "base/error.hpp"
#include "rendezvous/store_server.hpp"

#include <boost/asio/io_context.hpp>

#include <cstdint>
#include <memory>

namespace ddprun {

/// Where the workers meet: MASTER_PORT, and the store that listens there.
struct MeetingPoint {
  std::uint16_t port = 0;
  std::unique_ptr<StoreServer> store;  // none: rank 0 hosts its own
};

/// Opens the port that `plan` asks for, or a free one. Fails with kIo, naming the port.
Result<MeetingPoint> open_meeting_point(boost::asio::io_context& context, const LaunchPlan& plan);

}  // namespace ddprun
