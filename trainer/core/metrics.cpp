#include "trainer/core/metrics.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace ddprun {
namespace {

// Keys stay in the order of insertion, so that a person can read the file.
using Json = nlohmann::ordered_json;

Json record(const char* event, Progress at, double time_s) {
  return {{"event", event}, {"time_s", time_s}, {"epoch", at.epoch}, {"step", at.step}};
}

std::string line(const Json& json) {
  return json.dump() + "\n";
}

}  // namespace

void MetricSums::add(double mean_loss_of_batch, std::int64_t right, std::int64_t batch) {
  const auto n = static_cast<double>(batch);
  loss += mean_loss_of_batch * n;
  correct += static_cast<double>(right);
  samples += n;
}

void MetricSums::add(const MetricSums& other) {
  loss += other.loss;
  correct += other.correct;
  samples += other.samples;
}

std::string final_line(Progress at, const MetricSums& test, const std::string& weights_sha256) {
  return fmt::format(
      "final epoch={} step={} loss={:.6f} accuracy={:.4f} weights_sha256={}",
      at.epoch,
      at.step,
      test.mean_loss(),
      test.accuracy_percent(),
      weights_sha256);
}

std::string epoch_line(Progress at, const MetricSums& train, double samples_per_s) {
  return fmt::format(
      "epoch={} step={} loss={:.6f} accuracy={:.4f} samples_per_s={:.0f}",
      at.epoch,
      at.step,
      train.mean_loss(),
      train.accuracy_percent(),
      samples_per_s);
}

std::string start_record(Progress at, int world, std::int64_t attempt, double time_s) {
  Json json = record("start", at, time_s);
  json["world"] = world;
  json["attempt"] = attempt;
  return line(json);
}

std::string step_record(Progress at, double loss, double time_s) {
  Json json = record("step", at, time_s);
  json["loss"] = loss;
  return line(json);
}

std::string epoch_record(
    Progress at, const MetricSums& train, double samples_per_s, double time_s) {
  Json json = record("epoch", at, time_s);
  json["loss"] = train.mean_loss();
  json["accuracy"] = train.accuracy_percent();
  json["samples"] = train.samples;
  json["samples_per_s"] = samples_per_s;
  return line(json);
}

std::string final_record(
    Progress at, const MetricSums& test, const std::string& weights_sha256, double time_s) {
  Json json = record("final", at, time_s);
  json["loss"] = test.mean_loss();
  json["accuracy"] = test.accuracy_percent();
  json["weights_sha256"] = weights_sha256;
  return line(json);
}

std::string sample_record(
    Progress at, const WorkerPlace& place, std::span<const std::int64_t> samples) {
  return line(
      {{"term", place.term},
       {"round", place.round},
       {"world", place.world},
       {"rank", place.rank},
       {"epoch", at.epoch},
       {"step", at.step},
       {"samples", samples}});
}

}  // namespace ddprun
