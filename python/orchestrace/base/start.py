"""Ctrl-C while the command loads its modules, before there is anything that could say so in one line.

Python raises KeyboardInterrupt wherever it is, also inside an import of a library, which may drop it, or in a
place where nobody catches it, which prints a traceback. Until a command runs there is nothing to clean up: it
ends at once. What this module imports is loaded before that can be said, so it is little.
"""

import os
import signal
import sys

STOPPED = 130
"""The exit code of a command that Ctrl-C stopped."""


def is_command() -> bool:
    """Whether this process was started as the command: the installed script, or ``-m orchestrace.cli``."""
    program = [*getattr(sys, "argv", []), ""][0]
    if program == "-m":  # as long as the module is looked for
        return "orchestrace.cli" in sys.orig_argv
    return os.path.basename(program) in ("orchestrace", "orchestrace.exe", "orchestrace-script.py")


def end_at_interrupts() -> None:
    """End the process at Ctrl-C with one line, until `hold_back_interrupts` of the command takes over.

    A process that was started with Ctrl-C ignored goes on to ignore it.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, end_at_interrupt)


def end_at_interrupt(_number: int, _frame: object) -> None:
    """Say that the command was stopped, and end before anybody says more."""
    try:
        os.write(2, b"stopped\n")
    finally:
        os._exit(STOPPED)


if is_command():
    end_at_interrupts()
