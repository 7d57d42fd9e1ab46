"""What is understood of small states that others write: each is decoded once, odd ones are passed over."""

from collections.abc import Callable, Iterator, Mapping
from typing import Generic, TypeVar

from kafka_partition_events.log import get_logger

T = TypeVar("T")

_log = get_logger(__name__)


class Understood(Generic[T]):
    """A decoder that remembers what it has decoded. Not thread-safe.

    Attributes:
        refused: How many values could not be decoded; each counts, and is logged, once.
    """

    def __init__(self, decode: Callable[[bytes], T]) -> None:
        """Make one.

        Args:
            decode: Makes something of a value. Whatever it raises, that value alone is passed over.
        """
        self.refused = 0
        self._decode = decode
        self._known: dict[str, tuple[bytes, T | None]] = {}

    def of(self, values: Mapping[str, bytes]) -> Iterator[T]:
        """Yield what is understood of these values, in the order of their names; others are forgotten."""
        self._known = {name: self._found(name, value) for name, value in sorted(values.items())}
        return (found for _, found in self._known.values() if found is not None)

    def _found(self, name: str, value: bytes) -> tuple[bytes, T | None]:
        known = self._known.get(name)
        if known is not None and known[0] == value:
            return known
        try:
            return value, self._decode(value)
        except Exception as error:  # noqa: BLE001 - anybody may have written it: it must not hold up the others
            self.refused += 1
            _log.error("value_not_understood", name=name, error=str(error) or repr(error))
            return value, None
