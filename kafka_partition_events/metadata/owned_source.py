"""A poller's source: closed once, and never under a fetch."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from kafka_partition_events.log import get_logger
from kafka_partition_events.metadata.source import MetadataSource

_log = get_logger(__name__)


class OwnedSource:
    """A poller's source, which is closed once, and not under a fetch. Takes no lock."""

    def __init__(self, source: MetadataSource, is_closed: Callable[[], bool]) -> None:
        self._is_closed = is_closed  # whether the poller is; if so, it stays so
        self._fetches: set[object] = set()
        self._once = iter((source,))

    @contextmanager
    def fetching(self) -> Iterator[None]:
        """Keep the source open while it is asked. Whether the poller is open is to be checked in here.

        The token comes before that check, and `close_if_idle` after the poller was marked as closed: either
        the fetch does not begin, or its token is seen there, and the source is closed here at the end.
        """
        token = object()
        self._fetches.add(token)
        try:
            yield
        finally:
            self._fetches.discard(token)
            self.close_if_idle()

    def close_if_idle(self) -> None:
        """Close the source if the poller is closed and no fetch is in flight, on any thread."""
        if not self._is_closed() or self._fetches:
            return
        for source in self._once:  # a step is atomic, so only one thread gets there
            try:
                source.close()
            except Exception as error:  # noqa: BLE001 - a source is foreign code
                _log.warning("source_close_failed", error=repr(error))
