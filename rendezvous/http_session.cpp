#include "rendezvous/http_session.hpp"

#include "base/log.hpp"

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <boost/system/system_error.hpp>
#include <fmt/format.h>

#include <exception>
#include <string_view>
#include <utility>

#include <sys/socket.h>

namespace ddprun {
namespace {

namespace beast = boost::beast;
namespace http = beast::http;

constexpr std::uint32_t kRequestHeaderBytesMax = 8'192;
constexpr int kOk = 200;
constexpr int kNotFound = 404;
constexpr int kMethodNotAllowed = 405;
constexpr unsigned kResponseVersion = 11;  // HTTP/1.1

using Stream = asio::posix::stream_descriptor;
using Parser = http::request_parser<http::empty_body>;
using Response = http::response<http::string_body>;
using Transferred = std::tuple<beast::error_code, std::size_t>;

Response response_of(HttpPage page) {
  Response response(static_cast<http::status>(page.status), kResponseVersion);
  response.set(http::field::server, "ddprun");
  response.set(http::field::content_type, page.content_type);
  if (page.location) response.set(http::field::location, *page.location);
  response.set(http::field::cache_control, "no-store");
  response.keep_alive(false);
  response.body() = std::move(page.body);
  response.prepare_payload();
  return response;
}

HttpPage plain(int status, std::string body) {
  return {.content_type = "text/plain", .body = std::move(body), .status = status};
}

HttpPage page_for(http::verb method, std::string_view target, const HttpPages& pages) {
  if (method != http::verb::get && method != http::verb::head) {
    return plain(kMethodNotAllowed, "only GET and HEAD\n");
  }
  const std::string_view path = target.substr(0, target.find('?'));
  if (path == "/healthz") return plain(kOk, "ok\n");
  if (const auto page = pages ? pages(path) : std::nullopt) return *page;
  const std::string_view others = pages ? " or /status" : "";
  return plain(kNotFound, fmt::format("try /healthz{}\n", others));
}

asio::awaitable<Transferred> read_header(
    Stream& stream, beast::flat_buffer& buffer, Parser& parser) {
  co_return co_await http::async_read_header(stream, buffer, parser, kTuple);
}

asio::awaitable<Transferred> write(Stream& stream, const Response& response, bool with_body) {
  http::response_serializer<http::string_body> serializer(response);
  if (!with_body) co_return co_await http::async_write_header(stream, serializer, kTuple);
  co_return co_await http::async_write(stream, serializer, kTuple);
}

asio::awaitable<void> answer_request(
    Descriptor socket, std::string received, TimePoint deadline, HttpPages pages) {
  Stream stream(co_await asio::this_coro::executor, socket.get());
  static_cast<void>(socket.release());  // not before the stream has it
  beast::flat_buffer buffer;
  buffer.commit(asio::buffer_copy(buffer.prepare(received.size()), asio::buffer(received)));
  Parser parser;
  parser.header_limit(kRequestHeaderBytesMax);
  parser.body_limit(boost::none);  // a body is never read
  const auto got = co_await before(deadline, read_header(stream, buffer, parser));
  if (!got || std::get<0>(*got)) co_return;
  const http::verb method = parser.get().method();
  const auto target = parser.get().target();
  const Response response = response_of(page_for(method, {target.data(), target.size()}, pages));
  const bool with_body = method != http::verb::head;
  // If the client has gone, there is nobody to tell.
  static_cast<void>(co_await before(deadline, write(stream, response, with_body)));
  ::shutdown(stream.native_handle(), SHUT_WR);
}

}  // namespace

asio::awaitable<void> serve_http(
    Descriptor socket, std::string received, TimePoint deadline, HttpPages pages) {
  std::string failure;
  try {
    co_await answer_request(std::move(socket), std::move(received), deadline, std::move(pages));
  } catch (const boost::system::system_error& error) {
    if (error.code() != asio::error::operation_aborted) failure = error.what();
  } catch (const std::exception& error) {
    failure = error.what();
  }
  if (!failure.empty()) spdlog::error("an HTTP request was not answered: {}", failure);
}

}  // namespace ddprun
