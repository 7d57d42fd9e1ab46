"""Puts methods of ours into one object of a client's, which has no interceptors for what we need."""

import functools
from collections.abc import Callable
from typing import Any


def embed(one: Any, **methods: Callable[..., Any]) -> None:
    """Make an object an instance of a subclass of its class, with these methods.

    Functions in the instance would either keep it alive, or be without it when the garbage collector closes
    it. What wraps the methods of its own class, such as a tracer, goes on doing so.
    """
    kind = type(one)
    wrapped = {name: functools.wraps(getattr(kind, name))(method) for name, method in methods.items()}
    names = {"__slots__": (), "__module__": kind.__module__, "__qualname__": kind.__qualname__}
    one.__class__ = type(kind.__name__, (kind,), {**names, **wrapped})
