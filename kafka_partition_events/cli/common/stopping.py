"""How a command is stopped: by Ctrl-C, or by SIGTERM as service managers do."""

import contextlib
import signal
import threading
import time
from collections.abc import Iterator
from types import FrameType

_SEEN_WITHIN_S = 0.5


@contextlib.contextmanager
def sigterm_as_ctrl_c() -> Iterator[None]:
    """Let SIGTERM unwind the stack as Ctrl-C does, so that everything that was opened is closed."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may set a handler
        return

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def wait_until_stopped() -> None:
    """Wait for Ctrl-C or SIGTERM.

    Awake now and then: the kernel may hand a signal to any thread of the process. Python only notes it there,
    and the main thread, which alone runs handlers, would sleep on without an end.

    Raises:
        KeyboardInterrupt: it came.
    """
    while True:
        time.sleep(_SEEN_WITHIN_S)
