#include "trainer/core/options.hpp"

namespace ddprun {

const char* name_of(DatasetKind kind) {
  switch (kind) {
    case DatasetKind::kMnist:
      return "mnist";
    case DatasetKind::kFashionMnist:
      return "fashion-mnist";
  }
  return "";
}

const char* name_of(ModelKind kind) {
  switch (kind) {
    case ModelKind::kConvNet:
      return "convnet";
    case ModelKind::kSimpleConvNet:
      return "simple_conv_net";
  }
  return "";
}

}  // namespace ddprun
