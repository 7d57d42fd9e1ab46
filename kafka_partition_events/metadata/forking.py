"""What a forked child does before anything else of this library runs in it.

In a child only the thread that forked exists. Locks that other threads held stay locked, and connections
still belong to the parent. So whatever has one of those starts afresh here, and threads start only after
all of that: `MetadataPoller` starts its own in a hook that was registered after the one of this module.
"""

import ctypes
import os
import weakref
from typing import Protocol


class StartsAfresh(Protocol):
    """Something that a fork would leave broken in the child."""

    def reset_after_fork(self) -> None:
        """Start afresh: replace locks without taking them, wait for nothing, log nothing, start no thread."""


_all: "weakref.WeakSet[StartsAfresh]" = weakref.WeakSet()


def reset_in_children(one: StartsAfresh) -> None:
    """Have an object reset in every child that is forked from now on, as long as it lives."""
    _all.add(one)


def keep_for_ever(*parents_own: object) -> None:
    """Keep what belongs to the parent from being destroyed in this child, also when the interpreter ends.

    Destroying a librdkafka client waits for ever for threads that are not there; closing an SQLite connection
    may undo the parent's locks.
    """
    for one in parents_own:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(one))


def _reset_all() -> None:
    for one in list(_all):
        one.reset_after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_all)
