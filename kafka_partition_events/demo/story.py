"""What happened, put together: scenes, deeds, what was noticed when, and what it came to. Pure."""

from collections.abc import Mapping, Sequence

from attrs import field, frozen

from kafka_partition_events.demo.account import Account
from kafka_partition_events.demo.figures import Figures, figures_of, percent
from kafka_partition_events.demo.key_order import ReadOrder
from kafka_partition_events.demo.plan import BROKERS, Name, Part, Scene, change
from kafka_partition_events.demo.tape import DELIVERED, Taped

_NS = 1_000_000_000
UNKEYED: tuple[Name, ...] = ("calm", "brown-out", "kill", "back")
METADATA = "metadata"


@frozen(kw_only=True)
class Played:
    """A scene, and when it was played (ns, monotonic)."""

    scene: Scene
    begin_ns: int
    end_ns: int
    broker: int | None


@frozen(kw_only=True)
class Notice:
    """That a broker's fault was noticed: by a part (its key) or `METADATA`, and when (monotonic)."""

    who: str
    broker: int
    at_ns: int


@frozen(kw_only=True)
class Performance:
    """One producer's records, and what became of them."""

    part: Part
    rows: Sequence[Taped] = field(repr=False)
    causes: Mapping[str, int]
    account: Account


@frozen(kw_only=True)
class Story:
    """All of it.

    Attributes:
        scenes: In the order in which they were played.
        deeds: The brokers that something was done to, and when (ns, monotonic), in order.
        marks: Who found out, in the order of their times.
        performances: In the order of the rows.
        end_ns: When the last answer had been waited for.
        most_offline: The most partitions that metadata named offline in the brown-out.
        fewest_listed: The fewest brokers that metadata listed in the brown-out.
        key_order: What an `OrderedConsumer` was handed of the last producer's records with a key.
    """

    scenes: Sequence[Played]
    deeds: Sequence[tuple[int, int]]
    marks: Sequence[Notice]
    performances: Sequence[Performance]
    end_ns: int
    most_offline: int
    fewest_listed: int
    key_order: ReadOrder

    def scene(self, name: Name) -> Played:
        """Return when a scene was played."""
        return next(played for played in self.scenes if played.scene.name == name)

    def figures(self, performance: Performance, *names: Name) -> Figures:
        """Return what a producer's records of some scenes came to."""
        spans = [(played.begin_ns, played.end_ns) for played in map(self.scene, names)]
        rows = [row for row in performance.rows if any(a <= row.sent_ns < b for a, b in spans)]
        return figures_of(rows, self.end_ns)

    def lost(self, performance: Performance) -> int:
        """Return how many of a producer's records in the scenes failed, or were never answered."""
        begin = self.scenes[0].begin_ns
        return sum(row.outcome != DELIVERED and row.sent_ns >= begin for row in performance.rows)

    def noticed_s(self, who: str, name: Name) -> float | None:
        """Return how long after a scene's deed had begun `who` noticed it; None if never in that scene."""
        played = self.scene(name)
        begin = next(at for broker, at in self.deeds if at >= played.begin_ns and broker == played.broker)
        for mark in self.marks:
            meant = mark.who == who and mark.broker == played.broker
            if meant and begin <= mark.at_ns < played.end_ns:
                return (mark.at_ns - begin) / _NS
        return None

    def noticed(self, part: Part, name: Name) -> str:
        """Return in words when a producer could know: ours by its deliveries, others when metadata did."""
        seconds = self.noticed_s(part.key if part.ours else METADATA, name)
        return "never" if seconds is None else f"{seconds:.2f} s"

    @property
    def adds_up(self) -> bool:
        """Whether the account of every producer does."""
        return all(each.account.adds_up for each in self.performances)

    @property
    def change(self) -> tuple[str, str]:
        """What makes the last producer of the first one, as lines of a diff."""
        return change(self.performances[0].part, self.performances[-1].part)

    @property
    def finding(self) -> str:
        """What was found, in two or three sentences."""
        played = self.scene("brown-out")
        plain, best = self.performances[0], self.performances[-1]
        seconds = (played.end_ns - played.begin_ns) / _NS
        shares = [percent(self.figures(each, "brown-out").late_share) for each in (plain, best)]
        green = self.most_offline == 0 and self.fewest_listed == BROKERS
        meanwhile = ", and Kafka's metadata said that all was well" if green else ""
        return (
            f"Broker {played.broker} stalled for {seconds:.0f} s{meanwhile}. {plain.part.title}: {shares[0]} "
            f"of the records took over 100 ms. With one line changed: {shares[1]}."
        )

    @property
    def accounted(self) -> str:
        """The account of every record, in a sentence."""
        accounts = [each.account for each in self.performances]
        sent, unanswered = sum(a.sent for a in accounts), sum(a.unanswered for a in accounts)
        said, there = sum(a.delivered for a in accounts), sum(a.delivered - a.missing for a in accounts)
        rest = f"{sum(a.failed for a in accounts):,} failed, {unanswered:,} never answered"
        return f"{there:,} of {said:,} delivered records are in the topics; {sent:,} sent, {rest}."

    @property
    def order_in_words(self) -> str:
        """What the reader of keys that moved was handed."""
        return f"An OrderedConsumer on {self.performances[-1].part.title}: {self.key_order.in_words}."
