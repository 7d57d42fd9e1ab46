"""A metadata source that shows some topics only."""

import re

from attrs import evolve

from kafka_partition_events.metadata.source import MetadataSource, Observation


class NarrowedSource:
    """Leaves out of another source's answers the topics whose whole name does not match.

    All topics are asked for, so that new ones are seen; to everybody behind it, there are no others.
    """

    def __init__(self, source: MetadataSource, topics: str) -> None:
        """Take over the source; ``topics`` is a regular expression."""
        self._source = source
        self._matches = re.compile(topics).fullmatch

    def fetch(self, topics: frozenset[str] | None, /, *, started_at: float, timeout: float) -> Observation:
        """Ask the cluster once.

        Raises:
            MetadataFetchError: the cluster could not be asked.
        """
        seen = self._source.fetch(topics, started_at=started_at, timeout=timeout)
        return evolve(
            seen,
            topics={name: info for name, info in seen.topics.items() if self._matches(name)},
            errors={name: error for name, error in seen.errors.items() if self._matches(name)},
        )

    def close(self) -> None:
        """Close the other source."""
        self._source.close()
