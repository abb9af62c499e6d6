#pragma once

// What the agent writes down: events.jsonl for programs, reports on stderr for people. One thread
// of its own does the writing, so that neither a slow disk nor a stopped terminal holds up the
// agent (docs/worker_contract.md describes the fields).

#include "agent/core/process_end.hpp"
#include "base/descriptor.hpp"
#include "base/time.hpp"

#include <boost/asio/thread_pool.hpp>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

namespace ddprun {

/// Its name in the directory of a launch.
inline constexpr char kJournalName[] = "events.jsonl";

/// One line of events.jsonl. What does not apply is left out of the line.
struct JournalEntry {
  std::string event;  // "worker_failed"
  int attempt = 0;
  std::optional<int> local_rank;
  std::optional<int> rank;
  std::optional<int> pid;
  std::optional<ProcessEnd> end;
  std::optional<int> signal;
  std::optional<int> exit_status;
  std::string text;  // for people; empty: none
  TimePoint at;
};

class Journal {
 public:
  /// Appends to `path`; empty: keeps no file. Starts no thread before the first line.
  explicit Journal(std::filesystem::path path);
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  /// One line, with the next sequence number. A line that cannot be written is said so once, and
  /// the job goes on.
  void record(const JournalEntry& entry);

  /// Runs `compose` on the writer's thread and prints what it yields on stderr, in one piece.
  void tell(std::function<std::string()> compose);

  /// Returns once everything is written.
  void finish();

 private:
  void post(std::function<void()> task);
  void append(const std::string& line);

  std::filesystem::path path_;
  std::int64_t sequence_ = 0;
  Descriptor file_;      // the writer's thread only
  bool broken_ = false;  // the writer's thread only
  std::optional<boost::asio::thread_pool> writer_;
};

}  // namespace ddprun
