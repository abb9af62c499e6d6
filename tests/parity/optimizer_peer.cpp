// The results of a few small jobs, which optimizers_test.py compares with Python's: one line
// "name=value" for each result, with a hash for tensors and all digits for numbers. With --time it
// measures steps instead.

#include "base/digest.hpp"
#include "trainer/autocast.hpp"
#include "trainer/clip.hpp"
#include "trainer/core/schedule.hpp"
#include "trainer/grad_scaler.hpp"
#include "trainer/optimizer.hpp"

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ddprun {
namespace {

using Parameters = Optimizer::Parameters;

void print(const std::string& name, const std::string& value) {
  fmt::print("{}={}\n", name, value);
}

void print(const std::string& name, double value) {
  print(name, fmt::format("{:.17g}", value));
}

void print(const std::string& name, const std::vector<torch::Tensor>& tensors) {
  Sha256 digest;
  for (const torch::Tensor& tensor : tensors) {
    const torch::Tensor values = tensor.detach().contiguous();
    digest.add({static_cast<const std::byte*>(values.const_data_ptr()), values.nbytes()});
  }
  print(name, digest.finish_hex());
}

void schedules() {
  ScheduleOptions step;
  step.kind = ScheduleKind::kStep;
  step.base = 0.3;
  step.step_epochs = 7;
  step.gamma = 0.7;
  ScheduleOptions cosine;
  cosine.kind = ScheduleKind::kWarmupCosine;
  cosine.base = 3e-4;
  cosine.warmup_epochs = 7;
  cosine.epochs = 90;
  ScheduleOptions decay;
  decay.kind = ScheduleKind::kWarmupDecay;
  decay.base = 0.0125;
  decay.world = 6;
  for (std::int64_t epoch = 0; epoch < 90; ++epoch) {
    print(fmt::format("schedule/step/{}", epoch), learning_rate(step, {.epoch = epoch}));
    print(fmt::format("schedule/cosine/{}", epoch), learning_rate(cosine, {.epoch = epoch}));
    for (const std::int64_t batch : {0, 1, 33, 70}) {
      print(
          fmt::format("schedule/decay/{}/{}", epoch, batch),
          learning_rate(decay, {.epoch = epoch, .batch = batch, .batches_per_epoch = 71}));
    }
  }
}

std::vector<std::pair<std::string, OptimizerOptions>> optimizer_cases() {
  std::vector<std::pair<std::string, OptimizerOptions>> cases;
  for (const OptimizerKind kind : kOptimizerKinds) {
    OptimizerOptions options = default_options(kind);
    cases.emplace_back(name_of(kind), options);
    options.weight_decay = 0.05;
    cases.emplace_back(std::string(name_of(kind)) + "_decay", options);
  }
  OptimizerOptions sgd;
  sgd.learning_rate = 0.1;
  sgd.momentum = 0.9;
  cases.emplace_back("sgd_momentum", sgd);
  sgd.is_nesterov = true;
  cases.emplace_back("sgd_nesterov", sgd);
  sgd.weight_decay = 5e-4;
  cases.emplace_back("sgd_all", sgd);
  OptimizerOptions adam = default_options(OptimizerKind::kAdam);
  adam.beta1 = 0.4;  // lerp has another formula for weights above a half
  adam.beta2 = 0.98;
  cases.emplace_back("adam_betas", adam);
  OptimizerOptions rmsprop = default_options(OptimizerKind::kRmsProp);
  rmsprop.momentum = 0.9;
  cases.emplace_back("rmsprop_momentum", rmsprop);
  rmsprop.is_centered = true;
  rmsprop.weight_decay = 1e-3;
  cases.emplace_back("rmsprop_all", rmsprop);
  rmsprop.momentum = 0;
  cases.emplace_back("rmsprop_centered", rmsprop);
  OptimizerOptions adagrad = default_options(OptimizerKind::kAdagrad);
  adagrad.learning_rate_decay = 0.01;
  cases.emplace_back("adagrad_lr_decay", adagrad);
  return cases;
}

/// Shapes around the chunks of an optimizer: a multiple, one more, many with a remainder.
Parameters make_parameters() {
  torch::manual_seed(0);
  Parameters parameters;
  const std::vector<std::vector<std::int64_t>> shapes = {
      {7}, {262'144}, {262'145}, {300, 211}, {}, {2, 3, 5, 7}, {525'003}};
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    parameters.insert(std::to_string(i), torch::randn(shapes[i]).requires_grad_());
  }
  // Strides that are not row-major.
  parameters.insert("7", torch::randn({40, 30}).t().detach().requires_grad_());
  return parameters;
}

void optimizer(const std::string& name, const OptimizerOptions& options) {
  const Parameters parameters = make_parameters();
  const auto made = make_optimizer(options, parameters);
  for (int step = 0; step < 6; ++step) {
    for (const auto& item : parameters) {
      const torch::Tensor gradient = torch::randn_like(item.value());
      const bool has_none = item.key() == "0" || (item.key() == "1" && step % 2 == 0);
      item.value().mutable_grad() = has_none ? torch::Tensor() : gradient;
    }
    if (step == 3) made->set_learning_rate(made->learning_rate() * 0.3);
    made->step();
  }
  for (const auto& item : parameters) {
    print(fmt::format("optimizer/{}/weights/{}", name, item.key()), {item.value()});
  }
  for (const auto& [key, tensor] : made->state()) {
    print(fmt::format("optimizer/{}/state/{}", name, key), {tensor});
  }
}

/// A small net by a GradScaler, with a gradient that is not finite at steps 3 and 4.
void scaler() {
  torch::manual_seed(0);
  torch::nn::Linear net(20, 10);
  OptimizerOptions options;
  options.learning_rate = 0.1;
  options.momentum = 0.9;
  const auto made = make_optimizer(options, net->named_parameters());
  GradScaler scaler({.growth_interval = 3});
  for (int step = 0; step < 12; ++step) {
    const torch::Tensor inputs = torch::randn({16, 20});
    const torch::Tensor outputs = torch::randn({16, 10});
    net->weight.mutable_grad().reset();
    net->bias.mutable_grad().reset();
    scaler.scale(torch::mse_loss(net(inputs), outputs)).backward();
    if (step == 3) net->bias.mutable_grad()[2] = std::numeric_limits<float>::infinity();
    if (step == 4) net->weight.mutable_grad()[1][5] = std::numeric_limits<float>::quiet_NaN();
    if (step % 2 == 0) {
      scaler.unscale(*made);
      print(fmt::format("scaler/norm/{}", step), clip_gradients(net->parameters(), 0.5));
    }
    const bool stepped = scaler.step(*made);
    scaler.update();
    print(fmt::format("scaler/stepped/{}", step), stepped ? 1 : 0);
    print(fmt::format("scaler/scale/{}", step), scaler.current_scale());
    print(fmt::format("scaler/weights/{}", step), net->parameters());
  }
  for (const auto& [key, value] : scaler.state()) {
    print("scaler/state/" + key, value);
  }
}

void clips() {
  torch::manual_seed(0);
  for (const int count : {1, 2, 9}) {
    std::vector<torch::Tensor> parameters;
    for (int i = 0; i < count; ++i) {
      parameters.push_back(torch::randn({100, 7}).requires_grad_());
      parameters.back().mutable_grad() = torch::randn({100, 7}) * (i + 1.0);
    }
    for (const double limit : {1e6, 3.7, 1.0, 0.01}) {
      const std::string name = fmt::format("clip/{}/{}", count, limit);
      print(name + "/norm", clip_gradients(parameters, limit));
      std::vector<torch::Tensor> gradients;
      gradients.reserve(parameters.size());
      for (const torch::Tensor& parameter : parameters) {
        gradients.push_back(parameter.grad());
      }
      print(name + "/gradients", gradients);
    }
  }
}

/// A conv net trained under autocast.
void autocast(const std::string& name, at::ScalarType type, bool with_scaler) {
  namespace nn = torch::nn;
  torch::manual_seed(0);
  const nn::Conv2d conv1(nn::Conv2dOptions(1, 8, 3));
  const nn::Conv2d conv2(nn::Conv2dOptions(8, 16, 3));
  const nn::Linear fc(2304, 10);
  nn::Sequential net;
  net->push_back("conv1", conv1);
  net->push_back("relu1", nn::ReLU());
  net->push_back("conv2", conv2);
  net->push_back("relu2", nn::ReLU());
  net->push_back("pool", nn::MaxPool2d(2));
  net->push_back("flatten", nn::Flatten());
  net->push_back("fc", fc);
  const auto made = make_optimizer(default_options(OptimizerKind::kAdamW), net->named_parameters());
  GradScaler scaler;
  for (int step = 0; step < 5; ++step) {
    const torch::Tensor images = torch::randn({16, 1, 28, 28});
    const torch::Tensor labels = torch::randint(10, {16}, torch::kInt64);
    for (const torch::Tensor& parameter : net->parameters()) {
      parameter.mutable_grad().reset();
    }
    torch::Tensor loss;
    {
      const Autocast guard(torch::kCPU, type);
      const torch::Tensor output = net->forward(images);
      if (step == 0) print("autocast/" + name + "/type", torch::toString(output.scalar_type()));
      loss = nn::functional::cross_entropy(output, labels);
    }
    if (with_scaler) {
      scaler.scale(loss).backward();
      scaler.step(*made);
      scaler.update();
    } else {
      loss.backward();
      made->step();
    }
    print(fmt::format("autocast/{}/loss/{}", name, step), loss.item<double>());
    print(fmt::format("autocast/{}/weights/{}", name, step), net->parameters());
  }
}

/// The least time of a step in milliseconds of a core, over `repeats`: other load can only add to
/// it.
template <class Step>
double least_ms(int repeats, const Step& step) {
  std::clock_t least = std::numeric_limits<std::clock_t>::max();
  for (int i = 0; i < repeats; ++i) {
    const std::clock_t start = std::clock();
    step();
    least = std::min(least, std::clock() - start);
  }
  return 1e3 * static_cast<double>(least) / CLOCKS_PER_SEC;
}

/// Parameters like those of a net: matrices of a million, and small ones.
Parameters parameters_to_time(std::int64_t millions) {
  torch::manual_seed(0);
  Parameters parameters;
  for (std::int64_t i = 0; i < millions; ++i) {
    parameters.insert("weight" + std::to_string(i), torch::randn({1000, 1000}).requires_grad_());
    parameters.insert("bias" + std::to_string(i), torch::randn({1000}).requires_grad_());
  }
  for (const auto& item : parameters) {
    item.value().mutable_grad() = torch::randn_like(item.value());
  }
  return parameters;
}

void time_steps() {
  for (const std::int64_t millions : {1, 25}) {
    const Parameters parameters = parameters_to_time(millions);
    const int repeats = millions == 1 ? 101 : 15;
    for (const OptimizerKind kind : kOptimizerKinds) {
      OptimizerOptions options = default_options(kind);
      if (kind == OptimizerKind::kSgd) options.momentum = 0.9;
      const auto made = make_optimizer(options, parameters);
      print(fmt::format("ours/{}/{}M", name_of(kind), millions), least_ms(repeats, [&made] {
              made->step();
            }));
    }
    namespace optim = torch::optim;
    const auto tensors = parameters.values();
    optim::SGD sgd(tensors, optim::SGDOptions(1e-3).momentum(0.9));
    print(fmt::format("libtorch/sgd/{}M", millions), least_ms(repeats, [&] { sgd.step(); }));
    optim::AdamW adamw(tensors, optim::AdamWOptions(1e-3));
    print(fmt::format("libtorch/adamw/{}M", millions), least_ms(repeats, [&] { adamw.step(); }));
    optim::RMSprop rmsprop(tensors, optim::RMSpropOptions(1e-2));
    print(
        fmt::format("libtorch/rmsprop/{}M", millions), least_ms(repeats, [&] { rmsprop.step(); }));
    optim::Adagrad adagrad(tensors, optim::AdagradOptions(1e-2));
    print(
        fmt::format("libtorch/adagrad/{}M", millions), least_ms(repeats, [&] { adagrad.step(); }));
  }
}

void compare() {
  schedules();
  for (const auto& [name, options] : optimizer_cases()) {
    optimizer(name, options);
  }
  scaler();
  clips();
  autocast("bf16", at::kBFloat16, /*with_scaler=*/false);
  autocast("fp16", at::kHalf, /*with_scaler=*/true);
}

}  // namespace
}  // namespace ddprun

int main(int argc, char** argv) {
  const std::span<char*> arguments(argv, static_cast<std::size_t>(argc));
  const bool times = arguments.size() > 1 && std::string_view(arguments[1]) == "--time";
  // A second number: threads, if Python is measured with more than one.
  at::set_num_threads(arguments.size() > 1 && !times ? std::stoi(arguments[1]) : 1);
  times ? ddprun::time_steps() : ddprun::compare();
  return 0;
}
