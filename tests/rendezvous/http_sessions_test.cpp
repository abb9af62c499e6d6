// People and programs that look at a job over HTTP, and those who only hold a connection.

#include "rendezvous/http_sessions.hpp"

#include "tests/rendezvous/running_store.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <optional>
#include <stdexcept>
#include <thread>

namespace ddprun {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace): the verbs of this test
using namespace std::chrono_literals;

constexpr std::string_view kAsk = "GET /status HTTP/1.1\r\n\r\n";
constexpr std::string_view kOk = "HTTP/1.1 200 ";

/// A port that has `body` at /status.
StoreServerOptions with_status(std::shared_ptr<const std::string> body, StoreLimits limits = {}) {
  StoreServerOptions options;
  options.limits = limits;
  options.pages = [body = std::move(body)](const HttpRequest& request) -> std::optional<HttpPage> {
    if (request.path != "/status") return std::nullopt;
    return HttpPage{.content_type = "application/json", .body = body};
  };
  return options;
}

TEST(HttpSessions, ServesThePagesItWasGiven) {
  StoreServerOptions options;
  options.pages = [](const HttpRequest& request) -> std::optional<HttpPage> {
    if (request.path == "/away") {
      return HttpPage{
          .content_type = "", .body = page_body(""), .status = 307, .location = "http://there/"};
    }
    if (request.path != "/status") return std::nullopt;
    return HttpPage{.content_type = "application/json", .body = page_body("{\"round\":3}")};
  };
  const RunningStore store(std::move(options));
  RawClient asks(store, "GET /status?now HTTP/1.1\r\n\r\n");
  const std::string page = asks.hear(4'096);
  EXPECT_TRUE(page.starts_with("HTTP/1.1 200 ")) << page;
  EXPECT_NE(page.find("Content-Type: application/json\r\n"), std::string::npos) << page;
  EXPECT_TRUE(page.ends_with("\r\n\r\n{\"round\":3}")) << page;
  RawClient head(store, "HEAD /status HTTP/1.1\r\n\r\n");
  EXPECT_TRUE(head.hear(4'096).ends_with("\r\n\r\n"));
  RawClient away(store, "GET /away HTTP/1.1\r\n\r\n");
  const std::string way = away.hear(4'096);
  EXPECT_TRUE(way.starts_with("HTTP/1.1 307 ")) << way;
  EXPECT_NE(way.find("\r\nLocation: http://there/\r\n"), std::string::npos) << way;
  RawClient other(store, "GET /nothing HTTP/1.1\r\n\r\n");
  EXPECT_TRUE(other.hear(4'096).starts_with("HTTP/1.1 404 "));
}

// It ended all later requests too, and was thrown again at the end: a good job exited with 70.
TEST(HttpSessions, APageThatThrowsCostsNoOtherRequest) {
  StoreServerOptions options;
  options.pages = [](const HttpRequest& request) -> std::optional<HttpPage> {
    if (request.path == "/status") throw std::runtime_error("no memory");
    return std::nullopt;
  };
  const RunningStore store(std::move(options));
  RawClient asks(store, "GET /status HTTP/1.1\r\n\r\n");
  EXPECT_TRUE(asks.is_closed());
  RawClient healthy(store, "GET /healthz HTTP/1.1\r\n\r\n");
  EXPECT_TRUE(healthy.hear(4'096).starts_with("HTTP/1.1 200 "));
}

TEST(HttpSessions, AnswerHealthOverHttp) {
  const RunningStore store;
  RawClient healthy(store, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_TRUE(healthy.hear(4'096).starts_with("HTTP/1.1 200 "));
  RawClient cut(store, "GE");
  cut.say("T /nothing HTTP/1.1\r\n");
  cut.say("\r\n");
  EXPECT_TRUE(cut.hear(4'096).starts_with("HTTP/1.1 404 "));
  RawClient post(store, "POST /healthz HTTP/1.1\r\n\r\n");
  EXPECT_TRUE(post.hear(4'096).starts_with("HTTP/1.1 405 "));
  RawClient endless(store, "GET /" + std::string(100'000, 'x'));
  EXPECT_TRUE(endless.is_closed());
}

// Each of 256 connections with half a request held a place for ten seconds, and nobody else was
// answered.
TEST(HttpSessions, HalfSentRequestsMakeWayForWhoAsks) {
  const RunningStore store(with_status(page_body("{}")));
  std::deque<RawClient> strangers;
  for (int i = 0; i < 300; ++i) {
    strangers.emplace_back(store, kAsk.substr(0, kAsk.size() - 1));
  }
  for (int i = 0; i < 10; ++i) {
    EXPECT_TRUE(RawClient(store, kAsk).hear(4'096).starts_with(kOk)) << i;
    EXPECT_TRUE(RawClient(store, "GET /healthz HTTP/1.1\r\n\r\n").hear(4'096).starts_with(kOk))
        << i;
  }
  EXPECT_TRUE(strangers.front().is_closed());
  // The oldest goes first: the youngest may still end its request.
  strangers.back().say(kAsk.substr(kAsk.size() - 1));
  EXPECT_TRUE(strangers.back().hear(4'096).starts_with(kOk));
}

TEST(HttpSessions, WhoDoesNotTakeItsAnswerMakesWayAfterThoseWhoHaveNotAsked) {
  const RunningStore store(
      with_status(page_body(std::string(32U << 20U, 'x')), {.http_sessions_max = 2}));
  RawClient takes_nothing(store, kAsk);
  EXPECT_EQ(takes_nothing.hear(kOk.size()), kOk);
  RawClient half(store, kAsk.substr(0, 4));
  RawClient takes_later(store, kAsk);
  EXPECT_EQ(takes_later.hear(kOk.size()), kOk);
  EXPECT_TRUE(half.is_closed());
  RawClient newcomer(store, "GET /healthz HTTP/1.1\r\n\r\n");
  EXPECT_TRUE(newcomer.hear(4'096).starts_with(kOk));
  // The first was closed in the middle of its answer, the second gets all of it.
  EXPECT_LT(takes_nothing.hear(33U << 20U).size(), 32U << 20U);
  EXPECT_GT(takes_later.hear(33U << 20U).size(), 32U << 20U);
}

TEST(HttpSessions, ARequestThatComesByteByByteEndsAtTheDeadline) {
  const RunningStore store(with_status(page_body("{}"), {.handshake = 50ms}));
  RawClient slow(store, "GET /");
  std::atomic<bool> is_closed = false;
  std::thread drips([&] {
    while (!is_closed)
      slow.say("x");
  });
  EXPECT_TRUE(slow.is_closed());
  is_closed = true;
  drips.join();
}

// Each session had a copy: 256 MB, of a job with a thousand nodes.
TEST(HttpSessions, AllWhoAskShareOnePage) {
  constexpr long kClients = 8;
  const auto body = page_body(std::string(32U << 20U, 'x'));
  const long owners = body.use_count() + 1;  // with the pages
  RunningStore store(with_status(body));
  std::deque<RawClient> clients;
  for (long i = 0; i < kClients; ++i) {
    clients.emplace_back(store, kAsk);
    EXPECT_EQ(clients.back().hear(kOk.size()), kOk);
  }
  EXPECT_EQ(store.ask([&](StoreServer&) { return body.use_count(); }), owners + kClients);
}

}  // namespace
}  // namespace ddprun
