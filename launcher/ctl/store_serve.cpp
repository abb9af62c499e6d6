#include "launcher/ctl/store_serve.hpp"

#include "base/file.hpp"
#include "base/log.hpp"
#include "base/standard_streams.hpp"
#include "base/task_scope.hpp"
#include "rendezvous/store_server.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <fmt/format.h>

#include <csignal>
#include <exception>

namespace ddprun {
namespace {

// One connection per rank and store object, a few of each: torch's client opens four per rank.
constexpr std::uint64_t kDescriptorsWanted = 4096;

asio::awaitable<void> serve_until_signalled(StoreServer& server, asio::signal_set& signals) {
  TaskScope scope(co_await asio::this_coro::executor);
  scope.spawn(server.serve());
  const auto [error, signal] = co_await signals.async_wait(kTuple);
  if (!error) spdlog::info("store port={} phase=stopping: signal {}", server.port(), signal);
  scope.cancel();
  co_await scope.join();
}

}  // namespace

Result<void> serve_store(const StoreServeOptions& options) {
  const std::uint64_t descriptors = raise_descriptor_limit();
  if (descriptors < kDescriptorsWanted) {
    spdlog::warn("only {} files may be open; raise the hard limit (ulimit -Hn)", descriptors);
  }
  asio::io_context context(1);
  asio::signal_set signals(context, SIGTERM, SIGINT);
  StoreServerOptions serving;
  serving.endpoint = options.endpoint;
  serving.access.who = StoreAccess::Who::kEveryone;
  auto server = StoreServer::listen(context, serving);
  if (!server) return server.error();
  if (!options.port_file.empty()) {
    auto const written = replace_file(options.port_file, fmt::format("{}\n", (*server)->port()));
    if (!written) return with_context("--port-file", written.error());
  }
  const auto printed = write_stdout(fmt::format("listening on port {}\n", (*server)->port()));
  if (!printed) spdlog::warn("port {}: {}", (*server)->port(), printed.error().detail);

  std::exception_ptr thrown;
  asio::co_spawn(
      context, serve_until_signalled(**server, signals), [&thrown](const std::exception_ptr& what) {
        thrown = what;
      });
  context.run();
  if (thrown) std::rethrow_exception(thrown);
  return {};
}

}  // namespace ddprun
