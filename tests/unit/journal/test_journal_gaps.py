"""What nobody saw: a restart, or a backlog that was dropped. The stored snapshot tells what became of it."""

import pytest
from attrs import evolve

from kafka_partition_events.metadata import events as ev
from kafka_partition_events.testing.clock import ManualClock
from kafka_partition_events.testing.scripted import observe
from kafka_partition_events_listeners.journal import JournalListener, load_snapshot
from tests.outbox_kit import scratch_journal
from tests.unit.journal.shelf import FULL, Shelf, World, answer, at, between, bodies, snapshot, tell


class TestARestart:
    def test_finds_what_was_seen_and_not_written_under_the_ids_that_it_would_have_had(
        self, world: World, shelf: Shelf
    ) -> None:
        up = answer(orders=[{"leader": 1, "epoch": 1}, {"leader": 2, "epoch": 1}])
        down = answer(
            orders=[{"leader": 1, "epoch": 1}, {"leader": None, "epoch": 2}], new=[{"leader": 1, "epoch": 0}]
        )
        world.observer(up)
        lived = len(shelf.entries)
        shelf.trouble = FULL
        survivor = Shelf()
        survivor.write(values=shelf.values(""))
        _, other = world.observer(down)
        assert other.stats.waiting == 3
        waiting = [entry.id for entry in other._waiting if entry.name != "metadata.recovered"]

        world.shelf, shelf.trouble = survivor, None  # the process is gone, and what it held in memory
        world.observer(down)
        found = [entry.id for entry in survivor.entries if entry.name != "metadata.recovered"]
        assert found == waiting
        assert len(found) == 2
        assert len(shelf.entries) == lived

    def test_on_another_cluster_forgets_the_first_one(self, world: World, shelf: Shelf) -> None:
        world.observer(answer(orders=[1]))
        other = observe({"payments": [1]}, brokers=[1], cluster_id="another")
        world.observer(other)
        loaded = load_snapshot(shelf)
        assert loaded is not None
        assert (loaded[0].cluster_id, set(loaded[0].by_topic)) == ("another", {"payments"})


class TestADroppedBacklog:
    def test_is_made_good_as_far_as_the_snapshot_tells(self, shelf: Shelf, clock: ManualClock) -> None:
        journal = JournalListener(shelf, clock=clock)
        old = snapshot(1, orders=[1, 2], gone=[1])
        journal.on_settled(old, at(1))
        new = snapshot(5, orders=[1, None, 3], gone=[1])
        resync = ev.Resync(
            cluster=new, dropped=17, sequence=40, generation=5, cluster_id="test", wall_time=at(30)
        )
        tell(journal, resync)
        journal.on_settled(new, at(29))
        told = bodies(shelf.entries)
        names = [body["type"].split("events.")[1].removesuffix(".v1") for body in told]
        assert names == ["observer.resync", "partitions.added", "partition.offline"]
        assert told[0]["data"]["dropped"] == 17
        for body in told[1:]:
            assert body["sequence"] == f"{40:020d}"
            assert body["data"]["initial"] is False
            assert body["data"]["snapshot"] == {
                "seq": 5,
                "prev_at": "2026-11-20T10:00:01.000000Z",
                "at": "2026-11-20T10:00:30.000000Z",
                "gap": True,
            }
        assert load_snapshot(shelf) == (new, at(29))

    @pytest.mark.parametrize(
        ("polled", "cluster_id", "created"),
        [
            (b"all", "test", [("topic.deleted", False), ("partition.offline", False)]),
            (b"some", "test", [("topic.created", True), ("partition.offline", True)]),
            (b"all", "other", [("topic.created", True), ("partition.offline", True)]),
        ],
        ids=["the same cluster", "other topics", "another cluster"],
    )
    def test_that_held_the_first_answer_is_counted_from_the_stored_snapshot(
        self,
        shelf: Shelf,
        clock: ManualClock,
        polled: bytes,
        cluster_id: str,
        created: list[tuple[str, bool]],
    ) -> None:
        """A poller that was resumed from it would have told the same."""
        JournalListener(shelf, clock=clock, values={"polled": b"all"}).on_settled(
            snapshot(4, orders=[1, 2], gone=[1]), at(1)
        )
        journal = JournalListener(shelf, clock=clock, values={"polled": polled})
        new = evolve(snapshot(5, orders=[1, None]), cluster_id=cluster_id)
        tell(journal, ev.Resync(cluster=new, dropped=17, cluster_id=cluster_id, wall_time=at(30)))
        journal.on_settled(new, at(29))
        found = [(e.name, body["data"]) for e, body in zip(shelf.entries, bodies(shelf.entries), strict=True)]
        assert [(n, data["initial"]) for n, data in found if "topic" in data] == created
        assert all(data["snapshot"]["gap"] for n, data in found if n == "topic.deleted")

    def test_is_counted_from_what_was_told_even_if_it_is_not_written_yet(
        self, shelf: Shelf, clock: ManualClock
    ) -> None:
        journal = JournalListener(shelf, clock=clock)
        shelf.trouble = FULL
        first, second = snapshot(1, orders=[1]), snapshot(2, orders=[1], new=[1])
        journal.on_settled(first, at(1))
        tell(journal, *between(first, second))
        journal.on_settled(second, at(2))
        tell(journal, ev.Resync(cluster=snapshot(3, orders=[1], new=[1]), dropped=2, wall_time=at(3)))
        journal.on_settled(second, at(3))
        assert [entry.name for entry in journal._waiting] == ["topic.created", "observer.resync"]


class TestATopicThatWasHidden:
    """Its DESCRIBE was revoked for a while: its id is the same."""

    @pytest.mark.parametrize("partitions", [1, 2])
    def test_is_offline_again_whether_one_partition_or_several(self, world: World, partitions: int) -> None:
        outbox = world.shelf = scratch_journal(clock=world.clock)  # type: ignore[assignment]
        shown = answer(orders=[1], new=[{"leader": 1, "epoch": 5}] * partitions)
        offline = answer(orders=[1], new=[{"leader": None, "epoch": 6}] * partitions)
        world.observer(shown, *[offline] * 5, *[answer(orders=[1])] * 5, *[offline] * 8)
        first, second = bodies([*outbox.history(names=["partition.offline"])])
        assert (first["data"]["identity"], second["data"]["identity"]) == ("transition", "observation")
        ids = [
            {one["id"], *(each["id"] for each in one["data"].get("changes", ()))} for one in (first, second)
        ]
        assert not ids[0] & ids[1]

    def test_is_created_and_deleted_again_under_ids_of_their_own(self, world: World) -> None:
        outbox = world.shelf = scratch_journal(clock=world.clock)  # type: ignore[assignment]
        both, hidden = answer(orders=[1], new=[1]), answer(orders=[1])
        world.observer(both, *[hidden] * 5, *[both] * 8, *[hidden] * 5)
        found = [
            body for body in bodies([*outbox.history(names=["topic.*"])]) if body["data"]["topic"] == "new"
        ]
        names = [body["type"].split("topic.")[1].removesuffix(".v1") for body in found]
        assert names == ["created", "deleted", "created", "deleted"]
        assert [body["data"]["identity"] for body in found] == ["transition"] * 2 + ["observation"] * 2
        assert len({body["id"] for body in found}) == 4

    def test_is_not_created_again_by_a_start_without_a_snapshot(self, world: World) -> None:
        outbox = world.shelf = scratch_journal(clock=world.clock)  # type: ignore[assignment]
        world.observer(answer(orders=[{"leader": None, "epoch": 6}]))
        before = [entry.id for entry in outbox.history(names=["topic.*", "partition.*"])]
        outbox.write(values={"nodes": None})
        world.observer(answer(orders=[{"leader": None, "epoch": 6}]))
        assert [entry.id for entry in outbox.history(names=["topic.*", "partition.*"])] == before
