#include "bench/store_load.hpp"

#include "rendezvous/blocking_socket.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <unistd.h>

namespace ddprun {
namespace {

using namespace std::chrono_literals;

constexpr auto kSilenceMax = 30s;
constexpr std::size_t kEventsMax = 512;
constexpr std::size_t kReceiveMax = 1U << 20U;
constexpr std::size_t kOpeningReplyMax = 64;

// From here on a copy costs more than a page's reference.
constexpr std::size_t kFromFileBytes = 16'384;

/// Every batch of a client is like the one before.
bool is_uniform(StoreWorkload workload) {
  return workload != StoreWorkload::kWaitFanout && workload != StoreWorkload::kGloo;
}

Error silent() {
  return make_error(Errc::kTimedOut, "the server has not answered for 30 s");
}

}  // namespace

Result<void> StoreLoad::connect() {
  auto ready = ReadySet::open(ReadySet::Trigger::kLevel);
  if (!ready) return ready.error();
  ready_ = std::move(*ready);
  std::array<char, kOpeningReplyMax> answer{};
  for (int i = 0; i < options_.clients; ++i) {
    const TimePoint deadline = Clock::now() + kSilenceMax;
    auto socket = BlockingSocket::connect(options_.endpoint, deadline);
    if (!socket) return socket.error();
    const StoreBatch opening = opening_of(options_.workload, i);
    auto done = socket->send_all(opening.requests, deadline);
    if (!done) return done;
    done = socket->receive_all(std::span(answer).first(opening.reply_bytes), deadline);
    if (!done) return with_context("the handshake", done.error());
    Client client;
    client.socket = socket->release();
    if (is_uniform(options_.workload)) {
      client.batch = batch_of(options_.workload, i, options_.depth);
      auto kept = keep_in_file(client);
      if (!kept) return kept;
    }
    clients_.push_back(std::move(client));
  }
  for (std::size_t i = 0; i < clients_.size(); ++i) {
    auto added = ready_.add(clients_[i].socket.get(), {.readable = true, .writable = false}, i);
    if (!added) return added;
  }
  return {};
}

Result<StoreLoadResult> StoreLoad::run() {
  if (options_.workload == StoreWorkload::kWaitFanout) return run_fanout();
  if (options_.workload == StoreWorkload::kGloo) return run_gloo();
  return run_batches();
}

Result<StoreLoadResult> StoreLoad::run_batches() {
  StoreLoadResult result;
  const std::int64_t batches = std::max<std::int64_t>(1, options_.operations / options_.depth);
  result.latencies.reserve(static_cast<std::size_t>(batches));
  const TimePoint start = Clock::now();
  std::int64_t begun = 0;
  for (Client& client : clients_) {
    if (begun == batches) break;
    ++begun;
    auto const sent = begin(client);
    if (!sent) return sent.error();
  }
  std::vector<Client*> done;
  for (std::int64_t ended = 0; ended < batches;) {
    auto const stepped = step(done);
    if (!stepped) return stepped.error();
    const TimePoint now = Clock::now();
    for (Client* client : done) {
      ++ended;
      result.latencies.push_back(now - client->since);
      if (begun == batches) continue;
      ++begun;
      auto const sent = begin(*client);
      if (!sent) return sent.error();
    }
  }
  result.wall = Clock::now() - start;
  result.operations = batches * options_.depth;
  return result;
}

Result<StoreLoadResult> StoreLoad::run_fanout() {
  StoreLoadResult result;
  const auto waiting = static_cast<std::int64_t>(clients_.size());
  const std::int64_t rounds = std::max<std::int64_t>(1, options_.operations / waiting);
  auto writer = BlockingSocket::connect(options_.endpoint, Clock::now() + kSilenceMax);
  if (!writer) return writer.error();
  const StoreBatch opening = opening_of(StoreWorkload::kPing, 0);
  auto greeted = writer->send_all(opening.requests, Clock::now() + kSilenceMax);
  if (!greeted) return greeted.error();
  std::array<char, kOpeningReplyMax> answer{};
  greeted =
      writer->receive_all(std::span(answer).first(opening.reply_bytes), Clock::now() + kSilenceMax);
  if (!greeted) return greeted.error();

  for (std::int64_t round = 1; round <= rounds; ++round) {
    const TimePoint deadline = Clock::now() + kSilenceMax;
    for (Client& client : clients_) {
      client.batch = fanout_wait(round);
      auto const sent = begin(client);
      if (!sent) return sent.error();
    }
    auto done = answer_all(clients_.size());
    if (!done) return done.error();
    const StoreBatch set = fanout_set(round);
    for (Client& client : clients_) {
      client.batch.reply_bytes = 1;
      client.received = 0;
    }
    const TimePoint set_at = Clock::now();
    done = writer->send_all(set.requests, deadline);
    if (done) done = answer_all(clients_.size());
    if (!done) return done.error();
    result.latencies.push_back(Clock::now() - set_at);
    result.wall += result.latencies.back();
    done = writer->receive_all(std::span(answer).first(set.reply_bytes), deadline);
    if (!done) return done.error();
  }
  result.operations = rounds * waiting;
  return result;
}

Result<StoreLoadResult> StoreLoad::run_gloo() {
  StoreLoadResult result;
  const std::int64_t steps = gloo_steps(options_.clients);
  result.operations = steps * options_.clients;
  result.latencies.reserve(static_cast<std::size_t>(result.operations));
  const auto go_on = [&](Client& client) {
    const auto worker = static_cast<int>(&client - clients_.data());
    client.batch = gloo_step(options_.clients, worker, client.step);
    return begin(client);
  };
  const TimePoint start = Clock::now();
  for (Client& client : clients_) {
    auto const begun = go_on(client);
    if (!begun) return begun.error();
  }
  std::vector<Client*> done;
  for (int ended = 0; ended < options_.clients;) {
    auto const stepped = step(done);
    if (!stepped) return stepped.error();
    const TimePoint now = Clock::now();
    for (Client* client : done) {
      result.latencies.push_back(now - client->since);
      const bool is_last = ++client->step == steps;
      if (is_last) ++ended;
      auto const begun = is_last ? Result<void>() : go_on(*client);
      if (!begun) return begun.error();
    }
  }
  result.wall = Clock::now() - start;
  return result;
}

// Steps until as many clients have their whole answer.
Result<void> StoreLoad::answer_all(std::size_t clients) {
  std::vector<Client*> done;
  for (std::size_t answered = 0; answered < clients; answered += done.size()) {
    auto stepped = step(done);
    if (!stepped) return stepped;
  }
  return {};
}

Result<void> StoreLoad::begin(Client& client) {
  client.sent = 0;
  client.received = 0;
  client.since = Clock::now();
  return send(client);
}

Result<void> StoreLoad::send(Client& client) {
  bool blocked = false;
  if (client.sent < client.batch.requests.size()) {
    const ssize_t sent = send_rest(client);
    if (sent < 0 && errno != EAGAIN) return make_error(Errc::kPeerLost, std::strerror(errno));
    if (sent > 0) client.sent += static_cast<std::size_t>(sent);
    blocked = client.sent < client.batch.requests.size();
  }
  if (blocked != client.writable_wanted) {
    const auto token = static_cast<std::uint64_t>(&client - clients_.data());
    ready_.change(client.socket.get(), {.readable = true, .writable = blocked}, token);
    client.writable_wanted = blocked;
  }
  return {};
}

ssize_t StoreLoad::send_rest(const Client& client) const {
  const std::string_view rest = std::string_view(client.batch.requests).substr(client.sent);
  if (client.file_offset < 0) {
    return ::send(client.socket.get(), rest.data(), rest.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  }
  off_t from = client.file_offset + static_cast<off_t>(client.sent);
  return ::sendfile(client.socket.get(), file_.get(), &from, rest.size());
}

Result<void> StoreLoad::keep_in_file(Client& client) {
  const std::string_view bytes = client.batch.requests;
  if (bytes.size() < kFromFileBytes) return {};
  if (!file_) file_ = Descriptor(::memfd_create("requests", MFD_CLOEXEC));
  if (!file_ || ::pwrite(file_.get(), bytes.data(), bytes.size(), file_bytes_) !=
                    static_cast<ssize_t>(bytes.size())) {
    return make_error(Errc::kIo, fmt::format("a file in memory: {}", std::strerror(errno)));
  }
  client.file_offset = file_bytes_;
  file_bytes_ += static_cast<off_t>(bytes.size());
  return {};
}

// Of an answer only the length counts: MSG_TRUNC drops it in the kernel.
Result<bool> StoreLoad::receive(Client& client) {
  const ssize_t got = ::recv(client.socket.get(), nullptr, kReceiveMax, MSG_DONTWAIT | MSG_TRUNC);
  if (got < 0 && errno == EAGAIN) return false;
  if (got < 0) return make_error(Errc::kPeerLost, std::strerror(errno));
  if (got == 0) return make_error(Errc::kPeerLost, "the server closed a connection");
  client.received += static_cast<std::size_t>(got);
  if (client.received > client.batch.reply_bytes) {
    return make_error(Errc::kProtocol, "the server answers more than it was asked");
  }
  return client.received == client.batch.reply_bytes;
}

Result<void> StoreLoad::advance(Client& client, bool writable, std::vector<Client*>& done) {
  if (writable) {
    auto sent = send(client);
    if (!sent) return sent;
  }
  const auto complete = receive(client);
  if (!complete) return complete.error();
  if (*complete) done.push_back(&client);
  return {};
}

// Waits until some clients can continue, and names those whose answer is complete.
Result<void> StoreLoad::step(std::vector<Client*>& done) {
  done.clear();
  std::array<epoll_event, kEventsMax> events{};
  const auto ready = ready_.poll(events, static_cast<int>(kSilenceMax / 1ms));
  if (ready.empty()) return silent();
  for (const epoll_event& event : ready) {
    auto went_on = advance(clients_[event.data.u64], (event.events & EPOLLOUT) != 0U, done);
    if (!went_on) return went_on;
  }
  return {};
}

}  // namespace ddprun
