"""Where the latest records with an id were, to know their copies by. Pure."""

from typing import Final

Place = tuple[str, int]
"""A topic and a partition of it."""

REMEMBERED: Final = 100_000
"""Ids, at least; twice as many at most, in about 35 MB."""

_LONGEST = 64  # bytes of an id: others write headers, too


class RecentIds:
    """The places of the latest records that were handed out, by id, in two generations."""

    def __init__(self, remembered: int = REMEMBERED) -> None:
        self._remembered = remembered
        self._new: dict[bytes, tuple[Place, int]] = {}
        self._old: dict[bytes, tuple[Place, int]] = {}

    def is_copy(self, id_: bytes, place: Place, offset: int) -> bool:
        """Return whether the record was handed out from elsewhere; where it is read again it is no copy."""
        was = self._new.get(id_) or self._old.get(id_)
        return was is not None and was != (place, offset)

    def add(self, id_: bytes, place: Place, offset: int) -> None:
        """Remember where a record was that is handed out."""
        if len(id_) > _LONGEST:
            return
        self._new[id_] = place, offset
        if len(self._new) >= self._remembered:
            self._old, self._new = self._new, {}
