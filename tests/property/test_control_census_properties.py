"""A census that is kept and told of news counts as one that is taken anew, whatever happens and whenever."""

import itertools
from typing import Any

from attrs import evolve
from hypothesis import example, given
from hypothesis import strategies as st

from kafka_partition_events.control.changes.evidence import evidence
from kafka_partition_events.control.changes.followers import Census
from kafka_partition_events.control.protocol.records import TopicUse
from kafka_partition_events.control.protocol.vocabulary import Gate, LeaseState, Role, State, Status
from tests.control_kit import ONE, START_MS, TOPIC, TOPIC_ID, ack, gated, grown, lease

TTL_MS = 90_000
NAMES = st.sampled_from("abcd")
PROCESSES = st.sampled_from("pq")

leases = st.fixed_dictionaries({
    "name": NAMES,
    "incarnation": PROCESSES,
    "state": st.sampled_from(LeaseState),
    "role": st.sampled_from([Role.PRODUCER, Role.PRODUCER, Role.CONSUMER]),
    "born_ms": st.sampled_from([None, START_MS, START_MS + TTL_MS]),
    "idempotent": st.booleans(),
    "topics_left_out": st.integers(0, 1),
    "view": st.sampled_from([
        (),
        *((TopicUse(topic=TOPIC, topic_id=TOPIC_ID, seen=seen, used=used),)
          for seen, used in ((6, 6), (12, 6), (12, 12))),
    ]),
})  # fmt: skip
acks = st.fixed_dictionaries({"name": NAMES, "status": st.sampled_from(Status), "incarnation": PROCESSES})
passing = st.sampled_from([0, 1, TTL_MS - 1, TTL_MS, TTL_MS + 1, 2 * TTL_MS, 2 * TTL_MS + 1])
moves = st.fixed_dictionaries({
    "state": st.sampled_from([State.REQUESTED, State.GATED, State.CONVERGING, State.ROLLING_BACK]),
    "gate": st.sampled_from(Gate),
    "observed_ms": st.sampled_from([None, START_MS, START_MS + TTL_MS]),
    "requested_ms": st.sampled_from([START_MS, START_MS + 3 * TTL_MS]),
})  # fmt: skip
happenings = st.lists(
    st.tuples(st.just("lease"), leases)
    | st.tuples(st.just("ack"), acks)
    | st.tuples(st.just("time"), passing)
    | st.tuples(st.just("change"), moves)
    | st.tuples(st.just("lost"), st.none()),
    max_size=25,
)


def again(incarnation: str, born_ms: int) -> tuple[str, Any]:
    return "lease", {"name": "a", "incarnation": incarnation, "born_ms": born_ms}


LINGERING = [
    ("time", 2 * TTL_MS + 1),
    again("q", START_MS + TTL_MS),
    again("p", START_MS),
    ("time", 1),
    again("q", START_MS + TTL_MS),
    ("time", TTL_MS),
]
"""A process that lives on under a name that another one has taken over, and then is silent."""


@example(LINGERING)
@given(happenings)
def test_a_census_that_is_kept_counts_as_one_that_is_taken_anew(happened: list[tuple[str, Any]]) -> None:
    story, kept = grown(gated()), Census()
    story.sees(writers=3)
    for number, (what, how) in zip(itertools.count(10), happened, strict=False):
        match what:
            case "lease":
                story.ledger.take_lease(lease(lease_seq=number, **how), story.now_ms)
            case "ack":
                story.ledger.take_ack(ack(ack_seq=number, **how), story.now_ms)
            case "time":
                story.now_ms += how
            case "change":
                story.ledger.changes[ONE] = evolve(story.change, **how)
            case "lost":
                story.ledger.drop_lost(story.now_ms)
        fleet = evolve(story.fleet, census=kept)
        assert evidence(story.change, fleet, story.cluster, story.now_ms) == story.evidence
