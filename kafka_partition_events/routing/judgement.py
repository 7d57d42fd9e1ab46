"""What the judge of brokers goes by, and what it says; the judge itself is in ``feedback.py``. Pure."""

from attrs import field, frozen

from kafka_partition_events.metadata.events import Clearance, Role, Suspicion


@frozen(kw_only=True)
class Policy:
    """When somebody is suspected and how he comes back. All times in seconds.

    Attributes:
        silence_factor: A broker is silent after this many times its usual (median) time to answer,
        tail_factor: and after this many times what nine of ten answers keep to,
        least_silence: but not sooner than this,
        most_silence: and not later than this.
        told_after: A suspect is avoided at once, and told when it has been silent for so long: a hiccup is
            worth a detour, and no alarm.
        linger: How long the client may hold records back to fill a batch; it is added to both bounds.
        longest_gap: How much the time between two looks at the delivery reports counts at the most.
        first_rest: How long a suspect broker rests the first time; each time is twice the one before,
        longest_rest: up to this.
        forgiven_after: Each time that it has been well for so long, one of its rests is forgotten.
        probe_interval: How far probes are apart at least.
        probes_to_clear: How many good answers clear a broker.
        down_for: How long a lost connection counts without further signs.
        tried_within: Whoever has been on probation for so long without a record that needs it is trusted
            untried: nothing that is written here needs it, or deliveries are not reported.
    """

    silence_factor: float = 3.0
    tail_factor: float = 2.0
    least_silence: float = 0.025
    most_silence: float = 0.25
    told_after: float = 0.25
    linger: float = 0.0
    longest_gap: float = 0.01
    first_rest: float = 0.25
    longest_rest: float = 8.0
    forgiven_after: float = 10.0
    probe_interval: float = 0.05
    probes_to_clear: int = 3
    down_for: float = 5.0
    tried_within: float = 10.0


@frozen
class Avoidance:
    """What to keep unkeyed records from. Where only this is left it is used nevertheless.

    Attributes:
        leaders: Brokers that do not answer for partitions that they lead,
        replicas: that hold up partitions that they follow,
        blocked: whose connection is held up by a record that waits for somebody else,
        down: and those that the client cannot even connect to.
        partitions: Topics and partitions that take nothing although their brokers answer for others.
    """

    leaders: frozenset[int] = frozenset()
    replicas: frozenset[int] = frozenset()
    blocked: frozenset[int] = frozenset()
    down: frozenset[int] = frozenset()
    partitions: frozenset[tuple[str, int]] = frozenset()
    suspect: frozenset[int] = field(init=False)
    """The brokers that are to blame, as leaders or as replicas."""

    def __attrs_post_init__(self) -> None:
        """Derive what is read most."""
        object.__setattr__(self, "suspect", self.leaders | self.replicas)

    def __bool__(self) -> bool:
        """Tell whether there is anything to avoid."""
        return bool(self.suspect or self.blocked or self.partitions)


NOTHING = Avoidance()


@frozen(kw_only=True)
class Suspected:
    """A broker stopped being trusted. ``usual`` and ``silence`` are in seconds.

    ``waiting`` are the topics and partitions whose records wait for it.
    """

    broker: int
    role: Role
    reason: Suspicion
    outstanding: int
    silence: float
    usual: float | None
    waiting: tuple[tuple[str, int], ...] = ()


@frozen(kw_only=True)
class Cleared:
    """A broker is trusted again, after ``lasted`` seconds."""

    broker: int
    reason: Clearance
    lasted: float
    probes: int
    usual: float | None


Change = Suspected | Cleared
