#include "trainer/models/crusoe_vit.hpp"

#include "base/check.hpp"
#include "trainer/models/transformer_parts.hpp"

namespace ddprun {
namespace {

namespace nn = torch::nn;

nn::LayerNorm make_norm(std::int64_t width) {
  return nn::LayerNorm(nn::LayerNormOptions({width}));
}

class Attention final : public nn::Module {
 public:
  Attention(const VitShape& shape, double dropout) : heads_(shape.heads) {
    qkv_ = register_module(
        "qkv", nn::Linear(nn::LinearOptions(shape.width, 3 * shape.width).bias(false)));
    proj_ = register_module("proj", nn::Linear(shape.width, shape.width));
    dropout_ = register_module("dropout", nn::Dropout(dropout));
  }

  torch::Tensor forward(const torch::Tensor& x) {  // (N, tokens, width), as is the result
    const std::int64_t width = x.size(2);
    const torch::Tensor packed =
        project(qkv_, x)
            .reshape({x.size(0), x.size(1), 3, heads_, width / heads_})
            .permute({2, 0, 3, 1, 4});  // (3, N, heads, tokens, width / heads)
    const std::vector<torch::Tensor> parts = packed.unbind(0);
    const torch::Tensor mixed = torch::scaled_dot_product_attention(parts[0], parts[1], parts[2])
                                    .transpose(1, 2)
                                    .reshape({x.size(0), x.size(1), width});
    return dropout_(project(proj_, mixed));
  }

 private:
  std::int64_t heads_;
  nn::Linear qkv_{nullptr};
  nn::Linear proj_{nullptr};
  nn::Dropout dropout_{nullptr};
};

class Block final : public nn::Module {
 public:
  Block(const VitShape& shape, double dropout) {
    norm1_ = register_module("norm1", make_norm(shape.width));
    attn_ = register_module("attn", std::make_shared<Attention>(shape, dropout));
    norm2_ = register_module("norm2", make_norm(shape.width));
    mlp_ = register_module("mlp", std::make_shared<Mlp>(shape.width, shape.mlp, dropout));
  }

  torch::Tensor forward(const torch::Tensor& input) {
    const torch::Tensor x = input + attn_->forward(norm1_(input));
    return x + mlp_->forward(norm2_(x));
  }

 private:
  nn::LayerNorm norm1_{nullptr};
  std::shared_ptr<Attention> attn_;  // also in the list of children
  nn::LayerNorm norm2_{nullptr};
  std::shared_ptr<Mlp> mlp_;
};

/// The blocks, "0", "1" and so on.
class Blocks final : public nn::Module {
 public:
  Blocks(const VitShape& shape, double dropout) {
    for (std::int64_t i = 0; i < shape.depth; ++i) {
      blocks_.push_back(
          register_module(std::to_string(i), std::make_shared<Block>(shape, dropout)));
    }
  }

  torch::Tensor forward(torch::Tensor x) {
    for (const std::shared_ptr<Block>& block : blocks_) {
      x = block->forward(x);
    }
    return x;
  }

 private:
  std::vector<std::shared_ptr<Block>> blocks_;
};

class CrusoeVit final : public Model {
 public:
  CrusoeVit(const VitShape& shape, const ModelOptions& options) {
    const double dropout = options.dropout.value_or(shape.dropout);
    patch_embedding_ = register_module(
        "patch_embedding",
        nn::Conv2d(nn::Conv2dOptions(options.image.channels, shape.width, shape.patch)
                       .stride(shape.patch)));
    pos_embedding_ = register_parameter(
        "pos_embedding", torch::randn({1, shape.tokens(options.image.side), shape.width}));
    cls_token_ = register_parameter("cls_token", torch::randn({1, 1, shape.width}));
    dropout_ = register_module("dropout", nn::Dropout(dropout));
    blocks_ = register_module("blocks", std::make_shared<Blocks>(shape, dropout));
    norm_ = register_module("norm", make_norm(shape.width));
    fc_ = register_module("fc", nn::Linear(shape.width, options.classes));
  }

  torch::Tensor forward(torch::Tensor images) override {                // (N, 3, side, side)
    torch::Tensor x = tokens_of(images, patch_embedding_, cls_token_);  // (N, tokens, width)
    x = norm_(blocks_->forward(dropout_(x + pos_embedding_)));
    return project(fc_, x.select(/*dim=*/1, 0));
  }

 private:
  nn::Conv2d patch_embedding_{nullptr};
  torch::Tensor pos_embedding_;
  torch::Tensor cls_token_;
  nn::Dropout dropout_{nullptr};
  std::shared_ptr<Blocks> blocks_;
  nn::LayerNorm norm_{nullptr};
  nn::Linear fc_{nullptr};
};

}  // namespace

std::shared_ptr<Model> make_crusoe_vit(const ModelOptions& options) {
  const auto shape = vit_shape(options.kind);
  DDPRUN_CHECK(shape.has_value());
  return std::make_shared<CrusoeVit>(*shape, options);
}

}  // namespace ddprun
