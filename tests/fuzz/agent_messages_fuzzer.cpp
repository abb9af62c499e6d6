// The libFuzzer target: any bytes between agents are either a message within all limits or refused.
// docs/store.md says how to run such a target.

#include "tests/fuzz/agent_messages_fuzz.hpp"

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  ddprun::testing::run_message(bytes);
  if (!bytes.empty()) ddprun::testing::run_stream(bytes.substr(1), 1U + data[0]);
  return 0;
}
