"""Keys of a kafka-python producer that is attached: what waits has a future, and is sent later. No broker."""

from typing import Any

import pytest
from kafka.errors import IllegalStateError, KafkaTimeoutError

from kafka_partition_events.clients.flight.key_moves import KeyStats
from kafka_partition_events.clients.kafka_python.adapter import KafkaPythonAdapter
from kafka_partition_events.health.in_flight import MAIN
from tests.poller_kit import eventually
from tests.unit.kafka_python_kit import Sent, Upper
from tests.unit.keyed_rig import KafkaPythonRig, Make, queued
from tests.unit.keyed_rig import make_kafka_python as make

__all__ = ["make", "queued"]

LIMIT_S = 10
see_to = KafkaPythonAdapter._see_to


def waiting(make: Make, **config: Any) -> KafkaPythonRig:
    """Return a producer of which a key has a record outstanding on the first handle, and is to leave that."""
    rig: KafkaPythonRig = make(config)
    rig.suspect()
    rig.trust(MAIN, (4,))
    rig.produce(b"key")
    rig.suspect()
    return rig


def sent(rig: KafkaPythonRig) -> list[Sent]:
    """Return what the second handle was given."""
    return list(rig._further.producer.sent)


class TestARecordThatWaits:
    def test_is_kept_as_it_was_sent_and_its_future_hears_of_the_one_that_goes(self, make: Make) -> None:
        rig = waiting(make)
        headers = [("a", b"1")]
        future = rig.producer.send("t", b"v2", b"key", headers=headers, timestamp_ms=7)
        headers.append(("b", b"2"))
        assert rig.keys.waiting == 1
        assert not future.is_done
        rig.report(0)
        (record,) = sent(rig)
        assert (record.key, record.value, record.timestamp_ms) == (b"key", b"v2", 7)
        assert record.headers == [("a", b"1")]
        record.arrive(31)
        metadata = future.get(0)
        assert (metadata.partition, metadata.offset) == (record.partition, 31)
        assert (metadata.serialized_key_size, metadata.serialized_value_size) == (3, 2)
        assert rig.keys == KeyStats()

    def test_is_flushed(self, make: Make) -> None:
        rig = waiting(make)
        future = rig.producer.send("t", b"v", b"key")
        with pytest.raises(KafkaTimeoutError, match="wait for earlier ones of their keys"):
            rig.producer.flush(0.0)
        rig._further.producer.flush = lambda _timeout: rig.report(1)
        rig.report(0)
        rig.producer.flush(LIMIT_S)
        assert future.succeeded()

    def test_fails_when_the_producer_is_closed_before_it_goes(self, make: Make) -> None:
        rig = waiting(make)
        future = rig.producer.send("t", b"v", b"key")
        rig.producer.close()
        assert isinstance(future.exception, IllegalStateError)
        assert rig.keys.waiting == 0

    def test_is_sent_by_a_thread_that_ends_with_the_producer(
        self, make: Make, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        rig = waiting(make)
        monkeypatch.setattr(type(rig.adapter), "_see_to", see_to)
        futures = [rig.producer.send("t", b"v", b"key") for _ in range(2)]
        thread: Any = rig.adapter._thread
        rig.producer.sent[0].arrive()
        eventually(lambda: len(sent(rig)) == 2)
        assert [record.future.is_done for record in sent(rig)] == [False, False]
        rig.report(1)
        assert all(future.succeeded() for future in futures)
        rig.producer.close()
        thread.join(LIMIT_S)
        assert not thread.is_alive()

    def test_is_sent_though_a_callback_ends_the_program_in_that_thread(
        self, make: Make, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """kafka-python's futures let SystemExit through."""
        rig = waiting(make)
        monkeypatch.setattr(type(rig.adapter), "_see_to", see_to)
        served, calls = rig.adapter.flight.served, []

        def leaves(**options: Any) -> None:
            calls.append(1)
            if len(calls) == 1:
                raise SystemExit
            served(**options)

        monkeypatch.setattr(rig.adapter.flight, "served", leaves)
        rig.producer.send("t", b"v", b"key")
        eventually(lambda: len(calls) > 1)
        rig.producer.sent[0].arrive()
        eventually(lambda: len(sent(rig)) == 1)
        rig.report(1)
        rig.producer.close()


class TestWhatIsSerialized:
    def test_is_so_once_by_whichever_handle_it_goes_and_whenever(self, make: Make) -> None:
        keys, values = Upper(), Upper()
        rig = make({"key_serializer": keys, "value_serializer": values})
        own: list[Any] = []
        rig.producer.send("t", "v", "a", headers=own)
        rig.suspect()
        rig.producer.send("t", "w", "b")
        rig.trust(MAIN, (4,))
        rig.producer.send("t", None, "c")
        rig.suspect()
        rig.producer.send("t", None, "c")
        rig.report(0)
        records = [*rig.producer.sent, *sent(rig)]
        assert [it.key for it in records] == [b"A", b"C", b"B", b"C"]
        assert [it.value for it in records] == [b"V", None, b"W", None]
        assert {type(data) for it in records for data in (it.key, it.value)} == {bytes, type(None)}
        assert [len(it.headers) for it in records] == [2, 2, 2, 2]
        assert (keys.calls, values.calls, own) == (4, 4, [])

    def test_a_key_of_the_serializers_own_keeps_its_order(self, make: Make) -> None:
        class Always(Upper):
            def serialize(self, topic: str, headers: Any, _data: object) -> bytes | None:
                return super().serialize(topic, [], "always")

        keys = Always()
        rig = make({"key_serializer": keys})
        rig.suspect()
        rig.trust(MAIN, (4,))
        rig.producer.send("t", b"v")
        rig.suspect()
        rig.producer.send("t", b"v")
        assert rig.keys.waiting == 1
        assert keys.calls == 2

    def test_what_will_be_refused_is_refused_by_kafka_python(self, make: Make) -> None:
        rig = make()
        with pytest.raises(TypeError):
            rig.producer.send("t", b"v", 5)
        rig.producer.send("t", 5, b"k")
        assert [(it.key, it.value) for it in rig.producer.sent] == [(b"k", 5)]


def test_a_partition_that_the_second_handle_does_not_know_is_written_by_the_first(make: Make) -> None:
    rig = make()
    rig.suspect()
    rig._further.producer.raises = ValueError("Unrecognized partition")
    rig.produce(b"key")
    assert rig.queued == (1, 0)
