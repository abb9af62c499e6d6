#include "launcher/ctl/status/http_get.hpp"

#include "base/parse.hpp"
#include "rendezvous/connect.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>

namespace ddprun {
namespace {

constexpr std::size_t kHeaderBytesMax = std::size_t{16} * 1024;
constexpr std::string_view kHeaderEnd = "\r\n\r\n";

Error not_http() {
  return make_error(
      Errc::kProtocol, "what answers there does not speak HTTP; give a node of a job");
}

struct Header {
  HttpResponse response;
  std::uint64_t length = 0;  // of the body
};

std::string lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](char letter) {
    return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
  });
  return out;
}

/// REQUIRES: `text` is what stands before kHeaderEnd.
Result<Header> parse_header(std::string_view text) {
  Header header;
  std::optional<std::uint64_t> length;
  bool is_first = true;
  for (std::string_view line : split(text, '\n')) {
    line = trim(line);
    if (is_first) {
      // "HTTP/1.1 200 OK"
      const auto pieces = split(line, ' ');
      const auto status = pieces.size() < 2 ? std::nullopt : parse_int<int>(pieces[1]);
      if (!line.starts_with("HTTP/1.") || !status) return not_http();
      header.response.status = *status;
      is_first = false;
      continue;
    }
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos) return not_http();
    const std::string name = lower(line.substr(0, colon));
    const std::string_view value = trim(line.substr(colon + 1));
    if (name == "location") header.response.location = value;
    if (name == "content-length") {
      length = parse_int<std::uint64_t>(value);
      if (!length) return not_http();
    }
    // It would need a decoder, and our server sends none.
    if (name == "transfer-encoding") return not_http();
  }
  if (!length) return not_http();  // without it an end that came early would not show
  header.length = *length;
  return header;
}

/// Up to the end of the header; what came behind it stays in `received`.
Result<Header> receive_header(int socket, std::string& received, TimePoint deadline) {
  std::array<char, 4096> piece{};
  std::size_t end = 0;
  while ((end = received.find(kHeaderEnd)) == std::string::npos) {
    if (received.size() > kHeaderBytesMax) return not_http();
    const auto got = receive_some(socket, piece, deadline);
    if (!got) return got.error();
    received.append(piece.data(), *got);
    // A server of another kind may wait for us for ever behind its greeting.
    constexpr std::string_view kBeginning = "HTTP/1.";
    if (!received.starts_with(kBeginning.substr(0, received.size()))) return not_http();
  }
  auto header = parse_header(std::string_view(received).substr(0, end));
  received.erase(0, end + kHeaderEnd.size());
  return header;
}

Result<HttpResponse> exchange(
    int socket, const std::string& request, std::size_t body_bytes_max, TimePoint deadline) {
  auto const sent = send_all(socket, request, deadline);
  if (!sent) return sent.error();
  std::string received;
  auto header = receive_header(socket, received, deadline);
  if (!header) return header.error();
  if (header->length > body_bytes_max) {
    return make_error(
        Errc::kLimit, fmt::format("its answer has more than {} bytes", body_bytes_max));
  }
  const std::size_t have = std::min<std::size_t>(received.size(), header->length);
  received.resize(header->length);
  auto const body = receive_all(socket, std::span(received).subspan(have), deadline);
  if (!body) return body.error();
  header->response.body = std::move(received);
  return std::move(header->response);
}

}  // namespace

Result<HttpResponse> http_get(
    const Endpoint& endpoint,
    std::string_view path,
    std::size_t body_bytes_max,
    TimePoint deadline) {
  const auto socket = connect_to(endpoint, deadline);
  if (!socket) return socket.error();
  const std::string name = endpoint.to_string();
  const std::string request =
      fmt::format("GET {} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", path, name);
  auto response = exchange(socket->get(), request, body_bytes_max, deadline);
  if (!response) return with_context(name, response.error());
  return response;
}

}  // namespace ddprun
