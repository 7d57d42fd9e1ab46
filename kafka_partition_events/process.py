"""The one rule for forks: what was made before raises when it is used in the child; what is made there works.

In a child only the thread that forked exists. Pollers, workers and librdkafka's own threads are gone, locks
may be held for ever, and copied random states make the same choices as in the parent. So nothing is revived.
The check costs a system call and stands on slow paths only: what is fast reads a cache, and
`forget_in_children` has a child begin without it.
"""

import ctypes
import os
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

from kafka_partition_events.errors import ForkedError

_T = TypeVar("_T")


class OwnProcess:
    """The process in which something was made. Thread-safe."""

    def __init__(self, what: str) -> None:
        """Remember this process.

        Args:
            what: What is made, as errors name it: a class's name.
        """
        self._what = what
        self._pid = os.getpid()

    @property
    def is_another(self) -> bool:
        """Whether this is a child of the process in which it was made."""
        return self._pid != os.getpid()

    def check(self) -> None:
        """Raise in a child.

        Raises:
            ForkedError: it was made before a fork.
        """
        if self.is_another:
            raise ForkedError(
                f"this {self._what} was made before a fork, in process {self._pid}: "
                f"make a new one in the child (this is process {os.getpid()})"
            )


_forgets: "weakref.WeakKeyDictionary[Any, Callable[[Any], None]]" = weakref.WeakKeyDictionary()


def forget_in_children(one: _T, forget: Callable[[_T], None]) -> None:
    """Call ``forget(one)`` in every child that is forked from now on, while it lives.

    It empties a cache, so that the slow path with the check is taken, or leaks what is the parent's. It takes
    no lock: that may be held for ever.
    """
    _forgets[one] = forget


def leak(one: object) -> None:
    """Keep a librdkafka client of the parent's from being destroyed in this child.

    That waits for threads which are the parent's: 1.3 s each time, and now and then for ever (a plain
    ``confluent_kafka.Producer`` in 1 of 16 children, 2.16, Python 3.11).
    """
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(one))


def _after_fork_in_child() -> None:
    for one, forget in tuple(_forgets.items()):
        forget(one)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
