"""What tests of forked children share."""

import os
import signal
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

LIMIT_S = 20

FORKS = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform"),
    # Python 3.12 warns of what these tests are about.
    pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning"),
]


def in_child(check: Callable[[], None]) -> None:
    """Run a check in a forked child that is killed if it takes too long."""
    pid = os.fork()
    if pid == 0:
        signal.alarm(LIMIT_S)  # a deadlock ends here, with a signal
        try:
            check()
        except BaseException:  # noqa: BLE001 - nothing of the child may reach pytest
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0, "the child failed or hung"


@contextmanager
def held(lock: Any) -> Iterator[None]:
    """Have another thread hold a lock: a child that is forked meanwhile has the lock, but not the thread."""
    taken, done = threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            taken.set()
            done.wait(2 * LIMIT_S)

    holder = threading.Thread(target=hold)
    holder.start()
    taken.wait(LIMIT_S)
    try:
        yield
    finally:
        done.set()
        holder.join()
