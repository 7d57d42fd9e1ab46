"""Lets a producer send bytes again that its serializer made, although ``send`` always calls the serializer.

The value itself may have changed since it was sent, and serializing may have side effects.
"""

import threading
from typing import Any

from attrs import frozen


@frozen
class Serialized:
    """A value that is serialized already."""

    data: str | bytes | None


class SerializedOnce:
    """Stands for a producer's value serializer, and keeps what it made last, for each thread."""

    def __init__(self, theirs: Any) -> None:
        self._theirs = theirs
        self._kept = threading.local()

    @property
    def latest(self) -> Any:
        """What this thread's latest value became."""
        return self._kept.data

    def serialize(self, topic: str, *args: Any) -> Any:
        """Serialize a value, the last argument; kafka-python also knows serializers without headers."""
        if isinstance(args[-1], Serialized):
            return args[-1].data
        self._kept.data = data = self._theirs.serialize(topic, *args)
        return data

    def __getattr__(self, name: str) -> Any:
        return getattr(self._theirs, name)
