"""What of the confluent-kafka client can be said without a broker."""

import contextlib
import logging
import sys
from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from logging.handlers import BufferingHandler
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from kafka_partition_events import (
    ConfigurationError,
    DefaultPartitioner,
    MetadataPoller,
    UniformStickyPartitioner,
)
from kafka_partition_events.clients.confluent import ConfluentMetadataSource, PartitioningProducer, connection
from kafka_partition_events.clients.confluent import producer as module
from kafka_partition_events.clients.confluent.connection import Connection, asking_around
from kafka_partition_events.clients.confluent.settings import (
    acks,
    with_hash,
    with_one_request_in_flight,
    with_requests_in_flight,
)
from kafka_partition_events.testing import ScriptedSource
from kafka_partition_events.testing.scripted import observe

IN_FLIGHT = "max.in.flight.requests.per.connection"
NOWHERE: dict[str, Any] = {"bootstrap.servers": "127.0.0.1:1", "log_level": 0}


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
    assert with_hash(config, DefaultPartitioner(hash_name=hash_name))["partitioner"] == (setting or default)


@pytest.mark.parametrize(
    ("setting", "hash_name", "empty_is_no_key"),
    [
        (None, "crc32", True),
        ("consistent_random", "crc32", True),
        ("consistent", "crc32", False),
        ("murmur2", "murmur2", False),
        ("murmur2_random", "murmur2", False),
        ("fnv1a_random", "fnv1a", False),
    ],
)
@pytest.mark.parametrize("legacy", [False, True])
def test_a_partitioner_without_a_hash_takes_librdkafkas(
    setting: str | None, hash_name: str, empty_is_no_key: bool, legacy: bool
) -> None:
    config: dict[str, Any] = {} if setting is None else {"partitioner": setting}
    config = {"default.topic.config": config} if legacy else config
    partitioner = DefaultPartitioner()
    assert with_hash(config, partitioner) == config
    assert partitioner.keying.hash_name == hash_name
    assert partitioner.keying.empty_is_no_key is empty_is_no_key
    assert with_hash(config, partitioner) == config, "a second producer may share it"


def test_producers_that_share_a_partitioner_must_mean_one_hash() -> None:
    partitioner = DefaultPartitioner()
    with_hash({}, partitioner)
    with pytest.raises(ConfigurationError, match=r"crc32, .* mean murmur2: give hash_name"):
        with_hash({"partitioner": "murmur2"}, partitioner)


@pytest.mark.parametrize(
    "config",
    [{"partitioner": "consistent_random"}, {"default.topic.config": {"partitioner": "consistent_random"}}],
)
def test_another_hash_is_refused_with_the_reason_and_the_cure(config: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError) as refusal:
        PartitioningProducer({**NOWHERE, **config}, DefaultPartitioner(hash_name="murmur2"))
    for part in ("consistent_random", 'hash_name="crc32"', "murmur2_random", "moves keys"):
        assert part in str(refusal.value)
    cured = DefaultPartitioner(hash_name="crc32")
    PartitioningProducer({**NOWHERE, **config}, cured, poller_options={"fetch_timeout": 0.2}).close()


def test_a_random_partitioner_setting_is_refused_too() -> None:
    with pytest.raises(ConfigurationError, match="random"):
        PartitioningProducer({**NOWHERE, "partitioner": "random"})
    assert with_hash({"partitioner": "random"}, UniformStickyPartitioner()) == {"partitioner": "random"}


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


@pytest.mark.parametrize(
    ("config", "waits", "acknowledged"),
    [
        ({}, True, True),
        ({"acks": "all"}, True, True),
        ({"acks": "ALL"}, True, True),
        ({"acks": -1}, True, True),
        ({"request.required.acks": "1"}, False, True),
        ({"acks": 0}, False, False),
        ({"acks": "0"}, False, False),
        ({"default.topic.config": {"acks": 1}}, False, True),
    ],
)
def test_acks_are_read_as_librdkafka_reads_them(config: Any, waits: bool, acknowledged: bool) -> None:
    assert (acks(config) == "all", acks(config) != "0") == (waits, acknowledged)


@pytest.mark.parametrize(
    ("given", "in_flight"),
    [
        ({"enable.idempotence": True, "max.in.flight": 5}, 1),
        *[({"enable.idempotence": true, IN_FLIGHT: 5}, 1) for true in ("true", "True", "t", "1", 1)],
        ({"enable.idempotence": "false", IN_FLIGHT: 5}, 5),
        ({IN_FLIGHT: 5}, 5),
    ],
)
def test_a_further_idempotent_handle_has_one_request_in_flight(given: dict[str, Any], in_flight: int) -> None:
    config = with_one_request_in_flight(given)
    assert config[IN_FLIGHT] == in_flight
    assert "max.in.flight" not in config


@pytest.mark.parametrize(
    ("config", "cause"),
    [
        ({"acks": 0}, "acks=0"),
        ({"transactional.id": "t"}, "transactional.id"),
        ({"delivery.report.only.error": True}, "seen by delivery reports"),
    ],
)
def test_settings_that_leave_nothing_to_be_done_are_refused(config: dict[str, Any], cause: str) -> None:
    with pytest.raises(ConfigurationError, match=cause):
        PartitioningProducer({**NOWHERE, **config}, rescue="failed")


@pytest.mark.parametrize("wrong", [DefaultPartitioner, 5, lambda *_: 0])
def test_what_is_no_partitioner_is_refused_with_the_cure(wrong: Any) -> None:
    """The class instead of an object, for instance, or the callable that aiokafka takes."""
    with pytest.raises(ConfigurationError, match=r"such as AdaptivePartitioner\(\), not "):
        PartitioningProducer(NOWHERE, wrong)


def test_options_for_a_poller_that_is_given_are_refused() -> None:
    poller = MetadataPoller(ScriptedSource(observe({})))
    with pytest.raises(ConfigurationError, match="interval: options of a poller"):
        PartitioningProducer(NOWHERE, poller=poller, poller_options={"interval": 1.0})
    poller.close()


def test_the_own_connection_gets_how_to_connect_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
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
    given: dict[str, Any] = {}

    def made(settings: dict[str, Any]) -> AdminClient:
        given.update(settings)
        return AdminClient(settings)

    monkeypatch.setattr(connection, "AdminClient", made)
    Connection({**connect, **other}).close()
    del given["error_cb"]
    assert given == {**connect, "log_level": 2, "allow.auto.create.topics": False}


def test_the_applications_logger_gets_what_the_own_connection_says(capfd: pytest.CaptureFixture[str]) -> None:
    said = BufferingHandler(10_000)
    logger = logging.Logger("app.kafka")  # noqa: LOG001 - not one that other tests may get
    logger.addHandler(said)
    connection = Connection({"bootstrap.servers": "127.0.0.1:1", "debug": "broker", "logger": logger})
    connection.admin().poll(1.0)
    connection.close()
    assert said.buffer
    assert "127.0.0.1:1/" not in capfd.readouterr().err  # clients of other tests may still complain


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


def test_closing_destroys_the_client_even_if_something_still_holds_it() -> None:
    connection = Connection({"bootstrap.servers": "localhost:1"})
    held = connection.admin()
    connection.close()
    with pytest.raises(RuntimeError, match="closed"):
        held.poll(0)
    connection.close()


# -- reports -----------------------------------------------------------------------------------------


def test_the_applications_exception_is_kept_though_its_callback_raises_as_well() -> None:
    def raise_as_well(_error: Any, _message: Any) -> None:
        raise KeyError

    config = {**NOWHERE, "message.timeout.ms": 100, "linger.ms": 0}
    poller = MetadataPoller(ScriptedSource(observe({"t": [1]})))
    ours = PartitioningProducer(config, poller=poller)
    with pytest.raises(ZeroDivisionError), ours:  # noqa: PT012
        ours.produce("t", b"v", on_delivery=raise_as_well)
        raise ZeroDivisionError


# -- polling ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("outstanding", "others", "slice_s"),
    [(0, [], 0.1), (1, [], 0.01), (1, [()], 0.006)],
    ids=["nothing in flight", "a record", "and a second handle"],
)
@pytest.mark.parametrize("timeout", [(1.0,), ()], ids=["for a second", "until something comes"])
def test_a_long_poll_judges_the_brokers_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
    timeout: tuple[float, ...],
    outstanding: int,
    others: list[Any],
    slice_s: float,
) -> None:
    """Only time that was listened counts against a silent broker, and a whole poll counts as one moment."""
    poller, now, looks = MetadataPoller(ScriptedSource(observe({}))), [0.0], [0.0]

    def poll(_producer: object, seconds: float) -> int:
        now[0] += seconds
        return int(seconds > 0 and now[0] > 2.99)  # then a callback was served

    ours = PartitioningProducer({"log_level": 0}, poller=poller)  # which connects to nothing
    for _ in range(outstanding):
        ours.produce("orders", b"v", partition=0)
    with monkeypatch.context() as patched:
        patched.setattr("time.monotonic", lambda: now[0])
        patched.setattr(module, "_poll", poll)
        patched.setattr(type(ours._detours), "open", others)
        patched.setattr(ours._flight, "served", lambda: looks.append(now[0]))
        assert ours.poll(*timeout) == (0 if timeout else 1)
    assert now[0] == pytest.approx(1.0 if timeout else 3.0, abs=0.01)
    assert max(later - earlier for earlier, later in pairwise(looks)) == pytest.approx(slice_s)
    ours.purge()
    ours.close()
    poller.close()


class TestPollsThatDoNotWait:
    """An application that polls for each record pays for one poll in 0.2 ms."""

    @pytest.fixture
    def ours(self) -> Iterator[PartitioningProducer]:
        poller = MetadataPoller(ScriptedSource(observe({})))
        ours = PartitioningProducer(NOWHERE, poller=poller)
        yield ours
        ours.close()
        poller.close()

    def test_ask_librdkafka_as_often_as_a_callback_may_be_late(
        self, monkeypatch: pytest.MonkeyPatch, ours: PartitioningProducer
    ) -> None:
        now: list[float] = [1000.0]
        asked: list[float] = []

        def poll(_producer: object, _seconds: float) -> int:
            asked.append(now[0])
            return 1

        with monkeypatch.context() as patched:
            patched.setattr("time.monotonic", lambda: now[0])
            patched.setattr(module, "_poll", poll)
            for _ in range(1_000):
                ours.poll(0)
                now[0] += 1e-5
        assert 45 <= len(asked) <= 51
        assert asked[0] == 1000.0
        assert min(later - earlier for earlier, later in pairwise(asked)) > 0.000199

    def test_serve_at_once_what_is_purged(self, ours: PartitioningProducer) -> None:
        errors: list[int] = []
        for _ in range(20):
            ours.poll(0)
            ours.produce("orders", b"v", callback=lambda error, _message: errors.append(error.code()))
            ours.purge()
            ours.poll(0)
        assert errors == [KafkaError._PURGE_QUEUE] * 20

    def test_raise_once_it_is_closed(self, ours: PartitioningProducer) -> None:
        ours.poll(0)
        ours.close()
        with pytest.raises(RuntimeError, match="closed"):
            ours.poll(0)

    def test_have_a_keyed_record_tracked_each_5_ms(self, monkeypatch: pytest.MonkeyPatch) -> None:
        now = [1000.0]
        with monkeypatch.context() as patched:
            patched.setattr("time.monotonic", lambda: now[0])
            poller = MetadataPoller(ScriptedSource(observe({"orders": [1, 2, 3]})))
            poller.poll_once()
            ours = PartitioningProducer(NOWHERE, poller=poller)
            ours._flight.clock = lambda: now[0]
            for number in range(1_000):
                ours.produce("orders", b"v", b"key-%d" % number)
                ours.poll(0)
                now[0] += 1e-4
        assert 18 <= ours.partitioner.deliveries.tracked("orders") <= 22
        ours.purge()
        ours.close()
        poller.close()

    def test_come_again_at_once_after_the_application_has_raised(self, ours: PartitioningProducer) -> None:
        def refuse(_error: object, _message: object) -> None:
            raise ValueError("mine")

        ours.produce("orders", b"v", callback=refuse)
        ours.purge()
        with pytest.raises(ValueError, match="mine"):
            ours.poll(0)
        assert ours._next_poll < 0


# -- greenlets ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("patcher", "function", "module"),
    [
        ("gevent.monkey", "is_module_patched", "threading"),
        ("eventlet.patcher", "is_monkey_patched", "thread"),
    ],
)
@pytest.mark.parametrize("patched", [True, False])
@pytest.mark.parametrize(
    "make",
    [partial(PartitioningProducer, poller_options={"fetch_timeout": 0.2}), ConfluentMetadataSource],
    ids=["producer", "source"],
)
def test_where_threads_are_greenlets_it_is_refused_in_words(
    monkeypatch: pytest.MonkeyPatch, patcher: str, function: str, module: str, make: Any, patched: bool
) -> None:
    stand_in = ModuleType(patcher)
    setattr(stand_in, function, lambda name: patched and name == module)
    monkeypatch.setitem(sys.modules, patcher, stand_in)
    if not patched:
        make(NOWHERE).close()
        return
    with pytest.raises(ConfigurationError, match=r"patch_all\(thread=False\)"):
        make(NOWHERE)


# -- metadata ----------------------------------------------------------------------------------------


def test_while_a_broker_is_suspect_topics_are_listed_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The controller may be the suspect. Who lists, beside real brokers: ``test_confluent_source.py``.

    Answers of several brokers are no one's, and know all brokers: one may name a leader that the next one
    does not list yet; and each topic has one witness alone.
    """
    listed: list[str] = []

    def list_topics(query: str, _seconds: float) -> Any:
        listed.append(query)
        broker = {"a": 4, "b": 1}[query]
        nodes = {broker: SimpleNamespace(id=broker, host="h", port=broker)}
        asked = {"orig_broker_id": broker, "controller_id": 1}
        return SimpleNamespace(brokers=nodes, topics={}, cluster_id="c", **asked)

    source = ConfluentMetadataSource(NOWHERE, suspects=lambda: {1})
    monkeypatch.setattr(source._connection, "admin", lambda: SimpleNamespace(list_topics=list_topics))
    seen = source.fetch(frozenset("ab"), timeout=10.0)
    assert sorted(listed) == ["a", "b"]
    assert sorted(node.id for node in seen.nodes) == [1, 4]
    assert seen.answered_by is None
    assert source.fetch(frozenset("a"), timeout=10.0).answered_by == 4


@pytest.mark.parametrize(
    ("code", "deadline", "times"),
    [
        (KafkaError._TIMED_OUT, float("inf"), 3),
        (KafkaError._TIMED_OUT, 0.0, 1),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, float("inf"), 1),
    ],
    ids=["no answer comes", "time is up", "a broker has answered"],
)
def test_it_asks_again_after_a_while_without_an_answer(code: int, deadline: float, times: int) -> None:
    waits: list[float] = []

    def ask(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) < 3:
            raise KafkaException(KafkaError(code))

    with contextlib.nullcontext() if times == 3 else pytest.raises(KafkaException):
        asking_around(ask, deadline)
    assert waits[1:] == [2.0, 4.0][: times - 1]
