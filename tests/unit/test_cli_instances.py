"""`kpe instances ls` and `kpe ack ls`: who is there, and who says what."""

import pytest

from kafka_partition_events.cli.app import run
from kafka_partition_events.control.protocol.records import Capacity
from kafka_partition_events.control.protocol.vocabulary import LeaseState, Role, Status, Verb
from tests.change_kit import StoryDesk, documents
from tests.control_kit import EVIL, NEW, ONE, SHOWN, Story, gated, grown, growth

Captured = pytest.CaptureFixture[str]

MEMORY = "buffer_memory=65,536, batch_size=16,384"


@pytest.fixture
def fleet() -> Story:
    """One of each: b is gone for two times to live, c for one, d has stopped."""
    story = Story()
    story.lives("b")
    story.now_ms += 100_000
    story.lives("c")
    story.now_ms += 100_000
    memory = Capacity(buffer_memory=65_536, batch_size=16_384)
    story.lives("a", app="shop", app_version="1.2", client="confluent-kafka 2.13", capacity=memory)
    story.lives("d", state=LeaseState.DOWN)
    return story


class TestInstances:
    def test_presence(self, fleet: Story, capsys: Captured) -> None:
        assert StoryDesk(fleet).kpe("instances", "ls") == 0
        rows = documents(capsys.readouterr().out)
        assert [(row["instance_id"], row["state"], row["age_s"]) for row in rows] == [
            ("a", "up", 0.0),
            ("b", "lost", 200.0),
            ("c", "stale", 100.0),
            ("d", "down", 0.0),
        ]

    def test_stale_ones_alone(self, fleet: Story, capsys: Captured) -> None:
        assert StoryDesk(fleet).kpe("instances", "ls", "--stale") == 0
        assert [row["instance_id"] for row in documents(capsys.readouterr().out)] == ["b", "c"]

    def test_all_that_a_lease_tells(self, fleet: Story, capsys: Captured) -> None:
        assert StoryDesk(fleet).kpe("instances", "ls") == 0
        row = documents(capsys.readouterr().out)[0]
        assert row == {
            "kind": "instance",
            "instance_id": "a",
            "state": "up",
            "age_s": 0.0,
            "ttl_s": 90.0,
            "role": "producer",
            "group": None,
            "cluster_id": "c-1",
            "app": "shop",
            "app_version": "1.2",
            "client": "confluent-kafka 2.13",
            "capacity": {"buffer_memory": 65_536, "batch_size": 16_384},
            "topics": [{"topic": "orders", "seen": 6, "used": 6, "max_partitions": None}],
            "topics_left_out": 0,
        }

    def test_in_words(self, fleet: Story, capsys: Captured) -> None:
        fleet.lives("x", role=Role.CONSUMER, group="billing", topics_left_out=3)
        assert StoryDesk(fleet).kpe("instances", "ls", "--output", "table") == 0
        lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
        assert lines == [
            "INSTANCE STATE AGE ROLE DETAILS",
            f"a up 0 s producer shop 1.2, confluent-kafka 2.13, 1 topic, {MEMORY}",
            "b lost 3 min 20 s producer 1 topic",
            "c stale 1 min 40 s producer 1 topic",
            "d down 0 s producer 1 topic",
            "x up 0 s consumer group billing, 4 topics",
        ]

    def test_a_name_that_is_made_for_a_terminal_is_shown_and_not_obeyed(self, capsys: Captured) -> None:
        story = Story()
        story.lives([EVIL], app=EVIL)
        assert StoryDesk(story).kpe("instances", "ls", "--output", "table", "--no-headers") == 0
        (line,) = capsys.readouterr().out.splitlines()
        assert " ".join(line.split()) == f"{SHOWN} up 0 s producer {SHOWN}, 1 topic"
        assert StoryDesk(story).kpe("instances", "ls") == 0
        assert documents(capsys.readouterr().out)[0]["instance_id"] == EVIL

    def test_a_clock_that_is_behind_makes_nobody_younger_than_nothing(
        self, fleet: Story, capsys: Captured
    ) -> None:
        desk = StoryDesk(fleet)
        fleet.now_ms -= 3_600_000  # which `StoryDesk` takes for this machine's time
        assert desk.kpe("instances", "ls") == 0
        assert [row["age_s"] for row in documents(capsys.readouterr().out)] == [0.0, 200.0, 100.0, 0.0]

    def test_there_are_none(self, capsys: Captured) -> None:
        assert StoryDesk().kpe("instances", "ls", "--stale") == 0
        assert capsys.readouterr().err == "kpe: note: there are no leases\n"

    def test_none_is_stale(self, capsys: Captured) -> None:
        desk = StoryDesk()
        desk.story.lives("a")
        assert desk.kpe("instances", "ls", "--stale") == 0
        assert capsys.readouterr().err == "kpe: note: no lease is stale\n"


@pytest.fixture
def answered() -> Story:
    """Growth behind a gate that is open: a follows, b is capped, c is silent; e came late, and d has gone."""
    story = grown(gated(), "abcd")
    story.probed("billing", assigned=NEW, positioned=frozenset({6, 7}))
    story.command(Verb.OPEN_GATE)
    story.now_ms += 1
    story.lives("d", state=LeaseState.DOWN)
    story.lives("e", incarnation="e-1")
    story.says("a", Status.APPLIED, seen_count=12, used_count=12)
    limit = Capacity(max_partitions=8)
    story.says("b", Status.CAPPED, reason="buffer_limit", limit=limit, seen_count=12, used_count=8)
    story.tick()
    return story


class TestAcks:
    def test_who_says_what(self, answered: Story, capsys: Captured) -> None:
        assert StoryDesk(answered).kpe("ack", "ls", ONE) == 0
        rows = documents(capsys.readouterr().out)
        marks = ("departed", "late", "duplicate")
        told = [
            (row["instance_id"], row["status"], [m for m in marks if row[m]], row["pending"])
            for row in rows
            if "group" not in row
        ]
        assert told == [
            ("a", "applied", [], False),
            ("b", "capped", [], False),
            ("c", "held", [], True),
            ("d", "held", ["departed"], False),
            ("e", None, ["late"], False),
        ]
        assert rows[1] == {
            "kind": "ack",
            "change_id": ONE,
            "instance_id": "b",
            "status": "capped",
            "reason": "buffer_limit",
            "limit": {"buffer_memory": None, "batch_size": None, "max_partitions": 8},
            "seen": 12,
            "used": 8,
            "departed": False,
            "late": False,
            "duplicate": False,
            "pending": False,
        }

    def test_groups_answer_by_levels(self, answered: Story, capsys: Captured) -> None:
        assert StoryDesk(answered).kpe("ack", "ls", ONE) == 0
        assert documents(capsys.readouterr().out)[-1] == {
            "kind": "ack",
            "change_id": ONE,
            "instance_id": "group:billing",
            "group": "billing",
            "members": 2,
            "affected": "6-11",
            "assigned": "6-11",
            "positioned": "6-7",
            "flowing": "",
            "drained": "",
            "pending": True,
        }

    def test_who_is_still_to_answer(self, answered: Story, capsys: Captured) -> None:
        assert StoryDesk(answered).kpe("ack", "ls", "--pending", ONE) == 0
        names = [row["instance_id"] for row in documents(capsys.readouterr().out)]
        assert names == ["c", "group:billing"]

    def test_a_finished_change_waits_for_nobody(self, answered: Story, capsys: Captured) -> None:
        answered.command(Verb.FINISH)
        answered.now_ms += 86_400_000
        assert StoryDesk(answered).kpe("ack", "ls", "--pending", ONE) == 0
        told = capsys.readouterr()
        assert (told.out, told.err) == ("", "kpe: note: nobody is still to answer\n")

    def test_who_was_there_when_it_was_finished(self, answered: Story, capsys: Captured) -> None:
        answered.command(Verb.FINISH)
        answered.now_ms += 86_400_000
        assert StoryDesk(answered).kpe("ack", "ls", ONE) == 0
        rows = documents(capsys.readouterr().out)
        assert [row["instance_id"] for row in rows if row.get("departed")] == ["d"]

    def test_in_words(self, answered: Story, capsys: Captured) -> None:
        assert StoryDesk(answered).kpe("ack", "ls", ONE, "--output", "table") == 0
        lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
        assert lines == [
            "INSTANCE STATUS DETAILS",
            "a applied uses 12 of 12",
            "b capped buffer_limit, max_partitions=8, uses 8 of 12",
            "c held uses 0 of 0",
            "d held uses 0 of 0, departed",
            "e - uses 6 of 6, late",
            "group:billing waits of 6-11: assigned 6-11, positioned 6-7, 2 members",
        ]

    def test_names_and_reasons_that_are_made_for_a_terminal_are_shown_and_not_obeyed(
        self, capsys: Captured
    ) -> None:
        story = Story()
        story.lives([EVIL])
        story.request(growth())
        story.says([EVIL], Status.REJECTED, reason=EVIL)
        assert StoryDesk(story).kpe("ack", "ls", ONE, "--output", "table", "--no-headers") == 0
        (line,) = capsys.readouterr().out.splitlines()
        assert " ".join(line.split()) == f"{SHOWN} rejected {SHOWN}, uses 0 of 0"

    def test_a_lease_tells_of_more_than_was_said(self, answered: Story, capsys: Captured) -> None:
        answered.lives("c", seen=12)
        assert StoryDesk(answered).kpe("ack", "ls", ONE) == 0
        row = next(row for row in documents(capsys.readouterr().out) if row["instance_id"] == "c")
        assert (row["status"], row["seen"], row["used"]) == ("applied", 12, 12)

    def test_there_is_no_such_change(self, capsys: Captured) -> None:
        assert StoryDesk().kpe("ack", "ls", "nosuch") == 2
        assert capsys.readouterr().err == ("kpe: there is no change nosuch; see `kpe change ls --all`\n")


@pytest.mark.parametrize("command", ["ack", "instances"])
def test_help_has_examples_and_exit_codes(command: str, capsys: Captured) -> None:
    assert run([command, "ls", "--help"]) == 0
    told = capsys.readouterr().out
    assert f"kpe {command} ls -b localhost:9092" in told
    assert "Exit codes" in told
