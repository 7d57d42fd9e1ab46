"""librdkafka's mock cluster: brokers without Java, in this process, started in milliseconds.

It serves producers and consumers over real loopback sockets. It is not Kafka: it elects no leader by
itself, can't grow a topic, and serves neither CreateTopics nor DescribeTopics. Use `KafkaCluster` to see
what Kafka does, this to set up a state at will.

librdkafka has the mock cluster as a C interface only, which it calls experimental. confluent-kafka brings
the library; we find the functions through confluent-kafka's own extension module, so it is the very copy
that the clients use, wherever the wheel or the distribution put it.
"""

import ctypes
import os
import threading
from types import TracebackType
from typing import Any, Self

from kafka_partition_events.testing.errors import KitError

_PRODUCER = 0
_NO_LEADER = -1
_ERROR_TEXT_SIZE = 512

_SAFE_VERSIONS = {0: 9, 1: 11}
"""Produce and Fetch, and the last version of each that has no hint at the current leader (KIP-951).

The mock writes that hint without a look at whether there is a leader, so a request for a partition that has
just gone offline would crash this process (seen in librdkafka 2.16)."""

_POINTER, _TEXT, _INT = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int32
_SIGNATURES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "rd_kafka_conf_new": (_POINTER, ()),
    "rd_kafka_conf_set": (_INT, (_POINTER, _TEXT, _TEXT, _TEXT, ctypes.c_size_t)),
    "rd_kafka_new": (_POINTER, (_INT, _POINTER, _TEXT, ctypes.c_size_t)),
    "rd_kafka_destroy": (None, (_POINTER,)),
    "rd_kafka_err2str": (_TEXT, (_INT,)),
    "rd_kafka_mock_cluster_new": (_POINTER, (_POINTER, _INT)),
    "rd_kafka_mock_cluster_destroy": (None, (_POINTER,)),
    "rd_kafka_mock_cluster_bootstraps": (_TEXT, (_POINTER,)),
    "rd_kafka_mock_topic_create": (_INT, (_POINTER, _TEXT, _INT, _INT)),
    "rd_kafka_mock_topic_delete": (_INT, (_POINTER, _TEXT)),
    "rd_kafka_mock_partition_set_leader": (_INT, (_POINTER, _TEXT, _INT, _INT)),
    "rd_kafka_mock_broker_set_rtt": (_INT, (_POINTER, _INT, _INT)),
    "rd_kafka_mock_broker_set_rack": (_INT, (_POINTER, _INT, _TEXT)),
    "rd_kafka_mock_set_apiversion": (
        _INT,
        (_POINTER, ctypes.c_int16, ctypes.c_int16, ctypes.c_int16),
    ),
}


class MockCluster:
    """A mock cluster of `brokers` brokers (1..n, racks ``r1..rn``), running from its construction to `close`.

    Thread safe. Unknown topics are created when a client asks for them, with four partitions: that is how
    the mock is made. In a process forked from the owner the cluster does not exist.

    Raises:
        KitError: confluent-kafka is missing, or its librdkafka has no such function or refused the call.
    """

    def __init__(self, brokers: int = 3) -> None:
        if brokers < 1:
            raise ValueError(f"brokers must be at least 1, not {brokers}")
        self.brokers: tuple[int, ...] = tuple(range(1, brokers + 1))
        self._owner = os.getpid()
        self._partitions: dict[str, int] = {}
        self._lock = threading.Lock()
        self._library = _load_library()
        self._client = self._new_client()
        self._cluster: int | None = self._function("rd_kafka_mock_cluster_new")(self._client, brokers)
        if not self._cluster:
            self._function("rd_kafka_destroy")(self._client)
            raise KitError(f"librdkafka could not start a mock cluster of {brokers} brokers")
        servers: bytes = self._function("rd_kafka_mock_cluster_bootstraps")(self._cluster)
        self.bootstrap_servers = servers.decode()
        for api, newest in _SAFE_VERSIONS.items():
            self._call("rd_kafka_mock_set_apiversion", api, 0, newest)
        for broker in self.brokers:
            self._call("rd_kafka_mock_broker_set_rack", broker, f"r{broker}".encode())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop all brokers and free their memory. Idempotent."""
        with self._lock:
            # In a fork librdkafka's threads are gone, and taking them down would wait for them for ever.
            if self._cluster is not None and os.getpid() == self._owner:
                self._function("rd_kafka_mock_cluster_destroy")(self._cluster)
                self._function("rd_kafka_destroy")(self._client)
            self._cluster = None

    def create_topic(self, name: str, partitions: int, replication_factor: int = 1) -> None:
        """Create a topic; librdkafka chooses the leaders."""
        # librdkafka itself would accept both and serve a topic that no client can use.
        if partitions < 1 or replication_factor not in self.brokers:
            raise KitError(
                f"can't create topic {name} with {partitions} partitions on {replication_factor} of "
                f"{len(self.brokers)} brokers"
            )
        self._call("rd_kafka_mock_topic_create", name.encode(), partitions, replication_factor)
        self._partitions[name] = partitions

    def delete_topic(self, name: str) -> None:
        """Delete a topic."""
        self._call("rd_kafka_mock_topic_delete", name.encode())
        self._partitions.pop(name, None)

    def set_leader(self, topic: str, partition: int, broker: int | None) -> None:
        """Make a broker lead a partition of a topic made by `create_topic`; None takes it offline."""
        count = self._partitions.get(topic, 0)  # librdkafka would create an unknown topic here
        if not 0 <= partition < count:
            raise KitError(f"there is no partition {partition} of {topic}, which has {count}")
        leader = _NO_LEADER if broker is None else self._known(broker)
        self._call("rd_kafka_mock_partition_set_leader", topic.encode(), partition, leader)

    def set_rtt(self, broker: int, ms: int) -> None:
        """Delay each of a broker's answers by `ms` milliseconds."""
        self._call("rd_kafka_mock_broker_set_rtt", self._known(broker), ms)

    def _known(self, broker: int) -> int:
        if broker not in self.brokers:
            raise KitError(f"there is no broker {broker}, only {', '.join(map(str, self.brokers))}")
        return broker

    def _call(self, name: str, *arguments: int | bytes) -> None:
        with self._lock:
            if self._cluster is None:
                raise KitError("this MockCluster has been closed; make a new one")
            code = self._function(name)(self._cluster, *arguments)
            if code:
                reason: bytes = self._function("rd_kafka_err2str")(code)
                raise KitError(f"{name}{arguments}: {reason.decode()}")

    def _new_client(self) -> int:
        """Make the client that librdkafka wants for its bookkeeping. It connects to nothing."""
        error = ctypes.create_string_buffer(_ERROR_TEXT_SIZE)
        settings = self._function("rd_kafka_conf_new")()
        # Silent: it would complain that it has no servers to connect to.
        self._function("rd_kafka_conf_set")(settings, b"log_level", b"0", error, _ERROR_TEXT_SIZE)
        client: int | None = self._function("rd_kafka_new")(_PRODUCER, settings, error, _ERROR_TEXT_SIZE)
        if not client:
            raise KitError(f"librdkafka could not start: {error.value.decode()}")
        return client

    def _function(self, name: str) -> Any:
        try:
            function = getattr(self._library, name)
        except AttributeError:
            raise KitError(
                f"the installed librdkafka has no {name}; update confluent-kafka to 2.16 or newer"
            ) from None
        function.restype, function.argtypes = _SIGNATURES[name]
        return function


def _load_library() -> ctypes.CDLL:
    try:
        import confluent_kafka.cimpl as extension  # noqa: PLC0415  # an optional dependency
    except ImportError as error:
        raise KitError(
            "the mock cluster needs confluent-kafka, which is not installed; "
            'install the extra: pip install "kafka-partition-events[testing]"'
        ) from error
    # A look-up in a shared library also searches the libraries that it is linked with.
    return ctypes.CDLL(extension.__file__)
