"""Keys leave a partition that needs a sick broker, and what waits for that is queued. No broker."""

from typing import Any

import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME, KafkaError, KafkaException

from kafka_partition_events import ConfigurationError
from kafka_partition_events.clients.confluent import PartitioningProducer
from kafka_partition_events.clients.confluent.tracers import Handle
from kafka_partition_events.clients.flight.key_moves import MoveKeys
from kafka_partition_events.health.in_flight import MAIN
from kafka_partition_events.partitioners.base import UNASSIGNED
from tests.unit.kafka_python_kit import FakeProducer
from tests.unit.keyed_rig import NOWHERE, Make, Rig, make, make_either, queued

__all__ = ["make", "make_either", "queued"]

MOVE = MoveKeys(compacted_ok=True)


def test_a_new_key_leaves_a_partition_that_needs_a_suspect(make_either: Make) -> None:
    rig = make_either(keys=MOVE)
    rig.suspect(2)
    key = rig.a_key(1)
    rig.produce(key, key)
    assert rig.queued == (0, 2)
    assert rig.keys.displaced == rig.keys.moved == 1
    rig.report_all()
    (chosen,) = set(rig.partitions)
    assert chosen in {0, 2}


def test_a_partition_that_is_given_is_obeyed(make_either: Make) -> None:
    rig = make_either(keys=MOVE)
    rig.suspect(2)
    rig.produce(rig.a_key(1), partition=1)
    rig.report_all()
    assert rig.partitions == [1]


def test_a_topic_whose_cleanup_policy_is_not_known_keeps_its_keys(make_either: Make) -> None:
    rig = make_either(keys="move")
    rig.suspect(2)
    rig.produce(rig.a_key(1))
    assert (rig.queued, rig.keys.moved) == ((0, 1), 0)
    assert rig.keys.moved == 0


@pytest.mark.parametrize("bad", ["\ud800", 10**13, object()])
def test_a_key_that_the_client_refuses_harms_no_other(make: Make, bad: Any) -> None:
    rig = make()
    rig.produce(b"key")  # opens the short cut
    with pytest.raises((TypeError, UnicodeEncodeError)):
        rig.produce(bad)
    rig.suspect()
    rig.produce(b"another")
    assert rig.queued == (1, 1)


def test_an_empty_key_that_is_none_has_no_order(make: Make) -> None:
    rig = make(keys=MOVE)
    rig.suspect()
    for _ in range(20):
        rig.produce(b"")
        rig.producer._turns["t"].end()
    assert rig.queued == (0, 20)
    assert not rig.producer._chooser.keys.counts_some("t")


def test_a_partition_that_no_handle_has_heard_of_is_left_to_the_client(
    make_either: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = make_either()
    rig.suspect()
    plain, send = Handle.plain, FakeProducer.send

    def refuse_one(handle: Any, topic: str, value: Any, key: Any, partition: int, *more: Any) -> None:
        if partition != UNASSIGNED:
            raise KafkaException(KafkaError(KafkaError._UNKNOWN_PARTITION))
        plain(handle, topic, value, key, partition, *more)

    def refuse_other(producer: Any, topic: str, **record: Any) -> Any:
        if record["partition"] is not None:
            raise ValueError("Unrecognized partition")
        return send(producer, topic, **record)

    monkeypatch.setattr(Handle, "plain", refuse_one)
    monkeypatch.setattr(FakeProducer, "send", refuse_other)
    rig.produce(b"key", b"key")
    assert rig.queued == (2, 0)
    assert rig.keys.waiting == 0


class TestARecordThatWaits:
    def waiting(self, make: Make, count: int = 2) -> Rig:
        """Return a producer whose key has a record outstanding on the first handle, and others that wait."""
        rig: Rig = make()
        rig.suspect()
        rig.trust(MAIN, (4,))
        rig.produce(b"key")
        rig.suspect()
        rig.produce(*[b"key"] * count)
        assert rig.keys.waiting == count
        return rig

    def test_is_dropped_by_purge_and_the_application_hears_of_it(self, make: Make) -> None:
        rig = self.waiting(make)
        rig.report_all()
        assert [error.name() for error, _ in rig.outcomes if error] == ["_PURGE_QUEUE"] * 3
        error, message = rig.outcomes[-1]
        assert (message.topic(), message.key(), message.value()) == ("t", b"key", b"v")
        assert message.partition() == 1, "its home, as a plain producer says"
        assert error is not None
        assert message.error() == error

    def test_takes_room_in_the_queue(self, make: Make) -> None:
        rig = self.waiting(make)
        rig.producer._adapter._most_waiting = len(rig.producer)
        with pytest.raises(BufferError):
            rig.produce(b"key")
        assert rig.keys.waiting == 2

    def test_fails_when_it_has_waited_for_as_long_as_a_record_may(self, make: Make) -> None:
        rig = self.waiting(make)
        rig.producer._adapter.most_held_s = -1.0
        rig.producer._adapter.flight.keyed.order._ready.append(("t", b"key"))  # type: ignore[union-attr]
        rig.producer.poll(0)
        assert [error.code() for error, _ in rig.outcomes if error] == [KafkaError._MSG_TIMED_OUT] * 2

    def test_keeps_the_time_at_which_it_was_produced(
        self, make: Make, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("time.time", lambda: 1_000.0)
        rig = self.waiting(make, count=1)
        monkeypatch.undo()
        rig.report_all()
        assert rig.outcomes[-1][1].timestamp() == (TIMESTAMP_CREATE_TIME, 1_000_000)

    def test_keeps_its_headers_though_the_application_goes_on_with_the_list(self, make: Make) -> None:
        rig = self.waiting(make, count=1)
        headers = [("a", b"1")]
        rig.producer.produce("t", b"v", b"key", headers=headers, on_delivery=rig._note)
        headers.append(("b", b"2"))
        rig.report_all()
        assert rig.outcomes[-1][1].headers() == [("a", b"1")]


@pytest.mark.parametrize(
    ("config", "options", "why"),
    [
        ({"transactional.id": "t"}, {}, "transactional.id"),
        ({"acks": 0}, {}, "acks=0"),
        ({"delivery.report.only.error": True}, {}, "delivery.report.only.error"),
        ({}, {"keys": "mvoe"}, "'mvoe'"),
    ],
)
def test_what_contradicts_it_is_refused_in_words(config: Any, options: Any, why: str) -> None:
    with pytest.raises(ConfigurationError, match="keys") as refused:
        PartitioningProducer({**NOWHERE, **config}, **{"keys": "move", **options})
    assert why in str(refused.value)


def test_a_limit_that_lets_no_key_move_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="most_displaced"):
        MoveKeys(most_displaced=0)
