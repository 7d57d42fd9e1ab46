"""The maintenance windows of the configuration, as silences of the outbox."""

from collections.abc import Iterable
from datetime import UTC, datetime

from kafka_partition_events.incidents.silences import PREFIX, Silence, encode_silence
from kafka_partition_events.observe.settings import OF_CONFIGURATION, Window
from kafka_partition_events.outbox import Journal, Write

_ALWAYS = datetime(1970, 1, 1, tzinfo=UTC)


def keep_windows(outbox: Journal, windows: Iterable[Window]) -> None:
    """Let the outbox have the windows of the configuration, and no others of an earlier one.

    Raises:
        ConfigurationError: a window is out of range.
        OutboxError: the outbox can't be written.
    """
    wanted = {silence.key: encode_silence(silence) for silence in map(_silence, windows)}
    there = outbox.values(f"{PREFIX}{OF_CONFIGURATION}")
    gone: dict[str, bytes | None] = dict.fromkeys(there.keys() - wanted.keys())
    outbox.write(Write(values={**gone, **wanted}))


def _silence(window: Window) -> Silence:
    day, time, *zone = window.weekly
    return Silence(
        id=f"{OF_CONFIGURATION}{window.name}",
        author="configuration",
        reason=window.reason,
        since=_ALWAYS,
        cluster=window.cluster,
        topic=window.topic,
        broker=window.broker,
        name=window.event,
        weekly=" ".join((day, time, f"{round(window.lasts / 60)}min", *zone)),
    )
