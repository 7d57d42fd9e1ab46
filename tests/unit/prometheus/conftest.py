"""The time, and what watches a script and is closed in the end."""

from collections.abc import Iterator
from typing import Any

import pytest

from kafka_partition_events.testing import ManualClock
from kafka_partition_events.testing.scripted import Step
from tests.scrape_kit import Watch, Watched


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(start=1_000.0)


@pytest.fixture
def watch(clock: ManualClock) -> Iterator[Watch]:
    """Watch a script: its first step has been polled when this returns."""
    watched: list[Watched] = []

    def make(*script: Step, **options: Any) -> Watched:
        watched.append(Watched(clock, *script, **options))
        watched[-1].poll()
        return watched[-1]

    yield make
    for each in watched:
        each.poller.close()
