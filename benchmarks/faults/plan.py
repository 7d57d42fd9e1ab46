"""What is measured: faults in layouts, under loads, and the producers that take part."""

from typing import Any, Literal

from attrs import evolve, frozen

from benchmarks.faults.layouts import LINGER_MS, SIX, THREE, VALUE_BYTES, ClusterKind, Layout, Links

FROZEN_S, THAWED_S = 0.4, 0.1
FROZEN_WHOLE_S = 6.0
SLOW_MS, DISK_MS = 150, 200
THROTTLED, BROKERS_THROTTLED = 15_000, 30_000  # bytes/s; a leader sends each record twice, to its followers
ROUNDS = 3
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
        ProducerKind("ours", "PartitioningProducer"),
        ProducerKind("ours-hedge", 'PartitioningProducer, rescue="hedge"'),
        ProducerKind("ours-move", 'PartitioningProducer, keys="move"'),
        ProducerKind("ours-move-hedge", 'PartitioningProducer, keys="move", rescue="hedge"'),
        ProducerKind("attached", "kafka-python, ours attached"),
        ProducerKind("aiokafka", "aiokafka default"),
        ProducerKind("aio", "aiokafka, ours attached"),
        ProducerKind("aio-hedge", 'aiokafka, ours attached, rescue="hedge"'),
        ProducerKind("aio-move", 'aiokafka, ours attached, keys="move"'),
        ProducerKind("aio-move-hedge", 'aiokafka, ours attached, keys="move", rescue="hedge"'),
    )
}

JAVA_SETTINGS = {"java": {}, "java-availability": {"partitioner.availability.timeout.ms": "100"}}

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
_EVERYBODY = ("librdkafka", "java", "java-availability", "kafka-python", "attached", "ours", "ours-hedge")

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
        plot: Which picture is drawn of it.
        seconds: How long the load goes on from the fault on, if not as long as the layout's.
        a_broker_s: How much longer for each broker.
    """

    name: str
    title: str
    repair_s: float = 1.0
    hits_one: bool = True
    links: Links | None = None
    slow_disk: bool = False
    producers: tuple[str, ...] = _BESIDE_LIBRDKAFKA
    plot: Plot | None = None
    seconds: float | None = None
    a_broker_s: float = 0.0


_TO_CLIENTS = "Connections of clients to one of {brokers} brokers"
_BETWEEN_BROKERS = "Connections between one of {brokers} brokers and the others"

FAULTS = {
    fault.name: fault
    for fault in (
        Fault(
            "in-turns",
            f"One of {{brokers}} brokers frozen {FROZEN_S} s of each {FROZEN_S + THAWED_S} s",
            producers=_EVERYBODY,
            plot="latency",
        ),
        Fault(
            "frozen",
            f"One of {{brokers}} brokers frozen for {FROZEN_WHOLE_S:.0f} s",
            producers=_EVERYBODY,
            plot="latency",
        ),
        Fault(
            "killed",
            "One of {brokers} brokers killed (`kill -9`)",
            repair_s=7.0,
            producers=_EVERYBODY,
            plot="failed",
        ),
        Fault(
            "link-throttled",
            f"{_TO_CLIENTS}: {THROTTLED // 1000} kB/s",
            links="clients",
            producers=_EVERYBODY,
        ),
        Fault("link-slowed", f"{_TO_CLIENTS}: {SLOW_MS} ms longer each way", links="clients"),
        Fault("link-swallowed", f"{_TO_CLIENTS}: nothing arrives any more", links="clients"),
        Fault("brokers-throttled", f"{_BETWEEN_BROKERS}: {BROKERS_THROTTLED // 1000} kB/s", links="all"),
        Fault("brokers-swallowed", f"{_BETWEEN_BROKERS}: nothing arrives any more", links="all"),
        Fault(
            "slow-disk",
            f"Each write to disk of one of {{brokers}} brokers takes {DISK_MS} ms",
            slow_disk=True,
        ),
        Fault(
            "rolling",
            "Rolling restart of all {brokers} brokers",
            hits_one=False,
            seconds=6.3,
            a_broker_s=12.0,
        ),
        Fault(
            "busy", "A healthy cluster of {brokers} brokers, all cores kept busy by others", hits_one=False
        ),
        Fault("calm", "A healthy cluster of {brokers} brokers", hits_one=False),
    )
}


@frozen
class Scenario:
    """One fault in one layout under one load, and who is compared.

    Attributes:
        rate: Records per second.
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
    rate: int = 1_000
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
    after = layout.after_s if fault.seconds is None else fault.seconds
    made = Scenario(
        name=fault.name,
        title=fault.title.format(brokers=layout.brokers),
        layout=layout,
        fault=fault,
        producers=fault.producers,
        seconds=round(layout.calm_s + after + fault.a_broker_s * layout.brokers, 1),
        plot=fault.plot,
    )
    return evolve(made, **changes)


def _variant(fault: str, suffix: str, words: str, *, keyed: bool = False, **changes: Any) -> Scenario:
    """Return a fault under another load, or with other producers."""
    layout, load = SIX, {}
    if keyed:
        layout, load = evolve(layout, warm_up_s=_KEYED_WARM_UP_S), {"keyed": True, "rate": _KEYED_RATE}
    made = scenario_of(layout, FAULTS[fault], plot=None, **load)
    return evolve(made, name=f"{made.name}-{suffix}", title=f"{made.title}; {words}", **changes)


_WHOLE_BROKER = ("in-turns", "frozen", "killed")
_ONE_BUSY = "one of two cores kept busy by others"

SCENARIOS = {
    scenario.name: scenario
    for scenario in (
        *(scenario_of(SIX, fault) for fault in FAULTS.values()),
        *(_variant(name, "busy-core", _ONE_BUSY, busy_cores=1) for name in _WHOLE_BROKER),
        *(_variant(name, "keyed", "with keys", keyed=True, producers=_WITH_KEYS) for name in _WHOLE_BROKER),
        *(
            _variant(name, "keyed", "with keys", keyed=True, producers=("librdkafka", "ours", "ours-move"))
            for name in ("busy", "calm")
        ),
        *(
            _variant(
                name,
                "keyed-busy-core",
                f"with keys, {_ONE_BUSY}",
                keyed=True,
                producers=_WITH_KEYS,
                busy_cores=1,
            )
            for name in _WHOLE_BROKER
        ),
        *(
            _variant(name, "read", "read by key", keyed=True, producers=_MOVING, read=True)
            for name in _WHOLE_BROKER
        ),
        _variant("frozen", "skewed", "a tenth with one key", keyed=True, producers=_SKEWED, skewed=True),
        *(
            _variant(name, f"asyncio{suffix}", f"asyncio{words}", keyed=keyed, producers=producers)
            for suffix, words, keyed, producers in _ON_A_LOOP
            for name in ("in-turns", "killed")
        ),
        *(
            _variant(
                name,
                "asyncio-busy-core",
                f"asyncio, {_ONE_BUSY}",
                producers=("aiokafka", "aio", "aio-hedge"),
                busy_cores=1,
            )
            for name in ("in-turns", "killed")
        ),
        scenario_of(THREE, FAULTS["frozen"], name="frozen-three", producers=_BESIDE_LIBRDKAFKA, plot=None),
    )
}
