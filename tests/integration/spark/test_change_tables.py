"""The tables of changes on worked examples, every number computed by hand."""

from typing import TYPE_CHECKING, Any

import pytest
from attrs import evolve

from kafka_partition_events.control.protocol.records import GROUP_PREFIX, Change, Counted, Totals
from kafka_partition_events.control.protocol.vocabulary import Gate, LeaseState, Role, State, Status
from tests.changes_kit import ControlTopics, Entry, inputs_from, time_of
from tests.control_kit import START_MS, ack, gated, growth, lease
from tests.fleet_kit import rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kafka_partition_events.spark.control.followers import ChangeInputs

pytestmark = pytest.mark.spark

BEGIN = START_MS - START_MS % 86_400_000 + 36_000_000
"""10:00 UTC of a day."""
AGENTS = {"client": "confluent-kafka/2.16.1", "app": "shop"}


def after(seconds: float) -> int:
    return BEGIN + round(1_000 * seconds)


def change(id_: str, revision: int, state: State, **fields: Any) -> Change:
    known: dict[str, Any] = {
        "number": 1,
        "tracker_epoch": 1,
        "spec": gated(topic=id_, topic_id=None),
        "requested_by": "alice",
        "requested_ms": BEGIN,
        "gate": Gate.HELD,
    }
    return Change(change_id=id_, revision=revision, state=state, **{**known, **fields})


def entries() -> list[Entry]:
    """Several changes, each of a topic that is named like it, all requested at 10:00.

    - ``done``: gated, from 6 to 12 partitions; grown at 10:00:20, its gate opened at 10:00:40. Producer a has
      applied it 30 s after it had grown, b is capped after 41 s, c has rejected it after 60 s; d has joined
      late, e is lost. The prober answers for group billing. Finished at 10:03:50, and f answers at 10:05:00.
    - ``open``: its only producer holds.
    - ``refused``: never counted.
    - ``gone``: cancelled, and its tombstone.
    """
    topics = ControlTopics(partitions=1)
    for name in "abcef":
        of_done(topics, name, born_ms=None, at_ms=after(-30))
    topics.append(change("done", 1, State.REQUESTED), after(0))
    observed = {"observed_ms": after(20), "deadline_ms": after(90)}
    topics.append(change("done", 2, State.OBSERVED, **observed), after(20.004))
    topics.append(said("done", "a", Status.HELD, 1), after(21))
    of_done(topics, "d", born_ms=None, at_ms=after(60), seen=12)
    probed = {"incarnation": "prober", "role": Role.PROBER, "group": "billing", "members": 2}
    topics.append(said("done", f"{GROUP_PREFIX}billing", Status.OBSERVED, 1, **probed), after(39))
    opened = {**observed, "gate": Gate.OPEN, "opened_by": "evidence"}
    topics.append(change("done", 3, State.CONVERGING, **opened), after(40))
    topics.append(said("done", "a", Status.APPLIED, 2), after(50))
    topics.append(said("done", "b", Status.CAPPED, 1, reason="buffer_limit"), after(61))
    for name in "abcf":
        of_done(topics, name, born_ms=after(-30), at_ms=after(150))
    for seconds in (80, 80.001):  # it was in doubt whether the first had arrived
        topics.append(said("done", "c", Status.REJECTED, 1, reason="policy"), after(seconds))
    totals = Totals(applied=1, capped=1, rejected=1, pending=1, departed=1, late_joined=1, uncovered=2)
    counted = counted_from(topics, state=State.CONVERGING, at_ms=after(230), writers=6)
    ended = {**opened, "finished_ms": after(230), "late": True, "totals": totals, "counted": counted}
    ended["unverified"] = ("producers without a lease write: 2",)
    topics.append(change("done", 4, State.PARTIALLY_CONVERGED, **ended), after(230))
    topics.append(said("done", "f", Status.APPLIED, 1), after(300))

    topics.append(of_topic("open", "open-a"), after(290))
    topics.append(said("open", "open-a", Status.HELD, 1), after(300))
    topics.append(change("open", 2, State.REQUESTED), after(301))
    topics.append(
        change("refused", 1, State.REJECTED, spec=growth(topic="refused"), number=0, finished_ms=BEGIN),
        after(301),
    )
    topics.append(change("gone", 1, State.CANCELLED, finished_ms=after(1)), after(1))
    topics.write("changes", "c-1|gone", None, after(302))
    return topics.entries


def of_topic(topic: str, name: str, seen: int = 6, **fields: Any) -> Any:
    record = lease(name, seen, **fields)
    return evolve(record, view=(evolve(record.view[0], topic=topic, topic_id=None),))


def of_done(topics: ControlTopics, name: str, *, at_ms: int, seen: int = 6, **fields: Any) -> None:
    client = "kafka-python/3.0.2" if name == "b" else AGENTS["client"]
    known = {"app": "shop", "client": client, "state": LeaseState.UP, "lease_seq": at_ms - BEGIN + 10**6}
    topics.append(of_topic("done", name, seen, **{**known, **fields}), at_ms)


def said(id_: str, name: str, status: Status, seq: int, **fields: Any) -> Any:
    return ack(name, status, change_id=id_, ack_seq=seq, **fields)


def counted_from(topics: ControlTopics, **fields: Any) -> Counted:
    return Counted(leases=topics.ends("leases"), acks=topics.ends("acks"), **fields)


@pytest.fixture(scope="module")
def inputs(spark: "SparkSession") -> "ChangeInputs":
    return inputs_from(spark.newSession(), entries())


@pytest.fixture(scope="module")
def convergence(inputs: "ChangeInputs") -> dict[str, dict[str, Any]]:
    from kafka_partition_events.spark.control.convergence import change_convergence  # noqa: PLC0415

    return {row["change_id"]: row for row in rows(change_convergence(inputs))}


def of(frame: "DataFrame", id_: str) -> list[dict[str, Any]]:
    return rows(frame.where(f"change_id = '{id_}'"))


def test_a_change_in_one_row(convergence: dict[str, dict[str, Any]]) -> None:
    assert convergence["done"] == {
        "change_id": "done", "cluster_id": "c-1", "kind": "partitions.increase", "topic": "done",
        "broker": None, "from_count": 6, "to_count": 12, "requested_by": "alice",
        "state": "partially_converged", "final": True, "retired": False, "late": True, "blind": False,
        "reason": None, "gate": "open", "opened_by": "evidence",
        "requested_at": time_of(after(0)), "observed_at": time_of(after(20)),
        "gate_opened_at": time_of(after(40)), "deadline_at": time_of(after(90)),
        "finished_at": time_of(after(230)), "overdue_s": 140.0,
        "cohort": 5, "applied": 1, "capped": 1, "held": 0, "observed": 0, "rejected": 1, "failed": 0,
        "rolled_back": 0, "pending": 1, "departed": 1, "late_joined": 1, "duplicates": 0, "uncovered": 2,
        "by_client": [
            {"client": "confluent-kafka/2.16.1", "live": 3, "followed": 1},
            {"client": "kafka-python/3.0.2", "live": 1, "followed": 1},
        ],
        "acks": 3, "ack_min_s": 30.0, "ack_p50_s": 41.0, "ack_p95_s": pytest.approx(58.1),
        "ack_p99_s": pytest.approx(59.62), "ack_max_s": 60.0,
        "by_role": [{"role": "producer", "answered": 3}, {"role": "prober", "answered": 1}],
        "groups_required": 1, "groups_covered": 1, "unverified": 1, "day": time_of(BEGIN).date(),
    }  # fmt: skip


def test_a_change_that_nobody_follows_has_a_row_too(convergence: dict[str, dict[str, Any]]) -> None:
    found = convergence
    assert found.keys() == {"done", "open", "refused", "gone"}
    refused, gone = found["refused"], found["gone"]
    assert (refused["cohort"], refused["acks"], refused["by_client"], refused["by_role"]) == (0, 0, [], [])
    assert refused["ack_p50_s"] is None
    assert (gone["retired"], gone["final"], gone["state"]) == (True, True, "cancelled")
    assert (found["open"]["final"], found["open"]["held"], found["open"]["cohort"]) == (False, 1, 1)


def test_the_curve_tells_how_many_had_answered_and_how(inputs: "ChangeInputs") -> None:
    from kafka_partition_events.spark.control.ack_curve import change_ack_curve  # noqa: PLC0415

    found = sorted(of(change_ack_curve(inputs), "done"), key=lambda row: row["seconds"])
    names = ("seconds", "acked", "applied", "capped", "rejected")
    assert [tuple(row[name] for name in names) for row in found] == [
        (40.0, 1, 1, 0, 0),
        (50.0, 2, 1, 1, 0),
        (70.0, 3, 1, 1, 1),
        (290.0, 4, 2, 1, 1),
    ]
    assert found[0]["bucket"] == time_of(after(50))


def test_who_is_not_there_is_listed_and_those_that_are_waited_for_first(inputs: "ChangeInputs") -> None:
    from kafka_partition_events.spark.control.convergence import change_laggards  # noqa: PLC0415

    found = sorted(of(change_laggards(inputs), "done"), key=lambda row: row["rank"])
    names = ("instance_id", "status", "reason", "seen", "used", "lease_age_s", "departed", "late")
    assert [tuple(row[name] for name in names) for row in found] == [
        ("c", "rejected", "policy", 6, 6, 80.0, False, False),
        ("f", None, "", 6, 6, 80.0, False, False),
        ("e", None, "", 6, 6, 260.0, True, False),
    ]
    assert (found[0]["app"], found[0]["client"]) == ("shop", "confluent-kafka/2.16.1")
