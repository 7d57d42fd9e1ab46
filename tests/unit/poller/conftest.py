"""What makes pollers for a test and closes them in the end."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from kafka_partition_events.testing.clock import ManualClock
from tests.poller_kit import Pollers


@pytest.fixture
def make(clock: ManualClock) -> Iterator[Pollers]:
    with closing(Pollers(clock)) as pollers:
        yield pollers
