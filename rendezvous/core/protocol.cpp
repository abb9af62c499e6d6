#include "rendezvous/core/protocol.hpp"

#include <array>
#include <utility>

namespace ddprun {
namespace {

using Opening = std::pair<std::string_view, Protocol>;

constexpr std::array<Opening, 12> kOpenings = {{
    {std::string_view("\0", 1), Protocol::kStore},
    {"\xDDRN", Protocol::kAgent},
    {"\xDDRL", Protocol::kLifeline},
    {"GET ", Protocol::kHttp},
    {"HEAD ", Protocol::kHttp},
    {"POST ", Protocol::kHttp},
    {"PUT ", Protocol::kHttp},
    {"DELETE ", Protocol::kHttp},
    {"OPTIONS ", Protocol::kHttp},
    {"PATCH ", Protocol::kHttp},
    {"TRACE ", Protocol::kHttp},
    {"CONNECT ", Protocol::kHttp},
}};

}  // namespace

Protocol detect(std::string_view first_bytes) {
  for (const auto& [opening, protocol] : kOpenings) {
    if (first_bytes.starts_with(opening)) return protocol;
  }
  for (const auto& [opening, protocol] : kOpenings) {
    if (opening.starts_with(first_bytes)) return Protocol::kUndecided;
  }
  return Protocol::kUnknown;
}

}  // namespace ddprun
