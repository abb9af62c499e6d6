#pragma once

// What the agent writes down: events.jsonl for programs, reports on stderr for people. A thread of
// its own reads and writes files, so that no slow disk holds up the agent; stderr is for the
// console's thread, so that no stopped terminal holds up the events (docs/worker_contract.md
// describes the fields).

#include "agent/core/process_end.hpp"
#include "agent/writer_thread.hpp"
#include "base/error.hpp"
#include "base/time.hpp"
#include "rendezvous/core/messages.hpp"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ddprun {

class Console;

/// Its name in the directory of a launch.
inline constexpr char kJournalName[] = "events.jsonl";

/// One line of events.jsonl. What does not apply is left out of the line.
struct JournalEntry {
  std::string event;  // "worker_failed"
  RoundId round;
  int attempt = 0;
  std::optional<int> local_rank;
  std::optional<int> rank;
  std::optional<int> pid;
  std::optional<ProcessEnd> end;
  std::optional<int> signal;
  std::optional<int> exit_status;
  std::string host;                     // this node; empty: the journal has it already
  std::vector<std::string> lost_nodes;  // that fell silent and did not come back, by this node
  std::string python;                   // that runs the workers; empty: none
  std::string text;                     // for people; empty: none
  TimePoint at;
};

class Journal {
 public:
  /// Appends to `path`, which it opens at once; empty: keeps no file. Reports go to `console`.
  /// Fails with kIo where no thread can be started.
  static Result<std::unique_ptr<Journal>> open(
      std::filesystem::path path, std::shared_ptr<Console> console);
  /// Leaves what is not yet written unwritten; call flush() before.
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  /// One line, with the next sequence number. A line that cannot be written is said so once, and
  /// the job goes on.
  void record(const JournalEntry& entry);

  /// Runs `compose` on the journal's thread and gives what it yields to the console, in one piece.
  /// `compose` owns what it touches: it may be left behind.
  void report(std::function<std::string()> compose);

  /// Runs `work` on the thread that writes, after what was given before. It owns what it touches,
  /// as above.
  void post(std::function<void()> work) { writer_->post(std::move(work)); }

  /// Waits until every line is in the file and every report with the console, but not past
  /// `deadline`. Yields false if the disk does not answer.
  bool flush(TimePoint deadline);

 private:
  struct File;

  Journal(std::shared_ptr<File> file, std::unique_ptr<WriterThread> writer);

  // Two owners: the writer may have to be left behind in the middle of a write.
  std::shared_ptr<File> file_;
  std::unique_ptr<WriterThread> writer_;
  std::int64_t sequence_ = 0;
};

}  // namespace ddprun
