"""`kpe change`: what is written to kpe.commands, what is shown of the answer, and how it ends."""

import re
from collections.abc import Collection
from types import SimpleNamespace
from typing import Any

import pytest

from kafka_partition_events.cli.change.context import change_ids
from kafka_partition_events.cli.services.services import Services
from kafka_partition_events.control.groups.state import Group, Member
from kafka_partition_events.control.protocol.records import Command
from kafka_partition_events.control.protocol.vocabulary import State, Verb
from tests.change_kit import StoryClient, documents, unreachable
from tests.control_kit import ONE, TOPIC, Story, gated, grown, growth

Captured = pytest.CaptureFixture[str]

REQUEST = "change", "request", "--topic", TOPIC
BILLING = Group(group_id="billing", members=(Member(member_id="x"), Member(member_id="y")))
NO_ANSWER = "no tracker has answered within 10 s"


@pytest.fixture(autouse=True)
def alice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGNAME", "alice")


@pytest.fixture
def desk() -> StoryClient:
    return StoryClient()


class TestRequest:
    def test_the_tracker_takes_it(self, desk: StoryClient, capsys: Captured) -> None:
        assert desk.kpe(*REQUEST, "--to", "12", "--reason", "INC-1") == 0
        (change,) = documents(capsys.readouterr().out)
        assert (change["format"], change["state"], change["why"]) == ("kpe.change", "requested", "INC-1")
        (command,) = desk.sent
        asked: Any = {"verb": Verb.REQUEST, "actor": "alice", "reason": "INC-1", "spec": growth()}
        assert command == Command(change_id=change["change_id"], **asked)
        assert re.fullmatch("orders-12-[0-9a-f]{8}", command.change_id)
        assert desk.closed

    def test_what_nobody_would_read_is_not_written(self, desk: StoryClient, capsys: Captured) -> None:
        assert desk.kpe(*REQUEST, "--to", "12", "--reason", "one\ntwo") == 2
        assert capsys.readouterr().err.startswith("kpe: reason can't be 'one\\ntwo'")
        assert desk.story.ledger.changes == {}

    def test_a_refusal_says_why_and_what_to_do(self, desk: StoryClient, capsys: Captured) -> None:
        desk.story.request(growth())
        assert desk.kpe(*REQUEST, "--to", "12") == 1
        told = capsys.readouterr()
        assert [change["state"] for change in documents(told.out)] == ["rejected"]
        cure = "wait for it (kpe change wait), or cancel it"
        assert told.err == f"kpe: refused request by alice: {ONE} is requested; {cure}\n"

    def test_the_same_id_twice_requests_it_once(self, desk: StoryClient, capsys: Captured) -> None:
        assert [desk.kpe(*REQUEST, "--to", "12", "--id", "mine") for _ in range(2)] == [0, 0]
        assert list(desk.story.ledger.changes) == ["mine"]
        note = "kpe: note: mine was requested before; for another try take another id\n"
        assert capsys.readouterr().err == note

    def test_the_same_id_when_the_topic_has_grown(self, desk: StoryClient, capsys: Captured) -> None:
        assert desk.kpe(*REQUEST, "--to", "12", "--id", "mine") == 0
        assert desk.kpe(*REQUEST, "--to", "12", "--id", "mine", partitions=12) == 0
        assert len(desk.sent) == 1
        assert [change["change_id"] for change in documents(capsys.readouterr().out)] == ["mine", "mine"]
        assert desk.kpe(*REQUEST, "--to", "18", "--id", "mine") == 1
        assert "another change already" in capsys.readouterr().err

    def test_nobody_answers(self, capsys: Captured) -> None:
        desk = StoryClient(answers=False)
        assert desk.kpe(*REQUEST, "--to", "12") == 3
        told = capsys.readouterr()
        (command,) = documents(told.out)
        assert command["format"] == "kpe.command"
        assert NO_ANSWER in told.err
        assert f"start `kpe tracker`, then see `kpe change show {command['change_id']}`" in told.err

    def test_the_answer_comes_late(self, capsys: Captured) -> None:
        desk = StoryClient(answers=False)
        desk.news = iter([unreachable, lambda: desk.story.deliver(desk.sent[0], desk.story.now_ms)])
        assert desk.kpe(*REQUEST, "--to", "12") == 0
        assert capsys.readouterr().err == "kpe: can't read the control topics: nobody is there\n"

    @pytest.mark.parametrize(
        ("options", "complaint"),
        [
            (["--topic", "kpe.changes", "--to", "12"], "kpe.changes is a topic of change control itself"),
            (
                ["--topic", "a.leases", "--to", "12", "--prefix", "a."],
                "a.leases is a topic of change control itself",
            ),
            (["--topic", "__consumer_offsets", "--to", "99"], "__consumer_offsets is Kafka's own topic"),
            (["--topic", "_schemas", "--to", "9"], "_schemas is a topic of Schema Registry"),
            (["--topic", "orders", "--to", "4"], "orders has 6 partitions; Kafka can't shrink it to 4"),
            (["--topic", "orders", "--to", "6"], "topic orders has 6 partitions already\n"),
            (["--topic", "orders", "--from", "30", "--to", "24"], "30"),
            (["--topic", "orders", "--to", "10007"], "(KAFKA-19673); go in steps, the first one to 10006"),
            (["--topic", "nosuch", "--to", "12"], "there is no topic nosuch\n"),
        ],
    )
    @pytest.mark.parametrize("command", ["request", "plan"])
    def test_what_no_change_can_be_about(
        self, desk: StoryClient, capsys: Captured, command: str, options: list[str], complaint: str
    ) -> None:
        assert desk.kpe("change", command, *options) == 2
        told = capsys.readouterr()
        assert (told.out, desk.sent) == ("", [])
        assert complaint in told.err

    def test_who_runs_it_and_has_no_name(self, desk: StoryClient, monkeypatch: pytest.MonkeyPatch) -> None:
        def nameless() -> str:
            raise KeyError("uid not found")

        monkeypatch.setattr("getpass.getuser", nameless)
        assert desk.kpe(*REQUEST, "--to", "12") == 0
        assert desk.sent[-1].actor == "nameless"


class TestPlan:
    PLAN = "change", "plan", "--topic", TOPIC, "--to", "12"

    def test_safe(self, desk: StoryClient, capsys: Captured) -> None:
        assert desk.kpe(*self.PLAN) == 0
        (plan,) = documents(capsys.readouterr().out)
        assert (plan["kind"], plan["verdict"], plan["refusal"]) == ("change_plan", "safe", None)
        assert (plan["spec"]["from_count"], plan["spec"]["to_count"]) == (6, 12)
        assert (desk.sent, desk.story.ledger.changes) == ([], {})

    def test_a_group_is_exposed_unless_there_is_a_gate(self, capsys: Captured) -> None:
        desk = StoryClient(readers=(BILLING,))
        desk.story.lives("a")
        assert desk.kpe(*self.PLAN) == 1
        assert desk.kpe(*self.PLAN, "--gate") == 0
        groups = [plan["groups"] for plan in documents(capsys.readouterr().out)]
        common = {"group": "billing", "protocol": "classic", "state": "stable", "members": 2, "hooked": 0}
        assert groups == [[{**common, "safety": "exposed"}], [{**common, "safety": "gate"}]]

    def test_a_group_that_no_broker_describes_is_told(self, capsys: Captured) -> None:
        desk = StoryClient(readers=(BILLING,), unseen=("audit",))
        desk.kpe(*self.PLAN)
        (plan,) = documents(capsys.readouterr().out)
        assert "groups that can't be seen: audit" in plan["unverified"]

    def test_a_topic_whose_settings_must_not_be_seen_may_be_compacted(self, capsys: Captured) -> None:
        assert StoryClient(topic_is_compacted=None).kpe(*self.PLAN) == 0
        (plan,) = documents(capsys.readouterr().out)
        assert "whether the topic is compacted is not known" in plan["unverified"]

    def test_blocked(self, desk: StoryClient, capsys: Captured) -> None:
        assert desk.kpe(*self.PLAN, "--from", "7") == 4
        (plan,) = documents(capsys.readouterr().out)
        assert plan["refusal"] == "topic orders has 6 partitions, not 7"

    def test_groups_that_nobody_may_see_do_not_end_it(self, capsys: Captured) -> None:
        assert StoryClient(readers=None).kpe(*self.PLAN) == 0
        told = capsys.readouterr()
        assert told.err == "kpe: can't look at consumer groups: not for us\n"
        assert documents(told.out)[0]["groups"] is None


class TestCancel:
    def test_cancel_what_has_not_happened(self, desk: StoryClient) -> None:
        desk.story.request(growth())
        assert desk.kpe("change", "cancel", ONE) == 0
        assert desk.story.change.state is State.CANCELLED

    def test_cancel_what_has_happened_is_refused(self, capsys: Captured) -> None:
        assert StoryClient(grown(gated())).kpe("change", "cancel", ONE) == 1
        assert "it waits for who follows until its deadline" in capsys.readouterr().err


def test_the_cluster_and_the_prefix_are_those_that_are_typed(desk: StoryClient) -> None:
    assert desk.kpe(*REQUEST, "--to", "12", "-X", "client.id=a", "--prefix", "staging.") == 0
    assert desk.opened == ({"bootstrap.servers": "x:1", "client.id": "a"}, "staging.")


class NoTopics(StoryClient):
    def read(self, topics: Collection[str], timeout: float = 15.0) -> None:
        unreachable()


def test_without_control_topics_nothing_can_be_done(capsys: Captured) -> None:
    desk = NoTopics()
    assert desk.kpe(*REQUEST, "--to", "12") == 2
    assert capsys.readouterr().err == "kpe: can't read the control topics: nobody is there\n"
    assert desk.closed


def test_a_shell_completes_the_ids_of_open_changes() -> None:
    story = Story()
    story.request(growth())
    story.request(growth(to_count=24), change_id="chg-2")  # refused: one is open
    clients: list[Any] = [StoryClient(story), StoryClient(story), NoTopics()]
    services = Services(open_client=lambda *_: clients.pop(0))
    context: Any = SimpleNamespace(params={"bootstrap": "x:1"}, obj=services)
    assert [change_ids(context, begun) for begun in ("chg", "order", "chg")] == [[ONE], [], []]
