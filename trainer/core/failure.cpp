#include "trainer/core/failure.hpp"

#include "base/exit_status.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <span>

namespace ddprun {
namespace {

// What gloo, NCCL, their sockets and the store's client write if the other side is
// gone.
constexpr std::array<std::string_view, 12> kPeerLost = {
    "Connection closed by peer",
    "Connection reset by peer",
    "Broken pipe",
    "Connection refused",
    "Timed out waiting",
    "ait timeout",  // from the store, while ranks look for each other
    "Application timeout caused pair closure",
    "Socket closed",
    "onnection was closed",
    "NCCL communicator was aborted",
    "NCCL watchdog",
    "ncclRemoteError"};
constexpr std::array<std::string_view, 4> kNoMemory = {
    "DefaultCPUAllocator: can't allocate memory",
    "DefaultCPUAllocator: not enough memory",
    "out of memory",
    "std::bad_alloc"};
constexpr std::array<std::string_view, 3> kStoreLost = {
    "client socket has timed out", "Failed to recv", "failed to connect to"};

bool says_one_of(std::string_view what, std::span<const std::string_view> phrases) {
  return std::ranges::any_of(phrases, [what](std::string_view phrase) {
    return what.find(phrase) != std::string_view::npos;
  });
}

}  // namespace

bool is_timeout(std::string_view what) {
  return what.find("Timed out waiting") != std::string_view::npos ||
         what.find("Application timeout") != std::string_view::npos;
}

TrainFailure kept_waiting_by(const std::vector<int>& ranks) {
  return {
      .exit_status = kExitTryAgain,
      .message = fmt::format(
          "rank {} kept the others waiting for longer than --pg-timeout; see its own log; with "
          "--max-restarts ddprun restarts all ranks",
          fmt::join(ranks, ", "))};
}

TrainFailure classify_failure(std::string_view what) {
  const std::string_view first = what.substr(0, what.find('\n'));
  if (says_one_of(what, kStoreLost)) {
    return {
        .exit_status = kExitTryAgain,
        .message = fmt::format(
            "the store at MASTER_ADDR:MASTER_PORT does not respond ({}); check that rank 0 or "
            "ddprun runs there, then start the job again",
            first)};
  }
  constexpr std::string_view kNoAddress = "Unable to find address for: ";
  if (const auto at = first.find(kNoAddress); at != std::string_view::npos) {
    return {
        .exit_status = kExitUsage,
        .message = fmt::format(
            "GLOO_SOCKET_IFNAME: this node has no network interface '{}' with an address; `ip -br "
            "address` lists them, and ddpctl doctor shows which one leads to the other nodes",
            first.substr(at + kNoAddress.size()))};
  }
  if (says_one_of(what, kPeerLost)) {
    return {
        .exit_status = kExitTryAgain,
        .message = fmt::format(
            "lost another rank ({}); see its own log; with --max-restarts ddprun restarts all "
            "ranks",
            first)};
  }
  if (what.find("CUDA error") != std::string_view::npos && !says_one_of(what, kNoMemory)) {
    return {
        .exit_status = kExitTryAgain,
        .message = fmt::format(
            "the GPU failed ({}); check nvidia-smi -q and dmesg on this node, and exclude the node "
            "if they show a fault",
            first)};
  }
  if (says_one_of(what, kNoMemory)) {
    return {
        .exit_status = kExitNoMemory,
        .message = fmt::format(
            "out of memory ({}); use a smaller --batch-size with --accumulate, which trains the "
            "same, or fewer ranks per node; the last snapshot is intact",
            first)};
  }
  return {.exit_status = kExitDefect, .message = fmt::format("unexpected failure: {}", first)};
}

std::string error_file_json(std::string_view message, std::int64_t seconds) {
  const nlohmann::json inner = {
      {"message", message},
      {"extraInfo", {{"py_callstack", ""}, {"timestamp", std::to_string(seconds)}}}};
  const nlohmann::json outer = {{"message", inner}};
  // Torch may quote bytes that are not UTF-8; the file must be written anyway.
  return outer.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace ddprun
