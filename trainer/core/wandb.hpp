#pragma once

// The file of a Weights & Biases run recorded offline; `wandb sync DIRECTORY` uploads it. It is a
// log of protobuf messages Record in the framing of LevelDB's log (doc/log_format.md there), but
// with zlib's CRC instead of a masked crc32c, and with a header of 7 bytes in the first block:
//
//   block of 32768 bytes = (u32 crc | u16 length | u8 type | data)*, zeros where under 7 are left
//
// type: 1 whole, 2 first part, 3 middle, 4 last. The crc covers type and data.

#include "base/error.hpp"
#include "trainer/core/report_event.hpp"
#include "trainer/core/scalars.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

namespace ddprun {

/// Splits records into blocks. Append the result of each call to one file, in order.
class WandbLog {
 public:
  /// The first bytes of a file. REQUIRES: the first call.
  std::string begin();
  /// One record; may be longer than a block.
  std::string frame(std::string_view record);

 private:
  std::string piece(char type, std::string_view data);

  std::size_t offset_ = 0;  // within the file
};

/// The run of a file.
struct WandbRun {
  std::string id;            // 1 to 64 of A-Z a-z 0-9 - _
  std::string project;       // empty: wandb's default
  std::string group;         // may be empty
  std::string display_name;  // may be empty
  std::string host;
  double start_s = 0;  // wall clock
};

/// Fails with kInvalidArgument if `id` cannot name a run and its directory.
Result<void> check_wandb_id(std::string_view id);

/// An id from `bits`, in the form of wandb's own: eight of a-z 0-9.
std::string wandb_id_of(std::uint64_t bits);

/// The configuration of Mila's example: the flags, WORLD_SIZE, effective_batch_size, and variables
/// in `environment` that begin with SLURM_ or MASTER_, except SLURM_JWT, which is a password.
Arguments wandb_config(const RunBegan& run, const std::map<std::string, std::string>& environment);

/// A time in parts of the local calendar, passed in so that no clock or time zone is read here.
struct CalendarTime {
  int year = 1970;
  int month = 1;  // 1 to 12
  int day = 1;
  int hour = 0;
  int minute = 0;
  int second = 0;
};

/// "offline-run-20261122_074326-<id>", under "wandb/". It contains "run-<id>.wandb", and the
/// directories "files" and "logs".
std::string wandb_directory_name(const CalendarTime& start, std::string_view id);
std::string wandb_file_name(std::string_view id);

/// The records of a run, one Record message each, numbered from 1 in the order of the calls. Pass
/// each through WandbLog::frame().
class WandbRecords {
 public:
  explicit WandbRecords(WandbRun run);

  /// REQUIRES: the first call.
  std::string header();
  /// REQUIRES: before any history. `config` is shown as the run's configuration.
  std::string run(const Arguments& config);
  /// A row of points at `time_s` (wall clock). wandb counts rows from 0; the training step is a
  /// separate point ("updates").
  std::string history(std::span<const Scalar> scalars, double time_s);
  /// The values shown as the run's result: the newest value of each point.
  std::string summary(std::span<const Scalar> scalars, double time_s);
  /// The end of the run. Status 0 means success.
  std::string end(int status, double time_s);

 private:
  WandbRun run_;
  std::int64_t records_ = 0;
  std::int64_t rows_ = 0;
};

}  // namespace ddprun
