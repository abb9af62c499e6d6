#pragma once

#include "trainer/model.hpp"

#include <memory>

namespace ddprun {

/// The residual nets of He et al. (arXiv 1512.03385) as built by torchvision.models.resnet18 and
/// the like: the same names, order and initial values; the stride of a bottleneck is in its 3x3.
/// With other than three channels only the first convolution differs. REQUIRES:
/// check_model(options); resnet_shape(options.kind).
std::shared_ptr<Model> make_resnet(const ModelOptions& options);

}  // namespace ddprun
