"""What a topic's keys are pinned to: a history of partition counts, and where it is kept.

As long as a topic is pinned to a count, its keys go to their hash modulo that count, however many partitions
there are. A cut-over adds a pin that comes into effect later, so that every instance of a fleet has read it
by then, and all change at the same moment.
"""

import math
import threading
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, Protocol

from attrs import asdict, frozen

from kafka_partition_events.errors import ConfigurationError

INTERVAL_S = 1.0
"""How often partitioners read their store, unless they are told otherwise."""

READ_LIMIT_S = 2.0
"""How long a store may take to read, once it is connected."""

FARTHEST_S = 366 * 86_400.0
"""How far ahead a cut-over may lie. What is farther was mistyped, and it can't be called back."""

_YEAR_10000 = 253_402_300_800


@frozen
class Pin:
    """One count of a topic's history.

    Attributes:
        generation: 1 for a topic's first pin; each cut-over adds one.
        count: The number of partitions that keys are spread over.
        effective_at: From when on, in Unix seconds. A first pin has always been in effect.
    """

    generation: int
    count: int
    effective_at: float


History = tuple[Pin, ...]
"""All pins of a topic, ascending by generation. Never empty; a topic has few."""


def first_pin(count: int, now: float) -> History:
    """Return the history of a topic that is pinned for the first time."""
    return (Pin(1, count, round(now, 3)),)


def counts_in_force(history: History, now: float, before: tuple[int, ...] = ()) -> tuple[int, ...]:
    """Return the counts that have come into effect, the one that is in force last.

    What was in force before stays so: a clock that is set back would else move keys a second time, and a
    third one when it gets there again.
    """
    first, *cut_overs = history
    counts = (first.count, *(pin.count for pin in cut_overs if pin.effective_at <= now))
    was = tuple(pin.count for pin in history[: len(before)])
    return before if len(before) > len(counts) and was == before else counts


def pin_at(history: History, now: float) -> Pin:
    """Return the pin that is in force at a moment."""
    return history[len(counts_in_force(history, now)) - 1]


def next_change(history: History, now: float) -> float | None:
    """Return when the next pin comes into effect, in Unix seconds; None when none is pending."""
    return min((pin.effective_at for pin in history[1:] if pin.effective_at > now), default=None)


def with_cut_over(history: History, count: int, *, at: float, now: float) -> History:
    """Return the history with one more pin.

    Args:
        history: The pins so far.
        count: The new number of partitions.
        at: When it comes into effect, in Unix seconds.
        now: The Unix seconds now.

    Raises:
        ConfigurationError: a cut-over is pending, the count does not grow, or the time is not a later one.
    """
    last = history[-1]
    if next_change(history, now) is not None:
        raise ConfigurationError(
            f"a cut-over to {last.count} partitions is pending, {last.effective_at - now:.0f} s from now; "
            "the next one can be made after it"
        )
    if count <= last.count:
        raise ConfigurationError(
            f"keys are pinned to {last.count} partitions already; a cut-over is to more, not to {count}"
        )
    if not now <= at < math.inf:
        raise ConfigurationError(f"a cut-over lies in the future, not {now - at:.0f} s ago")
    return (*history, Pin(last.generation + 1, count, round(at, 3)))


def check_delay(delay: float, interval: float) -> None:
    """Refuse a cut-over that instances which read their store each ``interval`` seconds may read too late.

    In the worst case one has just read it, waits for the cut-over of another topic, and then for the store.

    Raises:
        ConfigurationError: the delay is too short, or longer than a year.
    """
    least = interval + 2 * READ_LIMIT_S
    if not least <= delay:
        raise ConfigurationError(
            f"a cut-over must lie at least {least:g} s ahead, not {delay:g} s: by then every instance has to "
            "have read the store, and seen that the topic has grown"
        )
    if delay > FARTHEST_S:
        raise ConfigurationError(
            f"a cut-over lies at most {FARTHEST_S / 86_400:g} days ahead, not {delay / 86_400:,.0f}: "
            "it can't be called back"
        )


def agreed(known: History, stored: History | None) -> History:
    """Return what holds for an instance that knows one history and reads another from the store.

    The store's holds, unless it has fewer pins: then it has lost a cut-over, because it was deleted, restored
    from an old copy, or overwritten by an instance that saw the topic for the first time. It is told again.
    """
    return known if stored is None or len(known) > len(stored) else stored


class PinStore(Protocol):
    """Keeps the histories of a fleet's topics over restarts. Thread-safe.

    Partitioners read it in the background, about once a second, and can share it; whoever made it closes it.
    """

    @property
    def unreadable(self) -> Mapping[str, str]:
        """The topics whose entry could not be understood when the store was read last, and why.

        Keyed records of these are refused; those of all others are none the worse for it.
        """

    def read(self) -> Mapping[str, History]:
        """Return the history of every topic, by name, but of the unreadable ones.

        Blocks, but for no longer than `READ_LIMIT_S`.

        Raises:
            PinStoreError: it can't be read; the message names it, and the cure.
        """

    def replace(self, topic: str, before: History | None, after: History) -> bool:
        """Write a topic's history if it still is what it was before (compare and set).

        Args:
            topic: The topic.
            before: What was read; None when there was nothing.
            after: What shall be there.

        Returns:
            Whether ``after`` is in the store now. False: somebody else was first.

        Raises:
            PinStoreError: it can't be written. (It may have been, if only the answer was lost.)
        """

    def close(self) -> None:
        """Release what the store holds."""


class MemoryPinStore:
    """A store that dies with the process: for partitioners that share it, and for tests."""

    def __init__(self) -> None:
        """Make an empty store."""
        self.unreadable: Mapping[str, str] = {}
        self._histories: dict[str, History] = {}
        self._lock = threading.Lock()

    def read(self) -> Mapping[str, History]:
        """Return the history of every topic."""
        with self._lock:
            return dict(self._histories)

    def replace(self, topic: str, before: History | None, after: History) -> bool:
        """Write a topic's history if it still is what it was before; tell whether it was."""
        with self._lock:
            if self._histories.get(topic) != before:
                return False
            self._histories[topic] = after
            return True

    def close(self) -> None:
        """Do nothing."""


def encode_history(history: History) -> list[dict[str, Any]]:
    """Return a history as it is written as JSON."""
    return [asdict(pin) for pin in history]


def decode_history(document: object) -> History:
    """Return the history that a JSON document means.

    Raises:
        ValueError: it means none; the message tells why.
    """
    if not isinstance(document, list) or not document:
        raise ValueError("a history is a list of pins, and not empty")
    history = tuple(map(_decode_pin, document))
    if any(later.generation <= pin.generation for pin, later in pairwise(history)):
        raise ValueError("the generations of a history ascend")
    return history


def _decode_pin(document: object) -> Pin:
    match document:
        case {"generation": int(generation), "count": int(count), "effective_at": int() | float() as at}:
            if generation >= 1 and count >= 1 and 0 <= at < _YEAR_10000:
                return Pin(generation, count, float(at))
    raise ValueError("a pin has a generation and a count of 1 or more, and an effective_at in Unix seconds")
