"""Keyed records keep their order over two handles, and may leave a sick broker. No broker.

One takes the second handle if none of its key is outstanding on the first, else it waits. With
``keys="move"`` a key leaves a partition that needs a suspect; with ``rescue="hedge"`` stuck ones are copied.
"""

import contextlib
from collections import Counter
from functools import partial
from typing import Any

import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME, KafkaError, KafkaException, Message
from confluent_kafka.cimpl import Producer
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from kafka_partition_events import ConfigurationError
from kafka_partition_events.clients.confluent.tracers import Handle
from kafka_partition_events.clients.flight.copies import Copies
from kafka_partition_events.clients.flight.key_moves import MoveKeys
from kafka_partition_events.clients.flight.record import Record
from kafka_partition_events.clients.flight.reports import ProducerReports
from kafka_partition_events.health.in_flight import MAIN, STANDBY
from kafka_partition_events.partitioners.base import UNASSIGNED
from tests.unit.kafka_python_kit import FakeProducer
from tests.unit.keyed_rig import Make, Rig, make, make_either, make_kafka_python, queued

__all__ = ["make", "make_either", "make_kafka_python", "queued"]

KEYS = [b"key-%d" % number for number in range(60)]
MOVE = MoveKeys(compacted_ok=True)
HEDGE: Any = {"keys": MOVE, "rescue": "hedge"}


def test_a_new_key_goes_by_the_second_one_and_one_that_is_outstanding_waits(make_either: Make) -> None:
    rig = make_either()
    rig.suspect()
    rig.produce(b"old3")
    rig.trust(MAIN, (4,))
    rig.produce(b"new", b"new", b"old3", b"new2", b"old3")
    assert rig.queued == (3, 1)
    assert rig.keys.waiting == 2
    rig.report_all()
    assert len(rig.partitions) == 6
    assert rig.keys.waiting == 0


def test_a_batch_of_keys_alone_is_followed_by_its_last_record() -> None:
    with contextlib.closing(Rig(Counter(), {}, {})) as rig:
        first, last = rig.a_key(0), rig.a_key(1)
        rig.produce_batch(first, last)
        assert sum(rig.producer.stats.deliveries.outstanding.values()) == 1
        rig.suspect()
        rig.produce(last)
        assert rig.keys.waiting == 1, "a report will show when nothing of it is outstanding"
        rig.produce(first)
        assert rig.keys.waiting == 1, "and of this one none will: it stays where it is"
        order: Any = rig.producer._chooser.keys
        assert order._topics["t"].keys[first].place.handle == MAIN
        rig.report_all()
        assert len(rig.outcomes) == 4


@pytest.mark.parametrize(
    "odd", [[], [{}], [{"key": 5}], [{"key": b"k", "value": 5}], [{"key": b"k"}, 5], "ab"]
)
def test_an_odd_batch_is_refused_as_by_a_plain_producer(make: Make, odd: Any) -> None:
    rig = make()
    seen = []
    for produce_batch in (rig.producer.produce_batch, partial(Producer.produce_batch, rig.producer)):
        try:
            seen.append(produce_batch("t", odd))
        except Exception as error:  # noqa: BLE001 - whatever plain raises
            seen.append((type(error), str(error)))
    assert seen[0] == seen[1]


def test_messages_of_a_batch_keep_the_order_of_their_keys_too(make: Make) -> None:
    rig = make()
    rig.suspect()
    rig.produce_batch(b"old", b"old2")
    rig.trust(MAIN, (4,))
    rig.produce_batch(b"old", b"new", "old2", b"new")
    assert rig.queued == (2, 2)
    assert rig.keys.waiting == 2
    rig.trust()
    rig.produce_batch(b"new", b"newer", b"old")
    assert rig.queued == (4, 2)
    assert rig.keys.waiting == 3
    rig.report_all()
    assert len(rig.outcomes) == 9


def test_keys_of_a_leader_that_cannot_be_connected_to_stay_with_the_first_handle(make_either: Make) -> None:
    rig = make_either()
    rig.suspect(2, down=frozenset({2}))
    needs = sum(rig.home_of(key) == 1 for key in KEYS)
    rig.produce(*KEYS)
    assert rig.queued == (needs, 60 - needs)
    assert 0 < needs < 60


def test_a_record_without_a_key_that_needs_a_suspect_stays_with_the_first_handle(make: Make) -> None:
    rig = make()
    rig.suspect(2)
    for partition, taken in ((1, (1, 0)), (0, (1, 1))):
        rig.producer._flight.launch(Record("t", b"v"), partition)
        assert rig.queued == taken


def test_without_a_second_handle_nothing_is_counted(make: Make) -> None:
    rig = make({"acks": 1})
    rig.trust(STANDBY, (4,))
    rig.produce(*[b"k%d" % n for n in range(100)])
    assert rig.queued == (100, 0)
    assert not rig.keeps_order


# -- keys that move ------------------------------------------------------------------------------------


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


def test_a_key_whose_stand_in_no_handle_has_heard_of_waits_for_that(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = make(keys=MOVE)
    rig.suspect(2)
    key, plain = rig.a_key(1), Handle.plain

    tries: list[int] = []

    def refuse(handle: Any, topic: str, value: Any, key: Any, partition: int, *more: Any) -> None:
        tries.append(partition)
        if partition != 1:
            raise KafkaException(KafkaError(KafkaError._UNKNOWN_PARTITION))
        plain(handle, topic, value, key, partition, *more)

    with monkeypatch.context() as patched:
        patched.setattr(Handle, "plain", refuse)
        rig.produce(key, key)
        tries.clear()
        for _ in range(20):
            rig.producer._flight.served()
        assert (rig.queued, rig.keys.waiting) == ((0, 0), 2)
        assert len(tries) <= 20 * 2, "once by each handle"
    rig.producer.poll(0)
    rig.report_all()
    assert len(rig.outcomes) == 2
    assert rig.partitions != [1, 1]


def test_a_key_that_is_away_goes_on_there_when_nothing_is_known_of_the_topic_any_more(make: Make) -> None:
    rig = make(keys=MOVE)
    rig.suspect(2)
    key = rig.a_key(1)
    rig.produce(key)
    rig.producer._flight.launch(Record("t", b"v", key), UNASSIGNED)
    rig.report_all()
    assert len({*rig.partitions}) == 1
    assert rig.partitions != [1, 1], "it has left its home"


def test_what_is_interrupted_before_its_hand_over_is_not_tracked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else its partition would be waited for, and be avoided for good."""

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with contextlib.closing(Rig(Counter(), {}, {"rescue": "hedge"})) as rig:
        monkeypatch.setattr(Copies, "launched", interrupted)
        with pytest.raises(KeyboardInterrupt):
            rig.produce(None)
        outstanding = rig.partitioner.deliveries.stats.outstanding
        assert {*outstanding.values()} == {0}, "it was tracked, and taken back"


class TestARecordThatWaits:
    def waiting(self, make: Make) -> Rig:
        """Return a producer whose key has a record outstanding on the first handle, and two that wait."""
        rig: Rig = make()
        rig.suspect()
        rig.trust(MAIN, (4,))
        rig.produce(b"key")
        rig.suspect()
        rig.produce(b"key", b"key")
        assert rig.keys.waiting == 2
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

    @pytest.mark.parametrize("raises", ["of flush", "a callback's"])
    def test_has_its_outcome_though_flush_and_each_callback_raise_while_it_is_closed(
        self, make: Make, monkeypatch: pytest.MonkeyPatch, raises: str
    ) -> None:
        rig, keys, heard = make(), (b"a", b"b", b"c"), list[bytes | str | None]()

        def note(_error: KafkaError | None, message: Message) -> None:
            heard.append(message.key())
            if raises == "a callback's":
                raise ValueError(raises)

        def flush() -> None:
            raise ValueError("of flush")

        rig.suspect()
        rig.trust(MAIN, (4,))
        rig.produce(*keys)
        rig.suspect()
        for key in keys:
            rig.producer.produce("t", b"v", key, on_delivery=note)
            rig.produce(key)
        assert rig.keys.waiting == 6
        Producer.purge(rig.producer)
        with monkeypatch.context() as patched:
            patched.setattr(rig.producer, "flush", flush)
            with pytest.raises(ValueError, match=raises):
                rig.producer.close()
        monkeypatch.setattr(rig.producer, "purge", lambda: None)  # which the rig would do at its end
        assert sorted(map(str, heard)) == ["b'a'", "b'b'", "b'c'"]
        assert len(rig.outcomes) == 6

    def test_takes_room_in_the_queue(self, make: Make) -> None:
        rig = self.waiting(make)
        rig.producer._adapter._most_waiting = len(rig.producer)
        with pytest.raises(BufferError):
            rig.produce(b"key")
        assert rig.keys.waiting == 2

    def test_fails_when_it_has_waited_for_as_long_as_a_record_may(self, make: Make) -> None:
        rig = self.waiting(make)
        rig.producer._adapter.most_held_s = -1.0
        rig.producer._adapter.flight.keyed.order._ready["t", b"key"] = None  # type: ignore[union-attr]
        rig.producer.poll(0)
        assert [error.code() for error, _ in rig.outcomes if error] == [KafkaError._MSG_TIMED_OUT] * 2

    def test_keeps_its_time_and_its_headers_though_the_application_goes_on_with_the_list(
        self, make: Make, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        rig, headers = self.waiting(make), [("a", b"1")]
        with monkeypatch.context() as patched:
            patched.setattr("time.time", lambda: 1_000.0)
            rig.producer.produce("t", b"v", b"key", headers=headers, on_delivery=rig._note)
        headers.append(("b", b"2"))
        rig.report_all()
        _, message = rig.outcomes[-1]
        assert message.timestamp() == (TIMESTAMP_CREATE_TIME, 1_000_000)
        assert message.headers() == [("a", b"1")]


def test_a_limit_that_lets_no_key_move_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="most_displaced"):
        MoveKeys(most_displaced=0)


# -- what is stuck is sent again -----------------------------------------------------------------------


@pytest.fixture
def stuck(monkeypatch: pytest.MonkeyPatch) -> dict[tuple[int, str, int], int]:
    """Where records wait for a suspect."""
    places: dict[tuple[int, str, int], int] = {}
    monkeypatch.setattr(ProducerReports, "stuck", lambda _reports: places)
    return places


def hang(rig: Rig, stuck: dict[tuple[int, str, int], int]) -> None:
    """Find broker 2 suspect, which leads partition 1, with all that waits for it."""
    rig.suspect(2)
    stuck.update({(0, "t", 1): 2, (STANDBY, "t", 1): 2})
    serve(rig)


def flight_of(rig: Any) -> Any:
    return rig.adapter.flight if hasattr(rig, "adapter") else rig.producer._flight


def serve(rig: Any) -> None:
    flight = flight_of(rig)
    flight._next_search = flight.keyed._next_recall = 0.0
    flight.served()


def test_one_that_stays_gets_no_copy(make_either: Make, stuck: Any) -> None:
    rig = make_either(rescue="hedge")
    rig.produce(rig.a_key(1))
    hang(rig, stuck)
    assert rig.queued == (1, 0)


def test_what_was_sent_over_two_seconds_waits(make_either: Make, stuck: Any) -> None:
    """Else the first may time out at home while a later one is written there, and is read before its copy."""
    rig, now = make_either(**HEDGE), [100.0]
    flight_of(rig).clock = lambda: now[0]
    soon, late, *_ = (k for n in range(99) if rig.home_of(k := b"k%d" % n) == 1)
    rig.produce(soon, late)
    now[0] += 1.9
    rig.produce(soon)
    now[0] += 0.1
    rig.produce(late)
    hang(rig, stuck)
    assert rig.queued == (4, 2)


class TestTraced:
    """By the real SDK of OpenTelemetry."""

    @pytest.fixture
    def finished(self, monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
        exporter, provider = InMemorySpanExporter(), TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(exporter))
        monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
        return exporter

    def test_a_copy_links_to_the_span_that_its_original_was_sent_in(
        self, make_either: Make, stuck: Any, finished: InMemorySpanExporter
    ) -> None:
        rig = make_either(**HEDGE)
        with trace.get_tracer("shop").start_as_current_span("order") as order:
            rig.produce(rig.a_key(1))
        rig.produce(*(k for n in range(99) if rig.home_of(k := b"k%d" % n) == 1))  # not traced
        hang(rig, stuck)
        (_order, copy) = finished.get_finished_spans()
        assert copy.name == "send t"
        assert copy.kind is trace.SpanKind.PRODUCER
        assert copy.parent is None
        assert [link.context for link in copy.links] == [order.get_span_context()]
        attributes = dict(copy.attributes or {})
        assert attributes.pop("messaging.destination.partition.id") != "1"
        assert attributes == {
            "messaging.system": "kafka", "messaging.operation.name": "send",
            "messaging.operation.type": "send", "messaging.destination.name": "t", "kpe.copy": True,
        }  # fmt: skip

    def test_a_move_is_in_the_span_that_the_record_is_sent_in(
        self, make_either: Make, finished: InMemorySpanExporter
    ) -> None:
        rig = make_either(**HEDGE)
        rig.suspect(2)
        for home in (0, 1):
            with trace.get_tracer("shop").start_as_current_span("order"):
                rig.produce(rig.a_key(home))
        stayed, moved = (dict(span.attributes or {}) for span in finished.get_finished_spans())
        assert stayed == {}
        assert moved.pop("messaging.destination.partition.id") != "1"
        assert moved == {"kpe.moved_from": "1"}


class TestOnKafkaPython:
    @pytest.fixture
    def rig(self, make_kafka_python: Make) -> Any:
        return make_kafka_python(**HEDGE)

    def headers(self, rig: Any, handle: int, at: int) -> dict[str, Any]:
        return dict(rig._handles[handle].sent[at].headers)

    def test_a_copy_has_the_id_of_its_original_and_says_what_it_comes_after(
        self, rig: Any, stuck: Any
    ) -> None:
        key = rig.a_key(1)
        rig.produce(key)
        rig.report(0)  # at offset 0
        rig.produce(key, key)
        hang(rig, stuck)
        originals = [self.headers(rig, 0, at) for at in (1, 2)]
        copies = [self.headers(rig, 1, at) for at in (0, 1)]
        assert [each["kpe-id"] for each in copies] == [each["kpe-id"] for each in originals]
        assert [each["kpe-after"] for each in copies] == [b"1:0", b"1:0"]
        assert [each.get("kpe-after") for each in originals] == [None, None]

    def test_what_is_just_handed_over_is_left(
        self, rig: Any, stuck: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        send, key = FakeProducer.send, rig.a_key(1)

        def send_slowly(producer: Any, topic: str, **record: Any) -> Any:
            if not stuck:
                hang(rig, stuck)  # another thread finds out meanwhile
                assert rig.queued == (0, 0)
            return send(producer, topic, **record)

        monkeypatch.setattr(FakeProducer, "send", send_slowly)
        rig.produce(key)
        assert rig.queued == (1, 0)
        serve(rig)
        assert rig.queued == (1, 1)
