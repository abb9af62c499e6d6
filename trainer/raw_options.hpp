#pragma once

// The flags of ddptrain, one by one. options.cpp turns them into options.

#include "trainer/core/options.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace CLI {  // NOLINT(readability-identifier-naming): CLI11 has named it
class App;
}  // namespace CLI

namespace ddprun {

/// The command line before flags are checked against each other. A flag that is not given is none
/// if its default depends on another flag.
struct RawOptions {
  RawOptions() { options.optimizer.learning_rate = 0.01; }

  TrainOptions options;
  std::string dataset = name_of(DatasetKind::kFashionMnist);
  std::string model = name_of(ModelKind::kConvNet);
  std::string device = "auto";
  std::string optimizer = name_of(OptimizerKind::kSgd);
  std::string schedule = name_of(ScheduleKind::kConstant);
  std::string precision = name_of(Precision::kFloat32);
  std::string compression = name_of(Compression::kNone);
  std::string split = "random";
  std::int64_t peer_timeout_s = kPeerTimeout.count();
  std::optional<std::uint64_t> sampler_seed;
  std::optional<std::int64_t> classes;
  std::optional<std::int64_t> image_side;
  std::optional<double> momentum;
  std::optional<double> weight_decay;
  std::optional<std::int64_t> evaluate_every_epochs;
  std::optional<std::string> best;
  std::optional<std::string> checkpoint_style;
  std::optional<std::string> checkpoint_directory;
  std::optional<std::int64_t> checkpoint_every_epochs;
  std::optional<std::string> model_directory;  // as in the OpenACC bootcamp's script
  std::optional<std::string> model_file;
  std::optional<std::string> resumed;  // a path, or kResumeAlone
  bool leaves_wandb_out = false;
  std::optional<std::string> profile_schedule;
  std::optional<std::int64_t> profile_epochs;
  std::vector<std::string> injections;
  std::vector<std::string> overrides;  // name=value, after all flags
};

/// The values of the flags that name one of several kinds.
const std::map<std::string, DatasetKind>& dataset_words();
const std::map<std::string, ModelKind>& model_words();
const std::map<std::string, OptimizerKind>& optimizer_words();
const std::map<std::string, ScheduleKind>& schedule_words();
const std::map<std::string, Precision>& precision_words();
const std::map<std::string, DeviceKind>& device_words();
const std::map<std::string, Compression>& compression_words();

/// Adds every flag, in the groups of --help. `raw` outlives `app`.
void add_flags(CLI::App& app, RawOptions& raw);

}  // namespace ddprun
