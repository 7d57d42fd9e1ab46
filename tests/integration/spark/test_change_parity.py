"""Spark and the tracker find the same in the same records: many made-up worlds, all in one computation."""

import random
from typing import TYPE_CHECKING, Any, Final

import pytest
from attrs import asdict, define, evolve

from kafka_partition_events.control.changes.evidence import ClusterView, evidence
from kafka_partition_events.control.changes.followers import Fleet, followers
from kafka_partition_events.control.changes.round import LOST_AFTER_MS
from kafka_partition_events.control.protocol.ledger import Ledger
from kafka_partition_events.control.protocol.records import Change, Counted, TopicUse, Totals
from kafka_partition_events.control.protocol.spec import Spec
from kafka_partition_events.control.protocol.vocabulary import Gate, Kind, LeaseState, Role, State, Status
from tests.changes_kit import ControlTopics, Entry, inputs_from, read
from tests.control_kit import START_MS, ack, draining, gated, growth, lease, shrinking
from tests.fleet_kit import rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kafka_partition_events.spark.control.followers import ChangeInputs

pytestmark = pytest.mark.spark

WORLDS: Final = 90
SEED: Final = 3
_MINUTE: Final = 60_000
_TOPIC: Final[dict[str, Any]] = {"topic": None, "topic_id": None, "partitions": frozenset(), "broker": 2}


@define
class World:
    """A change, and how far the tracker had read the topics when it counted; then more was written."""

    change: Change
    entries: list[Entry]

    @property
    def counted(self) -> Counted:
        assert self.change.counted is not None
        return self.change.counted


def spec_of(chance: random.Random, number: int) -> Spec:
    make, more = chance.choice(
        [
            (growth, {}),
            (growth, {"kind": Kind.OBSERVE}),
            (gated, {}),
            (shrinking, {}),
            (draining, {}),
            (draining, _TOPIC),
        ]
    )
    named: dict[str, Any] = {"cluster_id": f"cluster-{number}", "topic": f"topic-{number}"}
    if chance.random() < 0.2:
        named["topic_id"] = None
    return make(**{**named, **more})


def told_in(chance: random.Random, number: int, spec: Spec) -> list[tuple[Any, int]]:
    """Return leases and acks of a few instances, some of them doubled, with when they were appended."""
    found: list[tuple[Any, int]] = []
    for _ in range(chance.randint(6, 24)):
        name, process = f"{number}-{chance.choice('abc')}", chance.choice("ppppq")
        at_ms = START_MS + 30_000 * chance.randint(-8, 14)
        known = {
            "incarnation": process,
            "born_ms": chance.choice([None, *[START_MS - 300_000] * 3, START_MS + 90_000]),
        }
        seq = chance.randint(1, 4)
        if chance.random() < 0.5:
            seen = chance.choice([6, 12])
            record: Any = lease(
                name,
                seen,
                chance.choice([seen, 4]),
                lease_seq=seq,
                role=chance.choice([Role.PRODUCER] * 9 + [Role.CONSUMER]),
                cluster_id=chance.choice([spec.cluster_id] * 9 + [None, "other"]),
                idempotent=chance.random() < 0.5,
                ttl_s=chance.choice([45.0, 90.0, 600.5]),
                state=chance.choice([LeaseState.UP] * 9 + [LeaseState.DOWN]),
                **known,
            )
            (use,) = record.view
            topic_id = chance.choice([spec.topic_id] * 9 + [None, "another"])
            uses = [evolve(use, topic=f"topic-{number}", topic_id=topic_id), evolve(use, topic="else")]
            record = evolve(record, view=tuple(uses[: chance.choice([1, 1, 2])][:: chance.choice([1, -1])]))
        else:
            status = chance.choice([*Status, Status.ROLLED_BACK])
            record = ack(name, status, change_id=f"chg-{number}", ack_seq=seq, **known)
        found += [(record, at_ms)] * chance.choice([1, 1, 2])
    forgotten = START_MS - LOST_AFTER_MS + chance.randint(-5 * _MINUTE, 5 * _MINUTE)
    use = TopicUse(topic=f"topic-{number}", seen=12, used=12)
    return [*found, (lease(f"{number}-old", cluster_id=spec.cluster_id, view=(use,)), forgotten)]


def change_of(chance: random.Random, number: int, spec: Spec) -> Change:
    state = chance.choice(list(State))
    return Change(
        change_id=f"chg-{number}",
        number=number,
        tracker_epoch=1,
        revision=1,
        state=state,
        spec=spec,
        requested_by="alice",
        requested_ms=START_MS - chance.choice([10 * _MINUTE, LOST_AFTER_MS + 60 * _MINUTE]),
        observed_ms=START_MS + chance.choice([-60_000, 0]) if state.happened else None,
        finished_ms=START_MS + 10 * _MINUTE if state.final else None,
        gate=chance.choice(list(Gate)) if state.happened else Gate.NONE,
    )


def worlds(seed: int) -> tuple[list[World], list[Entry]]:
    """Return worlds whose records lie mixed in the same topics, in any order, and all of these records."""
    chance = random.Random(seed)
    changes = [change_of(chance, number, spec_of(chance, number)) for number in range(WORLDS)]
    told = [
        (number, record, at_ms)
        for number, change in enumerate(changes)
        for record, at_ms in told_in(chance, number, change.spec)
    ]
    chance.shuffle(told)
    topics, ends = ControlTopics(), [((0, 0), (0, 0))]
    mine: list[list[Entry]] = [[] for _ in changes]
    for number, record, at_ms in told:
        topics.append(record, at_ms)
        entry = topics.entries[-1]
        mine[number].append(entry)
        now = {"leases": list(ends[-1][0]), "acks": list(ends[-1][1])}
        now[entry.topic][entry.partition] = entry.offset + 1
        ends.append((tuple(now["leases"]), tuple(now["acks"])))  # type: ignore[arg-type]
    found = []
    for change, of_world in zip(changes, mine, strict=True):
        # Whoever does not say of which cluster it is, is concerned if a broker of any cluster is.
        concerning = list(topics.entries) if change.spec.topic is None else of_world
        found.append(World(counted(chance, change, concerning, ends), concerning))
    for world in found:
        older = evolve(world.change, revision=0, totals=Totals(applied=77))
        for record in chance.sample([older, world.change, world.change], 3):
            topics.append(record, START_MS + 20 * _MINUTE)
    return found, topics.entries


def counted(chance: random.Random, change: Change, entries: list[Entry], ends: list[Any]) -> Change:
    """Return the change with what the tracker finds; it has read most of what there is, and sees writers."""
    (leases, _), (_, acks) = (ends[chance.randint(len(ends) // 2, len(ends) - 1)] for _ in range(2))
    before = chance.choice([*State, *[State.ROLLING_BACK] * 6])
    seen = evolve(
        change, state=before, observed_ms=(change.observed_ms or START_MS) if before.happened else None
    )
    at = Counted(
        at_ms=START_MS + 30_000 * chance.randint(-10, 12),
        state=before,
        leases=leases,
        acks=acks,
        writers=chance.choice([None, 0, 1, 5]),
    )
    view = ClusterView(count=12, writers=at.writers)
    found = evidence(seen, fleet_of(read(entries, leases, acks), change, at.at_ms), view, at.at_ms)
    observed_ms = change.observed_ms or (START_MS if before.happened else None)
    return evolve(change, observed_ms=observed_ms, counted=at, totals=found.totals)


def fleet_of(ledger: Ledger, change: Change, now_ms: int) -> Fleet:
    ledger.drop_lost(now_ms - LOST_AFTER_MS)
    return Fleet(tenancies=ledger.tenancies, acks=ledger.acks.get(change.change_id, {}))


MADE, ENTRIES = worlds(SEED)


@pytest.fixture(scope="module")
def inputs(spark: "SparkSession") -> "ChangeInputs":
    return inputs_from(spark.newSession(), ENTRIES)


def test_the_worlds_have_everything_in_them() -> None:
    sums = {name: sum(asdict(world.change.totals)[name] or 0 for world in MADE) for name in asdict(Totals())}
    assert all(count >= 3 for count in sums.values()), sums


def test_spark_counts_what_the_tracker_has_counted(inputs: "ChangeInputs") -> None:
    from kafka_partition_events.spark.control.followers import as_told, followers, totals  # noqa: PLC0415

    found = rows(totals(followers(as_told(inputs.changes), inputs.leases, inputs.acks)))
    nobody = totals_of(evolve(MADE[0].change, totals=Totals()))  # a change without followers has no row
    counted = {world.change.change_id: nobody for world in MADE} | {
        row.pop("change_id"): row for row in found
    }
    assert counted == {world.change.change_id: totals_of(world.change) for world in MADE}


def totals_of(change: Change) -> dict[str, int]:
    """Return what the tracker has counted; whom brokers know as writers, Spark must believe."""
    return {name: count for name, count in asdict(change.totals).items() if name != "uncovered"}


def test_spark_knows_of_each_instance_what_the_tracker_would_know_now(inputs: "ChangeInputs") -> None:
    found = {
        (row["change_id"], row["instance_id"]): (
            row["status"], row["reason"], row["departed"], row["late"], row["duplicate"]
        )
        for row in rows(inputs.followers)
    }  # fmt: skip
    wanted = {
        (world.change.change_id, one.instance_id): (
            one.status, one.reason, one.departed, one.late, one.duplicate
        )
        for world in MADE
        for one in now_following(world, inputs.until_ms)
    }  # fmt: skip
    assert found == wanted
    assert len(found) > WORLDS


def now_following(world: World, until_ms: int) -> list[Any]:
    """Return who follows now; who did when the tracker counted, if the change is finished."""
    change, at = world.change, world.counted
    if not change.state.final:
        return followers(change, fleet_of(read(world.entries), change, until_ms), until_ms)
    happened = change.observed_ms if at.state.happened else None
    change = evolve(change, state=at.state, observed_ms=happened)
    ledger = read(world.entries, at.leases, at.acks)
    return followers(change, fleet_of(ledger, change, at.at_ms), at.at_ms)
