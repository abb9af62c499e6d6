#include "trainer/numerics.hpp"

#include <ATen/Context.h>

#include <cstdlib>

namespace ddprun {

void choose_numerics(const TrainOptions& options) {
  const NumericOptions& numerics = options.numerics;
  at::Context& context = at::globalContext();
  if (numerics.is_deterministic) {
    // cuBLAS reads it at its first use; without it the order of sums is random.
    ::setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);
    context.setDeterministicAlgorithms(/*b=*/true, /*warn_only=*/false);
    // Filling memory before it is written would only cost time.
    context.setDeterministicFillUninitializedMemory(false);
    context.setDeterministicCuDNN(true);
  }
  if (options.device != DeviceKind::kCuda) return;
  context.setBenchmarkCuDNN(numerics.benchmarks_cudnn);
  // By default torch uses TF32 in convolutions but not in matrix products; one flag sets both here.
  context.setAllowTF32CuBLAS(numerics.uses_tf32);
  context.setAllowTF32CuDNN(numerics.uses_tf32);
}

}  // namespace ddprun
