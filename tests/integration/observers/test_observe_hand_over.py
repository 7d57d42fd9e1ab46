"""Two `kpe observe` on one cluster: one of them tells, the other takes over, and ids stay what they are."""

import contextlib
import shutil
import subprocess
import time
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kafka_partition_events.testing import KafkaCluster
from tests.observe_kit import TAKE_OVER_S, Observer, Reader, election, growths, kafka_sink

pytestmark = pytest.mark.kafka

SOON = '[incidents]\nhold_down = "2s"\nbroker_hold_down = "2s"\n'


def test_two_publish_each_event_once_and_the_second_takes_over(
    cluster: KafkaCluster, topic: str, events_topic: str, reader: Reader, observer: Callable[..., Observer]
) -> None:
    more = kafka_sink(events_topic) + election(topic)
    first = observer("first", more).start().ready()
    first.wait_until("told of the topic", lambda: bool(reader.named("topic.created")))
    second = observer("second", more).start().stands_by()

    for size in (4, 5, 6):
        cluster.grow_topic(topic, size)
        first.wait_until(f"told of {size}", lambda size=size: size in growths(reader, topic))  # type: ignore[misc]
        seen = float(size - 3)  # or two growths may be one to the second, and that one has an id of its own
        second.wait_until(
            f"seen {size}",
            lambda seen=seen: second.metric("kpe_events_total", event="partitions.added") == seen,  # type: ignore[misc]
        )
    time.sleep(3.0)  # if the second published, too, it would have by now
    assert growths(reader, topic) == [4, 5, 6]
    assert {event["data"]["observer"] for event in reader.read()} == {"first"}

    first.kill()
    cluster.grow_topic(topic, 7)
    took = second.wait_until("told by the second", lambda: 7 in growths(reader, topic), limit=TAKE_OVER_S)
    ids = Counter(event["id"] for event in reader.named("partitions.added"))
    repeated = sum(ids.values()) - len(ids)
    print(f"taken over within {took:.1f} s, {repeated} told again")  # noqa: T201 - the numbers asked for
    assert growths(reader, topic)[-1] == 7
    assert len(ids) == 4  # again or not, each growth has one id

    first.start().stands_by()
    cluster.grow_topic(topic, 8)
    second.wait_until("told of 8", lambda: 8 in growths(reader, topic))
    time.sleep(3.0)  # as above; and by then the first has seen it, too
    assert growths(reader, topic).count(8) == 1
    assert second.end() == 0  # hands over, so nothing is repeated but for the margin
    cluster.grow_topic(topic, 9)
    first.wait_until("told by the first again", lambda: 9 in growths(reader, topic), limit=TAKE_OVER_S)
    assert len({event["id"] for event in reader.named("partitions.added")}) == 6


def test_an_outage_keeps_its_id_when_its_observer_dies(
    cluster: KafkaCluster, observer: Callable[..., Observer]
) -> None:
    topic, events_topic = (f"{what}-{uuid.uuid4().hex[:8]}" for what in ("orders", "events"))
    cluster.create_topic(topic, assignment={0: [2], 1: [1]})
    cluster.create_topic(f"{topic}-moving", assignment={0: [2, 3], 1: [1, 3]})
    cluster.create_topic(events_topic, assignment={number: [1, 3] for number in range(3)})
    more = kafka_sink(events_topic) + election(topic)
    with contextlib.closing(Reader(cluster, events_topic)) as reader:
        first = observer("first", more, topics=f"{topic}.*").start()
        first.wait_until("elected", first.feeds)
        second = observer("second", more, topics=f"{topic}.*").start().stands_by()
        cluster.kill(2)
        try:
            first.wait_until("told of the outage", lambda: bool(reader.named("partition.offline")))
            second.wait_until(
                "seen by the second",
                lambda: second.metric("kpe_events_total", event="partition.offline") == 1.0,
            )
            first.kill()
            took = second.wait_until("elected", second.feeds, limit=TAKE_OVER_S)
        finally:
            cluster.restart(2)
        second.wait_until("told that it is over", lambda: bool(reader.named("partition.online")))
        recorded = {event["id"] for event in identified(second.journal())}
        second.wait_until("told all of it", lambda: recorded <= {event["id"] for event in reader.read()})
        told = identified(reader.events)
    repeated = len(told) - len(recorded)
    print(f"taken over within {took:.1f} s, {repeated} told again")  # noqa: T201 - the numbers asked for
    ids = defaultdict(set)
    for event in told:
        ids[change(event)].add(event["id"])
    assert {len(those) for those in ids.values()} == {1}  # no change under two ids,
    assert len(set.union(*ids.values())) == len(ids)  # no id for two changes,
    assert {event["id"] for event in told} == recorded  # and both observers have the same ids.
    assert {event["id"] for event in identified(first.journal())} <= recorded
    kinds = Counter(name for name, *_ in ids)
    assert (kinds["partition.offline"], kinds["partition.online"]) == (1, 1)
    assert kinds["leadership.moved"] >= 1


def identified(events: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the events that Kafka's metadata identifies: not those of brokers and of in-sync replicas."""
    return [event for event in events if kind(event).startswith(("topic.", "partition", "leadership."))]


def kind(event: dict[str, Any]) -> str:
    name: str = event["type"].removeprefix("io.github.kafka-partition-events.").removesuffix(".v1")
    return name


def change(event: dict[str, Any]) -> tuple[str, str, int | None]:
    """Return what an event is about: a topic, or a partition in an epoch."""
    return kind(event), event["subject"], event["data"]["after"].get("leader_epoch")


def test_a_topic_of_two_partitions_elects_nobody(
    cluster: KafkaCluster, topic: str, observer: Callable[..., Observer]
) -> None:
    cluster.create_topic(f"elect-{topic}", 2, 1)
    observed = observer("one", f'[election]\nenabled = true\ntopic = "elect-{topic}"\n').start().ready()
    observed.wait_until("told", lambda: "2 partitions, and must have one" in observed.log.read_text())
    assert observed.get("/readyz") == (200, "ok, not in the election\n")


ILL = ["full", "no space", "blind", "stuck", "dead", "frozen"]


@pytest.mark.parametrize("illness", ILL)
def test_a_leader_that_falls_ill_hides_no_broker_s_death(
    illness: str,
    cluster: KafkaCluster,
    events_topic: str,
    reader: Reader,
    observer: Callable[..., Observer],
    small_disk: Callable[[], Path],
) -> None:
    topic = f"orders-{uuid.uuid4().hex[:8]}"
    cluster.create_topic(topic, assignment={0: [2], 1: [1]})
    more = SOON + kafka_sink(events_topic, "incidents") + election(topic)
    disk = small_disk() if illness == "no space" else None
    first = observer("first", more, outbox=disk and disk / "first.db").start("tests.sick_observer")
    first.wait_until("elected", first.feeds)
    second = observer("second", more).start().stands_by()
    if disk is not None:
        fill(disk)
    else:
        first.fall_ill(illness)
    cluster.kill(2)  # the second sees it, and leaves it to the first
    try:
        took = second.wait_until("told", lambda: pages(reader) != [])
        assert second.feeds()
        if illness != "frozen":
            assert first.get("/livez" if illness == "dead" else "/readyz")[0] == 503
        first.recover()
        if illness == "frozen":
            first.stands_by()
        time.sleep(3.0)  # whatever else would tell it has done so by now
    finally:
        cluster.restart(2)
    print(f"{illness}: told after {took:.1f} s")  # noqa: T201 - the number asked for
    assert len(pages(reader)) == 1


def pages(reader: Reader) -> list[str]:
    """Return the ids of incidents of broker 2 that were opened, as often as that was told."""
    opened = (event["data"] for event in reader.named("incident.opened"))
    return [data["incident_id"] for data in opened if data["cause"] == {"broker": 2}]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Callable[[], Path]]:
    """Mount a file system of 8 MiB: where one is full it is so for everybody, root included."""
    place = tmp_path / "disk"

    def mount() -> Path:
        place.mkdir()
        program = shutil.which("mount") or pytest.skip("there is no mount here")
        command = [program, "-t", "tmpfs", "-o", "size=8m", "none", str(place)]
        done = subprocess.run(command, capture_output=True, check=False, text=True)
        if done.returncode:
            pytest.skip(f"only who may mount has a disk to fill: {done.stderr}")
        return place

    yield mount
    if place.is_mount():
        subprocess.run([shutil.which("umount") or "umount", "--lazy", str(place)], check=True)


def fill(disk: Path) -> None:
    with (disk / "filler").open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(b"x" * 4096)
    assert shutil.disk_usage(disk).free == 0
