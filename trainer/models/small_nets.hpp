#pragma once

#include "trainer/model.hpp"

#include <memory>

namespace ddprun {

/// The small nets.
///
/// convnet: Conv(1,32,3) ReLU Conv(32,64,3) ReLU MaxPool2 Flatten Linear(9216,128) ReLU
/// Linear(128,10). simple_conv_net, Crusoe's: the same layers with dropout 0.25 after the pooling
/// and 0.5 after the first linear layer, log_softmax and NLL. my_net, the OpenACC bootcamp's:
/// dropout of whole channels after each convolution, 0.5 and 0.75, and a Linear(128,20) ReLU before
/// the head; log_softmax and NLL. For images of another size the first linear layer differs.
///
/// dummy, Mila's: the mean of each image, then Linear(1, classes): training that costs nothing, to
/// measure the speed of the data. linear: Linear from all pixels to the classes.
///
/// REQUIRES: check_model(options); a kind named above.
std::shared_ptr<Model> make_small_net(const ModelOptions& options);

}  // namespace ddprun
