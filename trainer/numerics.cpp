#include "trainer/numerics.hpp"

#include <ATen/Context.h>

#include <cstdlib>

namespace ddprun {

void choose_numerics(const TrainOptions& options) {
  const NumericOptions& numerics = options.numerics;
  at::Context& context = at::globalContext();
  if (numerics.is_deterministic) {
    // cuBLAS reads it when it is first used, and sums in an order of chance without it.
    ::setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);
    context.setDeterministicAlgorithms(/*b=*/true, /*warn_only=*/false);
    // Memory that is filled before it is written would only cost time.
    context.setDeterministicFillUninitializedMemory(false);
    context.setDeterministicCuDNN(true);
  }
  if (options.device != DeviceKind::kCuda) return;
  context.setBenchmarkCuDNN(numerics.benchmarks_cudnn);
  // Torch lets convolutions use TF32 and products of matrices not; here one word is for both.
  context.setAllowTF32CuBLAS(numerics.uses_tf32);
  context.setAllowTF32CuDNN(numerics.uses_tf32);
}

}  // namespace ddprun
