"""One of four brokers hangs, and writes wait for it (replication 2, acks=all): the producer goes on."""

import threading
import time
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from itertools import pairwise, permutations
from operator import itemgetter
from typing import Any

import pytest
from confluent_kafka import KafkaError

from kafka_partition_events import BrokerSuspected
from kafka_partition_events.clients.confluent import OrderedConsumer, PartitioningProducer
from kafka_partition_events.clients.flight.predecessors import parse_after
from kafka_partition_events.health import avoiding
from kafka_partition_events.health.in_flight import MAIN, STANDBY
from kafka_partition_events.health.observations import Observations
from kafka_partition_events.testing import KafkaCluster, RecordingListener
from tests.stored_kit import stored

pytestmark = pytest.mark.kafka

LIMIT_S = 80.0
TRIES = 16
"""On a busy machine others are suspect, too, while it is. They end long before the victim's session."""
FREEZES = 2
"""Where all brokers are suspect no record shows which are well: that may last as long as the freeze."""
RATE, KEYS = 200.0, 400
"""With a key each record is a request, and two cores carry few of them. A key has one in two seconds."""
VICTIM = 4
PLACES = dict(enumerate(permutations((1, 2, 3, VICTIM), 2)))
"""Partition -> leader and follower: each pair once. Half of the partitions need the victim."""

SAFE = {partition for partition, brokers in PLACES.items() if VICTIM not in brokers}


@pytest.fixture(scope="module")
def cluster(own_kafka_cluster: Callable[..., KafkaCluster]) -> KafkaCluster:
    return own_kafka_cluster(brokers=4, session_timeout_ms=90_000)


@pytest.fixture
def topic(cluster: KafkaCluster) -> Iterator[str]:
    name = f"standby-{uuid.uuid4().hex[:8]}"
    cluster.create_topic(name, assignment=PLACES, config={"min.insync.replicas": "2"})
    yield name
    cluster.thaw(VICTIM)


class Writer:
    """An application that writes at a steady rate, and what it hears of each record."""

    def __init__(self, producer: PartitioningProducer, topic: str, rate: float) -> None:
        self.producer, self.topic, self.rate = producer, topic, rate
        self.number = 0
        self.reports: Counter[int] = Counter()
        self.delivered: dict[int, int] = {}

    def write(self, seconds: float, key: Callable[[int], bytes | None] = lambda _number: None) -> range:
        """Write for so long; return the numbers of the records."""
        first, begin = self.number, time.monotonic()
        while (now := time.monotonic()) < begin + seconds:
            if self.number - first <= (now - begin) * self.rate:
                value, done = str(self.number).encode(), self._noting(self.number)
                self.producer.produce(self.topic, value, key(self.number), on_delivery=done)
                self.number += 1
            self.producer.poll(0.001)
        return range(first, self.number)

    def _noting(self, number: int) -> Callable[[KafkaError | None, Any], None]:
        def note(error: KafkaError | None, message: Any) -> None:
            self.reports[number] += 1
            if error is None:
                self.delivered[number] = message.partition()

        return note

    def write_until(self, condition: Callable[[], object], **options: Any) -> None:
        deadline = time.monotonic() + LIMIT_S
        while not condition():
            assert time.monotonic() < deadline, "it does not come"
            self.write(0.1, **options)


def written_in_time(writer: Writer) -> tuple[range, list[int]]:
    """Write until more than half arrives within half a second; return what was written, and what arrived.

    Nearly none does without a failure detector, nearly all on an idle machine.
    """
    for _ in range(TRIES // FREEZES):
        since = writer.write(2.0)
        writer.write(0.5)
        in_time = [number for number in since if number in writer.delivered]
        if len(in_time) > 0.5 * len(since):
            return since, in_time
    return since, []


def all_arrive(writer: Writer, stop: int, key: Callable[[int], bytes | None]) -> bool:
    """Write until all records before this one arrive; False: they do not while a broker hangs."""
    deadline = time.monotonic() + LIMIT_S / 4
    while not (done := all(number in writer.delivered for number in range(stop))):
        if time.monotonic() > deadline:
            break
        writer.write(0.1, key=key)
    return done


def make(cluster: KafkaCluster, *, idempotent: bool = False, **options: Any) -> PartitioningProducer:
    config = {
        "bootstrap.servers": cluster.bootstrap_servers,
        "enable.idempotence": idempotent,
        "linger.ms": 5,
        "message.timeout.ms": 80_000,
        "log_level": 0,
    }
    return PartitioningProducer(config, **options)


@pytest.mark.parametrize(("rescue", "way"), [(None, None), ("hedge", None), ("hedge", 2)])
def test_what_needs_nobody_who_hangs_goes_on(
    cluster: KafkaCluster, topic: str, rescue: Any, way: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a second handle; and by a third one where the second is blocked, which is up to the judge."""
    heard = RecordingListener()
    if way is not None:
        choose = avoiding._free_handle

        def prefer_the_last(seen: Observations, standbys: int) -> int:
            # Not for good: if another broker is suspected first, this handle is the one that gets blocked.
            return choose(seen, standbys) if any(c.handle == way for c in seen.held_up) else way

        monkeypatch.setattr(avoiding, "_free_handle", prefer_the_last)
    with make(cluster, rescue=rescue) as producer:
        producer.poller.register(heard)
        writer = Writer(producer, topic, rate=RATE)
        writer.write_until(lambda: producer.partitioner.route(topic))
        writer.write(2.0)
        deliveries = producer.partitioner.deliveries
        late: list[str] = []
        for _ in range(FREEZES):
            cluster.freeze(VICTIM)
            writer.write_until(lambda: VICTIM in deliveries.avoidance.replicas)
            since, in_time = written_in_time(writer)
            if in_time:
                break
            late.append(f"of {since}, with {deliveries.avoidance}")
            cluster.thaw(VICTIM)
            writer.write_until(lambda: not deliveries.avoiding)
        else:
            pytest.fail(f"none {late}")
        assert {writer.delivered[number] for number in in_time} <= SAFE
        detour = producer._detours.get(way or STANDBY)
        assert detour is not None
        assert detour.open is not None
        if producer._flight.copies is not None:
            held = producer._flight.copies.open
            stuck = [record for record in held if int(record.given.value or b"") < since.start]
            assert not stuck, f"of {since.start} before, with {deliveries.avoidance}"
        cluster.thaw(VICTIM)
        writer.write_until(lambda: deliveries.handle == MAIN)
        assert producer.flush(LIMIT_S) == 0
        assert set(writer.reports.values()) == {1}
        assert len(writer.delivered) == len(writer.reports)
    named = {event.broker for event in heard.events if isinstance(event, BrokerSuspected)}
    assert VICTIM in named


def test_keys_that_need_nobody_who_hangs_go_on_in_their_order(cluster: KafkaCluster, topic: str) -> None:
    def key(number: int) -> bytes:
        return b"key-%d" % (number % KEYS)

    with make(cluster, idempotent=True) as producer:
        writer, partitioner = Writer(producer, topic, rate=RATE), producer.partitioner
        writer.write_until(lambda: partitioner.route(topic), key=key)
        route = partitioner.route(topic)
        assert route is not None
        writer.write(2.0, key=key)
        cluster.freeze(VICTIM)
        writer.write_until(lambda: VICTIM in partitioner.deliveries.avoidance.replicas, key=key)
        late: list[str] = []
        for _ in range(TRIES):
            since = [n for n in writer.write(2.0, key=key) if partitioner.home(route, key(n)) in SAFE]
            writer.write(0.5, key=key)
            in_time = [number for number in since if number in writer.delivered]
            if len(in_time) > 0.5 * len(since):  # hardly any without it, nearly all on an idle machine
                break
            if partitioner.deliveries.suspects() == {VICTIM}:  # else others are suspect for a moment, too
                late.append(f"{len(in_time)} of {len(since)}, with {partitioner.deliveries.avoidance}")
        assert len(late) < 2, late
        cluster.thaw(VICTIM)
        writer.write_until(lambda: not partitioner.deliveries.avoiding, key=key)
        assert producer.flush(LIMIT_S) == 0
        assert producer.stats.keys.waiting == 0
        assert set(writer.reports.values()) == {1}
    latest: dict[bytes, int] = {}
    for message in read_back(cluster, topic):
        number, its = int(message.value()), message.key()
        assert message.partition() == partitioner.home(route, its), "no key has moved"
        if number in writer.delivered:  # one that has failed may still arrive
            assert latest.get(its, -1) < number, f"{its}: {latest[its]}, {number}"
            latest[its] = number


def test_keys_that_may_move_leave_and_come_home_in_an_order_that_can_be_proven(
    cluster: KafkaCluster, topic: str
) -> None:
    def key(number: int) -> bytes:
        return b"key-%d" % (number % KEYS)

    with make(cluster, idempotent=True, keys="move") as producer:
        writer, partitioner = Writer(producer, topic, rate=RATE), producer.partitioner
        writer.write_until(lambda: partitioner.route(topic), key=key)
        writer.write(2.0, key=key)
        cluster.freeze(VICTIM)
        writer.write_until(lambda: producer.stats.keys.displaced > 50, key=key)
        cluster.thaw(VICTIM)
        writer.write_until(lambda: not partitioner.deliveries.avoiding, key=key)
        writer.write_until(lambda: not producer.stats.keys.displaced, key=key)
        assert producer.flush(LIMIT_S) == 0
        assert set(writer.reports.values()) == {1}
        stats = producer.stats.keys
        assert (stats.waiting, stats.refused) == (0, ())
    by_key: dict[bytes, list[tuple[int, int, int, dict[int, int]]]] = defaultdict(list)
    for it in read_back(cluster, topic):
        if int(it.value()) in writer.delivered:
            by_key[it.key()].append((int(it.value()), it.partition(), it.offset(), parse_after(it.headers())))
    moves = 0
    for its in by_key.values():
        for earlier, later in pairwise(sorted(its, key=itemgetter(0))):
            (_, partition, offset, _), (_, where, at, after) = earlier, later
            moves += partition != where
            assert offset < at if partition == where else offset <= after.get(partition, -1), sorted(its)
    assert min(moves, stats.moved) > 50


def test_stuck_keys_are_copied_and_read_once_in_their_order(cluster: KafkaCluster, topic: str) -> None:
    """A key whose stuck records were written over 2 s gets no copies, and a busy machine may need so long to
    suspect a broker: until the broker is well each key has two records in a row, and then none."""
    well = 0

    def key(number: int) -> bytes:
        return b"key-%d" % (number % well // 2 if well else number // 2)

    with make(cluster, idempotent=True, keys="move", rescue="hedge") as producer:
        writer, partitioner = Writer(producer, topic, rate=RATE / 2), producer.partitioner
        writer.write_until(lambda: partitioner.route(topic), key=key)
        writer.write(2.0, key=key)
        for _ in range(TRIES // FREEZES):
            cluster.freeze(VICTIM)
            writer.write_until(lambda: VICTIM in partitioner.deliveries.avoidance.replicas, key=key)
            sent, seen = writer.write(1.0, key=key), partitioner.deliveries.avoidance
            if all_arrive(writer, sent.stop, key):
                break
            # A busy machine has others suspected, too, and then no place is left.
            cluster.thaw(VICTIM)
            writer.write_until(lambda: not partitioner.deliveries.avoiding, key=key)
        else:
            pytest.fail(f"of {sent}, with {seen}")
        cluster.thaw(VICTIM)  # for which nothing has waited
        well = writer.number
        writer.write_until(lambda: not partitioner.deliveries.avoiding, key=key)
        writer.write_until(lambda: not producer.stats.keys.displaced, key=key)
        assert producer.flush(LIMIT_S) == 0
        assert set(writer.reports.values()) == {1}
        assert len(writer.delivered) == writer.number, "none has failed"
        assert producer.stats.rescue.copies > 0
    latest: dict[bytes, int] = defaultdict(lambda: -1)
    config = {"bootstrap.servers": cluster.bootstrap_servers, "group.id": topic}
    with OrderedConsumer({**config, "auto.offset.reset": "earliest"}) as consumer:
        consumer.subscribe([topic])
        deadline, handed_out = time.monotonic() + LIMIT_S, 0
        while handed_out < writer.number:
            assert time.monotonic() < deadline, f"{handed_out} of {writer.number}"
            if (message := consumer.poll(0.5)) is not None and message.error() is None:
                number, its = int(message.value() or b""), message.key() or b""
                assert number > latest[its], f"{its!r}: {number} after {latest[its]}"
                latest[its] = number
                handed_out += 1


def test_keys_of_a_compacted_topic_stay(cluster: KafkaCluster, topic: str) -> None:
    compacted = f"{topic}-compacted"
    cluster.create_topic(compacted, assignment=PLACES, config={"cleanup.policy": "compact"})
    with make(cluster, keys="move") as producer:
        for name in (topic, compacted):
            producer.wait_for_topic(name, LIMIT_S)
        producer.poller.refresh("policies are asked for after a poll", wait=LIMIT_S)
        deadline = time.monotonic() + LIMIT_S
        policies = producer._policies
        assert policies is not None
        while not (policies.refused and policies.may_move(topic)):
            assert time.monotonic() < deadline
            producer.poll(0.05)
        assert producer.stats.keys.refused == (compacted,)


def read_back(cluster: KafkaCluster, topic: str) -> list[Any]:
    """Return the records of a topic, each partition's in its order, without the copies of one.

    An idempotent handle repeats batches, in their order, when it gets another producer id.
    """
    found: list[Any] = stored(cluster.bootstrap_servers, topic)
    first = {it.value(): it for it in reversed(found)}
    return [it for it in found if first[it.value()] is it]


def test_both_ways_are_one_producer_to_its_user(cluster: KafkaCluster, topic: str) -> None:
    with make(cluster) as producer:
        writer = Writer(producer, topic, rate=RATE)
        writer.write_until(lambda: producer.partitioner.route(topic))
        writer.write(1.0)
        cluster.freeze(VICTIM)
        writer.write_until(lambda: producer.partitioner.deliveries.handle != MAIN)
        writer.write(0.5)
        assert len(producer) > 0
        producer.purge()
        assert producer.flush(LIMIT_S) == 0
        assert len(producer) == 0
        assert set(writer.reports.values()) == {1}
        assert len(writer.delivered) < len(writer.reports), "what hung was purged"
        cluster.thaw(VICTIM)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("kpe-")]
