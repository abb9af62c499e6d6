#include "trainer/models/resnet.hpp"

#include "base/check.hpp"
#include "trainer/batch_norm.hpp"
#include "trainer/models/project.hpp"

#include <array>

namespace ddprun {
namespace {

namespace nn = torch::nn;

/// A convolution without bias, padded so that at stride 1 the image keeps its size.
struct ConvShape {
  std::int64_t in = 1;   // channels
  std::int64_t out = 1;  // channels
  std::int64_t kernel = 1;
  std::int64_t stride = 1;
};

nn::Conv2d make_conv(const ConvShape& shape) {
  return nn::Conv2d(nn::Conv2dOptions(shape.in, shape.out, shape.kernel)
                        .stride(shape.stride)
                        .padding(shape.kernel / 2)
                        .bias(false));
}

struct BlockShape {
  std::int64_t in = 1;      // input channels
  std::int64_t planes = 1;  // channels of the 3x3
  std::int64_t out = 1;     // output channels
  std::int64_t stride = 1;
};

/// What a block adds to its result: its input, or, if the shapes differ, a convolution of it.
class Shortcut {
 public:
  /// Draws the convolution's weights, before the block's own as in Python.
  explicit Shortcut(const BlockShape& shape) {
    if (shape.stride == 1 && shape.in == shape.out) return;
    const nn::Conv2d conv =
        make_conv({.in = shape.in, .out = shape.out, .kernel = 1, .stride = shape.stride});
    downsample_ = nn::Sequential();
    downsample_->push_back(conv);
    downsample_->push_back(BatchNorm(shape.out));
  }

  /// Registered after the block's own layers, as in Python.
  void register_in(nn::Module& block) {
    if (!downsample_.is_empty()) block.register_module("downsample", downsample_);
  }

  torch::Tensor operator()(const torch::Tensor& x) {
    return downsample_.is_empty() ? x : downsample_->forward(x);
  }

 private:
  nn::Sequential downsample_{nullptr};
};

class Block : public nn::Module {
 public:
  virtual torch::Tensor forward(const torch::Tensor& x) = 0;
};

class BasicBlock final : public Block {
 public:
  explicit BasicBlock(const BlockShape& shape) : shortcut_(shape) {
    conv1_ = register_module(
        "conv1",
        make_conv({.in = shape.in, .out = shape.planes, .kernel = 3, .stride = shape.stride}));
    bn1_ = register_module("bn1", BatchNorm(shape.planes));
    conv2_ =
        register_module("conv2", make_conv({.in = shape.planes, .out = shape.planes, .kernel = 3}));
    bn2_ = register_module("bn2", BatchNorm(shape.planes));
    shortcut_.register_in(*this);
  }

  torch::Tensor forward(const torch::Tensor& x) override {
    torch::Tensor y = bn1_(conv1_(x)).relu_();
    y = bn2_(conv2_(y));
    y += shortcut_(x);
    return y.relu_();
  }

 private:
  nn::Conv2d conv1_{nullptr};
  BatchNorm bn1_{nullptr};
  nn::Conv2d conv2_{nullptr};
  BatchNorm bn2_{nullptr};
  Shortcut shortcut_;
};

class Bottleneck final : public Block {
 public:
  explicit Bottleneck(const BlockShape& shape) : shortcut_(shape) {
    conv1_ =
        register_module("conv1", make_conv({.in = shape.in, .out = shape.planes, .kernel = 1}));
    bn1_ = register_module("bn1", BatchNorm(shape.planes));
    conv2_ = register_module(
        "conv2",
        make_conv({.in = shape.planes, .out = shape.planes, .kernel = 3, .stride = shape.stride}));
    bn2_ = register_module("bn2", BatchNorm(shape.planes));
    conv3_ =
        register_module("conv3", make_conv({.in = shape.planes, .out = shape.out, .kernel = 1}));
    bn3_ = register_module("bn3", BatchNorm(shape.out));
    shortcut_.register_in(*this);
  }

  torch::Tensor forward(const torch::Tensor& x) override {
    torch::Tensor y = bn1_(conv1_(x)).relu_();
    y = bn2_(conv2_(y)).relu_();
    y = bn3_(conv3_(y));
    y += shortcut_(x);
    return y.relu_();
  }

 private:
  nn::Conv2d conv1_{nullptr};
  BatchNorm bn1_{nullptr};
  nn::Conv2d conv2_{nullptr};
  BatchNorm bn2_{nullptr};
  nn::Conv2d conv3_{nullptr};
  BatchNorm bn3_{nullptr};
  Shortcut shortcut_;
};

/// The blocks for one image size, named "0", "1" and so on.
class Stage final : public nn::Module {
 public:
  Stage(BlockShape shape, int blocks, bool is_bottleneck) {
    for (int i = 0; i < blocks; ++i) {
      const std::shared_ptr<Block> block =
          is_bottleneck ? std::static_pointer_cast<Block>(std::make_shared<Bottleneck>(shape))
                        : std::make_shared<BasicBlock>(shape);
      blocks_.push_back(register_module(std::to_string(i), block));
      shape.in = shape.out;
      shape.stride = 1;
    }
  }

  torch::Tensor forward(torch::Tensor x) {
    for (const std::shared_ptr<Block>& block : blocks_) {
      x = block->forward(x);
    }
    return x;
  }

 private:
  std::vector<std::shared_ptr<Block>> blocks_;  // also in torch's list of children
};

class Resnet final : public Model {
 public:
  Resnet(const ResnetShape& shape, const ModelOptions& options) {
    conv1_ = register_module(
        "conv1", make_conv({.in = options.image.channels, .out = 64, .kernel = 7, .stride = 2}));
    bn1_ = register_module("bn1", BatchNorm(64));
    std::int64_t channels = 64;
    std::int64_t planes = 64;
    for (std::size_t i = 0; i < stages_.size(); ++i) {
      const BlockShape first = {
          .in = channels,
          .planes = planes,
          .out = shape.is_bottleneck ? 4 * planes : planes,
          .stride = i == 0 ? 1 : 2};
      stages_[i] = register_module(
          "layer" + std::to_string(i + 1),
          std::make_shared<Stage>(first, shape.blocks[i], shape.is_bottleneck));
      channels = first.out;
      planes *= 2;
    }
    fc_ = register_module("fc", nn::Linear(channels, options.classes));
    redraw_convolutions();
  }

  torch::Tensor forward(torch::Tensor x) override {                            // (N, 3, 224, 224)
    x = bn1_(conv1_(x)).relu_();                                               // (N, 64, 112, 112)
    x = torch::max_pool2d(x, /*kernel_size=*/3, /*stride=*/2, /*padding=*/1);  // (N, 64, 56, 56)
    for (const std::shared_ptr<Stage>& stage : stages_) {
      x = stage->forward(x);
    }  // (N, 512 or 2048, 7, 7)
    return project(fc_, torch::adaptive_avg_pool2d(x, {1, 1}).flatten(1));
  }

 private:
  /// torchvision lets each layer draw its default values and then overwrites them with these.
  void redraw_convolutions() {
    for (const std::shared_ptr<nn::Module>& module : modules(/*include_self=*/false)) {
      if (auto const* conv = module->as<nn::Conv2d>(); conv != nullptr) {
        nn::init::kaiming_normal_(conv->weight, /*a=*/0, torch::kFanOut, torch::kReLU);
      }
    }
  }

  nn::Conv2d conv1_{nullptr};
  BatchNorm bn1_{nullptr};
  std::array<std::shared_ptr<Stage>, 4> stages_;
  nn::Linear fc_{nullptr};
};

}  // namespace

std::shared_ptr<Model> make_resnet(const ModelOptions& options) {
  const auto shape = resnet_shape(options.kind);
  DDPRUN_CHECK(shape.has_value());
  return std::make_shared<Resnet>(*shape, options);
}

}  // namespace ddprun
