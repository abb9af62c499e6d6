#pragma once

// A MAC whose use fails on demand, for tests of what an exception ends.

#include "rendezvous/core/auth_proof.hpp"
#include "rendezvous/load_mac.hpp"

#include <atomic>
#include <new>
#include <string>
#include <string_view>

namespace ddprun::testing {

/// Which step of a BrittleMac throws next, once.
struct Failures {
  std::atomic<bool> in_use = false;
  std::atomic<bool> in_copying = false;
};

/// Signs as an agent with the secret does, and fails as one whose memory has run out.
class BrittleMac {
 public:
  BrittleMac(Failures& failures, const std::string& secret)
      : failures_(failures), mac_(load_mac(secret).value()) {}
  BrittleMac(const BrittleMac& other) : failures_(other.failures_), mac_(other.mac_) {
    if (failures_.in_copying.exchange(false)) throw std::bad_alloc();
  }
  BrittleMac& operator=(const BrittleMac&) = delete;
  ~BrittleMac() = default;

  std::string operator()(std::string_view text) const {
    if (failures_.in_use.exchange(false)) throw std::bad_alloc();
    return mac_(text);
  }

 private:
  Failures& failures_;
  Mac mac_;
};

inline AuthKey brittle_key(Failures& failures, const std::string& secret) {
  return {.method = AuthMethod::kSecret, .mac = BrittleMac(failures, secret), .credential = {}};
}

}  // namespace ddprun::testing
