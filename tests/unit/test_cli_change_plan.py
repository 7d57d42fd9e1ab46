"""`kpe change plan`: what it foresees, and how it ends."""

import pytest

from kafka_partition_events.control.groups.state import Group, Member
from tests.change_kit import StoryClient, documents
from tests.control_kit import TOPIC

Captured = pytest.CaptureFixture[str]

BILLING = Group(group_id="billing", members=(Member(member_id="x"), Member(member_id="y")))


@pytest.fixture
def desk() -> StoryClient:
    return StoryClient()


class TestPlan:
    PLAN = "change", "plan", "--topic", TOPIC, "--to", "12"

    def test_safe(self, desk: StoryClient, capsys: Captured) -> None:
        assert desk.kpe(*self.PLAN) == 0
        (plan,) = documents(capsys.readouterr().out)
        assert (plan["kind"], plan["verdict"], plan["refusal"]) == ("change_plan", "safe", None)
        assert (plan["spec"]["from_count"], plan["spec"]["to_count"]) == (6, 12)
        assert desk.sent == []

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
