"""Whether the service is alive, and whether it is ready. Pure."""

from collections.abc import Collection

from kafka_partition_events.metadata.state import Health

LIVE_INTERVALS = 5
READY_INTERVALS = 3


def silent_after(interval: float, timeout: float) -> float:
    """Return for how many seconds there may be no good answer until the cluster is not seen any more.

    Args:
        interval: Seconds between polls when all is well.
        timeout: Seconds that one fetch may take.
    """
    return READY_INTERVALS * interval + timeout


def why_not_live(
    health: Health,
    *,
    now: float,
    started: float,
    interval: float,
    timeout: float,
    ended: Collection[str] = (),
) -> str | None:
    """Return why a restart is in place: the polling loop is stuck, a thread is gone; None if it is not.

    A cluster that does not answer is no reason: a restart cures no cluster.

    Args:
        health: The poller's.
        now: Its clock now.
        started: Its clock when it was started.
        interval: Seconds between polls when all is well.
        timeout: Seconds that one fetch may take.
        ended: The threads that have ended and should not have.
    """
    if ended:
        return f"a thread has ended: {', '.join(ended)}"
    if not health.running and health.last_attempt is not None:  # else it is about to begin
        return "the polling thread has ended"
    since = now - (started if health.last_attempt is None else health.last_attempt)
    limit = LIVE_INTERVALS * max(interval, health.next_delay) + timeout
    return f"no poll of the cluster for {since:.0f} s" if since > limit else None


def why_not_ready(
    health: Health,
    *,
    now: float,
    interval: float,
    timeout: float,
    journal_error: str | None,
    journal_behind: float = 0.0,
) -> str | None:
    """Return why the service can't be relied on now, None if it can.

    Args:
        health: The poller's.
        now: Its clock now.
        interval: Seconds between polls when all is well.
        timeout: Seconds that one fetch may take.
        journal_error: Why the outbox could not be written last.
        journal_behind: Seconds since the latest poll of which the outbox has everything.
    """
    if health.last_success is None:
        return f"no snapshot yet: {health.last_error or 'the first answer is awaited'}"
    since = now - health.last_success
    if since > silent_after(interval, timeout):
        return f"no good answer for {since:.0f} s: {health.last_error or 'the next one is awaited'}"
    if journal_error is not None:
        return f"the outbox can't be written: {journal_error}"
    if journal_behind > silent_after(interval, timeout):
        return f"the journal is {journal_behind:.0f} s behind"
    return None
