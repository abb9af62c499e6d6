// Trains a small conv net on Fashion-MNIST by DDP, in a program of its own: as `ddptrain` does it,
// and as Python does, to the last bit of the weights. docs/training.md has Python's lines beside
// these.
//
//   cmake -B build -DCMAKE_PREFIX_PATH=… && cmake --build build
//   ddprun --standalone --nproc-per-node 2 build/mnist [SAMPLES]

#include "trainer/data/loader.hpp"
#include "trainer/ddp.hpp"
#include "trainer/optimizer.hpp"
#include "trainer/sampler.hpp"
#include "trainer/training_data.hpp"
#include "trainer/worker_program.hpp"

#include <torch/torch.h>

#include <cstdio>
#include <cstdlib>
#include <memory>

using namespace ddprun;

namespace {

constexpr int kEpochs = 2;
constexpr int kBatchSize = 64;  // of each rank

struct Net final : Model {
  torch::nn::Conv2d conv1 = register_module("conv1", torch::nn::Conv2d(1, 32, 3));
  torch::nn::Conv2d conv2 = register_module("conv2", torch::nn::Conv2d(32, 64, 3));
  torch::nn::Linear fc1 = register_module("fc1", torch::nn::Linear(64 * 12 * 12, 128));
  torch::nn::Linear fc2 = register_module("fc2", torch::nn::Linear(128, 10));

  torch::Tensor forward(torch::Tensor x) override {
    x = torch::relu(conv1(x));
    x = torch::relu(conv2(x));
    x = torch::flatten(torch::max_pool2d(x, 2), 1);
    return fc2(torch::relu(fc1(x)));
  }
};

void train(const DataOptions& options, const WorkerPlace& place, const ProcessGroup& group) {
  torch::set_num_threads(1);
  torch::manual_seed(0);
  auto net = std::make_shared<Net>();
  Ddp ddp(net, group);
  const auto optimizer =
      make_optimizer({.learning_rate = 0.01, .momentum = 0.9}, net->named_parameters());
  const TrainingData data = need(open_training_data(options, {.channels = 1, .side = 28}, 0));
  Loader loader(*data.train.source, {.batch_size = kBatchSize});

  for (int epoch = 0; epoch < kEpochs; ++epoch) {
    draw_as_data_loader();
    const auto order = epoch_order(data.train.size(), /*sampler_seed=*/0, epoch);
    need(loader.start(samples_of_rank(order, {place.rank, place.world}, Tail::kPad, 0), epoch));
    double loss_sum = 0;
    std::int64_t batches = 0;
    while (const auto batch = need(loader.next())) {
      ddp.zero_grad();
      const torch::Tensor loss = net->loss(ddp.forward(batch->images), batch->labels);
      loss.backward();
      optimizer->step();
      loss_sum += loss.item<double>();
      ++batches;
    }
    if (place.rank == 0)
      std::printf("epoch %d: loss %.6f\n", epoch, loss_sum / static_cast<double>(batches));
  }
  if (place.rank == 0) std::printf("weights_sha256=%s\n", weights_sha256(*net).c_str());
}

}  // namespace

int main(int argc, char** argv) {
  DataOptions options{.directory = "/usr/share/datasets/fashion-mnist"};
  if (argc > 1) options.limit_train = std::atoll(argv[1]);
  run_worker(
      [&](const WorkerPlace& place, const ProcessGroup& group) { train(options, place, group); });
}
