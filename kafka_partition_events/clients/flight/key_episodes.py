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
    """What one topic's keys are doing."""

    since: float  # when the first key left; monotonic seconds
    before: int  # how many had left before
    brokers: set[int] = field(factory=set)  # that were suspect since
    suspected_at: float = 0.0  # when one of them was seen to be the last time
    is_announced: bool = False  # `KeysMoved` was published


@define
class KeyEpisodes:
    """The episodes of one producer's topics. For one thread at a time."""

    _open: dict[str, _Episode] = field(factory=dict)
    _seen: dict[str, int] = field(factory=dict)  # how many keys had left when the last episode ended

    def news(
        self, counts: Mapping[str, tuple[int, int]], suspects: Iterable[int], now: float
    ) -> Iterator[Event]:
        """Return what is to be published by now.

        ``counts``: by topic, how many keys are away from home, and how many have left so far.
        """
        brokers = frozenset(suspects)
        for topic, (away, moved) in counts.items():
            before = self._seen.get(topic, 0)
            if (episode := self._open.get(topic)) is None:
                if moved == before:
                    continue
                episode = self._open[topic] = _Episode(now, before, suspected_at=now)
            episode.brokers |= brokers
            if brokers:
                episode.suspected_at = now
            is_calm = now - episode.suspected_at >= SETTLED_AFTER_S
            is_over = is_calm or (not away and not brokers)
            if not episode.is_announced and (is_over or now - episode.since >= ANNOUNCED_AFTER_S):
                episode.is_announced = True
                yield KeysMoved(topic=topic, brokers=tuple(sorted(episode.brokers)), keys=moved - before)
            if is_over:
                del self._open[topic]
                self._seen[topic] = moved
                yield KeysReturned(topic=topic, keys=moved - before, away=away)
