"""What confluent-kafka's rescue tells the application, without a broker."""

from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Message

from kafka_partition_events import DefaultPartitioner
from kafka_partition_events.clients.confluent.reports import Reports
from kafka_partition_events.clients.confluent.rescue import Rescue
from kafka_partition_events.clients.held import Held
from kafka_partition_events.clients.rescue import RescueLimits, RescueStats
from kafka_partition_events.routing.lanes import MAIN
from kafka_partition_events.testing.scripted import cluster_of

TIMED_OUT = KafkaError(KafkaError._MSG_TIMED_OUT)
TOO_LARGE = KafkaError(KafkaError.MSG_SIZE_TOO_LARGE)


class Rig:
    """A producer's rescue, and what the application has heard of its records."""

    def __init__(self, mode: Any = "failed") -> None:
        partitioner = DefaultPartitioner()
        partitioner.adopt(cluster_of({"t": [1, 2, 3]}, brokers=[1, 2, 3]))
        self.rescue = Rescue(mode, RescueLimits(), Reports(partitioner))
        self.told: list[tuple[int | None, bytes]] = []
        self.reports: list[Any] = []  # librdkafka's, in the order of sending
        self.raises: BaseException | None = None

    def produce(self, value: bytes = b"v") -> Held:
        def heard(error: KafkaError | None, message: Message) -> None:
            self.told.append((None if error is None else error.code(), bytes(message.value() or b"")))

        held = self.rescue.hold("t", value, {"own": b"1"}, 0, heard)
        assert held is not None
        self.send(held)
        return held

    def send(self, held: Held) -> None:
        if self.raises is not None:
            raise self.raises
        self.reports.append(self.rescue.placing(held, 1 if held.attempts else 0, MAIN))

    def report(self, number: int, error: KafkaError | None = None, value: bytes = b"v") -> None:
        message = Message(
            topic="t", partition=min(number, 1), value=value, key=None, headers=None, error=error
        )
        self.reports[number](error, message)

    def drain(self) -> None:
        self.rescue.drain(self.send)


def test_a_copy_decides_and_its_message_is_told() -> None:
    rig = Rig()
    rig.produce(b"")
    rig.report(0, TIMED_OUT)
    rig.drain()
    rig.report(1, value=b"of the copy")
    rig.report(0)
    assert rig.told == [(None, b"of the copy")]
    assert rig.rescue.account.stats == RescueStats(copies=1, saved=1)


def test_an_empty_record_that_arrives_has_arrived() -> None:
    rig = Rig()
    held = rig.produce(b"")
    rig.report(0, TIMED_OUT)
    rig.drain()
    assert held.error is not None
    rig.report(1, value=b"")
    assert rig.told == [(None, b"")]


def test_what_a_copy_would_not_mend_is_told_at_once() -> None:
    rig = Rig()
    rig.produce()
    rig.report(0, TOO_LARGE)
    rig.drain()
    assert (rig.told, len(rig.reports)) == ([(KafkaError.MSG_SIZE_TOO_LARGE, b"v")], 1)


@pytest.mark.parametrize("error", [ValueError("the application's chooser"), RuntimeError("closed")])
def test_a_copy_that_cannot_be_sent_leaves_the_outcome_of_the_record(error: Exception) -> None:
    rig = Rig()
    rig.produce()
    rig.report(0, TIMED_OUT)
    rig.raises = error
    rig.drain()
    assert rig.told == [(KafkaError._MSG_TIMED_OUT, b"v")]


def test_a_copy_that_finds_the_queue_full_waits() -> None:
    rig = Rig()
    rig.produce()
    rig.report(0, TIMED_OUT)
    rig.raises = BufferError()
    rig.drain()
    assert (rig.told, rig.rescue.account.waiting) == ([], 1)


def test_what_is_purged_while_it_is_queued_is_told_so_when_polled() -> None:
    rig = Rig()
    rig.produce()
    rig.report(0, TIMED_OUT)
    rig.rescue.account.purge()
    assert rig.told == []
    rig.drain()
    assert rig.told == [(KafkaError._PURGE_QUEUE, b"v")]
    assert len(rig.reports) == 1


def test_a_purged_hedge_leaves_the_original_its_own_outcome() -> None:
    rig = Rig("hedge")
    rig.produce()
    rig.rescue.account.hedge({(MAIN, "t", 0): 1})
    rig.rescue.account.purge()
    rig.drain()
    assert rig.told == []
    rig.report(0, TOO_LARGE)
    assert rig.told == [(KafkaError.MSG_SIZE_TOO_LARGE, b"v")]


def test_an_application_that_raises_is_told_once_and_nothing_is_kept() -> None:
    rig = Rig()

    def raising(_error: Any, _message: Any) -> None:
        rig.told.append((None, b""))
        raise ZeroDivisionError

    held = rig.rescue.hold("t", b"v", None, 0, raising)
    assert held is not None
    rig.send(held)
    with pytest.raises(ZeroDivisionError):
        rig.report(0)
    rig.report(0, TIMED_OUT)
    assert len(rig.told) == 1
    assert not rig.rescue.account.any_open()


def test_a_record_that_librdkafka_placed_is_known_by_its_report() -> None:
    rig = Rig()
    held = rig.rescue.hold("t", b"v", None, 0, None)
    assert held is not None
    report = rig.rescue.placing(held, -1, MAIN)
    report(TIMED_OUT, Message(topic="t", partition=2, value=b"v", key=None, headers=None, error=TIMED_OUT))
    assert held.home == 2
    assert isinstance(held.error, KafkaException)
    rig.drain()
    assert dict(rig.rescue.headers(held))["kpe-original-partition"] == b"2"
