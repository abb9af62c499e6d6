#include "trainer/model.hpp"

#include "base/sha256.hpp"

#include <cstddef>
#include <span>

namespace ddprun {
namespace {

namespace nn = torch::nn;

/// The layers of both models. Each is made by a statement of its own: inside one call GCC would
/// build them, and draw their weights, from right to left (P3).
class ConvLayers : public Model {
 public:
  ConvLayers() {
    conv1 = register_module("conv1", nn::Conv2d(nn::Conv2dOptions(1, 32, 3)));
    conv2 = register_module("conv2", nn::Conv2d(nn::Conv2dOptions(32, 64, 3)));
    fc1 = register_module("fc1", nn::Linear(9216, 128));
    fc2 = register_module("fc2", nn::Linear(128, 10));
  }

 protected:
  nn::Conv2d conv1{nullptr};
  nn::Conv2d conv2{nullptr};
  nn::Linear fc1{nullptr};
  nn::Linear fc2{nullptr};
};

class ConvNet final : public ConvLayers {
 public:
  torch::Tensor forward(torch::Tensor x) override {  // (N, 1, 28, 28)
    x = torch::relu(conv1(x));                       // (N, 32, 26, 26)
    x = torch::relu(conv2(x));                       // (N, 64, 24, 24)
    x = torch::max_pool2d(x, 2).flatten(1);          // (N, 9216)
    x = torch::relu(fc1(x));                         // (N, 128)
    return fc2(x);                                   // (N, 10)
  }

  torch::Tensor loss(const torch::Tensor& output, const torch::Tensor& labels) const override {
    return nn::functional::cross_entropy(output, labels);
  }
};

class SimpleConvNet final : public ConvLayers {
 public:
  SimpleConvNet() {
    dropout1_ = register_module("dropout1", nn::Dropout(0.25));
    dropout2_ = register_module("dropout2", nn::Dropout(0.5));
  }

  torch::Tensor forward(torch::Tensor x) override {     // (N, 1, 28, 28)
    x = torch::relu(conv1(x));                          // (N, 32, 26, 26)
    x = torch::relu(conv2(x));                          // (N, 64, 24, 24)
    x = dropout1_(torch::max_pool2d(x, 2)).flatten(1);  // (N, 9216)
    x = dropout2_(torch::relu(fc1(x)));                 // (N, 128)
    return torch::log_softmax(fc2(x), /*dim=*/1);       // (N, 10)
  }

  torch::Tensor loss(const torch::Tensor& output, const torch::Tensor& labels) const override {
    return torch::nll_loss(output, labels);
  }

 private:
  nn::Dropout dropout1_{nullptr};
  nn::Dropout dropout2_{nullptr};
};

}  // namespace

std::shared_ptr<Model> make_model(ModelKind kind) {
  switch (kind) {
    case ModelKind::kConvNet:
      return std::make_shared<ConvNet>();
    case ModelKind::kSimpleConvNet:
      return std::make_shared<SimpleConvNet>();
  }
  return nullptr;
}

std::string weights_sha256(const torch::nn::Module& model) {
  Sha256 digest;
  for (const torch::Tensor& parameter : model.parameters()) {
    const torch::Tensor values = parameter.detach().contiguous();
    digest.add({static_cast<const std::byte*>(values.const_data_ptr()), values.nbytes()});
  }
  return digest.finish_hex();
}

}  // namespace ddprun
