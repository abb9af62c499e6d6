#include "agent/own_machine.hpp"

#include "base/file.hpp"
#include "base/parse.hpp"

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

namespace ddprun {
namespace {

constexpr std::size_t kIdFileBytesMax = 4096;
constexpr std::size_t kIdBytesMax = 64;  // the limit of the message field

// systemd writes this before it has chosen an id, so all machines of such an image have it.
constexpr std::string_view kUninitialized = "uninitialized";

bool is_printable(char byte) {
  return byte > 0x20 && byte < 0x7F;
}

std::string id_in(const std::filesystem::path& file) {
  const auto content = read_file(file, kIdFileBytesMax);
  if (!content) return {};
  const std::string_view id = trim(*content);
  const bool is_usable =
      id.size() <= kIdBytesMax && id != kUninitialized && std::ranges::all_of(id, is_printable);
  return is_usable ? std::string(id) : std::string();
}

}  // namespace

Machine own_machine(const std::filesystem::path& root) {
  return {
      .boot = id_in(root / "proc/sys/kernel/random/boot_id"), .id = id_in(root / "etc/machine-id")};
}

}  // namespace ddprun
