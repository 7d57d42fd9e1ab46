"""Logins and rights on one real cluster: every way to log in, by every client; what is refused is named."""

import contextlib
import gc
import logging
import re
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import structlog
from confluent_kafka import KafkaError
from kafka import KafkaProducer

from kafka_partition_events import MetadataFetchError, MetadataSource, RoundRobinPartitioner
from kafka_partition_events.cli.app import run
from kafka_partition_events.clients.confluent import ConfluentMetadataSource, PartitioningProducer
from kafka_partition_events.clients.kafka_python import KafkaPythonMetadataSource, attach
from kafka_partition_events.clients.kafka_python.properties import kafka_python_settings
from kafka_partition_events.clients.librdkafka import FromFile
from kafka_partition_events.control import ConsumerAgent
from kafka_partition_events.control.agents.confluent import ControlLink
from kafka_partition_events.control.operate.control_log import ControlLog
from kafka_partition_events.control.protocol.topics import EVERYTHING
from kafka_partition_events.errors import ControlTopicError
from kafka_partition_events.metadata.state import Health
from kafka_partition_events.testing import KafkaCluster
from tests.certificate_kit import Authority
from tests.login_kit import login_options
from tests.observe_kit import Reader
from tests.poller_kit import also_ask_for
from tests.rights_kit import (
    ALLOWED,
    CERTIFICATE,
    LIMIT_S,
    OAUTH,
    PASSWORDS,
    PLAIN,
    REFUSED,
    SCRAM_512,
    WAYS,
    Output,
    TokenServer,
    World,
    agent,
    has_delivered,
    is_ready,
    java_options,
    observing,
    start_world,
    tracking,
    wait_until,
)

pytestmark = pytest.mark.kafka
WRONG = "hunter2-is-not-it"
LATER = "alices-next-not-a-secret"
BOUND_S = 20.0
"""Longer than any refusal may take; commands of change control wait 15 s for brokers that do not answer."""


@pytest.fixture(scope="module", autouse=True)
def collected() -> Iterator[None]:
    """Collect here what kafka-python leaves open, and not in the modules after this one."""
    yield
    gc.collect()


@pytest.fixture
def output(capfd: pytest.CaptureFixture[str]) -> Output:
    return Output(capfd)


@pytest.fixture(scope="module")
def world(
    own_kafka_cluster: Callable[..., KafkaCluster], openssl: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[World]:
    directory = tmp_path_factory.mktemp("rights")
    tokens = TokenServer(directory, openssl)
    with pytest.MonkeyPatch.context() as patched, contextlib.closing(tokens):
        patched.setenv("JAVA_TOOL_OPTIONS", java_options(tokens))
        world = start_world(own_kafka_cluster, Authority(directory, openssl), tokens)
        assert kpe(world, SCRAM_512, ALLOWED, "tracker", "init") == 0
        structlog.reset_defaults()  # the library's lines go to the standard library's log
        world.cluster.create_topic("kpe.events", 1)
        yield world


@pytest.fixture(autouse=True)
def _nothing_secret_is_told(
    world: World, output: Output, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> Iterator[None]:
    """Neither on stdout or stderr, nor in a log at debug, nor in a file that we write."""
    caplog.set_level(logging.DEBUG, "kafka_partition_events")
    yield
    output.read()
    assert not [secret for secret in secrets(world) if secret in output.all + caplog.text]
    for file in tmp_path.rglob("*"):
        if file.is_file() and file.suffix not in {".pem", ".key", ".secret"}:
            content = file.read_bytes()
            assert not [secret for secret in secrets(world) if secret.encode() in content], file


def secrets(world: World) -> list[str]:
    keys = [
        line
        for file in world.authority.directory.glob("*.key")
        for line in file.read_text().splitlines()
        if len(line) > 40
    ]
    return [WRONG, LATER, *PASSWORDS.values(), *world.tokens.issued, *keys]


def kpe(world: World, way: str, user: str, *arguments: str) -> int:
    """Run a command in this process."""
    config = world.config(way, user)
    return run([*arguments, "-b", config["bootstrap.servers"], *login_options(config)])


# -- every way, by every client --------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
class TestLogins:
    def test_the_producer_and_its_poller(self, world: World, way: str) -> None:
        with PartitioningProducer(world.config(way), RoundRobinPartitioner()) as producer:
            also_ask_for(producer.poller, "orders")
            assert producer.poller.refresh(wait=LIMIT_S)
            told: list[Any] = []
            for _ in range(6):
                producer.produce(
                    "orders", b"v", on_delivery=lambda error, m: told.append((error, m.partition()))
                )
                assert producer.flush(LIMIT_S) == 0
            assert producer.poller.health.failures == 0
        assert sorted(told, key=str) == [(None, partition) for partition in (0, 0, 1, 1, 2, 2)]

    def test_an_attached_producer_of_kafka_python(self, world: World, way: str) -> None:
        producer = KafkaProducer(partitioner=RoundRobinPartitioner(), **world.kafka_python_config(way))
        producer.partitions_for("orders")
        with attach(producer) as poller:
            assert poller.refresh(wait=LIMIT_S)
            futures = [producer.send("orders", b"v") for _ in range(6)]
            assert {future.get(LIMIT_S).partition for future in futures} == {0, 1, 2}
        producer.close(timeout=LIMIT_S)

    def test_a_command(self, world: World, way: str, output: Output) -> None:
        assert kpe(world, way, ALLOWED, "snapshot") == 0
        assert '"orders"' in output.read()[0]

    def test_an_agent(self, world: World, way: str) -> None:
        with (
            contextlib.closing(ControlLog(world.config(way), "kpe.")) as log,
            ConsumerAgent(ControlLink(world.config(way)), f"{way}-agent", "billing"),
        ):

            def has_a_lease() -> bool:
                log.read(LIMIT_S, EVERYTHING)
                return f"{way}-agent" in log.ledger.leases

            wait_until(has_a_lease, "it has a lease")


@pytest.mark.parametrize("way", [OAUTH, CERTIFICATE])  # of the other ones SCRAM is tested in test_acls.py
def test_a_tracker(world: World, way: str) -> None:
    with tracking(world.config(way)) as tracker:
        wait_until(lambda: tracker.status.elected and tracker.status.trouble is None, "it is elected")


def test_observers_by_every_way_look_and_deliver(world: World, tmp_path: Path) -> None:
    with contextlib.ExitStack() as running:
        observers = {way: running.enter_context(observing(world, way, tmp_path)) for way in WAYS}
        for way, observer in observers.items():
            wait_until(partial(is_ready, observer), f"the one by {way} is ready")
        world.cluster.create_topic("new", 1)
        for way, observer in observers.items():
            wait_until(partial(has_delivered, observer), f"the one by {way} has delivered")


# -- the wrong ones ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("way", "change", "cause"),
    [
        (SCRAM_512, {"sasl.password": WRONG}, "_AUTHENTICATION: .*invalid credentials"),
        (SCRAM_512, {"ssl.ca.location": ""}, "_SSL: .*certificate verify failed"),
        (SCRAM_512, {"security.protocol": "PLAINTEXT"}, r"does security\.protocol fit"),
        (SCRAM_512, {"security.protocol": "SSL"}, r"does security\.protocol fit"),
        (PLAIN, {"sasl.password": WRONG}, "_AUTHENTICATION: .* Invalid username or password"),
        (OAUTH, {"sasl.oauthbearer.client.secret": WRONG}, "_AUTHENTICATION: .* token: .*invalid_client"),
        (CERTIFICATE, {"ssl.certificate.location": "", "ssl.key.location": ""}, "bad certificate"),
    ],
)
def test_why_a_login_is_refused_is_told(way: str, change: dict[str, str], cause: str, world: World) -> None:
    with contextlib.closing(ConfluentMetadataSource(changed(world.config(way), change))) as source:
        assert_refused(source, cause, timeout=2.0)


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        # Which of the two is told first depends on whether it reads the refusal before the hang-up.
        ({"sasl.password": WRONG}, "invalid credentials|refuses the user name, the password"),
        ({"ssl.ca.location": ""}, "certificate verify failed"),
        ({"security.protocol": "PLAINTEXT"}, "does security_protocol fit"),
        ({"security.protocol": "SSL"}, "does security_protocol fit"),
    ],
)
def test_so_does_kafka_python(change: dict[str, str], cause: str, world: World) -> None:
    config = kafka_python_settings(changed(world.config(SCRAM_512), change))
    with contextlib.closing(KafkaPythonMetadataSource(config)) as source:
        for _ in range(2):  # the second time it may only say that it waits before it connects again
            assert_refused(source, cause, timeout=5.0)


def changed(config: dict[str, str], change: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in {**config, **change}.items() if value}


def assert_refused(source: MetadataSource, cause: str, timeout: float) -> None:
    began = time.monotonic()
    with pytest.raises(MetadataFetchError, match=cause):
        source.fetch(None, timeout=timeout)
    assert time.monotonic() - began < BOUND_S


@pytest.mark.parametrize("command", ["watch", "snapshot"])
def test_a_command_tells_a_refused_login_in_one_line(command: str, world: World, output: Output) -> None:
    config = {**world.config(SCRAM_512), "sasl.password": WRONG}
    assert run([command, "-b", config["bootstrap.servers"], *login_options(config)]) == 2
    out, err = output.read()
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith(f"kpe: Login refused by {config['bootstrap.servers']}: ")
    assert "invalid credentials" in err


# -- no rights --------------------------------------------------------------------------------------------


def lacks(operation: str, kind: str, name: str, who: str = f"User:{REFUSED}") -> str:
    return re.escape(f"{who} lacks {operation} on {kind} {name}; to give it: kafka-acls.sh ")


def on(operation: str, topic: str, who: str = f"User:{REFUSED}") -> str:
    return lacks(operation, "topic", topic, who)


COMMANDS: list[Any] = [
    (("watch", "--for", "100ms"), 0, on("DESCRIBE", "*")),
    (("snapshot",), 0, on("DESCRIBE", "*")),
    (("check",), 3, on("DESCRIBE", "*")),
    (("doctor",), 1, f"--allow-principal User:{REFUSED} "),
    (("doctor", "partitioner", "--topic", "orders"), 2, on("READ", "orders")),
    (("doctor", "replicas"), 0, on("DESCRIBE", "*")),
    (("change", "plan", "--topic", "orders", "--to", "6"), 2, on("READ", "kpe.changes")),
    (("change", "request", "--topic", "orders", "--to", "6"), 2, on("READ", "kpe.changes")),
    (("change", "ls"), 2, on("READ", "kpe.changes")),
    (("change", "cancel", "c"), 2, on("READ", "kpe.changes")),
    (("tracker", "init"), 2, on("DESCRIBE", "kpe.changes")),
    (("tracker", "--listen", "127.0.0.1:0"), 2, on("DESCRIBE", "kpe.changes")),
]


@pytest.mark.parametrize(
    ("command", "code", "told"), COMMANDS, ids=[" ".join(each[0][:2]) for each in COMMANDS]
)
def test_a_command_without_rights_names_what_is_lacking(
    command: tuple[str, ...], code: int, told: str, world: World, output: Output
) -> None:
    began = time.monotonic()
    found = kpe(world, SCRAM_512, REFUSED, *command)
    took, (out, err) = time.monotonic() - began, output.read()
    assert took < BOUND_S
    assert found == code
    assert re.search(told, out + err)
    if code == 2:
        assert (out, err.count("\n")) == ("", 1)


def test_whose_name_the_client_does_not_know_is_this_principal(world: World, output: Output) -> None:
    assert kpe(world, OAUTH, REFUSED, "change", "ls") == 2
    told = output.read()[1]
    assert re.search(lacks("READ", "topic", "kpe.changes", "this principal"), told)


# -- one right is lacking ---------------------------------------------------------------------------------


class TestRoles:
    def test_a_producer_without_its_topic(self, world: World) -> None:
        told: list[KafkaError] = []
        with PartitioningProducer(world.config(SCRAM_512, REFUSED)) as producer:
            producer.produce("orders", b"v", on_delivery=lambda error, _m: told.append(error))
            assert producer.flush(LIMIT_S) == 0
        assert [error.name() for error in told] == ["TOPIC_AUTHORIZATION_FAILED"]

    def test_an_agent_without_its_topics(self, world: World, caplog: pytest.LogCaptureFixture) -> None:
        with agent(world, REFUSED) as refused:
            wait_until(lambda: refused.last_error is not None, "it has looked")
            assert re.search(on("READ", "kpe.changes"), str(refused.last_error))
        wanted = lacks("WRITE", "topic", "kpe.leases", f"User:{ALLOWED}")
        with world.denied(SCRAM_512, "TOPIC", "kpe.leases", "WRITE"), agent(world, ALLOWED) as denied:

            def has_told() -> bool:
                denied._wake()  # else it looks again in half a minute, and is told of its lease only then
                return re.search(wanted, caplog.text) is not None

            wait_until(has_told, "it has told")

    def test_a_tracker_without_one_of_its_rights(self, world: World) -> None:
        for kind, name, operation in (
            ("GROUP", "kpe-tracker", "READ"),
            ("TRANSACTIONAL_ID", "kpe-tracker", "WRITE"),
            ("TOPIC", "kpe.leases", "READ"),
            ("TOPIC", "kpe.leases", "WRITE"),
        ):
            with world.denied(SCRAM_512, kind, name, operation), tracking(world.config(SCRAM_512)) as tracker:
                wait_until(lambda t=tracker: t.status.trouble is not None, f"{operation} on {name} is told")  # type: ignore[misc]
                wanted = lacks(operation, kind.lower().replace("_", "-"), name, f"User:{ALLOWED}")
                assert re.search(wanted, str(tracker.status.trouble))

    def test_an_observer_without_one_of_its_rights(
        self, world: World, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        with world.denied(SCRAM_512, "TOPIC", "kpe.events", "WRITE"), observing(world, SCRAM_512, tmp_path):
            world.cluster.create_topic("newer", 1)
            wanted = lacks("WRITE", "topic", "kpe.events", f"User:{ALLOWED}")
            wait_until(lambda: bool(re.search(wanted, caplog.text)), "the sink tells")


# -- what is replaced under way ---------------------------------------------------------------------------


def test_a_brokers_certificate_that_is_replaced_or_expires(world: World) -> None:
    config = world.config(CERTIFICATE)

    def sources() -> list[MetadataSource]:
        return [ConfluentMetadataSource(config), KafkaPythonMetadataSource(kafka_python_settings(config))]

    before = sources()
    for source in before:
        source.fetch(None, timeout=LIMIT_S)
    world.use_certificate("CERTS")
    for source in (*before, *(new := sources())):
        source.fetch(None, timeout=LIMIT_S)
    world.use_certificate("CERTS", days=-1)
    for source in new:  # what is connected stays so
        source.fetch(None, timeout=LIMIT_S)
    for source in (late := sources()):
        with pytest.raises(MetadataFetchError, match="certificate verify failed"):
            source.fetch(None, timeout=2.0)
    world.use_certificate("CERTS")
    for source in late:
        recovers(source)
    for source in (*before, *new, *late):
        source.close()


def refuses(source: MetadataSource) -> bool:
    with pytest.raises(MetadataFetchError) as refused:
        source.fetch(None, timeout=2.0)
    return re.search("invalid credentials|refuses the user name", str(refused.value)) is not None


def test_a_password_that_is_replaced(world: World, tmp_path: Path) -> None:
    file = tmp_path / "password.secret"
    file.write_text(PASSWORDS[ALLOWED])
    plain = world.config(SCRAM_512)
    in_file = {**plain, "sasl.password": FromFile.read(str(file))}
    sources: list[MetadataSource] = [
        ConfluentMetadataSource(in_file),
        KafkaPythonMetadataSource(kafka_python_settings(in_file)),
    ]
    quick = {"interval": 0.5, "fetch_timeout": 2.0}
    with (
        observing(world, SCRAM_512, tmp_path, file) as observer,
        PartitioningProducer(plain, poller_options=quick) as producer,
        contextlib.closing(ControlLink(in_file)) as link,
    ):
        also_ask_for(producer.poller, "orders")
        wait_until(partial(is_ready, observer), "the observer is ready")
        link.read_changes(LIMIT_S)
        for source in sources:
            source.fetch(None, timeout=LIMIT_S)
        world.set_password(ALLOWED, LATER)
        for source in sources:  # what is connected stays so
            source.fetch(None, timeout=LIMIT_S)
        world.cluster.restart(1, clean=True)
        for source in sources:  # first they may not be connected again
            wait_until(partial(refuses, source), "it is refused")
        with pytest.raises(ControlTopicError, match="invalid credentials"):
            link.read_changes(2.0)
        for health in (lambda: producer.poller.health, lambda: observer._poller.health):
            wait_until(lambda of=health: is_refused(of()), "the poller tells")  # type: ignore[misc]
        file.write_text(LATER)
        producer.set_sasl_credentials(ALLOWED, LATER)
        for source in sources:
            recovers(source)
            source.close()
        wait_until(lambda: works(lambda: link.read_changes(2.0)), "the agent's link reads again")
        wait_until(partial(is_ready, observer), "the observer is ready again")
        world.cluster.create_topic("newest", 1)
        # By the term that is under way, or by the next: while nobody could log in it may have lost this one.
        with contextlib.closing(Reader(world.cluster, "kpe.events", 1)) as reader:
            wait_until(lambda: "newest" in str(reader.named("topic.created")), "its sink delivers")
        wait_until(lambda: producer.poller.health.failures == 0, "the producer's poller is well")
        producer.produce("orders", b"v")
        assert producer.flush(LIMIT_S) == 0, "its own connections have the password, too"
    world.set_password(ALLOWED, PASSWORDS[ALLOWED])


def is_refused(health: Health) -> bool:
    return bool(re.search("invalid credentials|refuses the user name", str(health.last_error)))


def works(use: Callable[[], object]) -> bool:
    with contextlib.suppress(MetadataFetchError, ControlTopicError):
        use()
        return True
    return False


def recovers(source: MetadataSource) -> None:
    wait_until(lambda: works(lambda: source.fetch(None, timeout=2.0)), "it works again")
