// Batch normalisation over several ranks against one rank with all samples. The ranks are threads
// of this process with a real Gloo group each.

#include "tests/parity/ranks.hpp"
#include "trainer/autocast.hpp"
#include "trainer/batch_norm.hpp"
#include "trainer/ddp.hpp"
#include "trainer/optimizer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <array>
#include <memory>
#include <mutex>
#include <numeric>
#include <string>
#include <vector>

namespace ddprun {
namespace {

constexpr double kClose = 1e-5;

constexpr std::int64_t kChannels = 6;

/// Two batches of 8 and the gradients of their outputs, created before any thread draws.
struct Data {
  std::array<torch::Tensor, 2> inputs;
  torch::Tensor output_gradient;
};

/// Each channel has a mean and a deviation of its own.
Data make_data() {
  torch::manual_seed(0);
  const torch::Tensor scale = torch::linspace(0.1, 20, kChannels).view({1, kChannels, 1, 1});
  Data data;
  for (torch::Tensor& input : data.inputs) {
    input = torch::randn({8, kChannels, 5, 4}) * scale + scale * 3;
  }
  data.output_gradient = torch::randn({8, kChannels, 5, 4});
  return data;
}

/// The results of two training steps of one layer; the gradients are the second's.
struct Trained {
  torch::Tensor output;
  torch::Tensor input_gradient;
  torch::Tensor weight_gradient;
  torch::Tensor bias_gradient;
  torch::Tensor running_mean;
  torch::Tensor running_var;
  std::int64_t batches = 0;
};

/// A part of the samples: begin..end-1.
struct Part {
  std::int64_t begin = 0;
  std::int64_t end = 8;
};

template <class Norm>
Trained train(Norm& norm, const Data& data, Part part) {
  if (norm->weight.defined()) {
    const torch::NoGradGuard no_gradients;
    norm->weight.copy_(torch::linspace(0.5, 2, kChannels));
    norm->bias.copy_(torch::linspace(-1, 1, kChannels));
  }
  Trained got;
  for (const torch::Tensor& all : data.inputs) {
    const torch::Tensor input = all.slice(0, part.begin, part.end).clone().requires_grad_();
    norm->zero_grad();
    const torch::Tensor output = norm(input);
    output.backward(data.output_gradient.slice(0, part.begin, part.end));
    got.output = output.detach();
    got.input_gradient = input.grad();
  }
  got.weight_gradient = norm->weight.grad();
  got.bias_gradient = norm->bias.grad();
  got.running_mean = norm->running_mean;
  got.running_var = norm->running_var;
  got.batches = norm->num_batches_tracked.template item<std::int64_t>();
  return got;
}

using Options = torch::nn::BatchNormOptions;

/// Ranks with so many of the 8 samples each, in order.
std::vector<Trained> train_ranks(
    const Data& data, const std::vector<std::int64_t>& sizes, const Options& options) {
  std::vector<Trained> ranks(sizes.size());
  run_ranks(static_cast<int>(sizes.size()), [&](int rank, const ProcessGroup& group) {
    const auto begin = std::accumulate(sizes.begin(), sizes.begin() + rank, std::int64_t{0});
    const auto at = static_cast<std::size_t>(rank);
    BatchNorm norm(options);
    norm->set_group(group);
    ranks[at] = train(norm, data, {.begin = begin, .end = begin + sizes[at]});
  });
  return ranks;
}

/// The largest difference, relative to the largest value.
double distance(const torch::Tensor& a, const torch::Tensor& b) {
  EXPECT_EQ(a.sizes(), b.sizes());
  return ((a - b).abs().max() / b.abs().max()).item<double>();
}

void expect_as_one_rank(const std::vector<std::int64_t>& sizes, const Options& options) {
  const Data data = make_data();
  torch::nn::BatchNorm2d whole(options);
  const Trained one = train(whole, data, {});
  const std::vector<Trained> ranks = train_ranks(data, sizes, options);

  std::vector<torch::Tensor> outputs;
  std::vector<torch::Tensor> input_gradients;
  torch::Tensor weight_gradient = torch::zeros({kChannels});
  torch::Tensor bias_gradient = torch::zeros({kChannels});
  for (const Trained& rank : ranks) {
    outputs.push_back(rank.output);
    input_gradients.push_back(rank.input_gradient);
    weight_gradient += rank.weight_gradient;
    bias_gradient += rank.bias_gradient;
    EXPECT_LT(distance(rank.running_mean, one.running_mean), kClose);
    EXPECT_LT(distance(rank.running_var, one.running_var), kClose);
    EXPECT_EQ(rank.batches, one.batches);
  }
  EXPECT_LT(distance(torch::cat(outputs), one.output), kClose);
  EXPECT_LT(distance(torch::cat(input_gradients), one.input_gradient), kClose);
  EXPECT_LT(distance(weight_gradient, one.weight_gradient), kClose);
  EXPECT_LT(distance(bias_gradient, one.bias_gradient), kClose);
}

TEST(SyncBatchNorm, OfTwoRanksIsThatOfOneWithBothBatches) {
  expect_as_one_rank({4, 4}, Options(kChannels));
}

TEST(SyncBatchNorm, OfFourRanksIsThatOfOneWithAllBatches) {
  expect_as_one_rank({2, 2, 2, 2}, Options(kChannels));
}

TEST(SyncBatchNorm, CountsSamplesAndNotRanks) {
  expect_as_one_rank({3, 5}, Options(kChannels));
  expect_as_one_rank({1, 4, 1, 2}, Options(kChannels));
}

TEST(SyncBatchNorm, WaitsForARankWithoutSamplesAndIgnoresIt) {
  expect_as_one_rank({0, 8}, Options(kChannels));
}

TEST(SyncBatchNorm, AveragesAllBatchesAlikeWithoutAMomentum) {
  expect_as_one_rank({4, 4}, Options(kChannels).momentum(std::nullopt));
}

TEST(SyncBatchNorm, LeavesEveryRankTheSameStatisticsBitForBit) {
  const auto ranks = train_ranks(make_data(), {3, 5}, Options(kChannels));
  EXPECT_TRUE(torch::equal(ranks[0].running_mean, ranks[1].running_mean));
  EXPECT_TRUE(torch::equal(ranks[0].running_var, ranks[1].running_var));
}

TEST(SyncBatchNorm, NeedsNeitherAffineNorRunningStatistics) {
  const Data data = make_data();
  const Options options = Options(kChannels).affine(false).track_running_stats(false);
  torch::nn::BatchNorm2d whole(options);
  const torch::Tensor expected = whole(data.inputs[0]);
  run_ranks(2, [&](int rank, const ProcessGroup& group) {
    BatchNorm norm(options);
    norm->set_group(group);
    const torch::Tensor input = data.inputs[0].slice(0, 4 * rank, 4 * rank + 4).clone();
    const torch::Tensor output = norm(input.requires_grad_());
    output.sum().backward();
    EXPECT_LT(distance(output.detach(), expected.slice(0, 4 * rank, 4 * rank + 4)), kClose);
  });
}

TEST(SyncBatchNorm, GivesTheTypeThatItWasGiven) {
  const Data data = make_data();
  torch::nn::BatchNorm2d whole(Options{kChannels});
  const torch::Tensor expected = whole(data.inputs[0]).detach();
  run_ranks(2, [&](int rank, const ProcessGroup& group) {
    BatchNorm norm(Options{kChannels});
    norm->set_group(group);
    const Autocast guard(torch::kCPU, torch::kBFloat16);
    torch::Tensor input = data.inputs[0].slice(0, 4 * rank, 4 * rank + 4).to(torch::kBFloat16);
    input.requires_grad_();
    const torch::Tensor output = norm(input);
    output.sum().backward();
    EXPECT_EQ(output.scalar_type(), torch::kBFloat16);
    EXPECT_EQ(input.grad().scalar_type(), torch::kBFloat16);
    EXPECT_EQ(norm->weight.grad().scalar_type(), torch::kFloat32);
    const torch::Tensor part = expected.slice(0, 4 * rank, 4 * rank + 4);
    EXPECT_LT(distance(output.detach().to(torch::kFloat32), part), 0.02);
  });
}

void expect_equal_bits(const Trained& ours, const Trained& torchs) {
  EXPECT_TRUE(torch::equal(ours.output, torchs.output));
  EXPECT_TRUE(torch::equal(ours.input_gradient, torchs.input_gradient));
  EXPECT_TRUE(torch::equal(ours.weight_gradient, torchs.weight_gradient));
  EXPECT_TRUE(torch::equal(ours.running_mean, torchs.running_mean));
  EXPECT_TRUE(torch::equal(ours.running_var, torchs.running_var));
}

TEST(BatchNorm, WithoutAGroupHasTorchsBits) {
  const Data data = make_data();
  BatchNorm ours(Options{kChannels});
  torch::nn::BatchNorm2d torchs(Options{kChannels});
  expect_equal_bits(train(ours, data, {}), train(torchs, data, {}));
}

TEST(BatchNorm, InAGroupOfOneHasTorchsBits) {
  const Data data = make_data();
  torch::nn::BatchNorm2d torchs(Options{kChannels});
  const Trained expected = train(torchs, data, {});
  expect_equal_bits(train_ranks(data, {8}, Options(kChannels)).front(), expected);
}

TEST(BatchNorm, HasTorchsNames) {
  const auto keys = [](const auto& norm) {
    std::vector<std::string> names = norm->named_parameters().keys();
    for (const auto& item : norm->named_buffers()) {
      names.push_back(item.key());
    }
    return names;
  };
  EXPECT_EQ(keys(BatchNorm(Options{2})), keys(torch::nn::BatchNorm2d(Options{2})));
}

TEST(BatchNorm, AsksNoPeerWhenItDoesNotTrain) {
  const Data data = make_data();
  run_ranks(2, [&](int rank, const ProcessGroup& group) {
    if (rank == 1) return;  // the others would wait for it
    BatchNorm norm(Options{kChannels});
    norm->set_group(group);
    norm->eval();
    torch::nn::BatchNorm2d torchs(Options{kChannels});
    torchs->eval();
    EXPECT_TRUE(torch::equal(norm(data.inputs[0]), torchs(data.inputs[0])));
  });
}

/// conv, norm, ReLU, linear; as models are built.
class Net final : public Model {
 public:
  Net() {
    conv_ = register_module("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 4, 3)));
    norm_ = register_module("norm", BatchNorm(Options{4}));
    linear_ = register_module("linear", torch::nn::Linear(4 * 26 * 26, 10));
  }

  torch::Tensor forward(torch::Tensor x) override {
    x = torch::relu(norm_(conv_(x)));
    return linear_(x.flatten(1));
  }

  torch::Tensor loss(const torch::Tensor& output, const torch::Tensor& labels) const override {
    return torch::nn::functional::cross_entropy(output, labels);
  }

 private:
  torch::nn::Conv2d conv_{nullptr};
  BatchNorm norm_{nullptr};
  torch::nn::Linear linear_{nullptr};
};

std::shared_ptr<Net> make_net() {
  static std::mutex one_draws;  // the default generator is one for all threads
  const std::scoped_lock lock(one_draws);
  torch::manual_seed(0);
  return std::make_shared<Net>();
}

struct NetTrained {
  std::vector<double> losses;
  std::vector<torch::Tensor> state;  // parameters, then buffers
};

/// Three DDP steps with `per_rank` of each 16 samples; the losses are this rank's.
NetTrained train_net(
    const torch::Tensor& images, const torch::Tensor& labels, int rank, const ProcessGroup& group) {
  const std::shared_ptr<Net> net = make_net();
  EXPECT_EQ(convert_sync_batch_norm(*net, group), 1);
  Ddp ddp(net, group);
  OptimizerOptions options;
  options.learning_rate = 0.1;
  const auto optimizer = make_optimizer(options, net->named_parameters());
  const std::int64_t mine = 16 / group->getSize();
  NetTrained trained;
  for (int step = 0; step < 3; ++step) {
    const std::int64_t begin = std::int64_t{16} * step + rank * mine;
    ddp.zero_grad();
    const torch::Tensor loss = net->loss(
        ddp.forward(images.slice(0, begin, begin + mine)), labels.slice(0, begin, begin + mine));
    loss.backward();
    optimizer->step();
    trained.losses.push_back(loss.item<double>());
  }
  for (const torch::Tensor& tensor : net->parameters()) {
    trained.state.push_back(tensor.detach());
  }
  for (const torch::Tensor& tensor : {net->buffers()[0], net->buffers()[1]}) {
    trained.state.push_back(tensor);
  }
  return trained;
}

TEST(SyncBatchNorm, OfTwoDdpRanksTrainsANetAsOneRankWithTheWholeBatch) {
  torch::manual_seed(1);
  const torch::Tensor images = torch::randn({48, 1, 28, 28});
  const torch::Tensor labels = torch::randint(10, {48}, torch::kInt64);
  NetTrained one;
  run_ranks(1, [&](int rank, const ProcessGroup& group) {
    one = train_net(images, labels, rank, group);
  });
  std::array<NetTrained, 2> two;
  run_ranks(2, [&](int rank, const ProcessGroup& group) {
    two.at(static_cast<std::size_t>(rank)) = train_net(images, labels, rank, group);
  });
  for (std::size_t step = 0; step < one.losses.size(); ++step) {
    const double mean = (two[0].losses[step] + two[1].losses[step]) / 2;
    EXPECT_NEAR(mean, one.losses[step], kClose) << "step " << step;
  }
  for (std::size_t i = 0; i < one.state.size(); ++i) {
    EXPECT_LT(distance(two[0].state[i], one.state[i]), kClose) << "tensor " << i;
    EXPECT_TRUE(torch::equal(two[0].state[i], two[1].state[i])) << "tensor " << i;
  }
}

TEST(ConvertSyncBatchNorm, FindsTheNormsOfAWholeTree) {
  torch::nn::Sequential const inner(
      torch::nn::Conv2d(torch::nn::Conv2dOptions(1, kChannels, 1)), BatchNorm(Options{kChannels}));
  torch::nn::Module outer("outer");
  outer.register_module("norm", BatchNorm(Options{1}));
  outer.register_module("inner", inner);
  const auto names = outer.named_parameters().keys();
  run_ranks(1, [&](int /*rank*/, const ProcessGroup& group) {
    EXPECT_EQ(convert_sync_batch_norm(outer, group), 2);
  });
  EXPECT_EQ(outer.named_parameters().keys(), names);
  EXPECT_EQ(convert_sync_batch_norm(*torch::nn::Linear(1, 1), ProcessGroup()), 0);
}

TEST(ConvertSyncBatchNormDeathTest, RefusesANormThatWouldKeepItsOwnStatistics) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  torch::nn::Sequential net(torch::nn::BatchNorm2d(Options{1}));
  EXPECT_DEATH(convert_sync_batch_norm(*net, ProcessGroup()), "norm != nullptr");
}

}  // namespace
}  // namespace ddprun
