"""What is played: the layout, the producers that take part, the scenes. Pure."""

from typing import Final, Literal

from attrs import field, frozen

LATE_MS: Final = 100.0
LATE_AT_REST: Final = 0.01
"""The share of late records up to which all is as usual."""

FROZEN_S, THAWED_S = 0.4, 0.1
"""Of each half second of the brown-out; what runs between keeps the broker in the cluster."""

LINGER_MS: Final = 5
VALUE_BYTES: Final = 100
DELIVERY_LIMIT_MS: Final = 15_000
"""How long any producer may try. Longer than the broker session, so that an election can save records."""

REQUEST_LIMIT_MS: Final = DELIVERY_LIMIT_MS - 500
"""The limit of one request; kafka-python wants it below the delivery limit."""

SESSION_MS: Final = 9_000
"""How long Kafka goes on listing a broker that is gone: its own default."""


BROKERS, PARTITIONS, REPLICATION, MIN_INSYNC = 6, 24, 3, 2
"""Every producer has a topic of its own, and all topics are alike."""

BROKERS_IN_WORDS: Final = (
    f"{BROKERS} brokers, replication factor {REPLICATION}, min.insync.replicas {MIN_INSYNC}, acks=all"
)
VICTIMS: Final = {"brown-out": 2, "kill": 5, "back": 5, "keys": 3}
"""Scene -> the broker that something is done to; never 1, which is asked for metadata meanwhile."""

MEMORY_MIB: Final = 3_500
"""How much must be available for the brokers and the producers."""


def placement(brokers: int, partitions: int, replication: int) -> dict[int, list[int]]:
    """Return partition -> brokers for a new topic, its leader first: partition 0 is led by broker 1.

    Followers are the next ones for as many partitions as there are brokers, then the next but one and so on,
    as Kafka's own placement has it: so each broker has followers of each other.
    """

    def replicas(partition: int) -> list[int]:
        row, leader = divmod(partition, brokers)
        steps = [1 + (row + i) % (brokers - 1) for i in range(replication - 1)]
        return [leader + 1, *((leader + step) % brokers + 1 for step in steps)]

    return {partition: replicas(partition) for partition in range(partitions)}


# -- who takes part --------------------------------------------------------------------------------------

Kind = Literal["confluent", "kafka-python", "aiokafka", "asyncio"]


@frozen(kw_only=True)
class Part:
    """One producer, in a process of its own.

    Attributes:
        key: Names its topic and its process.
        title: What people read.
        kind: Which client it is; ``asyncio`` is confluent-kafka's on a loop.
        made: The call that makes it, as people read it.
        ours: Whether it is this library's.
        options: What that says beyond the client's settings.
    """

    key: str
    title: str
    kind: Kind
    made: str
    ours: bool = False
    options: dict[str, str] = field(factory=dict)

    @property
    def topic(self) -> str:
        """The topic that only this producer writes."""
        return f"demo-{self.key}"


MOVE: Final = {"rescue": "hedge", "keys": "move"}
MOVED: Final = 'rescue="hedge", keys="move"'

CAST: Final = (
    Part(key="confluent-kafka", title="confluent-kafka", kind="confluent", made="Producer(conf)"),
    Part(key="kafka-python", title="kafka-python", kind="kafka-python", made="KafkaProducer(**conf)"),
    Part(key="ours", title="ours", kind="confluent", made="PartitioningProducer(conf)", ours=True),
    Part(
        key="ours-move",
        title="ours, hedge + move",
        kind="confluent",
        made=f"PartitioningProducer(conf, {MOVED})",
        ours=True,
        options=MOVE,
    ),
)
"""Who takes part, in the order of the rows; the last one's keys move, and are read in order at the end."""

ASYNCIO: Final = (
    Part(key="aiokafka", title="aiokafka", kind="aiokafka", made="AIOKafkaProducer(**conf)"),
    Part(
        key="ours-asyncio",
        title="ours, asyncio",
        kind="asyncio",
        made='AsyncPartitioningProducer(conf, rescue="hedge")',
        ours=True,
        options={"rescue": "hedge"},
    ),
    Part(
        key="aiokafka-move",
        title="aiokafka, attached",
        kind="aiokafka",
        made=f"PartitioningAIOKafkaProducer(**conf, {MOVED})",
        ours=True,
        options=MOVE,
    ),
)
"""The same with ``--asyncio``."""


def change(first: Part, last: Part) -> tuple[str, str]:
    """Return what makes the last producer of the first one, as lines of a diff."""
    return f"- {first.made}", f"+ {last.made}"


# -- what happens ----------------------------------------------------------------------------------------

Name = Literal["calm", "brown-out", "kill", "back", "keys"]


@frozen(kw_only=True)
class Scene:
    """One scene.

    Attributes:
        name: What the code calls it.
        title: Its headline, with ``{broker}`` for the broker that something is done to.
        caption: What the audience should watch: one sentence.
        share: Of the time of all scenes.
    """

    name: Name
    title: str
    caption: str
    share: float


SCENES: Final = (
    Scene(
        name="calm",
        title="calm",
        caption="One load for all. Nothing is wrong, and nothing costs anything you could see.",
        share=0.1,
    ),
    Scene(
        name="brown-out",
        title=f"broker {{broker}} stalls {FROZEN_S} s of each {FROZEN_S + THAWED_S} s",
        caption="A bad disk, a long GC, a noisy neighbour. Watch what Kafka's metadata says of it: nothing.",
        share=0.22,
    ),
    Scene(
        name="kill",
        title="broker {broker} is killed (kill -9)",
        caption=f"Kafka goes on listing a dead broker until its session ends, {SESSION_MS // 1000} s later.",
        share=0.3,
    ),
    Scene(
        name="back",
        title="broker {broker} starts again",
        caption="Ours tries it with single records before it trusts it again.",
        share=0.16,
    ),
    Scene(
        name="keys",
        title="every record has a key, and broker {broker} is killed",
        caption='A key waits for its partition; with keys="move" it leaves, and says what it comes after.',
        share=0.22,
    ),
)
WARM_UP_S, WARM_UP_LIMIT_S, SETTLED_S = 3, 20, 2
"""How long producers write before the first scene at least, and at most; how long all must have been fast."""

LEAST_RATE, SLOWER_LIMIT_S = 50, 10
"""Where they have not been fast by then the load is halved, not below so many records a second of each
producer, and they get so many seconds more."""
