"""The end of a command in words: its exit code as a shell has it, and the signal that it died of."""

from __future__ import annotations

import signal

SHELL_OFFSET = 128  # a shell, and a launcher, report signal n as code 128 + n


def exit_code_of(status: int) -> int:
    """Return the exit code of a command as a shell has it.

    Args:
        status: Its exit code, or -n if signal n ended it.
    """
    return status if status >= 0 else SHELL_OFFSET - status


def signal_of(status: int | None) -> str:
    """Return the name of the signal that a command died of, `SIGSEGV`; "" if it died of none, or still runs.

    A shell or a launcher that started the program reports its signal as a code above 128.

    Args:
        status: Its exit code, or -n if signal n ended it; None while it runs.
    """
    if status is None or 0 <= status <= SHELL_OFFSET:
        return ""
    number = -status if status < 0 else status - SHELL_OFFSET
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}" if status < 0 else ""


def ending_of(status: int) -> str:
    """Return a clause about an end that is none of the training's plan; "" for exit code 0.

    Args:
        status: The command's exit code, or -n if signal n ended it.
    """
    if name := signal_of(status):
        return f"{name} ended the training (exit code {exit_code_of(status)})"
    return f"the training ended with code {status}" if status else ""
