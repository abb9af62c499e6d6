#pragma once

#include "trainer/model.hpp"

#include <memory>

namespace ddprun {

/// The vision transformers of Crusoe's examples: queries, keys and values from one Linear without
/// bias, position and class embeddings drawn from randn, a norm after the last block and a Linear
/// on the class token. As in Dosovitskiy et al. (arXiv 2010.11929), dropout follows the embedding
/// and every linear layer except that of queries, keys and values, and there is none inside the
/// attention. The names are those of the Python class in tests/parity/model_peers.py. REQUIRES:
/// check_model(options); one of Crusoe's kinds of vit_shape.
std::shared_ptr<Model> make_crusoe_vit(const ModelOptions& options);

}  // namespace ddprun
