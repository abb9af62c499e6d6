#include "trainer/models/vision_transformer.hpp"

#include "base/check.hpp"
#include "trainer/models/transformer_parts.hpp"

#include <ATen/autocast_mode.h>

#include <cmath>
#include <tuple>

namespace ddprun {
namespace {

namespace nn = torch::nn;

nn::LayerNorm make_norm(std::int64_t width) {
  return nn::LayerNorm(nn::LayerNormOptions({width}).eps(1e-6));
}

/// Self-attention with the parameters of torch.nn.MultiheadAttention(batch_first=True) and its
/// result when no weights are requested. libtorch's own module computes it differently, with other
/// bits.
class SelfAttention final : public nn::Module {
 public:
  SelfAttention(std::int64_t width, std::int64_t heads) : width_(width), heads_(heads) {
    in_proj_weight_ = register_parameter("in_proj_weight", torch::empty({3 * width, width}));
    in_proj_bias_ = register_parameter("in_proj_bias", torch::zeros({3 * width}));
    out_proj_ = register_module("out_proj", nn::Linear(width, width));
    nn::init::xavier_uniform_(in_proj_weight_);
    nn::init::zeros_(out_proj_->bias);
  }

  torch::Tensor forward(const torch::Tensor& x) {  // (N, tokens, width), as is the result
    return is_fused(x) ? fused(x) : in_steps(x);
  }

 private:
  /// Whether Python uses the kernel without gradients, which has its own bits.
  bool is_fused(const torch::Tensor& x) const {
    return !is_training() && !torch::GradMode::is_enabled() && heads_ % 2 == 0 &&
           x.scalar_type() == in_proj_weight_.scalar_type() &&
           !at::autocast::is_autocast_enabled(at::kCUDA);
  }

  torch::Tensor fused(const torch::Tensor& x) {
    return std::get<0>(torch::_native_multi_head_attention(
        x,
        x,
        x,
        width_,
        heads_,
        in_proj_weight_,
        in_proj_bias_,
        out_proj_->weight,
        out_proj_->bias,
        /*mask=*/{},
        /*need_weights=*/false));
  }

  /// Tokens are the first dimension inside, as in Python: the order of rows decides how a matrix
  /// product is blocked, and so its bits.
  torch::Tensor in_steps(const torch::Tensor& x) {
    const std::int64_t batch = x.size(0);
    const std::int64_t tokens = x.size(1);
    const torch::Tensor packed = torch::linear(x.transpose(1, 0), in_proj_weight_, in_proj_bias_)
                                     .unflatten(-1, {3, width_})  // (tokens, N, 3, width)
                                     .unsqueeze(0)
                                     .transpose(0, -2)
                                     .squeeze(-2)
                                     .contiguous();  // (3, tokens, N, width)
    const auto by_head = [&](std::int64_t which) {
      return packed[which]
          .view({tokens, batch * heads_, width_ / heads_})
          .transpose(0, 1)
          .view({batch, heads_, tokens, width_ / heads_});
    };
    const torch::Tensor query = by_head(0);
    const torch::Tensor key = by_head(1);
    const torch::Tensor value = by_head(2);
    const torch::Tensor mixed = torch::scaled_dot_product_attention(query, key, value)
                                    .permute({2, 0, 1, 3})
                                    .contiguous()
                                    .view({batch * tokens, width_});
    return project(out_proj_, mixed).view({tokens, batch, width_}).transpose(1, 0);
  }

  std::int64_t width_;
  std::int64_t heads_;
  torch::Tensor in_proj_weight_;
  torch::Tensor in_proj_bias_;
  nn::Linear out_proj_{nullptr};
};

class EncoderBlock final : public nn::Module {
 public:
  EncoderBlock(const VitShape& shape, double dropout) {
    ln_1_ = register_module("ln_1", make_norm(shape.width));
    self_attention_ = register_module(
        "self_attention", std::make_shared<SelfAttention>(shape.width, shape.heads));
    dropout_ = register_module("dropout", nn::Dropout(dropout));
    ln_2_ = register_module("ln_2", make_norm(shape.width));
    mlp_ = register_module("mlp", std::make_shared<Mlp>(shape.width, shape.mlp, dropout));
    for (const nn::Linear& linear : {mlp_->first, mlp_->second}) {
      nn::init::xavier_uniform_(linear->weight);
      nn::init::normal_(linear->bias, /*mean=*/0, /*std=*/1e-6);
    }
  }

  torch::Tensor forward(const torch::Tensor& input) {
    const torch::Tensor x = dropout_(self_attention_->forward(ln_1_(input))) + input;
    const torch::Tensor y = mlp_->forward(ln_2_(x));
    return x + y;
  }

 private:
  nn::LayerNorm ln_1_{nullptr};
  std::shared_ptr<SelfAttention> self_attention_;  // also in the list of children
  nn::Dropout dropout_{nullptr};
  nn::LayerNorm ln_2_{nullptr};
  std::shared_ptr<Mlp> mlp_;
};

/// The blocks, "encoder_layer_0" and so on.
class EncoderLayers final : public nn::Module {
 public:
  EncoderLayers(const VitShape& shape, double dropout) {
    for (std::int64_t i = 0; i < shape.depth; ++i) {
      blocks_.push_back(register_module(
          "encoder_layer_" + std::to_string(i), std::make_shared<EncoderBlock>(shape, dropout)));
    }
  }

  torch::Tensor forward(torch::Tensor x) {
    for (const std::shared_ptr<EncoderBlock>& block : blocks_) {
      x = block->forward(x);
    }
    return x;
  }

 private:
  std::vector<std::shared_ptr<EncoderBlock>> blocks_;
};

class Encoder final : public nn::Module {
 public:
  Encoder(const VitShape& shape, std::int64_t tokens, double dropout) {
    pos_embedding_ = register_parameter(
        "pos_embedding", torch::empty({1, tokens, shape.width}).normal_(/*mean=*/0, /*std=*/0.02));
    dropout_ = register_module("dropout", nn::Dropout(dropout));
    layers_ = register_module("layers", std::make_shared<EncoderLayers>(shape, dropout));
    ln_ = register_module("ln", make_norm(shape.width));
  }

  torch::Tensor forward(const torch::Tensor& tokens) {
    return ln_(layers_->forward(dropout_(tokens + pos_embedding_)));
  }

 private:
  torch::Tensor pos_embedding_;
  nn::Dropout dropout_{nullptr};
  std::shared_ptr<EncoderLayers> layers_;
  nn::LayerNorm ln_{nullptr};
};

class Heads final : public nn::Module {
 public:
  Heads(std::int64_t width, std::int64_t classes) {
    head = register_module("head", nn::Linear(width, classes));
  }

  nn::Linear head{nullptr};
};

class VisionTransformer final : public Model {
 public:
  VisionTransformer(const VitShape& shape, const ModelOptions& options) {
    const double dropout = options.dropout.value_or(shape.dropout);
    conv_proj_ = register_module(
        "conv_proj",
        nn::Conv2d(nn::Conv2dOptions(options.image.channels, shape.width, shape.patch)
                       .stride(shape.patch)));
    class_token_ = register_parameter("class_token", torch::zeros({1, 1, shape.width}));
    encoder_ = register_module(
        "encoder", std::make_shared<Encoder>(shape, shape.tokens(options.image.side), dropout));
    heads_ = register_module("heads", std::make_shared<Heads>(shape.width, options.classes));

    const auto fan_in = static_cast<double>(options.image.channels * shape.patch * shape.patch);
    fill_trunc_normal(conv_proj_->weight, std::sqrt(1 / fan_in));
    nn::init::zeros_(conv_proj_->bias);
    nn::init::zeros_(heads_->head->weight);
    nn::init::zeros_(heads_->head->bias);
  }

  torch::Tensor forward(torch::Tensor images) override {            // (N, 3, side, side)
    torch::Tensor x = tokens_of(images, conv_proj_, class_token_);  // (N, tokens, width)
    x = encoder_->forward(x);
    return project(heads_->head, x.select(/*dim=*/1, 0));
  }

  std::string head() const override { return "heads.head"; }

 private:
  nn::Conv2d conv_proj_{nullptr};
  torch::Tensor class_token_;
  std::shared_ptr<Encoder> encoder_;
  std::shared_ptr<Heads> heads_;
};

}  // namespace

std::shared_ptr<Model> make_vision_transformer(const ModelOptions& options) {
  const auto shape = vit_shape(options.kind);
  DDPRUN_CHECK(shape.has_value());
  return std::make_shared<VisionTransformer>(*shape, options);
}

}  // namespace ddprun
