"""`KafkaPinStore` on a real Kafka: what it makes, who wins, and what it refuses."""

import contextlib
import json
import os
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ConfigResource,
    ResourceType,
)

from kafka_partition_events.cli.app import run
from kafka_partition_events.clients.confluent import KafkaPinStore, connection, pin_store
from kafka_partition_events.errors import PinStoreError
from kafka_partition_events.partitioners.pins import READ_LIMIT_S, Pin
from kafka_partition_events.testing import KafkaCluster
from kafka_partition_events.testing.ports import free_ports

pytestmark = pytest.mark.kafka
LIMIT_S = 20.0

Make = Callable[[], KafkaPinStore]

SIX, TWELVE = Pin(1, 6, 100.0), Pin(2, 12, 200.5)


@pytest.fixture
def topic() -> str:
    return f"pins-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def make(kafka_cluster: KafkaCluster, topic: str) -> Iterator[Make]:
    made: list[KafkaPinStore] = []

    def make() -> KafkaPinStore:
        made.append(KafkaPinStore({"bootstrap.servers": kafka_cluster.bootstrap_servers}, topic))
        return made[-1]

    yield make
    for store in made:
        store.close()


def admin(cluster: KafkaCluster) -> AdminClient:
    return AdminClient({"bootstrap.servers": cluster.bootstrap_servers})


def write(cluster: KafkaCluster, topic: str, key: str, value: bytes | None) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    producer.produce(topic, value, key)
    assert producer.flush(LIMIT_S) == 0


def test_reading_creates_nothing(make: Make, kafka_cluster: KafkaCluster, topic: str) -> None:
    assert make().read() == {}
    assert topic not in admin(kafka_cluster).list_topics(timeout=LIMIT_S).topics


def test_the_first_pin_creates_a_compacted_topic_of_one_replicated_partition(
    make: Make, kafka_cluster: KafkaCluster, topic: str
) -> None:
    assert make().replace("orders", None, (SIX,))
    client = admin(kafka_cluster)
    [partition] = client.list_topics(topic, timeout=LIMIT_S).topics[topic].partitions.values()
    assert len(partition.replicas) == 3
    resource = ConfigResource(ResourceType.TOPIC, topic)
    assert client.describe_configs([resource])[resource].result(LIMIT_S)["cleanup.policy"].value == "compact"


def test_brokers_may_hear_late_of_the_topic_that_was_created(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    created, unheard = list[str](), [2, 2]

    class LateAdmin(AdminClient):
        def create_topics(self, *topics: Any, **options: Any) -> Any:
            created.append("it is there")
            return super().create_topics(*topics, **options)

        def list_topics(self, *names: Any, **options: Any) -> Any:
            answer = super().list_topics(*names, **options)
            if created and unheard[0]:
                unheard[0] -= 1
                unknown = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)
                return SimpleNamespace(topics=dict.fromkeys(names, SimpleNamespace(error=unknown)))
            return answer

    class LateConsumer(Consumer):
        def get_watermark_offsets(self, *places: Any, **options: Any) -> Any:
            if unheard[1]:
                unheard[1] -= 1
                raise KafkaException(KafkaError(KafkaError._UNKNOWN_PARTITION))
            return super().get_watermark_offsets(*places, **options)

    monkeypatch.setattr(connection, "AdminClient", LateAdmin)
    monkeypatch.setattr(pin_store, "Consumer", LateConsumer)
    assert make().replace("orders", None, (SIX,))
    assert unheard == [0, 0]
    assert make().read() == {"orders": (SIX,)}


def test_what_one_writes_the_others_read(make: Make) -> None:
    one, other = make(), make()
    assert other.read() == {}
    assert one.replace("orders", None, (SIX,))
    assert other.read() == {"orders": (SIX,)}
    assert other.replace("orders", (SIX,), (SIX, TWELVE))
    assert one.replace("payments", None, (SIX,))
    everything = {"orders": (SIX, TWELVE), "payments": (SIX,)}
    assert one.read() == other.read() == make().read() == everything


def test_it_compares_and_sets(make: Make) -> None:
    one, other = make(), make()
    assert not one.replace("orders", (SIX,), (SIX, TWELVE))
    assert one.replace("orders", None, (SIX,))
    assert not other.replace("orders", None, (Pin(1, 7, 0.0),))
    assert other.read() == {"orders": (SIX,)}


def test_of_two_that_write_at_once_the_last_one_wins_for_everybody(make: Make) -> None:
    one, other = make(), make()
    one.read(), other.read()
    together, told = threading.Barrier(2), []

    def race(store: KafkaPinStore, count: int) -> None:
        for number in range(10):
            together.wait(LIMIT_S)
            if store.replace(f"t{number}", None, (Pin(1, count, 0.0),)):
                told.append((f"t{number}", count))

    threads = [threading.Thread(target=race, args=each) for each in ((one, 6), (other, 12))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    stored = one.read()
    assert stored == other.read() == make().read()
    assert set(stored) == {f"t{number}" for number in range(10)}
    assert all((topic, history[0].count) in told for topic, history in stored.items())


def test_a_closed_store_can_be_used_again(make: Make) -> None:
    store = make()
    store.replace("orders", None, (SIX,))
    store.close()
    assert store.read() == {"orders": (SIX,)}


def test_a_record_that_is_no_pin_is_told_with_the_cure_that_works(
    make: Make, kafka_cluster: KafkaCluster, topic: str
) -> None:
    store = make()
    store.replace("orders", None, (SIX,))
    for foreign in (b"\xff", b"[]", b'{"version": 2, "pins": []}', b'{"version": 1, "pins": []}'):
        write(kafka_cluster, topic, "other", foreign)
        assert store.read() == {"orders": (SIX,)}, "nobody else's affair"
        assert f"topic {topic} holds no pins of 'other'" in store.unreadable["other"]
        assert not store.replace("other", None, (SIX,))
    write(kafka_cluster, topic, "other", None)
    assert store.read() == {"orders": (SIX,)}
    assert store.unreadable == {}
    write(kafka_cluster, topic, "other", b"{}")
    pins = [{"generation": 1, "count": 3, "effective_at": 0.0}]
    write(kafka_cluster, topic, "other", json.dumps({"version": 1, "pins": pins}).encode())
    assert store.read() == {"orders": (SIX,), "other": (Pin(1, 3, 0.0),)}


@pytest.mark.parametrize(
    ("partitions", "policy", "cause"),
    [
        (2, "compact", "has 2 partitions; pins need a topic with one"),
        (1, "delete", "has cleanup.policy=delete, which deletes pins"),
        (1, "compact,delete", "has cleanup.policy=compact,delete, which deletes pins"),
    ],
)
def test_a_topic_that_would_lose_pins_is_refused(
    partitions: int, policy: str, cause: str, make: Make, kafka_cluster: KafkaCluster, topic: str
) -> None:
    kafka_cluster.create_topic(topic, partitions, config={"cleanup.policy": policy})
    store = make()
    for use in (store.read, lambda: store.replace("orders", None, (SIX,))):
        with pytest.raises(PinStoreError, match=cause):
            use()


def test_a_topic_that_was_deleted_is_an_empty_store_again(
    make: Make, kafka_cluster: KafkaCluster, topic: str
) -> None:
    store = make()
    store.replace("orders", None, (SIX,))
    kafka_cluster.delete_topic(topic)
    deadline = time.monotonic() + LIMIT_S
    found: Any = None
    while found != {}:
        assert time.monotonic() < deadline
        try:
            found = store.read()
        except PinStoreError:
            found = None  # it is being deleted
    assert store.replace("orders", None, (TWELVE,))
    assert make().read() == {"orders": (TWELVE,)}


def test_a_wrong_address_is_told_in_time() -> None:
    [port] = free_ports(1)
    store = KafkaPinStore({"bootstrap.servers": f"127.0.0.1:{port}"})
    began = time.monotonic()
    with pytest.raises(PinStoreError, match=r"topic kpe\.mappings: can't read the pins.*Connection refused"):
        store.read()
    assert time.monotonic() - began < 10.0
    store.close()


def test_brokers_that_are_down_are_told_in_time_and_found_again(
    own_kafka_cluster: Callable[..., KafkaCluster],
) -> None:
    cluster = own_kafka_cluster(brokers=1)
    store = KafkaPinStore({"bootstrap.servers": cluster.bootstrap_servers})
    assert store.replace("orders", None, (SIX,))
    cluster.kill(1)
    for _ in range(3):
        began = time.monotonic()
        with pytest.raises(PinStoreError, match=r"topic kpe\.mappings: can't read the pins"):
            store.read()
        assert time.monotonic() - began < READ_LIMIT_S + 0.5, "or a cut-over would be late"
    cluster.restart(1)
    deadline = time.monotonic() + LIMIT_S
    found = None
    while found is None:
        assert time.monotonic() < deadline
        with contextlib.suppress(PinStoreError):
            found = store.read()
    assert found == {"orders": (SIX,)}
    assert store.replace("orders", (SIX,), (SIX, TWELVE))
    store.close()


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_child_connects_anew(make: Make) -> None:
    store = make()
    store.replace("orders", None, (SIX,))
    child = os.fork()
    if child == 0:
        good = store.replace("orders", (SIX,), (SIX, TWELVE))
        os._exit(0 if good else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert store.read() == {"orders": (SIX, TWELVE)}


def test_kpe_mapping(
    make: Make, kafka_cluster: KafkaCluster, topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    store = make()
    orders = f"orders-{topic}"
    kafka_cluster.create_topic(orders, 12)
    store.replace(orders, None, (SIX,))
    where = ["--store", f"kafka:{topic}", "-b", kafka_cluster.bootstrap_servers]
    assert run(["mapping", "cut-over", *where, "--topic", orders, "--count", "13"]) == 2
    assert capsys.readouterr().err == f"kpe: topic {orders} has 12 partitions, not 13; grow it first\n"
    assert run(["mapping", "cut-over", *where, "--topic", orders, "--count", "12", "--yes"]) == 0
    assert json.loads(capsys.readouterr().out)["pending"]["count"] == 12
    assert [pin.count for pin in store.read()[orders]] == [6, 12]
    assert run(["mapping", "show", *where]) == 0
    assert json.loads(capsys.readouterr().out)["generation"] == 1
