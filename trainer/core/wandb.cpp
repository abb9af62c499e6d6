#include "trainer/core/wandb.hpp"

#include "base/check.hpp"
#include "trainer/core/crc32.hpp"
#include "trainer/core/protobuf.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <utility>

namespace ddprun {
namespace {

constexpr std::size_t kBlockBytes = 32'768;
constexpr std::size_t kHeadBytes = 7;  // of a piece

// Field numbers of wandb's wandb_internal.proto.
namespace field {
// Record
constexpr int kNum = 1;
constexpr int kHistory = 2;
constexpr int kSummary = 3;
constexpr int kRun = 17;
constexpr int kExit = 18;
constexpr int kHeader = 21;
// items of config, history and summary
constexpr int kKey = 1;
constexpr int kValueJson = 16;
constexpr int kItem = 1;
constexpr int kStep = 2;     // of HistoryRecord
constexpr int kStepNum = 1;  // of HistoryStep
// HeaderRecord and VersionInfo
constexpr int kVersionInfo = 1;
constexpr int kProducer = 1;
constexpr int kMinConsumer = 2;
// RunRecord
constexpr int kRunId = 1;
constexpr int kProject = 3;
constexpr int kConfig = 4;
constexpr int kGroup = 6;
constexpr int kDisplayName = 8;
constexpr int kHost = 13;
constexpr int kStartTime = 17;
// Timestamp
constexpr int kSeconds = 1;
constexpr int kNanos = 2;
// RunExitRecord
constexpr int kExitCode = 1;
constexpr int kRuntime = 2;
}  // namespace field

/// JSON has no NaN or infinity; wandb writes them as strings.
std::string json_of(double value) {
  if (std::isnan(value)) return "\"NaN\"";
  if (std::isinf(value)) return value > 0 ? "\"Infinity\"" : "\"-Infinity\"";
  return nlohmann::json(value).dump();
}

std::string json_of(const ArgumentValue& value) {
  if (const auto* const number = std::get_if<double>(&value)) return json_of(*number);
  nlohmann::json json;
  std::visit([&](const auto& known) { json = known; }, value);
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

ProtobufMessage item(std::string_view key, std::string_view json) {
  ProtobufMessage message;
  message.add_text(field::kKey, key).add_text(field::kValueJson, json);
  return message;
}

/// The points, and the items that wandb's own client adds to a row.
ProtobufMessage items(
    std::span<const Scalar> scalars, double time_s, double runtime_s, std::int64_t row) {
  ProtobufMessage message;
  for (const Scalar& scalar : scalars) {
    message.add_message(field::kItem, item(scalar.tag, json_of(scalar.value)));
  }
  message.add_message(field::kItem, item("_timestamp", json_of(time_s)));
  message.add_message(field::kItem, item("_runtime", json_of(runtime_s)));
  message.add_message(field::kItem, item("_step", std::to_string(row)));
  return message;
}

std::string record(std::int64_t number, int kind, const ProtobufMessage& content) {
  ProtobufMessage message;
  message.add_int(field::kNum, number).add_message(kind, content);
  return message.bytes();
}

}  // namespace

std::string WandbLog::begin() {
  constexpr std::uint64_t kMagic = 0xbee1;
  DDPRUN_CHECK(offset_ == 0);
  std::string head = ":W&B";
  append_little_endian(head, kMagic, 2);
  append_little_endian(head, 0, 1);  // the version of the format
  offset_ = head.size();
  return head;
}

std::string WandbLog::frame(std::string_view record) {
  constexpr char kWhole = 1;
  constexpr char kFirst = 2;
  constexpr char kMiddle = 3;
  constexpr char kLast = 4;
  DDPRUN_CHECK(offset_ > 0);
  std::string framed;
  for (bool is_first = true;; is_first = false) {
    std::size_t room = kBlockBytes - offset_ % kBlockBytes;
    if (room < kHeadBytes) {
      framed.append(room, '\0');
      offset_ += room;
      room = kBlockBytes;
    }
    const std::string_view data = record.substr(0, room - kHeadBytes);
    record.remove_prefix(data.size());
    if (record.empty()) return framed + piece(is_first ? kWhole : kLast, data);
    framed += piece(is_first ? kFirst : kMiddle, data);
  }
}

std::string WandbLog::piece(char type, std::string_view data) {
  std::string head;
  append_little_endian(head, ddprun::crc32(data, ddprun::crc32({&type, 1})), sizeof(std::uint32_t));
  append_little_endian(head, data.size(), 2);
  head += type;
  offset_ += head.size() + data.size();
  return head.append(data);
}

Result<void> check_wandb_id(std::string_view id) {
  constexpr std::size_t kIdMax = 64;
  const bool is_sound = std::ranges::all_of(id, [](char letter) {
    return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
           (letter >= '0' && letter <= '9') || letter == '-' || letter == '_';
  });
  if (is_sound && !id.empty() && id.size() <= kIdMax) return {};
  return make_error(
      Errc::kInvalidArgument,
      fmt::format("wandb run id '{}': give 1 to {} of A-Z, a-z, 0-9, - and _", id, kIdMax));
}

std::string wandb_id_of(std::uint64_t bits) {
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz0123456789";
  constexpr int kLength = 8;
  std::string id;
  for (int i = 0; i < kLength; ++i) {
    id += kLetters.at(bits % kLetters.size());
    bits /= kLetters.size();
  }
  return id;
}

Arguments wandb_config(const RunBegan& run, const std::map<std::string, std::string>& environment) {
  Arguments config = run.arguments;
  config.emplace_back("WORLD_SIZE", std::int64_t{run.world});
  config.emplace_back("effective_batch_size", run.batch_size * run.world);
  for (const auto& [name, value] : environment) {
    const bool is_told = name.starts_with("SLURM_") || name.starts_with("MASTER_");
    if (is_told && name != "SLURM_JWT") config.emplace_back(name, value);
  }
  return config;
}

std::string wandb_directory_name(const CalendarTime& start, std::string_view id) {
  return fmt::format(
      "offline-run-{:04}{:02}{:02}_{:02}{:02}{:02}-{}",
      start.year,
      start.month,
      start.day,
      start.hour,
      start.minute,
      start.second,
      id);
}

std::string wandb_file_name(std::string_view id) {
  return fmt::format("run-{}.wandb", id);
}

WandbRecords::WandbRecords(WandbRun run) : run_(std::move(run)) {}

std::string WandbRecords::header() {
  DDPRUN_CHECK(records_ == 0);
  ProtobufMessage version;
  version.add_text(field::kProducer, "ddptrain").add_text(field::kMinConsumer, "0.40.0");
  ProtobufMessage header;
  header.add_message(field::kVersionInfo, version);
  return record(++records_, field::kHeader, header);
}

std::string WandbRecords::run(const Arguments& config) {
  constexpr double kNanosPerSecond = 1e9;
  ProtobufMessage items;
  for (const auto& [name, value] : config) {
    items.add_message(field::kItem, item(name, json_of(value)));
  }
  const double whole_s = std::floor(run_.start_s);
  ProtobufMessage start;
  start.add_int(field::kSeconds, static_cast<std::int64_t>(whole_s))
      .add_int(
          field::kNanos, static_cast<std::int64_t>((run_.start_s - whole_s) * kNanosPerSecond));
  ProtobufMessage message;
  message.add_text(field::kRunId, run_.id);
  if (!run_.project.empty()) message.add_text(field::kProject, run_.project);
  message.add_message(field::kConfig, items);
  if (!run_.group.empty()) message.add_text(field::kGroup, run_.group);
  if (!run_.display_name.empty()) message.add_text(field::kDisplayName, run_.display_name);
  message.add_text(field::kHost, run_.host).add_message(field::kStartTime, start);
  return record(++records_, field::kRun, message);
}

std::string WandbRecords::history(std::span<const Scalar> scalars, double time_s) {
  ProtobufMessage step;
  step.add_int(field::kStepNum, rows_);
  ProtobufMessage row = items(scalars, time_s, time_s - run_.start_s, rows_);
  row.add_message(field::kStep, step);
  ++rows_;
  return record(++records_, field::kHistory, row);
}

std::string WandbRecords::summary(std::span<const Scalar> scalars, double time_s) {
  const std::int64_t row = std::max<std::int64_t>(rows_ - 1, 0);
  return record(++records_, field::kSummary, items(scalars, time_s, time_s - run_.start_s, row));
}

std::string WandbRecords::end(int status, double time_s) {
  ProtobufMessage message;
  message.add_int(field::kExitCode, status)
      .add_int(
          field::kRuntime,
          static_cast<std::int64_t>(std::max(std::floor(time_s - run_.start_s), 0.0)));
  return record(++records_, field::kExit, message);
}

}  // namespace ddprun
