#include "trainer/models/small_nets.hpp"

#include "trainer/models/project.hpp"

namespace ddprun {
namespace {

namespace nn = torch::nn;

/// The common part of the three nets with convolutions. Each layer is made by a separate statement:
/// within one call GCC would build them, and draw their weights, from right to left (P3).
class ConvLayers : public Model {
 public:
  explicit ConvLayers(const ImageShape& image) {
    const std::int64_t pooled =
        (image.side - 4) / 2;  // size after two convolutions and the pooling
    conv1 = register_module("conv1", nn::Conv2d(nn::Conv2dOptions(image.channels, 32, 3)));
    conv2 = register_module("conv2", nn::Conv2d(nn::Conv2dOptions(32, 64, 3)));
    fc1 = register_module("fc1", nn::Linear(64 * pooled * pooled, 128));
  }

 protected:
  nn::Conv2d conv1{nullptr};
  nn::Conv2d conv2{nullptr};
  nn::Linear fc1{nullptr};
};

// The shapes beside the layers are those for MNIST.

class ConvNet final : public ConvLayers {
 public:
  explicit ConvNet(const ModelOptions& options) : ConvLayers(options.image) {
    fc2_ = register_module("fc2", nn::Linear(128, options.classes));
  }

  torch::Tensor forward(torch::Tensor x) override {  // (N, 1, 28, 28)
    x = torch::relu(conv1(x));                       // (N, 32, 26, 26)
    x = torch::relu(conv2(x));                       // (N, 64, 24, 24)
    x = torch::max_pool2d(x, 2).flatten(1);          // (N, 9216)
    x = torch::relu(project(fc1, x));                // (N, 128)
    return project(fc2_, x);                         // (N, 10)
  }

  std::string head() const override { return "fc2"; }

 private:
  nn::Linear fc2_{nullptr};
};

class SimpleConvNet final : public ConvLayers {
 public:
  explicit SimpleConvNet(const ModelOptions& options) : ConvLayers(options.image) {
    fc2_ = register_module("fc2", nn::Linear(128, options.classes));
    dropout1_ = register_module("dropout1", nn::Dropout(0.25));
    dropout2_ = register_module("dropout2", nn::Dropout(0.5));
  }

  torch::Tensor forward(torch::Tensor x) override {          // (N, 1, 28, 28)
    x = torch::relu(conv1(x));                               // (N, 32, 26, 26)
    x = torch::relu(conv2(x));                               // (N, 64, 24, 24)
    x = dropout1_(torch::max_pool2d(x, 2)).flatten(1);       // (N, 9216)
    x = dropout2_(torch::relu(project(fc1, x)));             // (N, 128)
    return torch::log_softmax(project(fc2_, x), /*dim=*/1);  // (N, 10)
  }

  torch::Tensor loss(const torch::Tensor& output, const torch::Tensor& labels) const override {
    return torch::nll_loss(output, labels);
  }

  std::string head() const override { return "fc2"; }

 private:
  nn::Linear fc2_{nullptr};
  nn::Dropout dropout1_{nullptr};
  nn::Dropout dropout2_{nullptr};
};

class MyNet final : public ConvLayers {
 public:
  explicit MyNet(const ModelOptions& options) : ConvLayers(options.image) {
    fc2_ = register_module("fc2", nn::Linear(128, 20));
    fc3_ = register_module("fc3", nn::Linear(20, options.classes));
    dropout1_ = register_module("dropout1", nn::Dropout2d(0.5));
    dropout2_ = register_module("dropout2", nn::Dropout2d(0.75));
  }

  torch::Tensor forward(torch::Tensor x) override {          // (N, 1, 28, 28)
    x = torch::relu(dropout1_(conv1(x)));                    // (N, 32, 26, 26)
    x = torch::max_pool2d(dropout2_(conv2(x)), 2);           // (N, 64, 12, 12)
    x = torch::relu(project(fc1, x.flatten(1)));             // (N, 128)
    x = torch::relu(project(fc2_, x));                       // (N, 20)
    return torch::log_softmax(project(fc3_, x), /*dim=*/1);  // (N, 10)
  }

  torch::Tensor loss(const torch::Tensor& output, const torch::Tensor& labels) const override {
    return torch::nll_loss(output, labels);
  }

  std::string head() const override { return "fc3"; }

 private:
  nn::Linear fc2_{nullptr};
  nn::Linear fc3_{nullptr};
  nn::Dropout2d dropout1_{nullptr};
  nn::Dropout2d dropout2_{nullptr};
};

class Dummy final : public Model {
 public:
  explicit Dummy(const ModelOptions& options) {
    fc_ = register_module("fc", nn::Linear(1, options.classes));
  }

  torch::Tensor forward(torch::Tensor x) override {
    return project(fc_, x.flatten(1).mean(/*dim=*/1, /*keepdim=*/true));
  }

 private:
  nn::Linear fc_{nullptr};
};

class LinearNet final : public Model {
 public:
  explicit LinearNet(const ModelOptions& options) {
    const ImageShape& image = options.image;
    const std::int64_t pixels = image.channels * image.side * image.side;
    fc_ = register_module("fc", nn::Linear(pixels, options.classes));
  }

  torch::Tensor forward(torch::Tensor x) override { return project(fc_, x.flatten(1)); }

 private:
  nn::Linear fc_{nullptr};
};

}  // namespace

std::shared_ptr<Model> make_small_net(const ModelOptions& options) {
  switch (options.kind) {
    case ModelKind::kConvNet:
      return std::make_shared<ConvNet>(options);
    case ModelKind::kSimpleConvNet:
      return std::make_shared<SimpleConvNet>(options);
    case ModelKind::kMyNet:
      return std::make_shared<MyNet>(options);
    case ModelKind::kDummy:
      return std::make_shared<Dummy>(options);
    case ModelKind::kLinear:
      return std::make_shared<LinearNet>(options);
    default:
      return nullptr;
  }
}

}  // namespace ddprun
