#pragma once

namespace ddprun {

/// From now on a SIGSEGV, SIGBUS, SIGFPE, SIGILL or SIGABRT writes the native stack of the affected
/// thread to stderr, and then ends the process as it would have ended: by that signal, with a core
/// file if enabled. Costs nothing until then.
///
/// For main(), before threads start. A signal that already has a handler, such as a sanitizer's,
/// keeps it. The handler has its own stack on the main thread, because an overflow of the ordinary
/// stack is a SIGSEGV, too.
void install_crash_handler();

}  // namespace ddprun
