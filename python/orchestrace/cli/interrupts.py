"""Ctrl-C that waits until Polars has returned from a call of its own Python code.

Polars asks its Python classes for the types of columns, in the middle of its Rust code. An exception that is
raised there is a panic to it, which it prints with a traceback before the interrupt goes on.
"""

import os
import signal
import threading
from types import FrameType
from typing import Final

from ..base.start import end_at_interrupt

_AGAIN_S: Final = 0.01


def hold_back_interrupts() -> None:
    """Raise KeyboardInterrupt at once, but inside such a call a moment later.

    A process that was started with Ctrl-C ignored goes on to ignore it.
    """
    is_main = threading.current_thread() is threading.main_thread()  # no other may set a handler
    if is_main and signal.getsignal(signal.SIGINT) in (signal.default_int_handler, end_at_interrupt):
        signal.signal(signal.SIGINT, _interrupt)


def _interrupt(number: int, frame: FrameType | None) -> None:
    if _is_in_types_of_polars(frame):
        threading.Timer(_AGAIN_S, os.kill, (os.getpid(), number)).start()
        return
    raise KeyboardInterrupt


def _is_in_types_of_polars(frame: FrameType | None) -> bool:
    while frame is not None:
        if str(frame.f_globals.get("__name__")).startswith("polars.datatypes"):
            return True
        frame = frame.f_back
    return False
