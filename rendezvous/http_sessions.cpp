#include "rendezvous/http_sessions.hpp"

#include "base/log.hpp"
#include "rendezvous/stream_of.hpp"

#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/span.hpp>
#include <boost/beast/http.hpp>
#include <boost/system/system_error.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <utility>

#include <sys/socket.h>

namespace ddprun {
namespace {

namespace beast = boost::beast;
namespace http = beast::http;

constexpr std::uint32_t kRequestHeaderBytesMax = 8'192;
constexpr std::size_t kCrowd = 32;  // clients, of up to 40 KiB each
constexpr int kOk = 200;
constexpr int kNotFound = 404;
constexpr int kMethodNotAllowed = 405;
constexpr unsigned kResponseVersion = 11;  // HTTP/1.1

using Stream = asio::posix::stream_descriptor;
using Parser = http::request_parser<http::empty_body>;
using Body = http::span_body<const char>;  // of the page, which outlives the response
using Response = http::response<Body>;
using Transferred = std::tuple<beast::error_code, std::size_t>;

Response response_of(const HttpPage& page) {
  Response response(static_cast<http::status>(page.status), kResponseVersion);
  response.set(http::field::server, "ddprun");
  response.set(http::field::content_type, page.content_type);
  if (page.location) response.set(http::field::location, *page.location);
  if (page.challenge) response.set(http::field::www_authenticate, *page.challenge);
  response.set(http::field::cache_control, "no-store");
  response.keep_alive(false);
  response.body() = beast::span<const char>(page.body->data(), page.body->size());
  response.prepare_payload();
  return response;
}

HttpPage plain(int status, std::string body) {
  return {.content_type = "text/plain", .body = page_body(std::move(body)), .status = status};
}

HttpPage page_for(const Parser::value_type& asked, const HttpPages& pages) {
  const http::verb method = asked.method();
  if (method != http::verb::get && method != http::verb::head) {
    return plain(kMethodNotAllowed, "only GET and HEAD\n");
  }
  const std::string_view target(asked.target().data(), asked.target().size());
  const auto authorization = asked[http::field::authorization];
  const HttpRequest request{
      .path = target.substr(0, target.find('?')),
      .authorization = {authorization.data(), authorization.size()}};
  if (request.path == "/healthz") return plain(kOk, "ok\n");
  if (const auto page = pages ? pages(request) : std::nullopt) return *page;
  const std::string_view others = pages ? " or /status" : "";
  return plain(kNotFound, fmt::format("try /healthz{}\n", others));
}

asio::awaitable<Transferred> read_header(
    Stream& stream, beast::flat_buffer& buffer, Parser& parser) {
  co_return co_await http::async_read_header(stream, buffer, parser, kTuple);
}

asio::awaitable<Transferred> write(Stream& stream, const Response& response, bool with_body) {
  http::response_serializer<Body> serializer(response);
  if (!with_body) co_return co_await http::async_write_header(stream, serializer, kTuple);
  co_return co_await http::async_write(stream, serializer, kTuple);
}

}  // namespace

std::shared_ptr<const std::string> page_body(std::string text) {
  return std::make_shared<const std::string>(std::move(text));
}

HttpSessions::HttpSessions(
    asio::any_io_executor executor,
    HttpPages pages,
    std::size_t sessions_max,
    std::function<void()> on_idle)
    : executor_(std::move(executor)),
      pages_(std::move(pages)),
      sessions_max_(sessions_max),
      on_idle_(std::move(on_idle)),
      tasks_(executor_) {}

void HttpSessions::adopt(Descriptor socket, std::string received, TimePoint deadline) {
  while (open_sessions() >= sessions_max_ && make_way()) {}
  tasks_.spawn_or_throw(serve(std::move(socket), std::move(received), deadline));
}

bool HttpSessions::make_way() {
  const auto is_open = [](const Session& session) { return session.stream.is_open(); };
  auto leaves = std::ranges::find_if(
      sessions_, [&](const Session& session) { return is_open(session) && !session.has_asked; });
  if (leaves == sessions_.end()) leaves = std::ranges::find_if(sessions_, is_open);
  if (leaves == sessions_.end()) return false;
  boost::system::error_code ignored;  // it is closed either way
  // What waits for it ends, at the next turn of the loop.
  static_cast<void>(leaves->stream.close(ignored));
  return true;
}

std::size_t HttpSessions::open_sessions() const {
  return static_cast<std::size_t>(std::ranges::count_if(
      sessions_, [](const Session& session) { return session.stream.is_open(); }));
}

asio::awaitable<void> HttpSessions::serve(
    Descriptor socket, std::string received, TimePoint deadline) {
  std::string failure;
  auto session = sessions_.end();
  try {
    session = sessions_.insert(session, {.stream = stream_of(executor_, std::move(socket))});
    crowd_ = std::max(crowd_, sessions_.size());
    co_await answer_request(*session, std::move(received), deadline);
  } catch (const boost::system::system_error& error) {
    if (error.code() != asio::error::operation_aborted) failure = error.what();
  } catch (const std::exception& error) {
    failure = error.what();
  }
  if (session != sessions_.end()) sessions_.erase(session);
  if (!failure.empty()) spdlog::error("an HTTP request was not answered: {}", failure);
  if (sessions_.empty() && std::exchange(crowd_, 0) >= kCrowd) on_idle_();
}

asio::awaitable<void> HttpSessions::answer_request(
    Session& session, std::string received, TimePoint deadline) {
  Stream& stream = session.stream;
  Parser parser;
  parser.header_limit(kRequestHeaderBytesMax);
  parser.body_limit(boost::none);  // a body is never read
  beast::flat_buffer buffer;
  buffer.commit(asio::buffer_copy(buffer.prepare(received.size()), asio::buffer(received)));
  // Most often it is the whole request. Each wait lets every other client of the port have its
  // turn.
  beast::error_code error;
  buffer.consume(parser.put(buffer.data(), error));
  if (error == http::error::need_more) {
    const auto got = co_await before(deadline, read_header(stream, buffer, parser));
    error = got ? std::get<0>(*got) : beast::error_code(asio::error::timed_out);
  }
  if (error) co_return;
  session.has_asked = true;
  const HttpPage page = page_for(parser.get(), pages_);
  const Response response = response_of(page);
  const bool with_body = parser.get().method() != http::verb::head;
  // If the client has gone, there is nobody to tell.
  static_cast<void>(co_await before(deadline, write(stream, response, with_body)));
  if (stream.is_open()) ::shutdown(stream.native_handle(), SHUT_WR);
}

}  // namespace ddprun
