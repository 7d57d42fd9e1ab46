"""When keys have left a sick broker, and when they are home again: one event each for all keys. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from attrs import define, field

from kafka_partition_events.metadata.events import Event, KeysMoved, KeysReturned

ANNOUNCED_AFTER_S: Final = 1.0
"""How long after the first key has left: so long the number grows fast."""

SETTLED_AFTER_S: Final = 30.0
"""After so long without a suspect those that are still away are no matter any more."""


@define
class _Episode:
    """What one topic's keys are doing.

    Attributes:
        since: When the first key left; monotonic seconds.
        before: How many had left before.
        brokers: Who was suspect since.
        calm_since: Since when no broker is suspect; None while one is.
        is_announced: Whether `KeysMoved` was published.
    """

    since: float
    before: int
    brokers: set[int] = field(factory=set)
    calm_since: float | None = None
    is_announced: bool = False


@define
class KeyEpisodes:
    """The episodes of one producer's topics. For one thread at a time."""

    _open: dict[str, _Episode] = field(factory=dict)
    _seen: dict[str, int] = field(factory=dict)  # how many keys had left when the last episode ended

    def news(
        self, counts: Mapping[str, tuple[int, int]], suspects: Iterable[int], now: float
    ) -> Iterator[Event]:
        """Return what is to be published by now.

        Args:
            counts: By topic, how many keys are away from home, and how many have left so far.
            suspects: The brokers that are suspect.
            now: Monotonic seconds.
        """
        brokers = frozenset(suspects)
        for topic, (away, moved) in counts.items():
            before = self._seen.get(topic, 0)
            if (episode := self._open.get(topic)) is None:
                if moved == before:
                    continue
                episode = self._open[topic] = _Episode(now, before)
            episode.brokers |= brokers
            if brokers:
                episode.calm_since = None
            elif episode.calm_since is None:
                episode.calm_since = now
            is_calm = episode.calm_since is not None and now - episode.calm_since >= SETTLED_AFTER_S
            is_over = is_calm or (not away and not brokers)
            if not episode.is_announced and (is_over or now - episode.since >= ANNOUNCED_AFTER_S):
                episode.is_announced = True
                yield KeysMoved(topic=topic, brokers=tuple(sorted(episode.brokers)), keys=moved - before)
            if is_over:
                del self._open[topic]
                self._seen[topic] = moved
                yield KeysReturned(topic=topic, keys=moved - before, away=away)
