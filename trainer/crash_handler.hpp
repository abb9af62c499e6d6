#pragma once

namespace ddprun {

/// From now on a SIGSEGV, SIGBUS, SIGFPE, SIGILL or SIGABRT writes the native stack of the thread
/// that it hits to stderr, and then ends the process as it would have done: by that signal, with a
/// core file if there is to be one. Nothing is paid for it before.
///
/// For main(), before threads start. A signal that already has a handler, such as a sanitizer's,
/// keeps it. The main thread's handler has a stack of its own, since an overflow of the ordinary
/// one is a SIGSEGV too.
void install_crash_handler();

}  // namespace ddprun
