"""A seccomp filter that refuses PR_SET_CHILD_SUBREAPER, as in some containers: nobody adopts orphans."""

import ctypes
import os
import platform
import struct
import unittest

PR_SET_CHILD_SUBREAPER = 36
# The number of prctl, by machine.
PRCTL = {"x86_64": 157, "aarch64": 167}.get(platform.machine())

needs_refusal = unittest.skipIf(PRCTL is None, f"the number of prctl on {platform.machine()} is not known here")


def refuse_adoption():
    """For the process that calls it and all that it starts: a filter with which prctl(36) fails with EPERM."""
    pr_set_seccomp, pr_set_no_new_privs, filter_mode = 22, 38, 2
    load, if_equal, answer = 0x20, 0x15, 0x06  # BPF_LD|W|ABS, BPF_JMP|JEQ|K, BPF_RET|K
    allow, fail_with_eperm = 0x7FFF0000, 0x00050000 | 1
    number_at, first_argument_at = 0, 16  # in struct seccomp_data
    program = b"".join(struct.pack("HBBI", *step) for step in (
        (load, 0, 0, number_at),
        (if_equal, 0, 3, PRCTL),
        (load, 0, 0, first_argument_at),
        (if_equal, 0, 1, PR_SET_CHILD_SUBREAPER),
        (answer, 0, 0, fail_with_eperm),
        (answer, 0, 0, allow)))
    steps = ctypes.create_string_buffer(program)
    filter_ = ctypes.create_string_buffer(struct.pack("HP", len(program) // 8, ctypes.addressof(steps)))
    libc = ctypes.CDLL(None, use_errno=True)
    for words in ((pr_set_no_new_privs, 1, 0, 0, 0), (pr_set_seccomp, filter_mode, filter_, 0, 0)):
        if libc.prctl(*words) != 0:
            raise OSError(ctypes.get_errno(), "cannot install a seccomp filter")
