#include "rendezvous/http_get.hpp"

#include "base/deadline.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <fmt/format.h>

#include <array>
#include <exception>
#include <optional>
#include <utility>

namespace ddprun {
namespace {

namespace beast = boost::beast;
namespace http = beast::http;
using asio::ip::tcp;
using Request = http::request<http::empty_body>;

constexpr std::uint32_t kResponseHeaderBytesMax = 16 * 1024;
constexpr unsigned kRequestVersion = 11;  // HTTP/1.1
constexpr std::string_view kBeginning = "HTTP/1.";

Error not_http() {
  return make_error(
      Errc::kProtocol, "the server does not speak HTTP; give the address of a node of the job");
}

Error error_of(const beast::error_code& failed, std::size_t body_bytes_max) {
  if (failed == http::error::body_limit) {
    return make_error(
        Errc::kLimit, fmt::format("its reply has more than {} bytes", body_bytes_max));
  }
  if (failed == asio::error::eof || failed == http::error::end_of_stream ||
      failed == http::error::partial_message) {
    return make_error(Errc::kPeerLost, "the server closed the connection");
  }
  if (failed.category() == http::make_error_code(http::error::bad_version).category()) {
    return not_http();
  }
  return make_error(Errc::kPeerLost, failed.message());
}

asio::awaitable<Result<HttpResponse>> exchange(
    tcp::resolver::results_type addresses, Request request, std::size_t body_bytes_max) {
  tcp::socket socket(co_await asio::this_coro::executor);
  const auto [refused, address] = co_await asio::async_connect(socket, addresses, kTuple);
  if (refused) {
    co_return with_context("cannot connect", error_of(refused, body_bytes_max));
  }
  const auto [unsent, sent] = co_await http::async_write(socket, request, kTuple);
  if (unsent) co_return error_of(unsent, body_bytes_max);

  // A server of another kind may wait for more after its greeting, so that Beast would wait too.
  std::array<char, kBeginning.size()> begin{};
  const auto missing = [&begin](const beast::error_code& failed, std::size_t have) -> std::size_t {
    const bool is_http = kBeginning.starts_with(std::string_view(begin.data(), have));
    return failed || !is_http ? 0 : begin.size() - have;
  };
  const auto [cut, have] = co_await asio::async_read(socket, asio::buffer(begin), missing, kTuple);
  if (!kBeginning.starts_with(std::string_view(begin.data(), have))) co_return not_http();
  if (cut) co_return error_of(cut, body_bytes_max);

  beast::flat_buffer buffer;
  buffer.commit(asio::buffer_copy(buffer.prepare(have), asio::buffer(begin)));
  http::response_parser<http::string_body> parser;
  parser.header_limit(kResponseHeaderBytesMax);
  parser.body_limit(body_bytes_max);
  const auto [no_header, header_bytes] =
      co_await http::async_read_header(socket, buffer, parser, kTuple);
  if (no_header) co_return error_of(no_header, body_bytes_max);
  // Without a length, a connection that is cut off would look like the end of the body.
  if (!parser.content_length()) co_return not_http();
  const auto [no_body, body_bytes] = co_await http::async_read(socket, buffer, parser, kTuple);
  if (no_body) co_return error_of(no_body, body_bytes_max);
  auto message = parser.release();
  co_return HttpResponse{
      .status = static_cast<int>(message.result_int()),
      .server = std::string(message[http::field::server]),
      .location = std::string(message[http::field::location]),
      .challenge = std::string(message[http::field::www_authenticate]),
      .body = std::move(message.body())};
}

}  // namespace

Result<HttpResponse> http_get(
    const Endpoint& endpoint,
    std::string_view path,
    std::size_t body_bytes_max,
    TimePoint deadline,
    std::string_view authorization) {
  const std::string name = endpoint.to_string();
  asio::io_context context(1);
  beast::error_code unknown;
  const auto addresses =
      tcp::resolver(context).resolve(endpoint.host, fmt::to_string(endpoint.port), unknown);
  if (unknown) {
    return make_error(
        Errc::kInvalidArgument, fmt::format("cannot resolve {}: {}", name, unknown.message()));
  }
  Request request(http::verb::get, path, kRequestVersion);
  request.set(http::field::host, name);
  if (!authorization.empty()) request.set(http::field::authorization, authorization);
  request.keep_alive(false);
  std::optional<Result<HttpResponse>> outcome;
  const auto keep = [&outcome](const std::exception_ptr& bug, Result<HttpResponse> response) {
    if (bug) std::rethrow_exception(bug);
    outcome = std::move(response);
  };
  asio::co_spawn(context, exchange(addresses, std::move(request), body_bytes_max), keep);
  context.run_for(deadline - Clock::now());
  if (!outcome) outcome = make_error(Errc::kTimedOut, "no reply by the deadline");
  if (!*outcome) return with_context(name, outcome->error());
  return *std::move(outcome);
}

}  // namespace ddprun
