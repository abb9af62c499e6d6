// The libFuzzer target: with any bytes, the store neither crashes nor grows past its limits, and it
// serves a well-behaved client. docs/store.md says how to run it.

#include "tests/fuzz/store_fuzz.hpp"

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  ddprun::testing::run_hostile({reinterpret_cast<const char*>(data), size});
  return 0;
}
