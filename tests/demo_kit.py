"""A made-up run of the demo, in whole seconds, against which its numbers, screens and pages are held."""

from collections.abc import Sequence

from kafka_partition_events.demo.account import reconcile
from kafka_partition_events.demo.key_order import ReadOrder
from kafka_partition_events.demo.plan import CAST, SCENES, VICTIMS, Part
from kafka_partition_events.demo.story import METADATA, Notice, Performance, Played, Story
from kafka_partition_events.demo.tape import DELIVERED, FAILED, UNANSWERED, Taped

S = 1_000_000_000
MS = 1_000_000
PLAIN, KAFKA_PYTHON, OURS, HEDGE = CAST
BEGIN = 100 * S
STARTS = dict(zip((scene.name for scene in SCENES), (0, 10, 20, 40, 50, 60), strict=False))


def at(seconds: float) -> int:
    return BEGIN + round(seconds * S)


def row(at_s: float, ms: float, *, outcome: int = DELIVERED) -> Taped:
    """Return a record that was sent so long after the beginning, and took so long."""
    sent = at(at_s)
    return Taped(sent, sent + round(ms * MS) if outcome != UNANSWERED else 0, outcome)


def scenes() -> list[Played]:
    ends = [*list(STARTS.values())[1:], 60]
    return [
        Played(scene=it, begin_ns=at(STARTS[it.name]), end_ns=at(end), broker=VICTIMS.get(it.name))
        for it, end in zip(SCENES, ends, strict=True)
    ]


def performance(part: Part, rows: Sequence[Taped], lost: Sequence[int] = ()) -> Performance:
    """Return a producer's records; all but the failed and the lost are in its topic, once."""
    kept = [number for number, each in enumerate(rows) if each.outcome == DELIVERED and number not in lost]
    causes = {"_MSG_TIMED_OUT": sum(each.outcome == FAILED for each in rows)}
    account = reconcile(rows, dict.fromkeys(kept, 1), must_answer=part.ours)
    return Performance(part=part, rows=rows, causes=causes, account=account)


def mark(who: str, broker: int, at_s: float) -> Notice:
    return Notice(who=who, broker=broker, at_ns=at(at_s))


def story(*performances: Performance) -> Story:
    """Return a run: broker 2 stalls from 10 to 20 s, 5 is dead from 20.5 to 40, 3 from 50.5 on."""
    ours = [mark(OURS.key, 2, 10.3), mark(HEDGE.key, 2, 10.25), mark(OURS.key, 5, 20.56)]
    return Story(
        scenes=scenes(),
        deeds=[(2, at(10)), (5, at(20.5)), (3, at(50.5))],
        marks=[*ours, mark(METADATA, 5, 29.5)],
        performances=performances or default_cast(),
        end_ns=at(61),
        most_offline=0,
        fewest_listed=6,
        key_order=ReadOrder(records=2_200, keys=100, moved=190, out_of_order=0, twice=0, unread=0),
    )


def default_cast() -> list[Performance]:
    """Return four producers of a record a second each: the plain ones late in the stall, ours not."""
    return [
        performance(part, [row(at, slow if 10 <= at < 20 else 6) for at in range(60)])
        for part, slow in ((PLAIN, 400), (KAFKA_PYTHON, 400), (OURS, 20), (HEDGE, 9))
    ]
