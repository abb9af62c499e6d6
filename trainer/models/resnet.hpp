#pragma once

#include "trainer/model.hpp"

#include <memory>

namespace ddprun {

/// The residual nets of He et al. (arXiv 1512.03385) as torchvision.models.resnet18 and its kin
/// build them: the same names, order and first values; the stride of a bottleneck is in its 3x3.
/// With other than three channels the first convolution differs, and nothing else. REQUIRES:
/// check_model(options); resnet_shape(options.kind).
std::shared_ptr<Model> make_resnet(const ModelOptions& options);

}  // namespace ddprun
