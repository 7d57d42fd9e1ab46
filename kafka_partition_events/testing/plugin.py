"""Pytest plugin of the test kit, active wherever this package is installed.

Fixtures: `kafka_cluster`, `kafka_topic`, `linked_kafka_cluster`, `own_kafka_cluster`.
`require_java` is for tests that need Java without using them. There are no markers: their names would be in
everybody's way.

A test that needs Java skips where there is none, except under CI (the environment variable ``CI`` is set
and not empty): there it fails, for a build that silently skips its integration tests tests nothing.

Every pytest run of every user loads this file, so it imports nothing heavy at the top.
"""

import contextlib
import os
import re
import uuid
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Protocol

import pytest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafka_partition_events.testing import KafkaCluster

_LONGEST_STEM = 60


class MakeTopic(Protocol):
    """What the fixture `kafka_topic` returns."""

    def __call__(
        self, partitions: int = 6, replication_factor: int = 1, config: "Mapping[str, str] | None" = None
    ) -> str:
        """Create a topic of a name never used before and return the name."""


@pytest.fixture(scope="session")
def kafka_cluster() -> "Iterator[KafkaCluster]":
    """A real Kafka of three brokers, shared by all tests of the session; started on first use.

    Leave it as you found it: a test that kills a broker restarts it. Tests that can't promise that take
    `own_kafka_cluster`.
    """
    require_java()
    from kafka_partition_events.testing import KafkaCluster  # noqa: PLC0415

    with KafkaCluster(brokers=3) as cluster:
        yield cluster


@pytest.fixture
def kafka_topic(kafka_cluster: "KafkaCluster", request: pytest.FixtureRequest) -> MakeTopic:
    """Make topics in the shared cluster: ``kafka_topic(partitions=6, replication_factor=1)`` -> name.

    The name begins with that of the test. Topics are not deleted: they cost little and end with the session.
    """
    stem = re.sub(r"[^A-Za-z0-9._-]+", "-", request.node.name)[:_LONGEST_STEM]

    def make(
        partitions: int = 6, replication_factor: int = 1, config: "Mapping[str, str] | None" = None
    ) -> str:
        name = f"{stem}-{uuid.uuid4().hex[:8]}"
        kafka_cluster.create_topic(name, partitions, replication_factor, config)
        return name

    return make


@pytest.fixture(scope="session")
def _linked_kafka_cluster() -> "Iterator[KafkaCluster]":
    require_java()
    from kafka_partition_events.testing import KafkaCluster  # noqa: PLC0415

    with KafkaCluster(brokers=3, links="all") as cluster:
        yield cluster


@pytest.fixture
def linked_kafka_cluster(_linked_kafka_cluster: "KafkaCluster") -> "Iterator[KafkaCluster]":
    """Three brokers whose links a test may disturb, among themselves too: ``cluster.link(2).blackhole()``.

    Shared by all tests of the session, and healed after each.
    """
    yield _linked_kafka_cluster
    _linked_kafka_cluster.heal()


@pytest.fixture(scope="module")
def own_kafka_cluster() -> "Iterator[Callable[..., KafkaCluster]]":
    """Start clusters that only this module's tests use: ``own_kafka_cluster(brokers=1, ...)``.

    Takes the arguments of `KafkaCluster`. The clusters are closed after the module's last test; a test that
    needs one for itself closes it sooner: ``with own_kafka_cluster() as cluster``.
    """
    require_java()
    from kafka_partition_events.testing import KafkaCluster  # noqa: PLC0415

    with contextlib.ExitStack() as opened:
        yield lambda *args, **kwargs: opened.enter_context(KafkaCluster(*args, **kwargs))


def require_java() -> None:
    """Skip the running test where there is no Java 17; fail it where ``CI`` is set."""
    from kafka_partition_events import jvm  # noqa: PLC0415

    if jvm.java() is None:
        if os.environ.get("CI"):
            pytest.fail(f"{jvm.JAVA_MISSING}, and under CI no test may skip for that", pytrace=False)
        pytest.skip(jvm.JAVA_MISSING)
