#include "rendezvous/core/status_json.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <array>
#include <charconv>
#include <limits>
#include <utility>

namespace ddprun {
namespace {

using Json = nlohmann::ordered_json;

constexpr bool kNoThrow = false;
constexpr int kDepthMax = 16;  // of nesting: what reads deeper JSON uses up the stack
constexpr double kSecondsMax = 1e9;

template <class State, std::size_t Size>
using Names = std::array<std::pair<State, std::string_view>, Size>;

using JobState = JobStatus::State;
constexpr Names<JobState, 5> kJobStates = {{
    {JobState::kGathering, "gathering"},
    {JobState::kPausing, "pausing"},
    {JobState::kRunning, "running"},
    {JobState::kStopping, "stopping"},
    {JobState::kEnded, "ended"},
}};

using NodeState = JobStatus::Node::State;
constexpr Names<NodeState, 7> kNodeStates = {{
    {NodeState::kWaiting, "waiting"},
    {NodeState::kRunning, "running"},
    {NodeState::kFailed, "failed"},
    {NodeState::kStopped, "stopped"},
    {NodeState::kSucceeded, "succeeded"},
    {NodeState::kSpare, "spare"},
    {NodeState::kSuspected, "suspected"},
}};

using ProcessState = JobStatus::Worker::State;
constexpr Names<ProcessState, 4> kProcessStates = {{
    {ProcessState::kRunning, "running"},
    {ProcessState::kSucceeded, "succeeded"},
    {ProcessState::kFailed, "failed"},
    {ProcessState::kStopped, "stopped"},
}};

template <class State, std::size_t Size>
std::string_view name_in(const Names<State, Size>& names, State state) {
  for (const auto& [known, name] : names) {
    if (known == state) return name;
  }
  return "";
}

Json to_value(const JobStatus::Worker& worker) {
  return {
      {"rank", worker.rank},
      {"local_rank", worker.local_rank},
      {"pid", worker.pid},
      {"state", name_in(kProcessStates, worker.state)}};
}

Json to_value(const JobStatus::Node& node) {
  Json workers = Json::array();
  for (const auto& worker : node.workers) {
    workers.push_back(to_value(worker));
  }
  Json value{
      {"host", node.host},
      {"address", node.address},
      {"incarnation", fmt::format("{:016x}", node.incarnation)},
      {"state", name_in(kNodeStates, node.state)},
      {"is_leader", node.is_leader},
      {"group_rank", nullptr},
      {"heartbeat_age_s", nullptr},
      {"unfit", node.unfit},
      {"workers", std::move(workers)}};
  if (node.group_rank) value["group_rank"] = *node.group_rank;
  if (node.heartbeat_age) value["heartbeat_age_s"] = to_seconds(*node.heartbeat_age);
  return value;
}

/// Reads the fields of one object, and keeps what is wrong with the first that is. Behind it every
/// value is the default.
class Reader {
 public:
  Reader(const Json& object, std::string where, std::string& complaint)
      : object_(object), where_(std::move(where)), complaint_(complaint) {
    if (!object.is_object()) refuse("", "expected an object");
  }

  std::string text(const char* key) {
    const Json* const value = find(key);
    if (value == nullptr) return {};
    if (value->is_string()) return value->get<std::string>();
    return refuse(key, "expected a text"), std::string();
  }

  template <class Number>
  Number number(const char* key, Number min, Number max = std::numeric_limits<Number>::max()) {
    const Json* const value = find(key);
    return value == nullptr ? min : number_of(key, *value, min, max);
  }

  std::optional<int> number_or_null(const char* key) {
    const Json* const value = find(key);
    if (value == nullptr || value->is_null()) return std::nullopt;
    return number_of(key, *value, 0, std::numeric_limits<int>::max());
  }

  std::optional<Duration> seconds_or_null(const char* key) {
    const Json* const value = find(key);
    if (value == nullptr || value->is_null()) return std::nullopt;
    const double seconds = value->is_number() ? value->get<double>() : -1;
    if (seconds >= 0 && seconds <= kSecondsMax) {
      return std::chrono::round<Duration>(std::chrono::duration<double>(seconds));
    }
    refuse(key, "expected seconds from 0 on");
    return std::nullopt;
  }

  bool boolean(const char* key) {
    const Json* const value = find(key);
    if (value == nullptr) return false;
    if (value->is_boolean()) return value->get<bool>();
    return refuse(key, "expected true or false"), false;
  }

  template <class State, std::size_t Size>
  State state(const char* key, const Names<State, Size>& names) {
    const std::string name = text(key);
    for (const auto& [known, text] : names) {
      if (text == name) return known;
    }
    refuse(key, "is a state that this version does not know");
    return names.front().first;
  }

  std::uint64_t hex(const char* key) {
    const std::string digits = text(key);
    std::uint64_t number = 0;
    const char* const end = digits.data() + digits.size();
    const auto [stop, error] = std::from_chars(digits.data(), end, number, 16);
    if (error != std::errc() || stop != end) refuse(key, "expected hex digits");
    return number;
  }

  /// Calls `read` with a reader of each entry.
  template <class Read>
  void each(const char* key, Read read) {
    const Json* const list = find(key);
    if (list == nullptr) return;
    if (!list->is_array()) return refuse(key, "expected a list");
    for (std::size_t i = 0; i < list->size() && complaint_.empty(); ++i) {
      Reader entry((*list)[i], fmt::format("{}{}[{}].", where_, key, i), complaint_);
      if (complaint_.empty()) read(entry);
    }
  }

 private:
  const Json* find(const char* key) {
    if (!complaint_.empty()) return nullptr;
    const auto found = object_.find(key);
    if (found != object_.end()) return &*found;
    refuse(key, "is missing");
    return nullptr;
  }

  template <class Number>
  Number number_of(const char* key, const Json& value, Number min, Number max) {
    if (value.is_number_integer()) {
      const auto number = value.get<std::int64_t>();
      if (number >= min && number <= max) return static_cast<Number>(number);
    }
    refuse(key, fmt::format("expected a whole number from {} to {}", min, max));
    return min;
  }

  void refuse(std::string_view key, std::string_view why) {
    if (complaint_.empty()) complaint_ = fmt::format("field '{}{}': {}", where_, key, why);
  }

  const Json& object_;
  std::string where_;  // the path to this object, with a dot behind it
  std::string& complaint_;
};

JobStatus::Worker read_worker(Reader& reader) {
  JobStatus::Worker worker;
  worker.rank = reader.number("rank", 0);
  worker.local_rank = reader.number("local_rank", 0);
  worker.pid = reader.number("pid", 0);
  worker.state = reader.state("state", kProcessStates);
  return worker;
}

JobStatus::Node read_node(Reader& reader) {
  JobStatus::Node node;
  node.host = reader.text("host");
  node.address = reader.text("address");
  node.incarnation = reader.hex("incarnation");
  node.state = reader.state("state", kNodeStates);
  node.is_leader = reader.boolean("is_leader");
  node.group_rank = reader.number_or_null("group_rank");
  node.heartbeat_age = reader.seconds_or_null("heartbeat_age_s");
  node.unfit = reader.text("unfit");
  reader.each("workers", [&](Reader& entry) { node.workers.push_back(read_worker(entry)); });
  return node;
}

JobStatus read_job(Reader& reader) {
  JobStatus status;
  status.job = reader.text("job");
  status.version = reader.text("version");
  status.state = reader.state("state", kJobStates);
  status.term = reader.number<std::int64_t>("term", 0);
  status.round = reader.number<std::int64_t>("round", 0);
  status.attempt = reader.number("attempt", 0);
  status.restarts_used = reader.number("restarts_used", 0);
  status.restarts_max = reader.number("restarts_max", 0);
  status.nodes_min = reader.number("nodes_min", 1);
  status.nodes_max = reader.number("nodes_max", 1);
  status.lease = reader.seconds_or_null("lease_s").value_or(Duration::zero());
  status.reason = reader.text("reason");
  status.exit_status = reader.number_or_null("exit_status");
  reader.each("nodes", [&](Reader& entry) { status.nodes.push_back(read_node(entry)); });
  return status;
}

}  // namespace

std::string to_json(const JobStatus& status) {
  Json nodes = Json::array();
  for (const auto& node : status.nodes) {
    nodes.push_back(to_value(node));
  }
  Json value{
      {"job", status.job},
      {"version", status.version},
      {"state", name_in(kJobStates, status.state)},
      {"term", status.term},
      {"round", status.round},
      {"attempt", status.attempt},
      {"restarts_used", status.restarts_used},
      {"restarts_max", status.restarts_max},
      {"nodes_min", status.nodes_min},
      {"nodes_max", status.nodes_max},
      {"lease_s", to_seconds(status.lease)},
      {"reason", status.reason},
      {"exit_status", nullptr},
      {"nodes", std::move(nodes)}};
  if (status.exit_status) value["exit_status"] = *status.exit_status;
  return value.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<JobStatus> parse_status(std::string_view json) {
  const auto refused = [](std::string why) { return make_error(Errc::kProtocol, std::move(why)); };
  if (json.size() > kStatusBytesMax) return refused("is too long");
  bool too_deep = false;
  const auto watch_depth = [&too_deep](int depth, Json::parse_event_t, Json&) {
    too_deep = too_deep || depth > kDepthMax;
    return !too_deep;
  };
  const Json value = Json::parse(json, watch_depth, kNoThrow);
  if (too_deep || value.is_discarded()) return refused("is no JSON");
  std::string complaint;
  Reader reader(value, "", complaint);
  JobStatus status = read_job(reader);
  if (!complaint.empty()) return refused(std::move(complaint));
  return status;
}

}  // namespace ddprun
