#include "trainer/model.hpp"

#include "base/check.hpp"
#include "base/digest.hpp"
#include "trainer/models/crusoe_vit.hpp"
#include "trainer/models/resnet.hpp"
#include "trainer/models/small_nets.hpp"
#include "trainer/models/vision_transformer.hpp"

#include <cstddef>
#include <span>

namespace ddprun {
namespace {

void add(Sha256& digest, const torch::Tensor& tensor) {
  const torch::Tensor values = tensor.detach().contiguous().cpu();
  digest.add({static_cast<const std::byte*>(values.const_data_ptr()), values.nbytes()});
}

void append_state(
    const torch::nn::Module& module,
    const std::string& prefix,
    std::vector<std::pair<std::string, torch::Tensor>>& state) {
  for (const auto& item : module.named_parameters(/*recurse=*/false)) {
    state.emplace_back(prefix + item.key(), item.value().detach());
  }
  for (const auto& item : module.named_buffers(/*recurse=*/false)) {
    state.emplace_back(prefix + item.key(), item.value());
  }
  for (const auto& item : module.named_children()) {
    append_state(*item.value(), prefix + item.key() + ".", state);
  }
}

}  // namespace

torch::Tensor Model::loss(const torch::Tensor& output, const torch::Tensor& labels) const {
  return torch::nn::functional::cross_entropy(output, labels);
}

std::shared_ptr<Model> make_model(const ModelOptions& options) {
  DDPRUN_CHECK(check_model(options).has_value());
  switch (options.kind) {
    case ModelKind::kConvNet:
    case ModelKind::kSimpleConvNet:
    case ModelKind::kMyNet:
    case ModelKind::kDummy:
    case ModelKind::kLinear:
      return make_small_net(options);
    case ModelKind::kResnet18:
    case ModelKind::kResnet34:
    case ModelKind::kResnet50:
    case ModelKind::kResnet101:
    case ModelKind::kResnet152:
      return make_resnet(options);
    case ModelKind::kVitB16:
    case ModelKind::kVitB32:
    case ModelKind::kVitL16:
    case ModelKind::kVitL32:
      return make_vision_transformer(options);
    case ModelKind::kCrusoeVitTiny:
    case ModelKind::kCrusoeVitLarge:
    case ModelKind::kCrusoeVitHuge:
      return make_crusoe_vit(options);
  }
  return nullptr;
}

std::shared_ptr<Model> make_model(ModelKind kind) {
  return make_model(default_model(kind));
}

std::vector<std::pair<std::string, torch::Tensor>> state_of(const torch::nn::Module& model) {
  std::vector<std::pair<std::string, torch::Tensor>> state;
  append_state(model, "", state);
  return state;
}

std::string weights_sha256(const torch::nn::Module& model) {
  Sha256 digest;
  for (const torch::Tensor& parameter : model.parameters()) {
    add(digest, parameter);
  }
  return digest.finish_hex();
}

std::string state_sha256(const torch::nn::Module& model) {
  Sha256 digest;
  for (const auto& [name, tensor] : state_of(model)) {
    add(digest, tensor);
  }
  return digest.finish_hex();
}

}  // namespace ddprun
