#pragma once

// OpenSSL's libcrypto, loaded by name when it is first needed: a program that starts in
// milliseconds should not load what few runs need, and runs on machines with another version of
// OpenSSL, or with none.

#include "base/error.hpp"

#include <openssl/evp.h>
#include <openssl/hmac.h>

namespace ddprun {

/// The functions that we use. They are the same in OpenSSL 1.1 and 3.
struct Libcrypto {
  decltype(&::HMAC) hmac = nullptr;
  decltype(&::EVP_md5) md5 = nullptr;
  decltype(&::EVP_sha256) sha256 = nullptr;
  decltype(&::EVP_MD_CTX_new) new_context = nullptr;
  decltype(&::EVP_MD_CTX_free) free_context = nullptr;
  decltype(&::EVP_DigestInit_ex) begin_digest = nullptr;
  decltype(&::EVP_DigestUpdate) update_digest = nullptr;
  decltype(&::EVP_DigestFinal_ex) finish_digest = nullptr;
};

/// Loads the library for the lifetime of this process, once. Never null. Fails with kNotFound,
/// naming the package to install.
Result<const Libcrypto*> load_libcrypto();

}  // namespace ddprun
