"""librdkafka's mock cluster: brokers without Java, in this process, started in milliseconds.

It serves producers and consumers over real loopback sockets. It is not Kafka: it elects no leader by
itself, can't grow a topic, and serves neither CreateTopics nor DescribeTopics.

librdkafka has it as a C interface only. We find it through confluent-kafka's own extension module, so
it is the very copy that the clients use, wherever the wheel or the distribution put it.
"""

import ctypes
import os
from typing import Any, Self

import confluent_kafka.cimpl as extension

_PRODUCER = 0
_NO_LEADER = -1
_ERROR_TEXT_SIZE = 512

_SAFE_VERSIONS = {0: 9, 1: 11}
"""Produce and Fetch, and the last version of each that has no hint at the current leader (KIP-951).

The mock writes that hint without a look at whether there is a leader, so a request for a partition that has
just gone offline would crash this process (seen in librdkafka 2.16)."""

_POINTER, _TEXT, _INT, _SHORT = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int32, ctypes.c_int16
_SIGNATURES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "rd_kafka_conf_new": (_POINTER, ()),
    "rd_kafka_conf_set": (_INT, (_POINTER, _TEXT, _TEXT, _TEXT, ctypes.c_size_t)),
    "rd_kafka_new": (_POINTER, (_INT, _POINTER, _TEXT, ctypes.c_size_t)),
    "rd_kafka_destroy": (None, (_POINTER,)),
    "rd_kafka_mock_cluster_new": (_POINTER, (_POINTER, _INT)),
    "rd_kafka_mock_cluster_destroy": (None, (_POINTER,)),
    "rd_kafka_mock_cluster_bootstraps": (_TEXT, (_POINTER,)),
    "rd_kafka_mock_topic_create": (_INT, (_POINTER, _TEXT, _INT, _INT)),
    "rd_kafka_mock_partition_set_leader": (_INT, (_POINTER, _TEXT, _INT, _INT)),
    "rd_kafka_mock_broker_set_rtt": (_INT, (_POINTER, _INT, _INT)),
    "rd_kafka_mock_broker_set_rack": (_INT, (_POINTER, _INT, _TEXT)),
    "rd_kafka_mock_set_apiversion": (_INT, (_POINTER, _SHORT, _SHORT, _SHORT)),
}
# A look-up in a shared library also searches the libraries that it is linked with.
_LIBRARY = ctypes.CDLL(extension.__file__)


class MockCluster:
    """A mock cluster of `brokers` brokers (1..n, racks ``r1..rn``), running from its construction to `close`.

    Unknown topics are created when a client asks for them, with four partitions.
    In a process forked from the owner the cluster does not exist.
    """

    def __init__(self, brokers: int = 3) -> None:
        self._owner = os.getpid()
        self._client = _new_client()
        self._cluster: int | None = _function("rd_kafka_mock_cluster_new")(self._client, brokers)
        assert self._cluster
        servers: bytes = _function("rd_kafka_mock_cluster_bootstraps")(self._cluster)
        self.bootstrap_servers = servers.decode()
        for api, newest in _SAFE_VERSIONS.items():
            self._call("rd_kafka_mock_set_apiversion", api, 0, newest)
        for broker in range(1, brokers + 1):
            self._call("rd_kafka_mock_broker_set_rack", broker, f"r{broker}".encode())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop all brokers and free their memory. Idempotent."""
        # In a fork librdkafka's threads are gone, and taking them down would wait for them for ever.
        if self._cluster is not None and os.getpid() == self._owner:
            _function("rd_kafka_mock_cluster_destroy")(self._cluster)
            _function("rd_kafka_destroy")(self._client)
        self._cluster = None

    def create_topic(self, name: str, partitions: int, replication_factor: int = 1) -> None:
        """Create a topic; librdkafka chooses the leaders."""
        self._call("rd_kafka_mock_topic_create", name.encode(), partitions, replication_factor)

    def set_leader(self, topic: str, partition: int, broker: int | None) -> None:
        """Make a broker lead a partition; None takes it offline."""
        leader = _NO_LEADER if broker is None else broker
        self._call("rd_kafka_mock_partition_set_leader", topic.encode(), partition, leader)

    def set_rtt(self, broker: int, ms: int) -> None:
        """Delay each of a broker's answers by `ms` milliseconds."""
        self._call("rd_kafka_mock_broker_set_rtt", broker, ms)

    def _call(self, name: str, *arguments: int | bytes) -> None:
        assert self._cluster is not None, "it has been closed"
        code = _function(name)(self._cluster, *arguments)
        assert code == 0, f"{name}{arguments}: error {code}"


def _new_client() -> int:
    """Make the client that librdkafka wants for its bookkeeping. It connects to nothing."""
    error = ctypes.create_string_buffer(_ERROR_TEXT_SIZE)
    settings = _function("rd_kafka_conf_new")()
    # Silent: it would complain that it has no servers to connect to.
    _function("rd_kafka_conf_set")(settings, b"log_level", b"0", error, _ERROR_TEXT_SIZE)
    client: int | None = _function("rd_kafka_new")(_PRODUCER, settings, error, _ERROR_TEXT_SIZE)
    assert client, error.value.decode()
    return client


def _function(name: str) -> Any:
    function = getattr(_LIBRARY, name)
    function.restype, function.argtypes = _SIGNATURES[name]
    return function
