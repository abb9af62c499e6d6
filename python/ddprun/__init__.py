"""ddprun, an elastic launcher for distributed training: the programs ``ddprun`` and ``ddpctl``.

``python -m ddprun ARGUMENTS`` is ``ddprun ARGUMENTS`` with this Python for the scripts.

What a training script may tell and ask its launcher stands here. Nothing of it is needed: ddprun counts the steps of
torch's optimizers by itself. Without ddprun the functions do nothing, so a script that uses them runs anywhere.
"""

import os

from ddprun import _steps
from ddprun._preemption import PreemptionNotice, preempted

__all__ = ["EXIT_PREEMPTED", "PreemptionNotice", "busy", "preempted", "report_progress"]

EXIT_PREEMPTED = os.EX_TEMPFAIL
"""The exit status, 75, of a worker that has saved its state after a preemption notice: start the job again."""


def report_progress(step):
    """Tells that the script has made step number ``step``, an integer >= 0; ``ddpctl status`` shows it.

    Call it after each step of a loop without an optimizer of torch, where it counts as a step; or in any loop, to show
    a number of your own, such as one that continues after a restart. Costs 1 microsecond.

    Raises TypeError if ``step`` is not an integer, and ValueError if it is negative or does not fit into 63 bits.
    """
    try:
        number = step.__index__()
    except AttributeError:
        raise TypeError(f"report_progress({step!r}): the step must be an integer") from None
    if not 0 <= number < (1 << 63) - 1:
        raise ValueError(f"report_progress({step!r}): the step must be from 0 to 2**63 - 2")
    _steps.report(number)


def busy(what, seconds):
    """Announces a pause of at most ``seconds``: evaluating, saving, downloading. ddprun then does not take this worker
    for hung, and ``ddpctl status`` shows ``what``, of which 63 bytes fit.

    As a plain call it holds for ``seconds``, but no longer than until the next step; ``busy("", 0)`` ends it too. As a
    context manager it ends with the block::

        with ddprun.busy("evaluating", 600):
            evaluate(model)

    Raises TypeError if ``what`` is not a str or ``seconds`` is not a number, and ValueError if ``seconds`` is negative,
    NaN or infinite.
    """
    if not isinstance(what, str):
        raise TypeError(f"busy({what!r}, {seconds!r}): what you do must be a str")
    try:
        nanoseconds = int(seconds * 1e9) if seconds >= 0 else -1
    except (TypeError, AttributeError):
        raise TypeError(f"busy({what!r}, {seconds!r}): the seconds must be a number") from None
    except (OverflowError, ValueError):
        nanoseconds = -1
    if nanoseconds < 0:
        raise ValueError(f"busy({what!r}, {seconds!r}): the seconds must be finite and not negative")
    return _steps.Pause(what, nanoseconds)
