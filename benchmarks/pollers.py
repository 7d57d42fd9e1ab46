"""What brokers pay for the pollers of 10,000 producers, in requests and bytes a second.

What a poll costs on the wire is measured on a real cluster, by what this process's sockets have carried. When
polls are made is simulated: each poller is the real `step`, with jitter of its own, on a clock that jumps;
every producer suspects a lost broker within `NOTICED_S` and then asks for a poll, as producers do.
"""

import contextlib
import heapq
import os
import random
import re
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from datetime import UTC, datetime, timedelta
from functools import cache, partial

from attrs import asdict, evolve, field, frozen
from confluent_kafka import Producer
from kafka import KafkaProducer
from kafka.errors import KafkaTimeoutError

from benchmarks.measure import save
from kafka_partition_events import MetadataSource, Node, Observation, PartitionInfo, TopicInfo
from kafka_partition_events.clients.confluent import ConfluentMetadataSource
from kafka_partition_events.clients.kafka_python import KafkaPythonMetadataSource
from kafka_partition_events.metadata.poller import LEAST_MAX_AGE_S
from kafka_partition_events.metadata.state import JITTER, Moment, State, Timing, step
from kafka_partition_events.testing import KafkaCluster

POLLERS = 10_000
TIMING = Timing(interval=30.0, fetch_timeout=10.0, min_interval=0.25, max_age=LEAST_MAX_AGE_S)
"""The defaults of `MetadataPoller`."""
CALM_S, TROUBLE_S, AFTER_S = 180.0, 60.0, 30.0
MOVED_S = 9.0
"""Kafka's default session of a broker: so long a dead one is named as leader."""
NOTICED_S = 1.0
BROKERS = (1, 2, 3)
PARTITIONS = 12
NUMBERS_OF_TOPICS = (1, 10, 100)
POLLS = 20
COUNTED_S = 20.0
_WARM_UP = 3
_SETTLED_S = 10.0

# -- when they poll --------------------------------------------------------------------------------------


@cache
def seen(*, without_leader: bool = False, moved: bool = False) -> Observation:
    """Return what brokers answer: all is well, or broker 1 is lost and its partitions have moved or not."""
    alive = BROKERS[1:] if without_leader or moved else BROKERS
    partitions = []
    for p in range(PARTITIONS):
        leader: int | None = BROKERS[p % len(BROKERS)]
        if leader not in alive:
            leader = alive[0] if moved else None
        partitions.append(PartitionInfo("orders", p, leader, BROKERS, alive))
    topics = {"orders": TopicInfo("orders", tuple(partitions), "id")}
    nodes = tuple(Node(broker, f"broker-{broker}", 9092, None) for broker in alive)
    return Observation(
        started_at=0.0, nodes=nodes, topics=topics, cluster_id="c", requested=frozenset(topics)
    )


@frozen
class Story:
    """What becomes of the cluster.

    Attributes:
        answers: From when on what is answered.
        suspected_at: When producers begin to suspect the broker; None: never.
    """

    answers: Mapping[float, Observation] = field(factory=lambda: {0.0: seen()})
    suspected_at: float | None = None

    def at(self, now: float) -> Observation:
        return evolve(self.answers[max(begin for begin in self.answers if begin <= now)], started_at=now)


STORIES = {
    "nothing happens": Story(),
    f"a broker dies, its leaders move after {MOVED_S:g} s": Story(
        {0.0: seen(), CALM_S + MOVED_S: seen(moved=True), CALM_S + TROUBLE_S: seen()}, CALM_S
    ),
    f"partitions have no leader for {TROUBLE_S:g} s": Story(
        {0.0: seen(), CALM_S: seen(without_leader=True), CALM_S + TROUBLE_S: seen()}, CALM_S
    ),
}


def polls(story: Story, pollers: int, rng: random.Random) -> Iterator[float]:
    """Yield when the pollers, which were started within one interval, poll."""
    began = datetime(2026, 1, 1, tzinfo=UTC)
    states = [State(timing=TIMING, since=0.0)] * pollers
    planned = [rng.uniform(0, TIMING.interval) for _ in range(pollers)]
    earliest = [0.0] * pollers
    to_come = [(at, number, False) for number, at in enumerate(planned)]
    if story.suspected_at is not None:
        to_come += [
            (story.suspected_at + rng.uniform(0, NOTICED_S), number, True) for number in range(pollers)
        ]
    heapq.heapify(to_come)
    while (now := to_come[0][0]) < CALM_S + TROUBLE_S + AFTER_S:
        _, number, suspects = heapq.heappop(to_come)
        if suspects:
            planned[number] = max(now, earliest[number])
        elif now == planned[number]:  # else the poll was put forward
            at = Moment(now, began + timedelta(seconds=now), 0)
            states[number], _ = step(states[number], story.at(now), at.wall_time, at, rng.uniform(*JITTER))
            planned[number], earliest[number] = now + states[number].health.next_delay, now + TIMING.floor
            yield now
        else:
            continue
        heapq.heappush(to_come, (planned[number], number, False))


@frozen
class Rates:
    """Polls a second: before anything happens, in the worst second, and in the minute from the fault on."""

    calm: float
    worst: float
    minute: float

    @classmethod
    def of(cls, moments: Iterator[float]) -> "Rates":
        seconds = Counter(int(at) for at in moments)
        calm = [seconds[s] for s in range(int(2 * TIMING.interval), int(CALM_S))]
        after = [seconds[s] for s in range(int(CALM_S), int(CALM_S) + 60)]
        return cls(sum(calm) / len(calm), max(after), sum(after) / len(after))


# -- what a poll costs -----------------------------------------------------------------------------------


@frozen
class Traffic:
    """What connections have carried, in bytes; a request is counted as one segment that was sent."""

    requests: float
    sent: float
    received: float

    @property
    def total(self) -> float:
        return self.sent + self.received

    @classmethod
    def so_far(cls) -> "Traffic":
        """Return what this process's connections have carried."""
        told = subprocess.run(["ss", "-tinpH"], capture_output=True, text=True, check=True).stdout  # noqa: S607
        ours = [block for block in re.split(r"\n(?=\S)", told) if f"pid={os.getpid()}," in block]

        def total(name: str) -> int:
            return sum(int(number) for block in ours for number in re.findall(rf"\b{name}:(\d+)", block))

        return cls(total("data_segs_out"), total("bytes_sent"), total("bytes_received"))

    def of_each(self, before: "Traffic", count: int) -> "Traffic":
        return Traffic(
            (self.requests - before.requests) / count,
            (self.sent - before.sent) / count,
            (self.received - before.received) / count,
        )


def cost_of_poll(source: MetadataSource, topics: frozenset[str]) -> Traffic:
    """Return what a poll costs once connections are made."""

    def poll() -> None:
        answer = source.fetch(topics, started_at=time.monotonic(), timeout=10.0)
        if answer.topics.keys() != topics:
            raise SystemExit(f"{len(answer.topics)} of {len(topics)} topics were answered: {answer.errors}")

    for _ in range(_WARM_UP):
        poll()
    before = Traffic.so_far()
    for _ in range(POLLS):
        poll()
    return Traffic.so_far().of_each(before, POLLS)


def plain_requests(cluster: KafkaCluster) -> dict[str, float]:
    """Return how many requests a second a plain producer sends that has records for leaderless partitions."""
    cluster.create_topic("orders", PARTITIONS)
    kept = {"log_level": 0, "message.timeout.ms": 300_000}
    librdkafka = Producer({"bootstrap.servers": cluster.bootstrap_servers, **kept})
    python = KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, delivery_timeout_ms=300_000)
    for partition in range(PARTITIONS):
        librdkafka.produce("orders", b"before", partition=partition)
        python.send("orders", b"before", partition=partition)
    librdkafka.flush()
    python.flush()
    cluster.kill(BROKERS[0])
    cluster.await_registered(*BROKERS[1:])
    found = {}
    for partition in range(PARTITIONS):
        librdkafka.produce("orders", b"after", partition=partition)
    found["librdkafka"] = _requests_a_second()
    librdkafka.purge()
    librdkafka.close()
    for partition in range(PARTITIONS):
        python.send("orders", b"after", partition=partition)
    found["kafka-python"] = _requests_a_second()
    with contextlib.suppress(KafkaTimeoutError):  # what waits for the dead broker
        python.close(timeout=0)
    return found


def _requests_a_second() -> float:
    time.sleep(_SETTLED_S)
    before = Traffic.so_far()
    time.sleep(COUNTED_S)
    return Traffic.so_far().of_each(before, 1).requests / COUNTED_S


def measured(numbers: tuple[int, ...]) -> tuple[dict[str, dict[int, Traffic]], dict[str, float]]:
    """Return what a poll costs, by client and number of topics, and what plain producers ask."""
    names = [f"topic-{n:04d}" for n in range(max(numbers))]
    with KafkaCluster(len(BROKERS)) as cluster:
        for name in names:
            cluster.create_topic(name, PARTITIONS, len(BROKERS))
        servers = cluster.bootstrap_servers
        makers: Mapping[str, Callable[[], MetadataSource]] = {
            "confluent-kafka": partial(ConfluentMetadataSource, {"bootstrap.servers": servers}),
            "kafka-python": partial(KafkaPythonMetadataSource, {"bootstrap_servers": servers}),
        }
        found: dict[str, dict[int, Traffic]] = {client: {} for client in makers}
        for client, make in makers.items():
            for number in numbers:
                with closing(make()) as source:
                    found[client][number] = cost_of_poll(source, frozenset(names[:number]))
        return found, plain_requests(cluster)


def main(*, quick: bool = False) -> None:
    pollers = 500 if quick else POLLERS
    costs, plain = measured(NUMBERS_OF_TOPICS[:2] if quick else NUMBERS_OF_TOPICS)
    rates = {name: Rates.of(polls(story, pollers, random.Random(7))) for name, story in STORIES.items()}
    rows = [
        [
            client,
            f"{number:,}",
            f"{cost.requests:.1f} requests, {cost.total:,.0f} B",
            story,
            " / ".join(f"{rate * cost.requests:,.0f}" for rate in shown),
            " / ".join(f"{rate * cost.total / 1e6:,.1f}" for rate in shown),
        ]
        for client, by_number in costs.items()
        for number, cost in by_number.items()
        for story, found in rates.items()
        for shown in [(found.worst, found.minute) if STORIES[story].suspected_at else (found.calm,)]
    ]
    rows += [
        [f"{client}, plain", "1", "", "partitions have no leader", f"- / {pollers * requests:,.0f}", "-"]
        for client, requests in plain.items()
    ]
    save(
        "pollers",
        f"The pollers of {pollers:,} producers on one cluster, an interval of {TIMING.interval:g} s",
        [
            "client",
            f"topics of {PARTITIONS} partitions",
            "a poll",
            "story",
            "requests/s: worst second / mean of the minute",
            "MB/s",
        ],
        rows,
        {
            "plain_requests_a_second": plain,
            "rates": {name: asdict(found) for name, found in rates.items()},
            "costs": {
                client: {str(number): asdict(cost) for number, cost in found.items()}
                for client, found in costs.items()
            },
        },
    )


if __name__ == "__main__":
    main()
