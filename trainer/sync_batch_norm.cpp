#include "trainer/sync_batch_norm.hpp"

#include "base/check.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

namespace ddprun {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::Variable;
using torch::autograd::variable_list;

/// Statistics over all ranks; (C) each, float64.
struct Statistics {
  Tensor mean;
  Tensor variance;  // divided by count
  double count = 0;
};

Tensor sum_over_ranks(const ProcessGroup& group, Tensor values) {
  std::vector<Tensor> tensors{std::move(values)};
  group->allreduce(tensors)->wait();
  return tensors.front();
}

/// The number of values of `input` (N, C, …) in each channel.
double count_of(const Tensor& input) {
  return static_cast<double>(input.numel()) / static_cast<double>(input.size(1));
}

/// Reshapes a row of (C) for operations with (N, C, …).
Tensor as_channels(const Tensor& row, const Tensor& like) {
  std::vector<std::int64_t> shape(static_cast<std::size_t>(like.dim()), 1);
  shape[1] = row.size(0);
  return row.view(shape);
}

/// Each rank contributes the first and the second moment, not sums of its own deviations: those
/// need the common mean first, and so a second all-reduce. In float64 this loses no precision.
Statistics statistics_over_ranks(const Tensor& input, const ProcessGroup& group) {
  const std::int64_t channels = input.size(1);
  const double mine = count_of(input);
  Tensor sums = torch::zeros({2 * channels + 1}, input.options().dtype(torch::kFloat64));
  if (mine > 0) {
    // Without running statistics: it is only used for its sums, which ATen computes in float64.
    const auto [mean_f, variance_f] = at::batch_norm_update_stats(input, {}, {}, /*momentum=*/0);
    const Tensor mean = mean_f.to(torch::kFloat64);
    const Tensor square = variance_f.to(torch::kFloat64) + mean * mean;
    sums.narrow(0, 0, channels).copy_(mean * mine);
    sums.narrow(0, channels, channels).copy_(square * mine);
    sums[2 * channels].fill_(mine);
  }
  sums = sum_over_ranks(group, sums);

  Statistics all;
  all.count = sums[2 * channels].item<double>();
  all.mean = sums.narrow(0, 0, channels) / all.count;
  // Rounding may make a variance of 0 negative.
  all.variance =
      (sums.narrow(0, channels, channels) / all.count - all.mean * all.mean).clamp_min(0);
  return all;
}

void update_running(const RunningStatistics& running, const Statistics& batch) {
  if (!running.mean.defined()) return;
  const torch::NoGradGuard no_gradients;
  // The running variance is that of the population: divided by count - 1.
  const double unbiased = batch.count / std::max(batch.count - 1, 1.0);
  const auto move = [&running](const Tensor& average, const Tensor& value) {
    const Tensor moved =
        average.to(torch::kFloat64) * (1 - running.momentum) + value * running.momentum;
    average.copy_(moved);
  };
  move(running.mean, batch.mean);
  move(running.variance, batch.variance * unbiased);
}

/// Autograd's functions take tensors that may be undefined as optionals.
std::optional<Tensor> optional_of(const Tensor& tensor) {
  return tensor.defined() ? std::optional(tensor) : std::nullopt;
}

struct SyncBatchNormFunction : torch::autograd::Function<SyncBatchNormFunction> {
  // Every input with a gradient is a separate argument. NOLINTNEXTLINE(readability-function-size)
  static Variable forward(
      AutogradContext* context,
      const Tensor& input,
      const std::optional<Tensor>& weight,
      const std::optional<Tensor>& bias,
      const RunningStatistics& running,
      double epsilon,
      const ProcessGroup& group) {
    const Tensor values = input.to(torch::kFloat32).contiguous();
    const Statistics batch = statistics_over_ranks(values, group);
    update_running(running, batch);

    const Tensor mean = batch.mean.to(torch::kFloat32);
    const Tensor variance = batch.variance.to(torch::kFloat32);
    const Tensor inverse = (batch.variance + epsilon).rsqrt().to(torch::kFloat32);
    context->save_for_backward({values, weight.value_or(Tensor()), mean, inverse});
    context->saved_data["count"] = batch.count;
    context->saved_data["group"] = c10::IValue::make_capsule(group);
    context->saved_data["type"] = input.scalar_type();
    if (values.numel() == 0) return torch::empty_like(input);
    const Tensor output = std::get<0>(at::native_batch_norm(
        values, weight, bias, mean, variance, /*training=*/false, /*momentum=*/0, epsilon));
    return output.to(input.scalar_type());
  }

  static variable_list backward(AutogradContext* context, variable_list output_gradients) {
    const variable_list saved = context->get_saved_variables();
    const Tensor& values = saved[0];
    const Tensor& weight = saved[1];
    const Tensor& mean = saved[2];
    const Tensor& inverse = saved[3];
    const Tensor gradient = output_gradients[0].to(torch::kFloat32).contiguous();

    // This rank's Σ g · (x - mean) / deviation and Σ g: the gradients of weight and bias.
    const std::int64_t channels = values.size(1);
    Tensor weight_gradient = torch::zeros({channels}, gradient.options());
    Tensor bias_gradient = torch::zeros({channels}, gradient.options());
    if (values.numel() > 0) {
      std::tie(std::ignore, weight_gradient, bias_gradient) = at::native_batch_norm_backward(
          gradient,
          values,
          weight,
          /*running_mean=*/{},
          /*running_var=*/{},
          mean,
          inverse,
          /*train=*/true,
          /*eps=*/0,
          {false, true, true});
    }
    Tensor input_gradient;
    if (context->needs_input_grad(0)) {
      input_gradient =
          input_gradient_of(context, gradient, saved, torch::cat({weight_gradient, bias_gradient}));
    }
    if (!weight.defined()) weight_gradient = bias_gradient = Tensor();
    return {input_gradient, weight_gradient, bias_gradient, {}, {}, {}};
  }

 private:
  /// weight / deviation · (g - mean of g - x̂ · mean of g · x̂), with means over all ranks.
  static Tensor input_gradient_of(
      AutogradContext* context,
      const Tensor& gradient,
      const variable_list& saved,
      const Tensor& own_sums) {
    const auto group = c10::static_intrusive_pointer_cast<c10d::ProcessGroup>(
        context->saved_data["group"].toCapsule());
    const double count = context->saved_data["count"].toDouble();
    const Tensor& values = saved[0];
    const Tensor& weight = saved[1];
    const Tensor& inverse = saved[3];

    const Tensor sums = sum_over_ranks(group, own_sums.to(torch::kFloat64));
    const std::int64_t channels = values.size(1);
    const auto channel = [&values](const Tensor& row) {
      return as_channels(row.to(torch::kFloat32), values);
    };
    const Tensor along = channel(sums.narrow(0, 0, channels) / count * inverse);
    const Tensor shift = channel(sums.narrow(0, channels, channels) / count);
    const Tensor factor = channel(weight.defined() ? inverse * weight : inverse);
    Tensor out = values - channel(saved[2]);
    out.mul_(-along).add_(gradient).sub_(shift).mul_(factor);
    return out.to(context->saved_data["type"].toScalarType());
  }
};

}  // namespace

Tensor sync_batch_norm(
    const Tensor& input,
    const Affine& affine,
    const RunningStatistics& running,
    double epsilon,
    const ProcessGroup& group) {
  DDPRUN_CHECK(input.dim() >= 2);
  return SyncBatchNormFunction::apply(
      input, optional_of(affine.weight), optional_of(affine.bias), running, epsilon, group);
}

}  // namespace ddprun
