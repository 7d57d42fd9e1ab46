"""What is measured: who is guarded how, what goes wrong meanwhile, and the settings that all share."""

from collections.abc import Iterator
from typing import Final, Literal

from attrs import frozen

from kafka_partition_events.control.groups.state import SETTLE_S
from kafka_partition_events.control.protocol.spec import Spec

Client = Literal["confluent", "kafka-python"]
Guard = Literal["none", "hook", "probed"]
Fault = str
"""One of `FAULTS`."""

OLD, GROWN = 6, 12
PRODUCERS: Final[tuple[Client, ...]] = ("confluent", "kafka-python")
RUNS = 20
AT_ONCE = 10
"""How many runs of a cell, with topics and groups of their own, share processes and a batch."""

RATE = 10
"""Records per second of each producer, every second one with a key."""
LINGER_MS = 50
PRODUCERS_LOOK_S = 2.0
CONSUMERS_LOOK_S = 10.0
"""How old consumers let their metadata become: Kafka's ``metadata.max.age.ms``, whose default is 300 s."""
START_LIMIT_S = 30.0
"""For how long an agent may look for its first change: twenty of them start at once on a busy machine."""
SESSION_S = 6.0
COMMIT_S = 5.0
"""The default interval of automatic commits."""
DEADLINE_S = 300.0
UNGATED_S = 20.0
"""For how long is written after growth when nobody waits for anybody."""
AFTER_S = 6.0
"""For how long is written after the gate has opened."""
STRIKE_S = (0.5, 1.5)
"""How long after growth something goes wrong, by batch."""
PAUSE_S = 30.0
"""For how long the tracker's machine pauses."""
LATE_S = 1.0
"""How long after the first record on a new partition a consumer is killed late: before it has committed."""

GROUPS: Final = {
    "group.consumer.min.session.timeout.ms": "6000",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.heartbeat.interval.ms": "1000",
    "group.consumer.heartbeat.interval.ms": "1000",
}
"""The brokers' settings that make a killed member of a KIP-848 group as soon missed as one of a classic."""


@frozen
class Consumers:
    """A client as a consumer, and the protocol of its group."""

    name: str
    title: str
    client: Client
    new_protocol: bool = False


CONSUMERS = {
    consumers.name: consumers
    for consumers in (
        Consumers("confluent", "confluent-kafka, classic", "confluent"),
        Consumers("confluent-848", "confluent-kafka, KIP-848", "confluent", new_protocol=True),
        Consumers("kafka-python", "kafka-python, classic", "kafka-python"),
    )
}

FAULTS: Final[dict[Fault, str]] = {
    "none": "nothing",
    "producer": "the producers are killed while the gate is held, and started again",
    "consumer": "one of two consumers is killed while the gate is held",
    "consumer-late": "one of two consumers is killed a second after the first record on a new partition",
    "tracker": "the tracker is killed while the gate is held, and another one started",
    "coordinator": "from the growth on brokers are restarted, so that coordinators fail over",
    "cancel": "each change is cancelled as soon as its topic is seen to have grown",
    "garbage": "records that are none, or odd, come to all control topics all the time",
    **{
        f"{how}-{seconds}": f"all members are {how} while topics grow, and back after {seconds} s"
        for how in ("stopped", "killed")
        for seconds in (6, 25)
    },
    "paused-asked": "the tracker's machine pauses for 30 s when a change was requested",
    "paused-held": "the tracker's machine pauses for 30 s while the gate is held",
    "paused-open": "the tracker's machine pauses for 30 s when the gate has opened",
}


@frozen
class Scenario:
    """Who consumes, how the group is guarded against growth, and what goes wrong."""

    guard: Guard
    consumers: Consumers
    fault: Fault = "none"

    @property
    def name(self) -> str:
        parts = (self.guard, self.consumers.name, *([self.fault] if self.fault != "none" else []))
        return "+".join(parts)

    @property
    def seconds_a_batch(self) -> float:
        """About how long a batch takes."""
        if self.guard == "none":
            return 25.0 + UNGATED_S
        waits = {"probed": SETTLE_S, "hook": 0.0}[self.guard]
        return 55.0 + waits + (0.0 if self.fault == "none" else 10.0)

    @property
    def brokers(self) -> int:
        """How many brokers the cluster has whose topics grow, and how many replicas they have."""
        return 3 if self.fault == "coordinator" else 1

    def spec(self, cluster_id: str, topic: str) -> Spec:
        """Return the change that is asked for; the tracker grows the topic."""
        return Spec(
            cluster_id=cluster_id,
            topic=topic,
            from_count=OLD,
            to_count=GROWN,
            execute=True,
            gate=True,
            deadline_s=DEADLINE_S,
        )


def _scenarios() -> Iterator[Scenario]:
    guards: tuple[Guard, ...] = ("none", "hook", "probed")
    for guard in guards:
        for consumers in CONSUMERS.values():
            if guard != "hook" or consumers.client == "confluent":  # which the hook is made for
                yield Scenario(guard, consumers)
    for fault in ("producer", "consumer", "tracker"):
        for consumers in CONSUMERS.values():
            if consumers.client == "confluent":
                yield Scenario("hook", consumers, fault)
    yield Scenario("hook", CONSUMERS["confluent"], "consumer-late")
    for fault in ("coordinator", "cancel", "garbage", *(name for name in FAULTS if "paused" in name)):
        yield Scenario("probed", CONSUMERS["confluent"], fault)
    yield Scenario("probed", CONSUMERS["confluent"], "consumer-late")
    for fault in ("stopped-6", "stopped-25", "killed-6", "killed-25"):
        yield Scenario("hook", CONSUMERS["confluent"], fault)
        yield Scenario("probed", CONSUMERS["confluent"], fault)


SCENARIOS = {scenario.name: scenario for scenario in _scenarios()}
