#include "trainer/clip.hpp"

#include "base/check.hpp"

namespace ddprun {
namespace {

std::vector<torch::Tensor> gradients_of(const std::vector<torch::Tensor>& parameters) {
  std::vector<torch::Tensor> gradients;
  for (const torch::Tensor& parameter : parameters) {
    if (parameter.grad().defined()) gradients.push_back(parameter.grad().detach());
  }
  return gradients;
}

/// A scalar. REQUIRES: at least one gradient.
torch::Tensor norm_of(const std::vector<torch::Tensor>& gradients) {
  std::vector<torch::Tensor> norms;
  norms.reserve(gradients.size());
  for (const torch::Tensor& gradient : gradients) {
    norms.push_back(torch::linalg_vector_norm(gradient, 2));
  }
  return torch::linalg_vector_norm(torch::stack(norms), 2);
}

}  // namespace

double gradient_norm(const std::vector<torch::Tensor>& parameters) {
  const torch::NoGradGuard no_gradients;
  const std::vector<torch::Tensor> gradients = gradients_of(parameters);
  return gradients.empty() ? 0 : norm_of(gradients).item<double>();
}

double clip_gradients(const std::vector<torch::Tensor>& parameters, double max_norm) {
  DDPRUN_CHECK(max_norm > 0);
  const torch::NoGradGuard no_gradients;
  const std::vector<torch::Tensor> gradients = gradients_of(parameters);
  if (gradients.empty()) return 0;
  const torch::Tensor norm = norm_of(gradients);
  // Python divides a number by a tensor this way; libtorch's clip_grad_norm_ really divides, which
  // gives other bits for limits that are not 1.
  const torch::Tensor quotient = (norm + 1e-6).reciprocal() * max_norm;
  const torch::Tensor factor = torch::clamp_max(quotient, 1.0);
  for (const torch::Tensor& gradient : gradients) {
    gradient.mul_(factor);
  }
  return norm.item<double>();
}

}  // namespace ddprun
