#pragma once

// The agent's records: events.jsonl for programs (docs/worker_contract.md has the fields), and the
// order of its reports to people. One thread reads and writes the files, another one reports, so a
// disk that does not respond blocks neither the agent nor, for long, a report.

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

/// Name of the file in the directory of a launch.
inline constexpr char kJournalName[] = "events.jsonl";

/// One line of events.jsonl. Fields that do not apply are left out. More than twelve members: the
/// line has as many fields.
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
  std::vector<std::string> lost_nodes;  // silent for good, as far as this node knows
  std::string python;                   // the Python of the workers; empty: none
  std::string text;                     // for people; empty: none
  TimePoint at;
};

class Journal {
 public:
  /// Appends to `path`; empty: keeps no file. Fails with kIo if no thread can be started. REQUIRES:
  /// start_log() was called.
  static Result<std::unique_ptr<Journal>> open(std::filesystem::path path);
  /// Discards what is not yet written; call flush() first.
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  /// Writes one line, with the next sequence number. If a line cannot be written, that is reported
  /// once, and the job continues.
  void record(const JournalEntry& entry);

  /// Both as in base/log.hpp, on the thread for reports, after earlier ones.
  void report(std::string text);
  void report_lines(std::string lines);

  /// The same for what `read` yields, which runs on the disk's thread; if the disk does not respond
  /// within 2 s, for what `without` yields. Both must own what they touch.
  void report_read(std::function<std::string()> read, std::function<std::string()> without);

  /// Runs `work` on the disk's thread, after earlier work. It must own what it touches: it may be
  /// abandoned.
  void post(std::function<void()> work) { disk_->post(std::move(work)); }

  /// Waits until every report has been made and every line is in the file, at most until
  /// `deadline`. Returns false if the disk does not respond.
  bool flush(TimePoint deadline);

 private:
  struct File;

  Journal(
      std::shared_ptr<File> file,
      std::unique_ptr<WriterThread> disk,
      std::unique_ptr<WriterThread> reports);

  // Two owners: the disk's thread may have to be abandoned in the middle of a write.
  std::shared_ptr<File> file_;
  std::unique_ptr<WriterThread> disk_;
  std::unique_ptr<WriterThread> reports_;
  std::int64_t sequence_ = 0;
};

}  // namespace ddprun
