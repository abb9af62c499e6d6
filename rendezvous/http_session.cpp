#include "rendezvous/http_session.hpp"

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/write.hpp>
#include <fmt/format.h>

#include <string_view>
#include <utility>

#include <sys/socket.h>

namespace ddprun {
namespace {

constexpr std::size_t kRequestBytesMax = 8'192;
constexpr std::string_view kHeaderEnd = "\r\n\r\n";

std::string answer(const HttpPage& page, bool with_body) {
  const std::string location = page.location ? fmt::format("Location: {}\r\n", *page.location) : "";
  return fmt::format(
      "HTTP/1.1 {}\r\nServer: ddprun\r\nContent-Type: {}\r\nContent-Length: {}\r\n{}"
      "Connection: close\r\nCache-Control: no-store\r\n\r\n{}",
      page.status,
      page.content_type,
      page.body.size(),
      location,
      with_body ? page.body : "");
}

HttpPage plain(std::string status, std::string body) {
  return {.content_type = "text/plain", .body = std::move(body), .status = std::move(status)};
}

std::string answer_to(std::string_view request, const HttpPages& pages) {
  const std::string_view line = request.substr(0, request.find("\r\n"));
  const std::size_t method_end = line.find(' ');
  const std::string_view method = line.substr(0, method_end);
  const std::string_view rest = line.substr(method_end + 1);
  const std::string_view path = rest.substr(0, rest.find_first_of(" ?"));
  const bool with_body = method != "HEAD";
  if (method != "GET" && method != "HEAD") {
    return answer(plain("405 Method Not Allowed", "only GET and HEAD\n"), with_body);
  }
  if (path == "/healthz") return answer(plain("200 OK", "ok\n"), with_body);
  const auto page = pages ? pages(path) : std::nullopt;
  if (page) return answer(*page, with_body);
  const std::string_view others = pages ? ", /status or /metrics" : "";
  return answer(plain("404 Not Found", fmt::format("try /healthz{}\n", others)), with_body);
}

using Stream = asio::posix::stream_descriptor;
using Transferred = std::tuple<boost::system::error_code, std::size_t>;

asio::awaitable<Transferred> read_header(Stream& stream, std::string& request) {
  co_return co_await asio::async_read_until(
      stream, asio::dynamic_buffer(request, kRequestBytesMax), kHeaderEnd, kTuple);
}

asio::awaitable<Transferred> write_all(Stream& stream, const std::string& bytes) {
  co_return co_await asio::async_write(stream, asio::buffer(bytes), kTuple);
}

}  // namespace

asio::awaitable<void> serve_http(
    Descriptor socket, std::string received, TimePoint deadline, HttpPages pages) {
  Stream stream(co_await asio::this_coro::executor, socket.release());
  if (received.find(kHeaderEnd) == std::string::npos) {
    const auto got = co_await before(deadline, read_header(stream, received));
    if (!got || std::get<0>(*got)) co_return;
  }
  const std::string reply = answer_to(received, pages);
  // A peer that has gone needs no answer.
  static_cast<void>(co_await before(deadline, write_all(stream, reply)));
  ::shutdown(stream.native_handle(), SHUT_WR);
}

}  // namespace ddprun
