#pragma once

// MUNGE, the authentication service that every Slurm cluster runs. Its client library is loaded on
// demand by name, so ddprun neither needs it to be built nor depends on it.
//
// Both calls ask the daemon munged on this machine, and block until it answers: for a few
// milliseconds, or some seconds if it hangs. They may run on any thread.

#include "base/error.hpp"

#include <string>
#include <string_view>

namespace ddprun {

/// A credential that transports `payload`, encrypted, to processes of this user on machines with
/// the same MUNGE key. It has no blanks. Fails with kNotFound if the library is not installed, kIo
/// if munged does not answer.
Result<std::string> munge_seal(std::string_view payload);

/// The payload of a credential that a process of this user has made. How old the credential is, and
/// who opened it before, does not matter: it transports a key, and is no proof that its sender is
/// there. Fails as munge_seal() does, and with kProtocol for a credential that is damaged, of
/// another user, or of a cluster with another key.
Result<std::string> munge_open(const std::string& credential);

}  // namespace ddprun
