// HTTP requests and responses, damaged at random. Run under ASan (preset dev), this shows that none
// crashes or leaks, that a request gets a whole answer or none, and that a response is whole or
// refused.

#include "rendezvous/http_get.hpp"
#include "rendezvous/http_sessions.hpp"
#include "tests/fuzz/damaged.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/write.hpp>
#include <gtest/gtest.h>

#include <array>
#include <mutex>
#include <thread>

#include <sys/socket.h>
#include <unistd.h>

namespace ddprun {
namespace {

using asio::ip::tcp;

constexpr int kRequests = 20'000;
constexpr int kResponses = 4'000;
constexpr std::uint64_t kSeed = 20'261'130;
constexpr auto kPatience = std::chrono::seconds(60);
constexpr std::size_t kBodyBytesMax = 4'096;
constexpr std::string_view kPage = "{\"state\":\"running\"}";

void say(int socket, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return;  // it has answered and left
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
}

std::string heard(int socket) {
  std::string all;
  std::array<char, 4'096> some{};
  for (;;) {
    const ssize_t got = ::recv(socket, some.data(), some.size(), 0);
    if (got <= 0) return all;
    all.append(some.data(), static_cast<std::size_t>(got));
  }
}

/// The answer to a request of which `received` bytes were read before the session began.
std::string answer_to(std::string_view request, std::size_t received) {
  std::array<int, 2> ends{};
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
  const Descriptor client(ends[0]);
  Descriptor server(ends[1]);
  say(client.get(), request.substr(received));
  ::shutdown(client.get(), SHUT_WR);
  asio::io_context context(1);
  const HttpPages pages = [](const HttpRequest& asked) -> std::optional<HttpPage> {
    if (asked.path != "/status") return std::nullopt;
    return HttpPage{.content_type = "application/json", .body = page_body(std::string(kPage))};
  };
  const TimePoint deadline = Clock::now() + kPatience;
  HttpSessions sessions(context.get_executor(), pages, 1, /*on_idle=*/[] {});
  sessions.adopt(std::move(server), std::string(request.substr(0, received)), deadline);
  context.run();
  EXPECT_LT(Clock::now(), deadline);
  return heard(client.get());
}

/// Nothing, or one response that ends where it says.
bool is_whole(std::string_view answer) {
  if (answer.empty()) return true;
  const std::size_t end = answer.find("\r\n\r\n");
  constexpr std::string_view kLength = "Content-Length: ";
  const std::size_t length = answer.find(kLength);
  if (!answer.starts_with("HTTP/1.1 ") || end == std::string_view::npos || length > end)
    return false;
  const std::string_view body = answer.substr(end + 4);
  const std::string_view digits = answer.substr(length + kLength.size());
  const auto bytes = parse_int<std::size_t>(digits.substr(0, digits.find('\r')));
  return bytes && (body.size() == *bytes || body.empty());  // empty: HEAD
}

/// Sends the bytes of `say()` to the next client, whatever it asks, and closes.
class OneAnswer {
 public:
  OneAnswer() : thread_([this] { serve(); }) {}
  OneAnswer(const OneAnswer&) = delete;
  OneAnswer& operator=(const OneAnswer&) = delete;
  ~OneAnswer() {
    ::shutdown(acceptor_.native_handle(), SHUT_RDWR);
    thread_.join();
  }

  Endpoint endpoint() const {
    return {.host = "127.0.0.1", .port = acceptor_.local_endpoint().port()};
  }

  void say(std::string answer) {
    const std::scoped_lock lock(mutex_);
    answer_ = std::move(answer);
  }

 private:
  void serve() {
    for (;;) {
      boost::system::error_code failed;
      tcp::socket socket = acceptor_.accept(failed);
      if (failed) return;
      std::string request;
      asio::read_until(socket, asio::dynamic_buffer(request), "\r\n\r\n", failed);
      std::string answer;
      {
        const std::scoped_lock lock(mutex_);
        answer = answer_;
      }
      asio::write(socket, asio::buffer(answer), failed);
    }
  }

  asio::io_context context_{1};
  tcp::acceptor acceptor_{context_, tcp::endpoint(asio::ip::address_v4::loopback(), 0)};
  std::mutex mutex_;
  std::string answer_;
  std::thread thread_;
};

TEST(HttpRequests, DamagedOnesGetAWholeAnswerOrNone) {
  testing::Effort effort(kRequests);
  testing::Damaged requests(
      "http_requests",
      {"\r\n",
       "\r\n\r\n",
       "GET ",
       "HEAD ",
       "POST ",
       " HTTP/1.1",
       " HTTP/9.9",
       "/status",
       "?",
       "Host: a\r\n",
       "Content-Length: 18446744073709551616\r\n",
       "Content-Length: -1\r\n",
       "Transfer-Encoding: chunked\r\n",
       "Expect: 100-continue\r\n",
       "Upgrade: h2c\r\n",
       "\r\nffffffffffffffff\r\n",
       " ",
       "\t",
       std::string_view("\0", 1)},
      effort.seed(kSeed));
  while (effort.goes_on()) {
    const std::string request = requests.next();
    const std::string answer = answer_to(request, requests.below(request.size() + 1));
    ASSERT_TRUE(is_whole(answer)) << request << "\nis answered by\n" << answer;
  }
}

TEST(HttpRequests, OfTheCorpusAreAnswered) {
  EXPECT_TRUE(answer_to("GET /status HTTP/1.1\r\nHost: a\r\n\r\n", 4).ends_with(kPage));
  EXPECT_TRUE(answer_to("GET /healthz HTTP/1.0\r\n\r\n", 0).ends_with("ok\n"));
}

TEST(HttpResponses, DamagedOnesAreWholeOrRefused) {
  testing::Effort effort(kResponses);
  testing::Damaged responses(
      "http_responses",
      {"\r\n",
       "\r\n\r\n",
       "HTTP/1.1 ",
       "HTTP/1.0 ",
       "HTTP/2 ",
       "200",
       "999",
       "100 Continue\r\n\r\n",
       "Content-Length: 4097\r\n",
       "Content-Length: 18446744073709551615\r\n",
       "Content-Length: 0\r\n",
       "Transfer-Encoding: chunked\r\n",
       "Location: \r\n",
       "\r\n10000\r\n",
       " ",
       std::string_view("\0", 1)},
      effort.seed(kSeed + 1));
  OneAnswer server;
  while (effort.goes_on()) {
    const std::string text = responses.next();
    server.say(text);
    const TimePoint deadline = Clock::now() + kPatience;
    const auto response = http_get(server.endpoint(), "/status", kBodyBytesMax, deadline);
    ASSERT_LT(Clock::now(), deadline) << text;
    if (!response) {
      ASSERT_FALSE(response.error().is(Errc::kTimedOut)) << text;
      continue;
    }
    ASSERT_LE(response->body.size(), kBodyBytesMax) << text;
    ASSERT_NE(text.find(response->body), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace ddprun
