"""The agent beside a poller: what it sets, what it publishes, and that nothing of it reaches the producer."""

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import pytest

from kafka_partition_events import BufferBudget, DefaultPartitioner, MetadataPoller
from kafka_partition_events.control.agents import agent_thread
from kafka_partition_events.control.agents.leases import BUSY_S
from kafka_partition_events.control.agents.producer_agent import ProducerAgent
from kafka_partition_events.control.protocol.codec import decode, encode
from kafka_partition_events.control.protocol.ledger import Ledger
from kafka_partition_events.control.protocol.records import Lease
from kafka_partition_events.testing import ManualClock, ScriptedSource, observe
from tests.control_kit import CLUSTER, NEW, ONE, Link, Story, gated, grown, growth

LIMIT_S = 20.0


class World:
    """A poller with a partitioner, and an agent whose looks are taken one by one."""

    def __init__(self, *counts: int, link: Link | None = None, polled: bool = True) -> None:
        self.clock = ManualClock()
        steps = [observe({"orders": [1] * n}, cluster_id=CLUSTER) for n in (*counts, counts[-1])]
        self.poller = MetadataPoller(ScriptedSource(*steps), clock=self.clock)
        self.partitioner = DefaultPartitioner()
        self.poller.register(self.partitioner)
        self.link = link or Link()
        self.agent = ProducerAgent(self.poller, self.link, "a", spread=0.0, clock=self.clock)
        if polled:
            self.poller.poll_once()

    def look(self) -> float:
        return self.agent._round() - self.clock.monotonic()

    def partitions(self) -> int:
        route = self.partitioner.route("orders")
        assert route is not None
        return route.count


@pytest.fixture
def world() -> Iterator[Callable[..., World]]:
    made: list[World] = []

    def make(*counts: int, **options: Any) -> World:
        made.append(World(*counts, **options))
        return made[-1]

    yield make
    for each in made:
        each.poller.close()


Make = Callable[..., World]


def test_a_gate_is_set_before_the_growth_and_lifted_by_the_change(world: Make) -> None:
    story = Story()
    story.request(gated())
    here = world(6, 12)
    here.look()
    here.link.write(story.change)
    assert here.look() <= BUSY_S
    here.poller.poll_once()
    assert here.partitions() == 6
    story.sees(count=12)
    story.probed("billing", NEW)
    story.tick()
    here.link.write(story.change)
    here.clock.advance(BUSY_S)
    here.look()
    assert here.partitions() == 12
    assert here.link.uses("holds") == [None, ONE, None]
    assert here.link.uses("used") == [6, 6, 12]


def test_what_was_read_is_remembered_when_the_control_topics_are_gone_and_opens_in_time(world: Make) -> None:
    here = world(6, 12)
    here.link.write(grown(gated(deadline_s=60)).change)
    here.look()
    here.link.down = True
    here.poller.poll_once()
    for _ in range(59):
        here.clock.advance(1.0)
        here.look()
        assert here.partitions() == 6
    here.clock.advance(1.0)
    here.look()
    assert here.partitions() == 12


def test_without_control_topics_the_application_runs_as_if_there_were_no_agent(world: Make) -> None:
    here = world(6, 12, link=Link(down=True))
    here.look()
    here.poller.poll_once()
    here.look()
    assert here.partitions() == 12
    assert here.partitioner.routing.limits == {}
    assert here.agent.last_error == "nobody answers"
    assert here.link.at_ms == 1_000, "nothing is published: that might create topics"


def test_what_was_lost_is_said_again_when_they_are_back(world: Make) -> None:
    here = world(6)
    here.link.write(grown(gated()).change)
    here.agent._read()
    here.link.down = True
    here.look()
    here.link.down = False
    for _ in range(2):
        here.clock.advance(BUSY_S)
        here.look()
    assert here.link.uses("holds") == [ONE]
    assert here.agent.last_error is None


def test_a_lease_tells_what_is_seen_and_used_and_when_the_first_one_was_appended(world: Make) -> None:
    here = world(6)
    here.look()
    here.clock.advance(60.0)
    here.look()
    assert (here.link.uses("seen"), here.link.uses("used")) == ([6, 6], [6, 6])
    assert here.link.of("born_ms") == [None, 1_001]


def test_each_lease_wins_over_those_before_though_the_first_is_reported_after_the_second(world: Make) -> None:
    reports: list[Callable[[], None]] = []
    won = Ledger()

    class Reporting(Link):
        def publish(self, key: str, value: bytes, on_done: Callable[[int | None], None]) -> None:
            self.at_ms += 200
            won.take_lease(decode(Lease, value), self.at_ms)
            reports.append(partial(on_done, self.at_ms))

    here = world(6, link=Reporting(), polled=False)
    here.look()
    here.poller.poll_once()
    here.look()
    assert len(reports) == 2, "the view has changed"
    for number in range(1, 9):
        for report in reports:
            report()
        reports.clear()
        here.clock.advance(60.0)
        here.look()
        assert won.leases["a"].record.lease_seq == 2 + number


def test_a_lease_tells_what_the_most_modest_partitioner_uses(world: Make) -> None:
    here = world(6)
    for limits in ({"orders": 5, "payments": 1}, {"orders": 4}):
        here.poller.register(DefaultPartitioner(budget=BufferBudget(max_partitions=limits)))
    here.poller.poll_once()
    here.look()
    assert (here.link.uses("topic"), here.link.uses("used")) == (["orders"], [4])


def test_records_of_a_later_library_are_passed_over_and_counted(world: Make) -> None:
    here = world(6)
    good = grown(gated()).change
    later = json.dumps({**json.loads(encode(good)), "version": 2}).encode()
    here.link.appended += [(b"x", later), (b"y", b"?")]
    here.link.write(good)
    here.look()
    assert here.agent.skipped.counts == {"version": 1, "malformed": 1}
    assert here.partitioner.routing.limits != {}


def test_a_tombstone_ends_what_a_change_has_told(world: Make) -> None:
    here = world(6)
    here.link.write(grown(gated()).change)
    here.look()
    here.link.appended.append((ONE.encode(), None))
    here.look()
    assert here.partitioner.routing.limits == {}


def test_nothing_is_said_while_a_partitioner_has_not_adopted_what_the_poller_sees(world: Make) -> None:
    here = world(6, 12)
    adopt = here.partitioner.apply_snapshot
    here.partitioner.apply_snapshot = lambda cluster: ()  # type: ignore[method-assign]
    here.poller.poll_once()
    here.link.write(grown(growth()).change)
    assert here.look() < 1.0
    assert here.link.published == []
    here.partitioner.apply_snapshot = adopt  # type: ignore[method-assign]
    here.partitioner.apply_snapshot(here.poller.cluster)
    here.look()
    here.clock.advance(BUSY_S)
    here.look()
    assert here.link.uses("used") == [12]


def test_a_partitioner_that_fails_to_adopt_does_not_silence_it(world: Make) -> None:
    here = world(6, 12)
    here.partitioner.apply_snapshot = lambda cluster: ()  # type: ignore[method-assign]
    here.poller.poll_once()
    here.look()
    here.look()
    assert here.link.of("ttl_s") == [90.0]


class TestItsThread:
    def test_knows_what_holds_when_start_returns(self, world: Make) -> None:
        here = world(12, polled=False)
        here.link.write(grown(gated()).change)
        assert here.agent.start(LIMIT_S)
        here.poller.poll_once()
        assert here.partitions() == 6

    def test_looks_at_once_when_its_topic_grows(self, world: Make) -> None:
        here = world(6, 12)
        here.agent.start(LIMIT_S)
        before = here.link.reads
        here.poller.poll_once()
        with here.link.changed:
            assert here.link.changed.wait_for(lambda: here.link.reads > before, LIMIT_S)

    def test_says_goodbye_when_the_poller_closes(self, world: Make) -> None:
        here = world(6)
        here.agent.start(LIMIT_S)
        here.poller.close()
        assert here.link.of("ttl_s")[-1] == 0.0
        assert here.link.closed

    def test_writes_nothing_to_topics_that_it_never_saw(self, world: Make) -> None:
        here = world(6, link=Link(down=True), polled=False)
        assert not here.agent.start(LIMIT_S)
        here.agent.close()
        assert here.link.at_ms == 1_000, "it might create them, and not as they should be"
        assert here.link.closed

    def test_says_goodbye_last_though_close_does_not_wait_for_its_read(
        self, world: Make, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(agent_thread, "READ_LIMIT_S", -0.95)
        reading, go_on = threading.Event(), threading.Event()

        class Slow(Link):
            def read_changes(self, timeout: float) -> Sequence[tuple[bytes, bytes | None]]:
                if self.reads:
                    reading.set()
                    assert go_on.wait(LIMIT_S)
                return super().read_changes(timeout)

        here = world(6, link=Slow())
        here.agent.start(LIMIT_S)
        here.agent._wake()
        assert reading.wait(LIMIT_S)
        thread = here.agent._thread
        here.agent.close()
        assert not here.link.closed, "that is for the thread that uses it"
        go_on.set()
        assert thread is not None
        thread.join(LIMIT_S)
        assert here.link.of("ttl_s")[-1] == 0.0
        assert here.link.closed

    def test_survives_a_mistake_of_ours(self, world: Make) -> None:
        here = world(6)
        here.link.appended = None  # type: ignore[assignment]
        here.agent.start(LIMIT_S)
        here.link.appended = []
        here.link.write(grown(gated()).change)
        before = here.link.reads
        here.agent._wake()
        with here.link.changed:
            assert here.link.changed.wait_for(lambda: here.link.reads > before, LIMIT_S)
