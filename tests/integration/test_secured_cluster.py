"""TLS and logins on a real Kafka: the options pass through, refusals are explained, secrets stay secret."""

import contextlib
import gc
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import structlog

from kafka_partition_events import (
    ConfigurationError,
    DefaultPartitioner,
    MetadataFetchError,
    MetadataSource,
)
from kafka_partition_events.clients.confluent import (
    ConfluentMetadataSource,
    PartitioningProducer,
)
from kafka_partition_events.clients.kafka_python import KafkaPythonMetadataSource
from kafka_partition_events.testing import KafkaCluster
from tests.login_kit import login_options

pytestmark = pytest.mark.kafka
LIMIT_S = 20.0
WRONG = "hunter2-is-not-it"

Options = dict[str, str]


@pytest.fixture(scope="module")
def seen() -> set[bytes]:
    """Command lines and environments of what Java programs ran while the cluster started."""
    return set()


@pytest.fixture(scope="module")
def cluster(own_kafka_cluster: Callable[..., KafkaCluster], seen: set[bytes]) -> KafkaCluster:
    started = threading.Event()
    watcher = threading.Thread(target=watch_processes, args=(seen, started))
    watcher.start()
    try:
        cluster = own_kafka_cluster(brokers=1, secured=True)
    finally:
        started.set()
        watcher.join()
    cluster.create_topic("orders", 3)
    return cluster


def watch_processes(seen: set[bytes], stop: threading.Event) -> None:
    while not stop.wait(0.02):
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):  # it has ended
                command = (process / "cmdline").read_bytes()
                if b"java" in command or b"keytool" in command:
                    seen.update((command, (process / "environ").read_bytes()))


@pytest.fixture
def secrets(cluster: KafkaCluster) -> list[str]:
    assert cluster.security is not None
    return [WRONG, cluster.security.password]


@pytest.fixture(autouse=True)
def _nothing_secret_is_told(secrets: list[str], capfd: pytest.CaptureFixture[str]) -> Iterator[None]:
    """Structlog, which the library never configures, and librdkafka write to stdout and stderr."""
    yield
    told = "".join(capfd.readouterr())
    assert not [secret for secret in secrets if secret in told]


def without(options: Options, *names: str) -> Options:
    return {name: value for name, value in options.items() if name not in names}


# -- the right options ---------------------------------------------------------------------------------


def test_the_kit_tells_how_to_log_in_but_not_by_accident(cluster: KafkaCluster, secrets: list[str]) -> None:
    assert cluster.security is not None
    assert cluster.confluent_options["sasl.username"] == cluster.security.username
    assert cluster.kafka_python_options["sasl_plain_password"] == cluster.security.password
    assert cluster.security.ca_file.read_text().startswith("-----BEGIN CERTIFICATE-----")
    assert not [secret for secret in secrets if secret in repr(cluster.security)]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has /proc")
def test_nobody_sees_the_password_of_a_cluster_that_starts(
    cluster: KafkaCluster, seen: set[bytes], secrets: list[str]
) -> None:
    for program in (b"keytool", b"kafka.tools.StorageTool", b"kafka.Kafka"):
        assert any(program in each for each in seen)
    assert not [each for each in seen for secret in secrets if secret.encode() in each]


def test_new_credentials_reach_every_connection_of_a_producer(cluster: KafkaCluster) -> None:
    options = {**cluster.confluent_options, "sasl.password": WRONG, "log_level": 0}
    with PartitioningProducer(options, poller_options={"interval": 0.5, "fetch_timeout": 1.0}) as producer:
        producer.poller.track("orders")
        producer.poller.refresh("test", wait=LIMIT_S)
        assert producer.poller.health.failures > 0
        right = cluster.confluent_options
        producer.set_sasl_credentials(right["sasl.username"], right["sasl.password"])
        deadline = time.monotonic() + LIMIT_S
        while producer.poller.health.failures:
            assert time.monotonic() < deadline
            producer.poller.refresh("test", wait=LIMIT_S)
        producer.produce("orders", b"v")
        assert producer.flush(LIMIT_S) == 0


# -- the wrong ones ------------------------------------------------------------------------------------

REFUSED: list[Any] = [
    pytest.param({"sasl.password": WRONG}, r"_AUTHENTICATION: .*invalid credentials", id="wrong password"),
    pytest.param({"sasl.mechanism": "PLAIN"}, r"_AUTHENTICATION: .*SCRAM-SHA-512", id="other mechanism"),
    pytest.param({"ssl.ca.location": None}, r"_SSL: .*certificate verify failed", id="no CA"),
    pytest.param({"security.protocol": "PLAINTEXT"}, r"does security\.protocol fit", id="plain text"),
    pytest.param({"security.protocol": "SSL"}, r"does security\.protocol fit", id="no login"),
]
KAFKA_PYTHON_NAMES = {
    "sasl.password": "sasl_plain_password",
    "sasl.mechanism": "sasl_mechanism",
    "ssl.ca.location": "ssl_cafile",
    "security.protocol": "security_protocol",
}
KAFKA_PYTHON_CAUSES = {
    # Which of the two is told first depends on whether kafka-python reads the refusal before the hang-up.
    "sasl.password": r"invalid credentials|refuses the user name, the password",
    "sasl.mechanism": r"UnsupportedSaslMechanism|refuses .* the SASL mechanism",
    "ssl.ca.location": r"certificate verify failed",
    "security.protocol": r"does security_protocol fit",
}


def changed(options: Mapping[str, str], change: Mapping[str, str | None]) -> Options:
    return {name: value for name, value in {**options, **change}.items() if value is not None}


def assert_refused(source: MetadataSource, cause: str, secrets: Sequence[str], timeout: float) -> None:
    began = time.monotonic()
    with pytest.raises(MetadataFetchError, match=cause) as refusal:
        source.fetch(None, started_at=0.0, timeout=timeout)
    assert time.monotonic() - began < timeout + 2.0
    assert not [secret for secret in secrets if secret in str(refusal.value)]


@pytest.mark.parametrize(("change", "cause"), REFUSED)
def test_confluent_names_the_cause(
    change: Options, cause: str, cluster: KafkaCluster, secrets: list[str]
) -> None:
    source = ConfluentMetadataSource(changed(cluster.confluent_options, change))
    assert_refused(source, cause, secrets, timeout=1.5)
    source.close()


@pytest.mark.parametrize(("change", "cause"), REFUSED)
def test_kafka_python_names_the_cause(
    change: Options, cause: str, cluster: KafkaCluster, secrets: list[str]
) -> None:
    [(name, value)] = change.items()
    options = changed(cluster.kafka_python_options, {KAFKA_PYTHON_NAMES[name]: value})
    source = KafkaPythonMetadataSource(options)
    for _ in range(2):  # the second time it may only say that it waits before it connects again
        assert_refused(source, KAFKA_PYTHON_CAUSES[name], secrets, timeout=5.0)
    source.close()
    gc.collect()


def test_a_ca_file_that_does_not_exist_is_told_at_once(cluster: KafkaCluster, tmp_path: Path) -> None:
    nowhere = str(tmp_path / "ca.pem")
    with pytest.raises(ConfigurationError, match=r"ssl\.ca\.location"):
        ConfluentMetadataSource({**cluster.confluent_options, "ssl.ca.location": nowhere})
    with pytest.raises(ConfigurationError, match=f"ssl_cafile.*{re.escape(nowhere)}"):
        KafkaPythonMetadataSource({**cluster.kafka_python_options, "ssl_cafile": nowhere})


def test_a_producer_logs_why_it_has_no_metadata(cluster: KafkaCluster, secrets: list[str]) -> None:
    options = {**cluster.confluent_options, "sasl.password": WRONG, "log_level": 2}
    with structlog.testing.capture_logs() as logs:
        producer = PartitioningProducer(
            options, DefaultPartitioner(), poller_options={"fetch_timeout": 1.0, "interval": 60.0}
        )
        assert producer.poller.refresh("test", wait=LIMIT_S)
        producer.close()
    told = [str(entry) for entry in logs if entry["event"] == "metadata_unavailable"]
    assert told
    assert "invalid credentials" in told[0]
    assert "invalid credentials" in str(producer.poller.health.last_error)
    assert not [secret for secret in secrets if secret in repr(logs)]


# -- kpe -----------------------------------------------------------------------------------------------


def kpe(command: Sequence[str], options: Options) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [
            sys.executable, "-m", "kafka_partition_events.cli",
            *command, "-b", options["bootstrap.servers"], *login_options(options),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip


def told_by(process: "subprocess.Popen[str]") -> tuple[str, str]:
    try:
        return process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()


def test_kpe_tells_a_refused_login_in_one_line(cluster: KafkaCluster, secrets: list[str]) -> None:
    commands = (["watch"], ["snapshot"], ["watch", "--verbose"])
    began = time.monotonic()
    runs = [kpe(command, {**cluster.confluent_options, "sasl.password": WRONG}) for command in commands]
    told = [told_by(run) for run in runs]
    assert time.monotonic() - began < 40.0  # each gives up after 10 s; a busy machine takes a while to begin
    for run, (out, err) in zip(runs, told, strict=True):
        assert (run.returncode, out) == (2, "")
        assert err.splitlines()[-1].startswith("kpe: ")
        assert "invalid credentials" in err.splitlines()[-1]
        assert not [secret for secret in secrets if secret in err]
    assert [err.count("\n") for _, err in told[:2]] == [1, 1]
    refused = f"kpe: Login refused by {cluster.bootstrap_servers}: "
    assert [err.startswith(refused) for _, err in told[:2]] == [True, True], told
