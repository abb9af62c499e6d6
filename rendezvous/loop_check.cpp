#include "rendezvous/loop_check.hpp"

namespace ddprun {

Result<void> check_timers(asio::io_context& context, Duration patience) {
  bool fires = false;
  Timer timer(context, Clock::now());
  timer.async_wait([&fires](const boost::system::error_code& cancelled) { fires = !cancelled; });
  context.run_for(patience);
  timer.cancel();
  context.restart();
  context.poll();
  context.restart();
  if (fires) return {};
  return make_error(
      Errc::kIo,
      "cannot wait for timers: the kernel does not watch another descriptor; this user may be at "
      "the limit of epoll (fs.epoll.max_user_watches), or memory is short");
}

}  // namespace ddprun
