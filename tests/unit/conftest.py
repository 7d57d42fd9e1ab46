"""The time of a test: it stands still until the test moves it on."""

import pytest

from kafka_partition_events.testing.clock import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()
