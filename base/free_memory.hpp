#pragma once

namespace ddprun {

/// Gives the memory that was freed back to the kernel. glibc by itself keeps all that lies below
/// memory in use. Takes milliseconds after hundreds of MiB; elsewhere than with glibc, does
/// nothing.
void release_free_memory();

}  // namespace ddprun
