"""What of the confluent-kafka client can be said without a broker."""

from itertools import pairwise
from operator import length_hint
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError

from kafka_partition_events import ConfigurationError, DefaultPartitioner, MetadataPoller, TopicPartition
from kafka_partition_events.clients.confluent import PartitioningProducer, ProducerStats
from kafka_partition_events.clients.confluent.answers import error_name
from kafka_partition_events.clients.confluent.batches import LONGEST_SLICE, split
from kafka_partition_events.clients.confluent.connection import Connection
from kafka_partition_events.clients.confluent.reports import Reports
from kafka_partition_events.clients.confluent.settings import (
    only_errors_are_reported,
    with_error_callback,
    with_hash,
    with_requests_in_flight,
)
from kafka_partition_events.clients.confluent.turns import (
    CHUNK_S,
    LONGEST_CHUNK,
    Turn,
    TurnLength,
    turn_length,
)
from kafka_partition_events.partitioners.base import UNASSIGNED
from kafka_partition_events.testing import ScriptedSource
from kafka_partition_events.testing.scripted import cluster_of, observe

IN_FLIGHT = "max.in.flight.requests.per.connection"
NOWHERE = {"bootstrap.servers": "127.0.0.1:1", "log_level": 0}


# -- settings ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("hash_name", "setting"),
    [
        ("murmur2", None),
        ("murmur2", "murmur2"),
        ("murmur2", "murmur2_random"),
        ("crc32", None),
        ("crc32", "consistent"),
        ("fnv1a", "fnv1a_random"),
    ],
)
def test_librdkafkas_hash_is_the_partitioners(hash_name: Any, setting: str | None) -> None:
    config = {} if setting is None else {"partitioner": setting}
    default = {"murmur2": "murmur2_random", "crc32": "consistent_random", "fnv1a": "fnv1a_random"}[hash_name]
    assert with_hash(config, hash_name)["partitioner"] == (setting or default)


@pytest.mark.parametrize(
    "config",
    [{"partitioner": "consistent_random"}, {"default.topic.config": {"partitioner": "consistent_random"}}],
)
def test_another_hash_is_refused_with_the_reason_and_the_cure(config: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError) as refusal:
        PartitioningProducer({**NOWHERE, **config})
    for part in ("consistent_random", 'hash_name="crc32"', "murmur2_random", "moves keys"):
        assert part in str(refusal.value)
    cured = DefaultPartitioner(hash_name="crc32")
    PartitioningProducer({**NOWHERE, **config}, cured, poller_options={"fetch_timeout": 0.2}).close()


def test_a_random_partitioner_setting_is_refused_too() -> None:
    with pytest.raises(ConfigurationError, match="random"):
        PartitioningProducer({**NOWHERE, "partitioner": "random"})


@pytest.mark.parametrize(
    ("config", "requests"),
    [
        ({"linger.ms": 0}, 5),
        ({"linger.ms": 0, IN_FLIGHT: 50}, 50),
        ({"linger.ms": 0, "max.in.flight": 1}, None),
        ({"linger.ms": 5}, None),
        ({}, None),
    ],
)
def test_without_linger_requests_in_flight_are_as_many_as_with_java(
    config: dict[str, Any], requests: int | None
) -> None:
    assert with_requests_in_flight(config).get(IN_FLIGHT) == requests


def test_options_for_a_poller_that_is_given_are_refused() -> None:
    poller = MetadataPoller(ScriptedSource(observe({})))
    with pytest.raises(ConfigurationError, match="poller_options"):
        PartitioningProducer(NOWHERE, poller=poller, poller_options={"interval": 1.0})
    poller.close()


def test_the_own_connection_gets_what_says_how_to_connect_and_nothing_else() -> None:
    connect = {
        "bootstrap.servers": "127.0.0.1:1",
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": "/nowhere/ca.pem",
        "ssl.endpoint.identification.algorithm": "none",
        "enable.ssl.certificate.verification": False,
        "sasl.mechanisms": "SCRAM-SHA-512",
        "sasl.username": "alice",
        "sasl.password": "hunter2",
        "socket.keepalive.enable": True,
        "client.id": "app",
    }
    other = {
        "transactional.id": "t",
        "group.id": "g",
        "partitioner": "murmur2",
        "linger.ms": 5,
        "allow.auto.create.topics": True,
        "statistics.interval.ms": 100,
    }
    with pytest.raises(ConfigurationError, match=r"ssl\.ca\.location") as refusal:
        Connection({**connect, **other})
    assert "hunter2" not in str(refusal.value)
    del connect["ssl.ca.location"]
    connection = Connection({**connect, **other})
    assert connection._settings == {**connect, "log_level": 2, "allow.auto.create.topics": False}
    connection.close()


def test_a_hang_up_is_a_wrong_protocol_only_if_it_never_worked() -> None:
    connection = Connection({})  # connects to nothing, so it has no complaints of its own
    connection._complaints["_ALL_BROKERS_DOWN"] = "1/1 brokers are down"
    assert "does security.protocol fit" in str(connection.failure("no answer", TimeoutError()))
    connection._complaints["_TIMED_OUT"] = "frozen"
    assert "frozen" in str(connection.failure("no answer", TimeoutError()))
    connection.succeeded()
    connection._complaints["_ALL_BROKERS_DOWN"] = "1/1 brokers are down"
    assert "1/1 brokers are down" in str(connection.failure("no answer", TimeoutError()))
    connection.close()


def test_error_names_are_kafkas() -> None:
    assert error_name(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)) == "UNKNOWN_TOPIC_OR_PARTITION"
    assert error_name(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)) == "TOPIC_AUTHORIZATION_FAILED"


# -- turns -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "seconds"),
    [
        ({}, 0.005),
        ({"linger.ms": 0}, 0.025),
        ({"linger.ms": 4}, 0.025),
        ({"linger.ms": "100"}, 0.1),
        ({"queue.buffering.max.ms": 50}, 0.05),
        ({"linger.ms": 100, "sticky.partitioning.linger.ms": 10}, 0.01),
    ],
)
def test_a_turn_lasts_as_long_as_a_batch_is_filled(config: dict[str, Any], seconds: float) -> None:
    assert turn_length(config).least == seconds


@pytest.mark.parametrize(
    ("config", "answer", "lasts"),
    [
        ({"linger.ms": 0}, None, 0.025),  # nobody has answered yet
        ({"linger.ms": 0}, 0.003, 0.025),  # the usual case: brokers are not busy
        ({"linger.ms": 0}, 0.04, 0.12),
        ({"linger.ms": 0}, 2.0, 0.25),  # a longer turn would put too much on a broker that fails meanwhile
        ({"linger.ms": 10}, 2.0, 0.01),  # lingering fills the batches
        ({"linger.ms": 0, "sticky.partitioning.linger.ms": 10}, 2.0, 0.01),  # the user's own setting is kept
    ],
)
def test_without_linger_a_turn_is_longer_while_brokers_take_long_to_answer(
    config: dict[str, Any], answer: float | None, lasts: float
) -> None:
    assert turn_length(config).while_answers_take(answer) == pytest.approx(lasts)


def test_a_turn_asks_how_long_brokers_take(monkeypatch: pytest.MonkeyPatch) -> None:
    times, (partitioner, poller) = Times(monkeypatch), a_partitioner()
    turn, deliveries = Turn(partitioner), partitioner.deliveries
    for broker in (1, 2, 3):
        deliveries.sent("orders", broker - 1, broker)
        deliveries.answered("orders", broker - 1, 0.05, "p")
    first = turn.look("orders", partitioner, TurnLength(0.025, 0.25), stay=True)
    times.now += 0.149
    assert turn.look("orders", partitioner, TurnLength(0.025, 0.25), stay=True) == first
    times.now += 0.002  # 3 answers of 50 ms
    assert turn.look("orders", partitioner, TurnLength(0.025, 0.25), stay=True) != first
    poller.close()


SHORT, LONG = TurnLength(0.025, 0.025), TurnLength(60.0, 60.0)


class Times:
    """A clock that is set by hand."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr("time.monotonic", lambda: self.now)


def a_partitioner() -> tuple[DefaultPartitioner, MetadataPoller]:
    partitioner = DefaultPartitioner()
    poller = MetadataPoller(
        ScriptedSource(observe({"orders": [1, 2, 3]}), observe({"orders": [1, None, None]}, brokers=[1]))
    )
    poller.register(partitioner)
    poller.poll_once()
    return partitioner, poller


def test_a_slow_producer_begins_a_turn_with_each_record(monkeypatch: pytest.MonkeyPatch) -> None:
    times, (partitioner, poller) = Times(monkeypatch), a_partitioner()
    turn, went = Turn(partitioner), []
    for _ in range(20):
        times.now += 1.0
        assert list(turn.chunk) == []
        went.append(turn.look("orders", partitioner, SHORT, stay=True))
    assert all(one != other for one, other in pairwise(went))
    poller.close()


def test_a_fast_producer_looks_at_the_clock_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    times, (partitioner, poller) = Times(monkeypatch), a_partitioner()
    turn, looks, moves = Turn(partitioner), 0, 0
    for _ in range(100_000):
        for partition in turn.chunk:
            assert partition == turn.partition
            break
        else:
            before = turn.partition
            looks += 1
            moves += turn.look("orders", partitioner, SHORT, stay=True) != before
        times.now += 1e-6
    assert looks <= 0.1 / CHUNK_S + 10
    assert 3 <= moves <= 6  # 0.1 s in turns of 25 ms
    poller.close()


def test_a_turn_ends_when_its_partition_goes_offline(monkeypatch: pytest.MonkeyPatch) -> None:
    times, (partitioner, poller) = Times(monkeypatch), a_partitioner()
    turn = Turn(partitioner)
    turn.look("orders", partitioner, LONG, stay=True)
    turn.look("orders", partitioner, LONG, stay=True)  # no time has passed: the longest chunk
    assert length_hint(turn.chunk) == LONGEST_CHUNK - 1
    poller.poll_once()
    assert list(turn.chunk) == []  # so a producer looks again, though the turn is not over
    times.now += 1e-6
    assert turn.look("orders", partitioner, LONG, stay=True) == 0
    assert turn.counted() == (1, 0, 0)
    assert [partition for partition, _ in zip(turn.chunk, range(10), strict=False)] == [0] * 10
    assert turn.counted() == (11 + 1, 0, 0)  # zip takes one more than it gives
    poller.close()


def test_a_chunk_that_old_routes_chose_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    _times, (partitioner, poller) = Times(monkeypatch), a_partitioner()
    turn, partition = Turn(partitioner), partitioner.partition
    turn.look("orders", partitioner, LONG, stay=True)

    def overtaken(*record: Any) -> int:
        chosen = partition(*record)
        poller.poll_once()  # the poller swaps the routes and drops the chunk before there is one
        return chosen

    monkeypatch.setattr(partitioner, "partition", overtaken)
    turn.look("orders", partitioner, LONG, stay=True)
    assert partitioner._routes is not turn.seen
    assert list(turn.chunk) == []
    poller.close()


def test_a_batch_is_taken_from_the_chunk_and_may_be_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    _times, (partitioner, poller) = Times(monkeypatch), a_partitioner()
    poller.poll_once()
    turn = Turn(partitioner)
    for count, left in ((100, LONGEST_CHUNK - 100), (1000, 0)):
        monkeypatch.setattr(turn, "_looked_at", 1000.0)  # no time has passed: the longest chunk
        turn.look("orders", partitioner, LONG, stay=True, count=count)
        assert length_hint(turn.chunk) == left
    assert turn.counted() == (1100, 0, 0)
    poller.close()


class Suspicions:
    """Stands for `Deliveries`: another thread may begin to suspect while this one reads."""

    def __init__(self, *answers: bool) -> None:
        self._answers = list(answers)

    @property
    def avoiding(self) -> bool:
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]


def test_nobody_follows_keyed_records_while_all_is_well(monkeypatch: pytest.MonkeyPatch) -> None:
    _times, (partitioner, poller) = Times(monkeypatch), a_partitioner()
    turn = Turn(partitioner)
    assert list(turn.keyed) == []  # the first one looks
    turn.sample_keyed(partitioner.deliveries)
    assert length_hint(turn.keyed) > 10**9
    poller.poll_once()
    assert list(turn.keyed) == []  # and so does the first one with new routes
    poller.close()


def test_a_sample_of_keyed_records_is_followed_while_a_broker_is_suspect(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    times, (partitioner, poller) = Times(monkeypatch), a_partitioner()
    turn, followed = Turn(partitioner), 0
    for _ in range(100_000):
        for partition in turn.keyed:
            assert partition == UNASSIGNED
            break
        else:
            followed += 1
            turn.sample_keyed(cast("Any", Suspicions(True)))
        times.now += 1e-6
    assert 0.1 / CHUNK_S / 2 <= followed <= 0.1 / CHUNK_S + 10
    for _ in range(20):
        times.now += 1.0
        turn.sample_keyed(cast("Any", Suspicions(True)))
    assert list(turn.keyed) == []  # a slow producer follows each
    poller.close()


def test_a_suspicion_that_comes_meanwhile_is_not_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    _times, (partitioner, poller) = Times(monkeypatch), a_partitioner()
    turn = Turn(partitioner)
    turn.sample_keyed(cast("Any", Suspicions(False, True)))
    assert list(turn.keyed) == []
    poller.close()


def test_a_partitioner_forgets_the_turns_of_producers_that_are_gone() -> None:
    partitioner, poller = a_partitioner()
    turn, _gone = Turn(partitioner), Turn(partitioner)
    assert len(partitioner._keepers) == 2
    del _gone
    poller.poll_once()
    assert [reference() for reference in partitioner._keepers] == [turn]
    poller.close()


# -- reports -----------------------------------------------------------------------------------------


class Report:
    """A delivery report, as far as it is read."""

    def __init__(self, partition: int = 0, latency: float = 0.005) -> None:
        self._partition, self._latency = partition, latency

    def topic(self) -> str:
        return "orders"

    def partition(self) -> int:
        return self._partition

    def latency(self) -> float:
        return self._latency


def outstanding(partitioner: DefaultPartitioner) -> int:
    return sum(partitioner.deliveries.stats.outstanding.values())


@pytest.mark.parametrize(
    "error",
    [None, KafkaError(KafkaError._MSG_TIMED_OUT), KafkaError(KafkaError.NOT_ENOUGH_REPLICAS)],
    ids=["delivered", "timed out", "refused by the broker"],
)
def test_a_report_settles_the_record_and_goes_on_to_the_application(error: KafkaError | None) -> None:
    partitioner, poller = a_partitioner()
    reports, theirs = Reports(partitioner), []
    reports.poller = poller
    partitioner.deliveries.sent("orders", 0, 1)
    report: Any = Report()
    reports.for_record(lambda *arguments: theirs.append(arguments))(error, report)
    assert theirs == [(error, report)]
    assert outstanding(partitioner) == 0
    poller.close()


@pytest.mark.parametrize(
    ("code", "text", "suspects"),
    [
        (KafkaError._TRANSPORT, "127.0.0.1:9092/2: Connect to ipv4#127.0.0.1:9092 failed: refused", {2}),
        (KafkaError._RESOLVE, "sasl_ssl://kafka-2.example:9093/2: Failed to resolve", {2}),
        (KafkaError._TRANSPORT, "127.0.0.1:9092/bootstrap: Connect to ipv4#127.0.0.1:9092 failed", set()),
        (KafkaError._ALL_BROKERS_DOWN, "2/2 brokers are down", set()),
        (KafkaError._AUTHENTICATION, "127.0.0.1:9092/2: SASL authentication error", set()),
    ],
)
def test_a_lost_connection_makes_its_broker_suspect(code: int, text: str, suspects: set[int]) -> None:
    partitioner, poller = a_partitioner()
    reports = Reports(partitioner)
    reports.poller = poller
    reports.client_error(KafkaError(code, text))
    assert partitioner.deliveries.stats.suspects == suspects
    poller.close()


def test_the_error_callback_of_the_application_hears_after_ours() -> None:
    heard: list[str] = []
    config = with_error_callback(
        {"error_cb": lambda _error: heard.append("theirs")}, lambda _error: heard.append("ours")
    )
    config["error_cb"](KafkaError(KafkaError._TRANSPORT))
    assert heard == ["ours", "theirs"]


@pytest.mark.parametrize(("value", "only"), [(True, True), ("true", True), ("false", False), (None, False)])
def test_reports_that_are_not_made_are_not_waited_for(value: object, only: bool) -> None:
    assert only_errors_are_reported({"delivery.report.only.error": value}) is only


def test_records_are_told_by_broker() -> None:
    cluster = cluster_of({"orders": [1, 2, None]}, brokers=[1, 2])
    placed = {TopicPartition("orders", partition): 10 + partition for partition in range(3)}
    assert ProducerStats(records=placed).by_broker(cluster) == {1: 10, 2: 11, -1: 12}


# -- batches -----------------------------------------------------------------------------------------


def parts(
    messages: Any, *, by_turns: bool = True, native_keys: bool = True, keyless: bool = False
) -> list[tuple[int, list[Any]]]:
    turns = iter(range(100, 200))
    return split(
        messages,
        choose=lambda key, value: 7,
        take_turn=(lambda count: (next(turns), count)) if by_turns else None,
        native_keys=native_keys,
        keyless=keyless,
    )


def test_unkeyed_messages_share_a_turn() -> None:
    messages = [{"value": b"v"} for _ in range(3)]
    [(partition, sent)] = parts(messages)
    assert partition == 100
    assert [id(message) for message in sent] == [id(message) for message in messages]


def test_a_long_batch_takes_several_turns() -> None:
    messages = [{"value": b"v"} for _ in range(2 * LONGEST_SLICE + 1)]
    assert [(p, len(part)) for p, part in parts(messages)] == [
        (100, LONGEST_SLICE),
        (101, LONGEST_SLICE),
        (102, 1),
    ]


def test_keys_explicit_partitions_and_the_rest_are_parted() -> None:
    unkeyed, keyed, empty = {"value": b"u"}, {"key": b"k"}, {"key": b""}
    explicit, unset = {"value": b"e", "partition": 3}, {"key": None, "partition": -1}
    assert parts([unkeyed, keyed, explicit, empty, unset]) == [
        (-1, [keyed]),
        (3, [explicit]),
        (7, [empty]),
        (100, [unkeyed, unset]),
    ]
    assert parts([keyed, explicit], native_keys=False) == [(7, [keyed]), (3, [explicit])]
    assert parts([unkeyed, keyed], by_turns=False, native_keys=False) == [(7, [unkeyed, keyed])]


@pytest.mark.parametrize("messages", ["text", None, [1], [{"value": b"v"}, None]])
def test_what_is_no_list_of_messages_is_left_to_confluent_kafka(messages: Any) -> None:
    assert parts(messages) == [(-1, messages)]
