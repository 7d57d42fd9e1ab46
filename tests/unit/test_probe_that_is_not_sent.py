"""A probe that is refused, or taken back, is not waited for: another one is tried."""

import pytest

from tests.unit.test_delivery_tracker import Front, route


def front_with_a_stuck_partition() -> Front:
    front = Front()
    front.learn()
    front.sent(0)
    front.listen(0.1)
    front.sent(1)
    front.listen(0.01)
    front.answered(1)
    front.listen(0.7)
    assert front.deliveries.suspects() == {1}
    return front


@pytest.mark.parametrize("what_happens", ["refused for its size", "taken back as the queue is full"])
def test_the_next_one_clears_the_broker(what_happens: str) -> None:
    front = front_with_a_stuck_partition()
    first = None
    for _ in range(2_000):
        front.clock.advance(0.01)
        front.deliveries.polled()
        front.sent(1)
        front.answered(1)
        if not front.deliveries.probing or (probe := front.deliveries.take_probe("t", route(front))) is None:
            continue
        if first is None:
            first = probe
            if what_happens != "refused for its size":
                front.sent(probe)
                front.deliveries.withdrawn("t", probe)
            continue
        front.sent(probe)
        front.clock.advance(0.005)
        front.answered(probe)
    assert front.deliveries.suspects() == frozenset()
