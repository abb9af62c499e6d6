// print_model MODEL CHANNELS SIDE CLASSES SEED BATCH WHAT…: prints one JSON object about a model,
// which tests/parity/models_test.py compares with Python's.
//
//   (always)        parameters, forward_flops, names and shapes of the state
//   state           hashes of the first weights and of the state
//   load=FILE       overwrites the weights with those of a safetensors file
//   eval            scores of one image, linspace(-1, 1), with dropout and gradients off
//   train           one step's loss, and hashes of the gradients and of the state after it
//   time=STEPS      milliseconds of forward, loss and backward: the minimum of this many steps

#include "base/digest.hpp"
#include "base/parse.hpp"
#include "trainer/core/model_cost.hpp"
#include "trainer/models/load_weights.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {
namespace {

using nlohmann::json;

struct Request {
  ModelOptions model;
  std::int64_t seed = 0;
  std::int64_t batch = 1;
  std::vector<std::string_view> what;
};

struct Sample {
  torch::Tensor images;
  torch::Tensor labels;
};

/// Drawn from the default generator, from which dropout draws next.
Sample draw(const Request& request) {
  torch::manual_seed(static_cast<std::uint64_t>(request.seed) + 1);
  const std::int64_t side = request.model.image.side;
  torch::Tensor images = torch::randn({request.batch, request.model.image.channels, side, side});
  torch::Tensor labels = torch::arange(request.batch).remainder(request.model.classes);
  return {.images = std::move(images), .labels = std::move(labels)};
}

json values_of(const torch::Tensor& tensor) {
  const torch::Tensor flat = tensor.detach().flatten().to(torch::kFloat64).contiguous();
  return std::vector<double>(
      flat.const_data_ptr<double>(), flat.const_data_ptr<double>() + flat.numel());
}

std::string gradients_sha256(const Model& model) {
  Sha256 digest;
  for (const torch::Tensor& parameter : model.parameters()) {
    const torch::Tensor values = parameter.grad().contiguous();
    digest.add({static_cast<const std::byte*>(values.const_data_ptr()), values.nbytes()});
  }
  return digest.finish_hex();
}

json shapes_of(const Model& model) {
  json shapes = json::array();
  for (const auto& [name, tensor] : state_of(model)) {
    shapes.push_back({name, tensor.sizes().vec()});
  }
  return shapes;
}

void evaluate(Model& model, const Request& request, json& out) {
  const torch::NoGradGuard no_gradients;
  model.eval();
  const ImageShape& image = request.model.image;
  const torch::Tensor images = torch::linspace(-1, 1, image.channels * image.side * image.side)
                                   .view({1, image.channels, image.side, image.side});
  out["scores"] = values_of(model.forward(images));
}

void train_one_step(Model& model, const Request& request, json& out) {
  model.train();
  const Sample sample = draw(request);
  const torch::Tensor loss = model.loss(model.forward(sample.images), sample.labels);
  loss.backward();
  out["loss"] = loss.item<double>();
  out["gradients_sha256"] = gradients_sha256(model);
  out["state_after_sha256"] = state_sha256(model);
}

double time_steps(Model& model, const Request& request, std::int64_t steps) {
  using Milliseconds = std::chrono::duration<double, std::milli>;
  model.train();
  const Sample sample = draw(request);
  double least = 0;
  for (std::int64_t step = 0; step < steps; ++step) {
    model.zero_grad();
    const auto began = std::chrono::steady_clock::now();
    model.loss(model.forward(sample.images), sample.labels).backward();
    const double took = Milliseconds(std::chrono::steady_clock::now() - began).count();
    least = step == 0 ? took : std::min(least, took);
  }
  return least;
}

Result<LoadReport> load(const Model& model, const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(stream), {}};
  const auto decoded = decode_safetensors(std::as_bytes(std::span(bytes)));
  if (!decoded) return decoded.error();
  return load_weights(model, decoded->tensors);
}

Result<json> answer(const Request& request) {
  at::set_num_threads(1);
  torch::manual_seed(static_cast<std::uint64_t>(request.seed));
  const std::shared_ptr<Model> model = make_model(request.model);
  json out = {{"forward_flops", forward_flops(request.model)}, {"state", shapes_of(*model)}};
  std::int64_t parameters = 0;
  for (const torch::Tensor& parameter : model->parameters()) {
    parameters += parameter.numel();
  }
  out["parameters"] = parameters;
  for (const std::string_view what : request.what) {
    if (what == "state") {
      out["weights_sha256"] = weights_sha256(*model);
      out["state_sha256"] = state_sha256(*model);
    } else if (what == "eval") {
      evaluate(*model, request, out);
    } else if (what == "train") {
      train_one_step(*model, request, out);
    } else if (what.starts_with("load=")) {
      const auto report = load(*model, std::string(what.substr(5)));
      if (!report) return report.error();
      out["loaded"] = summary_of(*report, state_of(*model).size());
    } else if (what.starts_with("time=")) {
      const auto steps = parse_int<std::int64_t>(what.substr(5));
      if (!steps) return make_error(Errc::kInvalidArgument, std::string(what));
      out["step_ms"] = time_steps(*model, request, *steps);
    } else {
      return make_error(Errc::kInvalidArgument, fmt::format("unknown word '{}'", what));
    }
  }
  return {boost::system::in_place_value, std::move(out)};  // JSON converts to an Error too
}

std::optional<Request> read(std::span<char*> arguments) {
  if (arguments.size() < 7) return std::nullopt;
  std::vector<std::int64_t> numbers;
  for (const char* text : arguments.subspan(2, 5)) {
    const auto number = parse_int<std::int64_t>(text);
    if (!number) return std::nullopt;
    numbers.push_back(*number);
  }
  Request request;
  const std::string_view name = arguments[1];
  const auto kinds = all_model_kinds();
  const auto kind =
      std::ranges::find_if(kinds, [&](ModelKind each) { return name == name_of(each); });
  if (kind == kinds.end()) return std::nullopt;
  request.model = {
      .kind = *kind,
      .image = {.channels = numbers[0], .side = numbers[1]},
      .classes = numbers[2],
      .dropout = std::nullopt};
  if (!check_model(request.model)) return std::nullopt;
  request.seed = numbers[3];
  request.batch = numbers[4];
  request.what.assign(arguments.begin() + 7, arguments.end());
  return request;
}

}  // namespace
}  // namespace ddprun

int main(int argc, char** argv) {
  const auto request = ddprun::read(std::span(argv, static_cast<std::size_t>(argc)));
  if (!request) return 2;
  const auto out = ddprun::answer(*request);
  if (!out) {
    static_cast<void>(std::fprintf(stderr, "%s\n", out.error().detail.c_str()));
    return 1;
  }
  return std::puts(out->dump().c_str()) < 0 ? 1 : 0;
}
