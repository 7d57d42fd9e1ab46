"""What makes mailboxes for a test and closes them in the end."""

from collections.abc import Iterator
from typing import Any

import pytest

from kafka_partition_events.metadata.listener import PartitionChangeListener
from kafka_partition_events.metadata.registration import Registration
from kafka_partition_events.testing.clock import ManualClock
from tests.unit.dispatch.mail import WAIT_S, Open


@pytest.fixture
def open_mailbox(clock: ManualClock) -> Iterator[Open]:
    opened: list[Registration] = []

    def make(listener: PartitionChangeListener, capacity: int = 1024, **options: Any) -> Registration:
        mailbox = Registration(listener, capacity=capacity, clock=clock, **options)
        opened.append(mailbox)
        return mailbox

    yield make
    for mailbox in opened:
        mailbox.close(wait=WAIT_S)
