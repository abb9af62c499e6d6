#pragma once

#include "trainer/model.hpp"

#include <memory>

namespace ddprun {

/// The vision transformers of Dosovitskiy et al. (arXiv 2010.11929) as torchvision.models.vit_b_16
/// and its kin build them: the same names, order and first values; the head begins with zeros. With
/// other than three channels the first convolution differs, and nothing else.
/// REQUIRES: check_model(options); one of torchvision's kinds of vit_shape.
std::shared_ptr<Model> make_vision_transformer(const ModelOptions& options);

}  // namespace ddprun
