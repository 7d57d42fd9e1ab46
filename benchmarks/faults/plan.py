"""What is measured: faults in layouts, under loads, and the producers that take part."""

from typing import Any, Literal

from attrs import evolve, frozen

from benchmarks.faults.layouts import (
    LAYOUTS,
    LINGER_MS,
    MAIN,
    VALUE_BYTES,
    ClusterKind,
    Layout,
    Links,
)

FROZEN_S, THAWED_S = 0.4, 0.1
FROZEN_WHOLE_S, PAUSE_S = 6.0, 2.0
SLOW_MS, THROTTLED, DISK_MS = 150, 30_000, 200
RESET_S = 0.5
_ROUNDS = 5
_ALL_AROUND_S = 2.5
"""What a run takes beside its load and the repair."""


@frozen
class ProducerKind:
    """A producer that takes part: how tables call it, and what it is in full."""

    name: str
    title: str
    java: bool = False


PRODUCERS = {
    producer.name: producer
    for producer in (
        ProducerKind("librdkafka", "librdkafka default"),
        ProducerKind("java", "Java, KIP-794 adaptive (default)", java=True),
        ProducerKind("java-availability", "Java, availability timeout 100 ms", java=True),
        ProducerKind("kafka-python", "kafka-python default"),
        ProducerKind("kafka-python-sticky", "kafka-python sticky"),
        ProducerKind("ours", "PartitioningProducer"),
        ProducerKind("ours-failed", 'PartitioningProducer, rescue="failed"'),
        ProducerKind("ours-hedge", 'PartitioningProducer, rescue="hedge"'),
        ProducerKind("ours-move", 'PartitioningProducer, keys="move"'),
        ProducerKind("ours-move-hedge", 'PartitioningProducer, keys="move", rescue="hedge"'),
        ProducerKind("attached", "kafka-python, ours attached"),
        ProducerKind("attached-failed", 'kafka-python, ours attached, rescue="failed"'),
        ProducerKind("attached-hedge", 'kafka-python, ours attached, rescue="hedge"'),
        ProducerKind("aiokafka", "aiokafka default"),
        ProducerKind("aio", "aiokafka, ours attached"),
        ProducerKind("aio-hedge", 'aiokafka, ours attached, rescue="hedge"'),
        ProducerKind("aio-move", 'aiokafka, ours attached, keys="move"'),
        ProducerKind("aio-move-hedge", 'aiokafka, ours attached, keys="move", rescue="hedge"'),
    )
}

OURS = ("ours", "ours-failed", "ours-hedge")
ATTACHED = ("attached", "attached-failed", "attached-hedge")
JAVA_SETTINGS = {"java": {}, "java-availability": {"partitioner.availability.timeout.ms": "100"}}

_PEERS = ("librdkafka", "java", "java-availability")
_PYTHON_PEERS = ("kafka-python", "kafka-python-sticky")
_BESIDE_LIBRDKAFKA = ("librdkafka", "ours", "ours-hedge")
_WITH_KEYS = ("librdkafka", "java", "kafka-python", "ours", "ours-move", "ours-move-hedge")
_MOVING = ("ours-move", "ours-move-hedge")
_SKEWED = ("librdkafka", "ours", *_MOVING)
_ON_A_LOOP = (
    ("", "", False, ("aiokafka", "aio", "aio-hedge")),
    ("-keyed", ", with keys", True, ("aiokafka", "aio", "aio-move", "aio-move-hedge")),
)
_KEYED_RATE = 200  # nearly each record is a request, of which six brokers on two cores take few
_KEYED_WARM_UP_S = 5.0  # the first requests of each connection take long there
_KEYED_FAULTS = ("in-turns", "frozen", "killed", "link-throttled", "rolling", "busy", "calm")
_EVERYBODY = (*_PEERS, "kafka-python", "attached", "ours", "ours-hedge")

Plot = Literal["latency", "failed"]


@frozen
class Fault:
    """What is done to a cluster; `inject` has the deeds, by the same names.

    Attributes:
        title: What is done, where ``{brokers}`` stands for how many there are.
        repair_s: About how long the cluster needs afterwards.
        hits_one: Whether it is one broker's, which is another one each round.
        links, slow_disk: What the cluster must be started with for it.
        producers: Who is compared, unless a scenario says otherwise.
        rounds: How many, unless told otherwise; more than five only in the main layout.
        plot: Which picture is drawn of it for the main layout.
        replication: Of the topic, if it must be another than the layout's.
        seconds: How long the load goes on from the fault on, if not as long as the layout's.
        a_broker_s: How much longer for each broker.
    """

    name: str
    title: str
    repair_s: float = 1.0
    hits_one: bool = True
    links: Links | None = None
    slow_disk: bool = False
    producers: tuple[str, ...] = _EVERYBODY
    rounds: int = _ROUNDS
    plot: Plot | None = None
    replication: int | None = None
    seconds: float | None = None
    a_broker_s: float = 0.0


def _link_faults(name: str, links: Links, words: str) -> tuple[Fault, ...]:
    """Return what may become of a broker's connections: to clients, or to the other brokers."""
    return (
        Fault(f"{name}-slowed", f"{words}: {SLOW_MS} ms longer each way", links=links),
        Fault(f"{name}-swallowed", f"{words}: nothing arrives any more", links=links),
        Fault(f"{name}-throttled", f"{words}: {THROTTLED // 1000} kB/s", links=links),
    )


FAULTS = {
    fault.name: fault
    for fault in (
        Fault(
            "in-turns",
            f"One of {{brokers}} brokers frozen {FROZEN_S} s of each {FROZEN_S + THAWED_S} s",
            plot="latency",
        ),
        Fault("frozen", f"One of {{brokers}} brokers frozen for {FROZEN_WHOLE_S:.0f} s", plot="latency"),
        Fault("killed", "One of {brokers} brokers killed (`kill -9`)", repair_s=7.0, plot="failed"),
        # Until the session ends, partitions of the dead broker hang; from then on they refuse.
        Fault(
            "min-isr",
            "One of {brokers} brokers killed, replication factor 2, min.insync.replicas 2",
            repair_s=6.0,
            producers=_BESIDE_LIBRDKAFKA,
            rounds=20,
            replication=2,
            seconds=16.0,
        ),
        *_link_faults("link", "clients", "Connections of clients to one of {brokers} brokers"),
        *_link_faults("brokers", "all", "Connections between one of {brokers} brokers and the others"),
        Fault(
            "slow-disk",
            f"Each write to disk of one of {{brokers}} brokers takes {DISK_MS} ms",
            slow_disk=True,
        ),
        Fault(
            "disk-full",
            "The disk of one of {brokers} brokers is full, so that it halts",
            repair_s=7.0,
            producers=_BESIDE_LIBRDKAFKA,
        ),
        Fault(
            "controller-lost",
            "All controllers of {brokers} brokers killed",
            repair_s=6.0,
            hits_one=False,
            producers=_BESIDE_LIBRDKAFKA,
        ),
        Fault(
            "link-jittery",
            f"Connections of clients to one of {{brokers}} brokers: 0 to {2 * SLOW_MS} ms longer each way",
            links="clients",
            producers=_BESIDE_LIBRDKAFKA,
        ),
        Fault(
            "link-reset",
            f"Connections of clients to one of {{brokers}} brokers reset every {RESET_S:g} s",
            links="clients",
            producers=_BESIDE_LIBRDKAFKA,
        ),
        Fault(
            "paused",
            f"One of {{brokers}} brokers frozen for {PAUSE_S:.0f} s",
            producers=_BESIDE_LIBRDKAFKA,
        ),
        Fault(
            "busy",
            "A healthy cluster of {brokers} brokers, all cores kept busy by others",
            hits_one=False,
            producers=_BESIDE_LIBRDKAFKA,
        ),
        Fault(
            "rolling",
            "Rolling restart of all {brokers} brokers",
            hits_one=False,
            producers=_BESIDE_LIBRDKAFKA,
            seconds=6.3,
            a_broker_s=12.0,
        ),
        Fault(
            "calm", "A healthy cluster of {brokers} brokers", hits_one=False, producers=_BESIDE_LIBRDKAFKA
        ),
        Fault(
            "calm-hour",
            "A healthy cluster of {brokers} brokers for a long time",
            hits_one=False,
            producers=("ours",),
            rounds=1,
            seconds=3_600.0,
        ),
    )
}  # fmt: skip


@frozen
class Scenario:
    """One fault in one layout under one load, and who is compared.

    Attributes:
        rate: Records per second.
        rounds: How many, unless told otherwise.
        seconds: How long the load lasts; the fault begins at `Layout.calm_s`.
        keyed: Whether each record has a key.
        skewed: Whether a tenth of the records have the same one.
        read: Whether an `OrderedConsumer` reads meanwhile.
        busy_cores: How many cores others keep busy from the beginning of the load on.
        plot: Which picture is drawn of it.
    """

    name: str
    title: str
    layout: Layout
    fault: Fault
    producers: tuple[str, ...]
    seconds: float
    rounds: int = _ROUNDS
    rate: int = 2_000
    keyed: bool = False
    skewed: bool = False
    read: bool = False
    busy_cores: int = 0
    plot: Plot | None = None

    @property
    def records(self) -> int:
        """How many records are sent."""
        return round(self.rate * self.seconds)

    @property
    def cluster(self) -> ClusterKind:
        """What its cluster must be started with."""
        return ClusterKind(
            self.layout.brokers, self.layout.session_ms, self.fault.links, self.fault.slow_disk
        )

    @property
    def seconds_a_run(self) -> float:
        """About how long one run takes: the load, the way to it, and the repair after it."""
        reading = self.records / 100_000
        return self.layout.warm_up_s + self.seconds + _ALL_AROUND_S + self.fault.repair_s + reading

    @property
    def conditions(self) -> dict[str, float | str]:
        """Under what it is measured, as it is kept with the results."""
        layout = self.layout
        return {
            "layout": layout.name,
            "fault": self.fault.name,
            "brokers": layout.brokers,
            "partitions": layout.partitions,
            "replication_factor": layout.replication,
            "min_insync_replicas": layout.min_insync,
            "acks": layout.acks,
            "delivery_limit_ms": layout.delivery_limit_ms,
            "session_ms": layout.session_ms,
            "value_bytes": VALUE_BYTES,
            "linger_ms": LINGER_MS,
            "rate": self.rate,
            "warm_up_s": layout.warm_up_s,
            "calm_s": layout.calm_s,
            "seconds": self.seconds,
        }


def scenario_of(layout: Layout, fault: Fault, **changes: Any) -> Scenario:
    """Return a fault in a layout; `changes` are of the scenario."""
    if fault.replication is not None:
        layout = evolve(layout, replication=fault.replication, min_insync=2)
    after = layout.after_s if fault.seconds is None else fault.seconds
    made = Scenario(
        name=f"{layout.name}-{fault.name}",
        title=fault.title.format(brokers=layout.brokers),
        layout=layout,
        fault=fault,
        producers=fault.producers,
        rounds=fault.rounds if layout.name == MAIN else min(_ROUNDS, fault.rounds),
        seconds=round(layout.calm_s + after + fault.a_broker_s * layout.brokers, 1),
        plot=fault.plot if layout.name == MAIN else None,
    )
    return evolve(made, **changes)


def _variant(fault: str, suffix: str, words: str, *, keyed: bool = False, **changes: Any) -> Scenario:
    """Return a fault in the main layout under another load, or with other producers."""
    layout, load = LAYOUTS[MAIN], {}
    if keyed:
        layout, load = evolve(layout, warm_up_s=_KEYED_WARM_UP_S), {"keyed": True, "rate": _KEYED_RATE}
    made = scenario_of(layout, FAULTS[fault], plot=None, **load)
    return evolve(made, name=f"{made.name}-{suffix}", title=f"{made.title}; {words}", **changes)


def _under_other_loads(suffix: str, words: str, **changes: Any) -> tuple[Scenario, Scenario]:
    """Return brown-out and kill in layout A under another load, or with other producers."""
    common = {"producers": _BESIDE_LIBRDKAFKA, **changes}
    brownout = {"name": f"brownout-{suffix}", "title": f"Brown-out, {words}"}
    kill = {"name": f"kill-{suffix}", "title": f"`kill -9`, {words}"}
    return (
        scenario_of(_A, FAULTS["in-turns"], **{**brownout, **common}),
        scenario_of(_A, FAULTS["killed"], **{**kill, **common}),
    )


_A = LAYOUTS["A"]
_PYTHON_BROWNOUT, _PYTHON_KILL = _under_other_loads(
    "kafka-python", "kafka-python", producers=(*_PYTHON_PEERS, *ATTACHED), seconds=15.0
)
_LAYOUT_A = (
    scenario_of(
        _A,
        FAULTS["in-turns"],
        name="brownout",
        title=f"Brown-out: one of {_A.brokers} brokers frozen {FROZEN_S} s of each {FROZEN_S + THAWED_S} s",
        producers=(*_PEERS, *OURS),
        plot="latency",
    ),
    scenario_of(
        _A,
        FAULTS["killed"],
        name="kill",
        title="`kill -9` of a broker",
        producers=(*_PEERS, *OURS),
        plot="failed",
    ),
    evolve(_PYTHON_BROWNOUT, plot="latency"),
    evolve(_PYTHON_KILL, plot="failed"),
    # A rescue follows every record: at this rate that is more than one core can do.
    *_under_other_loads("fast", "50,000 records/s", rate=50_000, producers=("librdkafka", "ours")),
    *_under_other_loads("keyed", "with keys", keyed=True, producers=_WITH_KEYS),
)
_WHOLE_BROKER = ("in-turns", "frozen", "killed")
_FAULTS_OF = {MAIN: tuple(FAULTS), "D": (*_WHOLE_BROKER, "calm-hour"), "B": _WHOLE_BROKER}

SCENARIOS = {
    scenario.name: scenario
    for scenario in (
        *(
            scenario_of(LAYOUTS[layout], fault)
            for layout, faults in _FAULTS_OF.items()
            for fault in map(FAULTS.__getitem__, faults)
        ),
        *(_variant(name, "keyed", "with keys", keyed=True, producers=_WITH_KEYS) for name in _KEYED_FAULTS),
        *(
            _variant(name, "read", "read by key", keyed=True, producers=_MOVING, read=True)
            for name in _WHOLE_BROKER
        ),
        _variant("frozen", "skewed", "a tenth with one key", keyed=True, producers=_SKEWED, skewed=True),
        *(
            _variant(name, "busy-core", "one of two cores kept busy by others", busy_cores=1)
            for name in _WHOLE_BROKER
        ),
        *(
            _variant(name, f"asyncio{suffix}", f"asyncio{words}", keyed=keyed, producers=producers)
            for suffix, words, keyed, producers in _ON_A_LOOP
            for name in ("in-turns", "killed")
        ),
        *_LAYOUT_A,
    )
}
