"""`kpe observe` on a real cluster: what happens is told, also after a crash, and once where there are two."""

import contextlib
import json
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from kafka_partition_events.testing import KafkaCluster
from kafka_partition_events.testing.ports import free_ports
from tests.http_receiver import Receiver

pytestmark = pytest.mark.kafka

LIMIT_S = 60.0
TAKE_OVER_S = 30.0


@pytest.fixture(scope="module")
def cluster(own_kafka_cluster: Callable[..., KafkaCluster]) -> KafkaCluster:
    return own_kafka_cluster(brokers=3)


@pytest.fixture
def topic(cluster: KafkaCluster) -> str:
    name = f"orders-{uuid.uuid4().hex[:8]}"
    cluster.create_topic(name, 3, 1)
    return name


@pytest.fixture
def events_topic(cluster: KafkaCluster) -> str:
    name = f"events-{uuid.uuid4().hex[:8]}"
    cluster.create_topic(name, 3, 3)
    return name


# -- observers ---------------------------------------------------------------------------------------------


class Observer:
    """A `kpe observe` process with a configuration and an outbox of its own."""

    def __init__(self, directory: Path, cluster: KafkaCluster, name: str, more: str = "") -> None:
        (self.port,) = free_ports(1)
        self.outbox = directory / f"{name}.db"
        self.config = directory / f"{name}.toml"
        self.log = directory / f"{name}.log"
        self.config.write_text(
            f'[kafka]\nbootstrap_servers = "{cluster.bootstrap_servers}"\n'
            f'[observer]\nname = "{name}"\ninterval = "500ms"\ntopics = "orders-.*"\n'
            f'[outbox]\npath = "{self.outbox}"\n[http]\nlisten = "127.0.0.1:{self.port}"\n{more}'
        )
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> "Observer":
        command = [sys.executable, "-m", "kafka_partition_events.cli", "observe", "-v", "--config"]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen([*command, str(self.config)], stdout=log, stderr=log)
        return self

    def ready(self) -> "Observer":
        self.wait_until("ready", lambda: self.get("/readyz")[0] == 200)
        return self

    def get(self, path: str) -> tuple[int, str]:
        """Return status and body; 0 while nobody listens."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError:
            return 0, ""

    def metric(self, name: str, **labels: str) -> float | None:
        """Return the value of the series with these labels, None if there is none."""
        for line in self.get("/metrics")[1].splitlines():
            series, _, value = line.rpartition(" ")
            if series.partition("{")[0] == name and all(f'{k}="{v}"' in series for k, v in labels.items()):
                return float(value)
        return None

    def kpe(self, *arguments: str) -> str:
        """Run another command with the same configuration, and return what it writes."""
        command = [
            sys.executable,
            "-m",
            "kafka_partition_events.cli",
            *arguments,
            "--config",
            str(self.config),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=LIMIT_S)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def wait_until(self, what: str, is_so: Callable[[], bool], limit: float = LIMIT_S) -> float:
        """Wait, and return how long that took."""
        began = time.monotonic()
        while not is_so():
            waited = time.monotonic() - began
            assert waited < limit, f"not {what} within {limit} s:\n{self.log.read_text()[-4000:]}"
            assert self.process is None or self.process.poll() is None, self.log.read_text()[-4000:]
            time.sleep(0.1)
        return time.monotonic() - began

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        assert self.process is not None
        self.process.send_signal(number)
        return self.process.wait(LIMIT_S)

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait(LIMIT_S)


@pytest.fixture
def observer(cluster: KafkaCluster, tmp_path: Path) -> Iterator[Callable[..., Observer]]:
    with contextlib.ExitStack() as ending:

        def make(name: str, more: str = "") -> Observer:
            made = Observer(tmp_path, cluster, name, more)
            ending.callback(made.kill)
            return made

        yield make


class Reader:
    """Reads what has come to a topic."""

    def __init__(self, cluster: KafkaCluster, topic: str, partitions: int = 3) -> None:
        self._consumer = Consumer({**cluster.confluent_options, "group.id": "test", "log_level": 2})
        self._consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
        self.events: list[dict[str, Any]] = []

    def read(self) -> list[dict[str, Any]]:
        """Return all that has come so far."""
        while (message := self._consumer.poll(0.3)) is not None:
            if message.error() is None:
                self.events.append(json.loads(message.value() or b""))
        return self.events

    def named(self, name: str) -> list[dict[str, Any]]:
        return [event for event in self.read() if event["type"].endswith(f".{name}.v1")]

    def close(self) -> None:
        self._consumer.close()


@pytest.fixture
def reader(cluster: KafkaCluster, events_topic: str) -> Iterator[Reader]:
    with contextlib.closing(Reader(cluster, events_topic)) as reader:
        yield reader


def kafka_sink(topic: str) -> str:
    return f'[[sinks]]\nname = "journal"\ntype = "kafka"\ntopic = "{topic}"\n'


def growths(reader: Reader, topic: str) -> list[int]:
    """Return the sizes that a topic is told to have grown to, in order of arrival."""
    grown = (event["data"] for event in reader.named("partitions.added"))
    return [data["after"]["count"] for data in grown if data["topic"] == topic]


# -- one observer ------------------------------------------------------------------------------------------


def test_what_happens_reaches_topic_webhook_and_metrics(
    cluster: KafkaCluster, topic: str, events_topic: str, reader: Reader, observer: Callable[..., Observer]
) -> None:
    with Receiver() as receiver:
        webhook = (
            f'[[sinks]]\nname = "pager"\ntype = "webhook"\nurl = "{receiver.url}"\nallow_private = true\n'
            '[incidents]\nhold_down = "1s"\nbroker_hold_down = "1s"\n'
        )
        observed = observer("one", kafka_sink(events_topic) + webhook).start().ready()
        assert observed.get("/livez") == (200, "ok\n")
        assert observed.metric("kpe_up") == 1.0
        assert observed.metric("kpe_topic_partitions", topic=topic) == 3.0

        cluster.grow_topic(topic, 5)
        observed.wait_until("told of the growth", lambda: growths(reader, topic) == [5])
        assert observed.metric("kpe_events_total", event="partitions.added") == 1.0

        cluster.kill(2)
        try:
            observed.wait_until("paged", lambda: paged(receiver, "incident.opened") == 1)
        finally:
            cluster.restart(2)
        observed.wait_until("told that it is over", lambda: paged(receiver, "incident.closed") == 1)
        assert paged(receiver, "incident.opened") == 1
        assert observed.metric("kpe_sink_deliveries_total", sink="pager") >= 2.0  # type: ignore[operator]
        assert observed.end() == 0
    told = observed.log.read_text()
    assert "T0K3N" not in told
    assert f"sink pager: incidents to http://127.0.0.1:{receiver.port}/*** (cloudevents)" in told


def paged(receiver: Receiver, name: str) -> int:
    return sum(json.loads(r.body)["type"].endswith(f".{name}.v1") for r in receiver.requests)


def test_what_changed_while_nobody_looked_is_told_afterwards(
    cluster: KafkaCluster, topic: str, events_topic: str, reader: Reader, observer: Callable[..., Observer]
) -> None:
    observed = observer("phoenix", kafka_sink(events_topic)).start().ready()
    observed.wait_until(
        "told of the topic",
        lambda: any(event["data"]["topic"] == topic for event in reader.named("topic.created")),
    )
    observed.kill()
    cluster.grow_topic(topic, 4)
    observed.start().ready()
    observed.wait_until("told of the growth", lambda: growths(reader, topic) == [4])
    (event,) = reader.named("partitions.added")
    assert event["data"]["snapshot"]["gap"] is True
    created = [e for e in reader.named("topic.created") if e["data"]["topic"] == topic]
    assert len({e["id"] for e in created}) == 1
    assert observed.end(signal.SIGINT) == 0
    assert observed.log.read_text().rstrip().endswith("kpe: stopped")


def test_a_silence_mutes_sinks_and_never_the_journal(
    cluster: KafkaCluster, topic: str, observer: Callable[..., Observer]
) -> None:
    with Receiver() as receiver:
        observed = observer(
            "hushed",
            f'[[sinks]]\nname = "pager"\ntype = "webhook"\nurl = "{receiver.url}"\nallow_private = true\n'
            '[incidents]\nhold_down = "1s"\nbroker_hold_down = "1s"\n',
        )
        observed.start().ready()
        silence = observed.kpe(
            "silence", "add", "--event", "*", "--for", "1h", "--reason", "r", "--author", "me"
        )
        cluster.kill(3)
        try:
            observed.wait_until("an incident", lambda: (observed.metric("kpe_incidents_open") or 0) > 0)
        finally:
            cluster.restart(3)
        observed.wait_until("over", lambda: observed.metric("kpe_incidents_open") == 0)
        assert receiver.requests == []
        assert "broker/3" in observed.kpe("events", "ls", "--type", "broker.left", "--output", "table")
        assert observed.kpe("silence", "rm", silence.strip()) == ""
        receiver.wait_for(1)
        assert paged(receiver, "silence.ended") == 1


def test_what_was_recorded_can_be_delivered_to_another_topic_under_the_same_ids(
    cluster: KafkaCluster, topic: str, events_topic: str, reader: Reader, observer: Callable[..., Observer]
) -> None:
    observed = observer("archive").start().ready()
    cluster.grow_topic(topic, 4)
    observed.wait_until("recorded", lambda: "partitions.added" in observed.kpe("events", "ls"))
    recorded = [json.loads(line) for line in observed.kpe("events", "ls").splitlines()]
    observed.kpe("events", "replay", "--since", "1h", "--to-kafka", events_topic)
    assert {event["id"] for event in reader.read()} >= {event["id"] for event in recorded}
    assert growths(reader, topic) == [4]


def test_without_a_cluster_it_waits_and_says_so(
    tmp_path: Path, cluster: KafkaCluster, observer: Callable[..., Observer]
) -> None:
    observed = observer("lonely")
    (port,) = free_ports(1)
    text = observed.config.read_text().replace(cluster.bootstrap_servers, f"127.0.0.1:{port}")
    observed.config.write_text(text)
    observed.start()
    observed.wait_until("not ready", lambda: "no snapshot yet: " in observed.get("/readyz")[1])
    assert observed.get("/livez")[0] == 200
    assert observed.metric("kpe_up") == 0.0
    assert observed.end() == 0


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        (
            '[[sinks]]\nname = "p"\ntype = "webhook"\nurl = "http://127.0.0.1/"\n',
            "sinks.p: url names 127.0.0.1",
        ),
        ('[kafka.properties]\nnonsense = "hunter2"\n', "librdkafka refuses"),
        ("[election]\nenable = true\n", "did you mean election.enabled?"),
    ],
)
def test_a_wrong_configuration_ends_it_at_once(
    wrong: str, complaint: str, observer: Callable[..., Observer]
) -> None:
    observed = observer("wrong", wrong).start()
    assert observed.process is not None
    assert observed.process.wait(LIMIT_S) == 2
    told = observed.log.read_text()
    assert complaint in told
    assert "hunter2" not in told
    assert "Traceback" not in told


def test_one_outbox_one_observer(observer: Callable[..., Observer]) -> None:
    first = observer("first").start().ready()
    second = observer("second")
    second.config.write_text(second.config.read_text().replace(str(second.outbox), str(first.outbox)))
    second.start()
    assert second.process is not None
    assert second.process.wait(LIMIT_S) == 2
    assert "another kpe observe works on" in second.log.read_text()


# -- two of them -------------------------------------------------------------------------------------------


def test_two_publish_each_event_once_and_the_second_takes_over(
    cluster: KafkaCluster, topic: str, events_topic: str, reader: Reader, observer: Callable[..., Observer]
) -> None:
    election = f'[election]\nenabled = true\ntopic = "elect-{topic}"\ngroup = "group-{topic}"\n'
    more = kafka_sink(events_topic) + election
    first = observer("first", more).start().ready()
    first.wait_until("told of the topic", lambda: bool(reader.named("topic.created")))
    second = observer("second", more).start().ready()

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

    first.start().ready()
    cluster.grow_topic(topic, 8)
    second.wait_until("told of 8", lambda: 8 in growths(reader, topic))
    time.sleep(3.0)  # as above; and by then the first has seen it, too
    assert growths(reader, topic).count(8) == 1
    assert second.end() == 0  # hands over, so nothing is repeated but for the margin
    cluster.grow_topic(topic, 9)
    first.wait_until("told by the first again", lambda: 9 in growths(reader, topic), limit=TAKE_OVER_S)
    assert len({event["id"] for event in reader.named("partitions.added")}) == 6


def test_a_topic_of_two_partitions_elects_nobody(
    cluster: KafkaCluster, topic: str, observer: Callable[..., Observer]
) -> None:
    cluster.create_topic(f"elect-{topic}", 2, 1)
    observed = observer("one", f'[election]\nenabled = true\ntopic = "elect-{topic}"\n').start().ready()
    observed.wait_until(
        "told", lambda: "2 partitions, which would be as many leaders" in observed.log.read_text()
    )
    assert observed.get("/readyz") == (200, "ok, standing by\n")


def test_a_frozen_leader_gives_up_when_it_wakes(
    cluster: KafkaCluster, topic: str, events_topic: str, reader: Reader, observer: Callable[..., Observer]
) -> None:
    election = f'[election]\nenabled = true\ntopic = "elect-{topic}"\ngroup = "group-{topic}"\n'
    more = kafka_sink(events_topic) + election
    first = observer("first", more).start().ready()
    first.wait_until("elected", lambda: first.get("/readyz")[1] == "ok\n")
    second = observer("second", more).start().ready()
    assert second.get("/readyz") == (200, "ok, standing by\n")
    assert first.process is not None
    first.process.send_signal(signal.SIGSTOP)
    try:
        second.wait_until("elected", lambda: second.get("/readyz")[1] == "ok\n", limit=TAKE_OVER_S)
    finally:
        first.process.send_signal(signal.SIGCONT)
    first.wait_until("standing by", lambda: first.get("/readyz")[1] == "ok, standing by\n")
    cluster.grow_topic(topic, 4)
    second.wait_until("told by the second", lambda: 4 in growths(reader, topic))
    time.sleep(3.0)  # the first would have told it, too, by now
    assert growths(reader, topic) == [4]
