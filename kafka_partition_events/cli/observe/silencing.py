"""Silences as `kpe silence` makes and shows them."""

import uuid
from datetime import UTC, datetime, timedelta

from kafka_partition_events.incidents.silences import Silence, decode_silence, encode_silence


def new_silence(
    *,
    now: datetime,
    seconds: float,
    author: str,
    reason: str,
    cluster: str | None,
    topic: str | None,
    broker: int | None,
    event: str | None,
) -> tuple[str, bytes]:
    """Return a silence that begins now, as the outbox keeps it: its name and its value.

    Raises:
        ConfigurationError: something is missing or out of range.
    """
    silence = Silence(
        id=uuid.uuid4().hex[:8],
        author=author,
        reason=reason,
        since=now.astimezone(UTC),
        until=now.astimezone(UTC) + timedelta(seconds=seconds),
        cluster=cluster,
        topic=topic,
        broker=broker,
        name=event,
    )
    return silence.key, encode_silence(silence)


def in_words(record: bytes, now: datetime) -> str:
    """Return a line that tells one silence, and whether it mutes now.

    Raises:
        ConfigurationError: the record is no silence.
    """
    silence = decode_silence(record)
    end = silence.end_after(now)
    if end is not None:
        state = f"until {end:%Y-%m-%d %H:%MZ}"
    elif silence.weekly is not None:
        state = f"each {silence.weekly}"
    else:
        state = "over"
    matchers = {
        "cluster": silence.cluster,
        "topic": silence.topic,
        "broker": silence.broker,
        "event": silence.name,
    }
    told = " ".join(f"{name}={value}" for name, value in matchers.items() if value is not None)
    return f"{silence.id:<16}  {state:<23}  {told:<24}  {silence.author}: {silence.reason}"
