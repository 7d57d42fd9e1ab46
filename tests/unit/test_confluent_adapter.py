"""Between librdkafka and the engine: what goes to which handle, and what reports become. No broker."""

from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, KafkaException, Message

from kafka_partition_events import DefaultPartitioner, Partitioner, Route, UniformStickyPartitioner
from kafka_partition_events.clients.confluent import adapter as adapter_module
from kafka_partition_events.clients.confluent import detours as module
from kafka_partition_events.clients.confluent.adapter import ConfluentAdapter, lost_broker
from kafka_partition_events.clients.confluent.choosing import LONGEST_SLICE, Chooser
from kafka_partition_events.clients.confluent.detours import Detours
from kafka_partition_events.clients.flight.engine import Flight
from kafka_partition_events.clients.flight.record import Record
from kafka_partition_events.clients.flight.reports import ProducerReports
from kafka_partition_events.testing.scripted import cluster_of
from tests.unit.keyed_rig import Make, make, queued

__all__ = ["make", "queued"]

Messages = list[dict[str, Any]]
TIMED_OUT = KafkaError(KafkaError._MSG_TIMED_OUT)
TOO_LARGE = KafkaError(KafkaError.MSG_SIZE_TOO_LARGE)
REFUSED = KafkaError(KafkaError.NOT_ENOUGH_REPLICAS)


class Handle:
    """Stands for a handle of librdkafka's, which takes all and reports what it is made to."""

    def __init__(self) -> None:
        self.taken: list[tuple[Any, ...]] = []
        self.raises: list[BaseException | None] = []

    def plain(self, *arguments: Any) -> None:
        if self.raises and (error := self.raises.pop(0)) is not None:
            raise error
        self.taken.append(arguments)

    def __len__(self) -> int:
        return 0


class Rig:
    """A producer's adapter and engine, and what the application has learned of its records."""

    def __init__(self, rescue: Any = None, partitioner: Partitioner | None = None) -> None:
        self.partitioner = partitioner or DefaultPartitioner(hash_name="murmur2")
        self.partitioner.apply_snapshot(cluster_of({"t": [1, 2, 3]}, brokers=[1, 2, 3]))
        self.handle = Handle()
        chooser = Chooser(self.partitioner, {"sticky.partitioning.linger.ms": 60_000}, chunks=False)
        chooser.ask_for = lambda _topic: None
        chooser.poller = SimpleNamespace(refresh=lambda *_: None)  # type: ignore[assignment]
        producer, metadata = cast("Any", self.handle), cast("Any", None)
        detours = Detours(producer, {}, lambda: None, frozenset, lambda _throttle: None, count=0)
        self.adapter = ConfluentAdapter(
            lambda: producer, chooser, metadata, detours, self.by_default, 100, 60.0
        )
        reports = ProducerReports(self.partitioner)
        self.flight = self.adapter.flight = Flight(self.partitioner, self.adapter, reports, rescue)
        self.outcomes: list[tuple[int | None, bytes]] = []
        self.defaults = 0

    def by_default(self, _error: KafkaError | None, _message: Message) -> None:
        self.defaults += 1

    def produce(self, value: bytes = b"v", outcome: Any = "ours") -> None:
        def learned(error: KafkaError | None, message: Message) -> None:
            self.outcomes.append((None if error is None else error.code(), bytes(message.value() or b"")))

        callback = learned if outcome == "ours" else outcome
        self.flight.send(Record("t", value, None, callback, 0, {"own": b"1"}))

    def report(self, number: int, error: KafkaError | None = None, value: bytes = b"v", at: int = 0) -> None:
        *_, partition, report, _unused, _timestamp, _headers = self.handle.taken[number]
        at = partition if partition >= 0 else at
        report(error, Message(topic="t", partition=at, value=value, key=None, headers=None, error=error))

    @property
    def outstanding(self) -> int:
        return sum(self.partitioner.deliveries.stats.outstanding.values())

    @property
    def headers(self) -> list[dict[str, bytes]]:
        return [dict(taken[-1]) for taken in self.handle.taken]


@pytest.mark.parametrize(
    ("code", "text", "broker"),
    [
        (KafkaError._TRANSPORT, "127.0.0.1:9092/2: Connect to ipv4#127.0.0.1:9092 failed: refused", 2),
        (KafkaError._RESOLVE, "sasl_ssl://kafka-2.example:9093/2: Failed to resolve", 2),
        (KafkaError._TRANSPORT, "127.0.0.1:9092/bootstrap: Connect to ipv4#127.0.0.1:9092 failed", None),
        (KafkaError._ALL_BROKERS_DOWN, "2/2 brokers are down", None),
        (KafkaError._AUTHENTICATION, "127.0.0.1:9092/2: SASL authentication error", None),
    ],
)
def test_a_lost_connection_is_a_brokers(code: int, text: str, broker: int | None) -> None:
    assert lost_broker(KafkaError(code, text)) == broker


@pytest.mark.parametrize("error", [None, TIMED_OUT, REFUSED], ids=["delivered", "timed out", "refused"])
def test_a_report_ends_the_attempt_and_goes_on_to_the_application(error: KafkaError | None) -> None:
    rig = Rig()
    rig.produce()
    assert rig.outstanding == 1
    rig.report(0, error)
    assert rig.outstanding == 0
    assert rig.outcomes == [(None if error is None else error.code(), b"v")]


@pytest.mark.parametrize("rescue", [None, "failed"])
def test_a_record_without_a_callback_has_the_applications_default_one(rescue: Any) -> None:
    rig = Rig(rescue)
    rig.produce(outcome=None)
    rig.report(0)
    assert rig.defaults == 1


def test_one_record_in_a_millisecond_is_tracked_and_the_others_keep_their_callback() -> None:
    rig = Rig()
    rig.flight.clock = lambda: 10.0
    rig.produce()
    rig.produce(outcome=rig.by_default)
    assert rig.outstanding == 1
    assert rig.handle.taken[1][4] == rig.by_default


def test_a_copy_decides_and_its_message_is_the_outcome() -> None:
    rig = Rig("failed")
    rig.produce(b"")
    rig.report(0, TIMED_OUT)
    rig.flight.served()
    rig.report(1, value=b"of the copy")
    rig.report(0)
    assert rig.outcomes == [(None, b"of the copy")]


def test_what_a_copy_would_not_mend_is_the_outcome_at_once() -> None:
    rig = Rig("failed")
    rig.produce()
    rig.report(0, REFUSED)
    rig.flight.served()
    assert (rig.outcomes, len(rig.handle.taken)) == ([(KafkaError.NOT_ENOUGH_REPLICAS, b"v")], 1)


def test_a_copy_that_finds_the_queue_full_waits() -> None:
    rig = Rig("failed")
    rig.produce()
    rig.report(0, TIMED_OUT)
    rig.handle.raises = [BufferError()]
    rig.flight.served()
    assert (rig.outcomes, rig.flight.waiting) == ([], 1)
    rig.flight.served()
    assert rig.flight.waiting == 0


@pytest.mark.parametrize("limit_of", ["client", "broker"])
def test_our_header_never_makes_a_record_too_large(limit_of: str) -> None:
    rig = Rig("failed")
    if limit_of == "client":
        rig.handle.raises = [KafkaException(TOO_LARGE)]
        rig.produce()
    else:
        rig.produce()
        rig.report(0, TOO_LARGE)
        rig.flight.served()
    assert rig.headers[-1] == {"own": b"1"}
    assert rig.flight.copies.stats.unheld == (limit_of == "client")
    rig.report(len(rig.handle.taken) - 1, TOO_LARGE)
    rig.flight.served()
    assert rig.outcomes == [(KafkaError.MSG_SIZE_TOO_LARGE, b"v")], "it was too large by itself"
    assert not rig.flight.copies.open


def test_what_is_purged_while_it_is_queued_says_so_when_polled() -> None:
    rig = Rig("failed")
    rig.produce()
    rig.report(0, TIMED_OUT)
    rig.flight.copies.purge()
    assert rig.outcomes == []
    rig.flight.served()
    assert rig.outcomes == [(KafkaError._PURGE_QUEUE, b"v")]
    assert len(rig.handle.taken) == 1


def test_a_further_handle_has_the_latest_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    logins: list[tuple[str, str]] = []

    class LoggingIn(Handle):
        def __init__(self, config: Any) -> None:
            super().__init__()
            logins.append((config["sasl.username"], config["sasl.password"]))

    monkeypatch.setattr(module, "Handle", LoggingIn)
    producer: Any = Handle()
    config: dict[str, Any] = {"sasl.password": "first"}
    detours = Detours(producer, config, lambda: None, frozenset, lambda _throttle: None, count=2)
    config |= {"sasl.username": "alice", "sasl.password": "second"}
    detours._made()
    assert logins == [("alice", "second")]


class Batches:
    """Stands for ``produce_batch`` of librdkafka, which refuses what is for partition 9."""

    def __init__(self) -> None:
        self.sent: list[tuple[int, int]] = []

    def __call__(self, _handle: Any, _topic: str, messages: Messages, partition: int, *_rest: Any) -> int:
        self.sent.append((partition, len(messages)))
        if partition != 9:
            return len(messages)
        for message in messages:
            message["_error"] = KafkaError(KafkaError._UNKNOWN_PARTITION)
        return 0


@pytest.fixture
def batches(monkeypatch: pytest.MonkeyPatch) -> Batches:
    batches = Batches()
    monkeypatch.setattr(adapter_module, "_produce_batch", batches)
    return batches


@pytest.mark.parametrize("code", [KafkaError._QUEUE_FULL, KafkaError._UNKNOWN_PARTITION])
@pytest.mark.parametrize("count", [1, 2])
def test_an_error_that_an_earlier_batch_has_left_in_a_message_is_not_of_this_one(
    code: int, count: int, batches: Batches
) -> None:
    """An application sends the same dictionaries again; confluent-kafka leaves their old errors there."""
    rig = Rig()
    messages: Messages = [{"value": b"v", "_error": KafkaError(code)} for _ in range(count)]
    assert rig.adapter.send_batch("t", messages, None) == count
    assert (sum(sent for _, sent in batches.sent), len(rig.handle.taken)) == (count - 1, 1), "each once"
    assert rig.outstanding == 1, "and the last one is tracked until it is reported"
    assert [message["_error"].code() for message in messages] == [code] * count
    assert all("callback" not in message for message in messages)


def test_a_batch_for_a_partition_that_librdkafka_does_not_know_goes_where_it_chooses(
    batches: Batches, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = Rig()
    rig.flight.next_sample = float("inf")
    monkeypatch.setattr(Chooser, "choose_for", lambda _chooser, _topic, count: (9, count))
    messages: Messages = [{"value": b"v"} for _ in range(3)]
    assert rig.adapter.send_batch("t", messages, None) == 3
    assert batches.sent == [(9, 3), (-1, 3)]
    assert all("_error" not in message for message in messages)


class Waiting(Handle):
    """A further handle with records that wait."""

    waiting = 100

    def __len__(self) -> int:
        return self.waiting


def test_a_batch_for_a_further_handle_is_marked_where_all_together_are_full(
    batches: Batches, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adapter_module, "_len", len)
    rig, further = Rig(), Waiting()
    way: Any = SimpleNamespace(handle=lambda: further, open=further)
    rig.adapter.detours[1] = way
    always = property(lambda _: 1, lambda *_: None)
    monkeypatch.setattr(type(rig.partitioner.deliveries), "handle", always, raising=False)
    messages: Messages = [{"value": b"v"}, {"value": b"v"}]
    assert rig.adapter.send_batch("t", messages, None) == 0
    assert [message["_error"].code() for message in messages] == [KafkaError._QUEUE_FULL] * 2
    further.waiting = 99
    assert rig.adapter.send_batch("t", messages, None) == 2
    assert (len(batches.sent), len(further.taken)) == (1, 1)


def test_a_long_batch_takes_several_turns(batches: Batches) -> None:
    count = 2 * LONGEST_SLICE + 1
    rig = Rig()
    rig.flight.next_sample = float("inf")
    assert rig.adapter.send_batch("t", [{"value": b"v"} for _ in range(count)], None) == count
    assert [sent for _, sent in batches.sent] == [LONGEST_SLICE, LONGEST_SLICE]
    assert len({partition for partition, _ in batches.sent}) > 1


def test_a_batch_of_a_partitioner_that_ignores_keys_shares_a_turn(batches: Batches) -> None:
    messages: Messages = [{"key": key} for key in ("key-1", None, b"", b"key-2")]
    assert Rig(partitioner=UniformStickyPartitioner()).adapter.send_batch("t", messages, None) == 4
    assert [sent for _, sent in batches.sent] == [3]


def test_a_batch_with_and_without_keys_and_with_partitions_goes_one_by_one(batches: Batches) -> None:
    rig = Rig()
    messages: Messages = [{"value": b"u"}, {"key": b"k"}, {"key": b"k", "partition": 1}, {"key": b""}]
    assert rig.adapter.send_batch("t", messages, None) == 4
    assert batches.sent == []
    assert [taken[2] for taken in rig.handle.taken] == [None, b"k", b"k", b""], "in their order"
    assert rig.handle.taken[2][3] == 1


@pytest.mark.parametrize(
    ("known", "answered", "copies"), [(False, False, 0), (False, True, 1), (True, False, 1)]
)
def test_where_no_broker_has_answered_nothing_is_copied(known: bool, answered: bool, copies: int) -> None:
    """A copy would wait for just the same, and the application learn of the failure later."""
    rig = Rig("failed")
    if not known:
        rig.partitioner.apply_snapshot(None)
    if answered:
        rig.produce()
        rig.report(0, at=1)
    rig.produce()
    rig.report(len(rig.handle.taken) - 1, TIMED_OUT, at=1)
    assert rig.flight.waiting == copies


class Reloading(DefaultPartitioner):
    """An application's partitioner that raises at every fourth record."""

    asked = 0

    def choose(self, route: Route, topic: str, key: bytes | None, value: bytes | None, /) -> int:
        self.asked += 1
        if self.asked % 4 == 0:
            raise LookupError("my table is being reloaded")
        return super().choose(route, topic, key, value)


@pytest.mark.parametrize("rescue", [None, "failed"])
@pytest.mark.parametrize("keys", [[None] * 20, [b"k-%d" % number for number in range(20)]])
def test_a_batch_that_raises_has_queued_nothing(make: Make, keys: list[bytes | None], rescue: Any) -> None:
    rig = make(partitioner=Reloading(), rescue=rescue)
    with pytest.raises(LookupError):
        rig.produce_batch(*keys)
    assert rig.queued == (0, 0)


@pytest.mark.parametrize("rescue", [None, "failed"])
def test_a_batch_that_finds_queues_full_is_marked_as_by_a_plain_producer(make: Make, rescue: Any) -> None:
    rig = make({"queue.buffering.max.messages": 10}, rescue=rescue)
    messages: Messages = [{"value": b"v", "key": b"k%d" % number} for number in range(8)]
    messages += [{"value": b"v"} for _ in range(8)]
    assert rig.producer.produce_batch("t", messages) == 10
    assert rig.queued == (10, 0)
    assert sum("_error" in message for message in messages) == 6
