"""The cause of an incident is what its events have seen; only where they have seen none it is inferred."""

from typing import Any

import pytest

from kafka_partition_events.incidents import Rules
from kafka_partition_events.incidents.inputs import Happening
from kafka_partition_events.incidents.reducer import Reducer
from kafka_partition_events.incidents.state import decode, encode
from tests.incident_kit import moment

RULES = Rules(hold_down=10)


def offline(partition: int = 0, **said: Any) -> Happening:
    """A partition whose last replica in sync is on broker 3, and that broker 1 led."""
    return Happening(
        id=f"orders-{partition}",
        name="partition.offline",
        cluster="c-1",
        severity=17,
        at=moment(0),
        data={
            "topic": "orders",
            "partitions": str(partition),
            "before": {"leader": 1},
            "after": {"isr": [3]},
            **said,
        },
    )


def left(broker: int) -> Happening:
    return Happening(id=f"left-{broker}", name="broker.left", at=moment(0), data={"broker": broker})


def opened(*happenings: Happening) -> tuple[Any, bool, list[str]]:
    """Return cause, whether it is inferred, and the kinds of what the incident concerns."""
    reducer = Reducer(rules=RULES)
    for happening in happenings:
        reducer.hear(happening)
    (notice,) = decode(encode(reducer), RULES).tick(moment(60))
    return notice.data["cause"], notice.data["inferred"], notice.data["kinds"]


def test_what_an_event_has_seen_counts() -> None:
    assert opened(offline(cause={"broker": 2})) == ({"broker": 2}, False, ["partition"])
    assert opened(offline(cause={"topic": "orders"})) == ({"topic": "orders"}, False, ["partition"])


@pytest.mark.parametrize("said", [{}, {"cause": None}])
def test_what_no_event_has_seen_is_inferred_and_said_to_be(said: dict[str, Any]) -> None:
    assert opened(offline(**said)) == ({"broker": 3}, True, ["partition"])


def test_a_broker_that_left_is_seen() -> None:
    assert opened(offline(cause=None), left(3)) == ({"broker": 3}, False, ["broker", "partition"])
    assert opened(offline(0), offline(1, cause={"broker": 3})) == ({"broker": 3}, False, ["partition"])


@pytest.mark.parametrize("cause", [{}, [], "x", {"broker": "2"}, {"broker": -1}, {"topic": "t" * 250}])
def test_anything_else_is_no_event(cause: Any) -> None:
    with pytest.raises(TypeError, match=r"no (cause|id)"):
        Reducer().hear(offline(cause=cause))
