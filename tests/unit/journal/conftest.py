"""An outbox, and a cluster whose observers are closed in the end."""

from collections.abc import Iterator

import pytest

from kafka_partition_events.testing.clock import ManualClock
from tests.unit.journal.shelf import Shelf, World


@pytest.fixture
def shelf() -> Shelf:
    return Shelf()


@pytest.fixture
def world(shelf: Shelf, clock: ManualClock) -> Iterator[World]:
    world = World(shelf, clock)
    yield world
    for poller in world.pollers:
        poller.close()
