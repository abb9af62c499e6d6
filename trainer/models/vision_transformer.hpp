#pragma once

#include "trainer/model.hpp"

#include <memory>

namespace ddprun {

/// The vision transformers of Dosovitskiy et al. (arXiv 2010.11929) as built by
/// torchvision.models.vit_b_16 and the like: the same names, order and initial values; the head
/// starts with zeros. With other than three channels only the first convolution differs. REQUIRES:
/// check_model(options); one of torchvision's kinds of vit_shape.
std::shared_ptr<Model> make_vision_transformer(const ModelOptions& options);

}  // namespace ddprun
