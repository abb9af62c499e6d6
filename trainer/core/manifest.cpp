#include "trainer/core/manifest.hpp"

#include "trainer/core/corrupt.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <set>
#include <utility>

namespace ddprun {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kFormatName = "ddprun-snapshot";
constexpr std::uint64_t kCountMax =
    1'000'000'000'000'000;  // epochs, steps, samples: more than any run has
constexpr std::size_t kFilesMax = 1024;
constexpr std::size_t kNameBytesMax = 255;
constexpr std::size_t kSha256Digits = 64;

/// Takes the fields of one JSON object one by one; error() keeps the first failure.
class Fields {
 public:
  Fields(const Json& object, std::string place) : object_(object), place_(std::move(place)) {}

  std::uint64_t number(const char* key, std::uint64_t max) {
    const Json* field = find(key);
    if (field == nullptr) return 0;
    if (!field->is_number_unsigned() || field->get<std::uint64_t>() > max) {
      fail(key, fmt::format("is {}, not a number from 0 to {}", field->dump(), max));
      return 0;
    }
    return field->get<std::uint64_t>();
  }

  std::int64_t count(const char* key) { return static_cast<std::int64_t>(number(key, kCountMax)); }

  double finite(const char* key) {
    const Json* field = find(key);
    if (field == nullptr) return 0;
    if (!field->is_number() || !std::isfinite(field->get<double>())) {
      fail(key, "is not a finite number");
      return 0;
    }
    return field->get<double>();
  }

  std::string text(const char* key, std::size_t bytes_max) {
    const Json* field = find(key);
    if (field == nullptr) return {};
    if (!field->is_string() || field->get_ref<const std::string&>().size() > bytes_max) {
      fail(key, fmt::format("is not a text of at most {} bytes", bytes_max));
      return {};
    }
    return field->get<std::string>();
  }

  std::map<std::string, std::string> texts(const char* key) {
    const Json* field = find(key);
    if (field == nullptr) return {};
    if (!field->is_object() ||
        !std::ranges::all_of(*field, [](const Json& item) { return item.is_string(); })) {
      fail(key, "is not an object of texts");
      return {};
    }
    return field->get<std::map<std::string, std::string>>();
  }

  const Json* find(const char* key) {
    const auto found = object_.find(key);
    if (found != object_.end()) return &*found;
    fail(key, "is missing");
    return nullptr;
  }

  void fail(const char* key, std::string_view why) {
    if (!error_) error_ = corrupt(fmt::format("{}: '{}' {}", place_, key, why));
  }

  const std::optional<Error>& error() const { return error_; }

 private:
  const Json& object_;
  std::string place_;
  std::optional<Error> error_;
};

/// A plain file name, which cannot lead out of the snapshot's directory.
bool is_file_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string_view::npos &&
         name.find('\0') == std::string_view::npos;
}

bool is_sha256(std::string_view text) {
  return text.size() == kSha256Digits &&
         text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

Result<std::vector<ManifestFile>> read_files(const Json& list) {
  if (!list.is_array() || list.size() > kFilesMax) {
    return corrupt(fmt::format("manifest: 'files' is not a list of at most {} files", kFilesMax));
  }
  std::vector<ManifestFile> files;
  std::set<std::string> names;
  for (const Json& item : list) {
    if (!item.is_object()) return corrupt("manifest: an entry of 'files' is not an object");
    Fields fields(item, "manifest: files");
    ManifestFile file;
    file.name = fields.text("name", kNameBytesMax);
    file.size = fields.number("size", std::numeric_limits<std::int64_t>::max());
    file.sha256 = fields.text("sha256", kSha256Digits);
    if (const auto& error = fields.error()) return *error;
    if (!is_file_name(file.name) || !names.insert(file.name).second) {
      return corrupt(
          fmt::format("manifest: files: '{}' is not a file name, or occurs twice", file.name));
    }
    if (!is_sha256(file.sha256)) {
      return corrupt(fmt::format("manifest: files: '{}' is not a sha256", file.sha256));
    }
    files.push_back(std::move(file));
  }
  return files;
}

Result<BestSoFar> read_best(const Json& object) {
  if (!object.is_object()) return corrupt("manifest: 'best' is not an object");
  Fields fields(object, "manifest: best");
  const auto metric = best_metric_of(fields.text("metric", kNameBytesMax));
  const auto name = SnapshotName::parse(fields.text("snapshot", kNameBytesMax));
  const double value = fields.finite("value");
  const std::int64_t epoch = fields.count("epoch");
  if (const auto& error = fields.error()) return *error;
  if (!metric) return corrupt("manifest: best: 'metric' is unknown");
  if (!name) return corrupt("manifest: best: 'snapshot' is not the name of a snapshot");
  return BestSoFar{.metric = *metric, .value = value, .epoch = epoch, .snapshot = *name};
}

/// Rejects positions that are impossible for any data; check_reachable() checks the rest.
void check_position(const Manifest& manifest, Fields& fields) {
  if (manifest.consumed > 0 && manifest.name.step == 0) {
    fields.fail(
        "samples_consumed",
        fmt::format("is {}, but step is 0; they belong to different snapshots", manifest.consumed));
  }
  if (manifest.consumed > 0 && manifest.batches == 0) {
    fields.fail(
        "samples_consumed",
        fmt::format(
            "is {}, but batches_consumed is 0; they belong to different snapshots",
            manifest.consumed));
  }
  if (manifest.batches > manifest.consumed) {
    fields.fail(
        "batches_consumed",
        fmt::format("is {}, but samples_consumed is only {}", manifest.batches, manifest.consumed));
  }
}

nlohmann::ordered_json best_json(const BestSoFar& best) {
  nlohmann::ordered_json json;
  json["metric"] = name_of(best.metric);
  json["value"] = best.value;
  json["epoch"] = best.epoch;
  json["snapshot"] = best.snapshot.to_string();
  return json;
}

}  // namespace

std::string manifest_json(const Manifest& manifest) {
  nlohmann::ordered_json json;
  json["format"] = kFormatName;
  json["format_version"] = Manifest::kFormat;
  json["claim"] = manifest.name.claim;
  json["generation"] = manifest.name.term;
  json["round"] = manifest.name.round;
  json["step"] = manifest.name.step;
  json["epoch"] = manifest.epoch;
  json["samples_consumed"] = manifest.consumed;
  json["batches_consumed"] = manifest.batches;
  json["world"] = manifest.world;
  json["arguments"] = nlohmann::ordered_json(manifest.arguments);
  if (manifest.best) json["best"] = best_json(*manifest.best);
  json["files"] = nlohmann::ordered_json::array();
  for (const ManifestFile& file : manifest.files) {
    nlohmann::ordered_json entry;
    entry["name"] = file.name;
    entry["size"] = file.size;
    entry["sha256"] = file.sha256;
    json["files"].push_back(std::move(entry));
  }
  return json.dump(2) + "\n";
}

Result<Manifest> parse_manifest(std::string_view text) {
  const Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded()) return corrupt("manifest: not JSON");
  if (!json.is_object()) return corrupt("manifest: not a JSON object");
  constexpr auto kMax = std::numeric_limits<std::uint64_t>::max();

  Fields fields(json, "manifest");
  const std::string format = fields.text("format", kNameBytesMax);
  const std::int64_t version = fields.count("format_version");
  if (const auto& error = fields.error()) return *error;
  if (format != kFormatName || version != Manifest::kFormat) {
    return corrupt(fmt::format(
        "manifest: format '{}' version {}; this program reads '{}' version {}",
        format,
        version,
        kFormatName,
        Manifest::kFormat));
  }
  Manifest manifest;
  manifest.name.claim = fields.number("claim", kMax);
  manifest.name.term = fields.number("generation", kMax);
  manifest.name.round = fields.number("round", kMax);
  manifest.name.step = fields.count("step");
  manifest.epoch = fields.count("epoch");
  manifest.consumed = fields.count("samples_consumed");
  manifest.batches = fields.count("batches_consumed");
  manifest.world = fields.count("world");
  manifest.arguments = fields.texts("arguments");
  if (manifest.world < 1 || manifest.world > Manifest::kWorldMax)
    fields.fail("world", "is out of range");
  check_position(manifest, fields);
  const Json* files = fields.find("files");
  if (const auto& error = fields.error()) return *error;
  auto listed = read_files(*files);
  if (!listed) return listed.error();
  manifest.files = *std::move(listed);
  const auto found = json.find("best");
  if (found == json.end()) return manifest;  // nothing was validated, or --keep-best was not given
  const auto best = read_best(*found);
  if (!best) return best.error();
  manifest.best = *best;
  return manifest;
}

}  // namespace ddprun
