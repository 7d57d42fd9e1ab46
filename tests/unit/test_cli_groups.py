"""`kpe groups`: what it shows of what brokers answer."""

from typing import Any

import pytest

from kafka_partition_events.cli.app import run
from kafka_partition_events.cli.change import groups as command
from kafka_partition_events.cli.common.errors import CliError
from kafka_partition_events.control.groups.state import Group, Member
from kafka_partition_events.control.protocol.partition_set import Coverage
from kafka_partition_events.metadata.cluster import TopicPartition
from kafka_partition_events.testing.scripted import cluster_of
from tests.control_kit import EVIL, SHOWN

NEW = frozenset({2, 3})


def on(*partitions: int) -> frozenset[TopicPartition]:
    return frozenset(TopicPartition("orders", partition) for partition in partitions)


class Brokers:
    """Topic "orders" with four partitions, and three groups."""

    def topics(self, names: list[str], timeout: float) -> Any:
        return {name: cluster_of({name: [1] * 4}).by_topic[name] for name in names if name == "orders"}

    def groups(self, timeout: float) -> list[str]:
        return ["billing", "by-hand", "other"]

    def describe(self, ids: list[str], timeout: float) -> dict[str, Group]:
        reconciling = Member(member_id="m", assigned=on(0, 1, 2), target=on(0, 1, 2, 3))
        known = {
            "billing": {"protocol": "consumer", "members": (reconciling,)},
            "by-hand": {"state": "EMPTY"},
        }
        return {name: Group(group_id=name, **known.get(name, {})) for name in ids}  # type: ignore[arg-type]

    def committed(self, wanted: dict[str, Any], timeout: float) -> dict[str, dict[TopicPartition, int]]:
        known = {"billing": dict.fromkeys(on(0, 1, 2), 4), "by-hand": dict.fromkeys(on(0, 1, 2, 3), 10)}
        return {name: known.get(name, {}) for name in wanted}


def probed(group: str | None = None, partitions: frozenset[int] | None = NEW) -> list[dict[str, Any]]:
    asked, found = command.probe(Brokers(), "orders", group, partitions)  # type: ignore[arg-type]
    return [one.document("orders", asked) for one in found]


def test_groups_that_have_the_topic_or_offsets_of_it() -> None:
    billing, by_hand = probed()
    assert billing == {
        "kind": "group_probe",
        "topic": "orders",
        "partitions": "2-3",
        "group": "billing",
        "protocol": "consumer",
        "state": "stable",
        "stable": False,
        "members": 1,
        "assigned": "2",
        "positioned": "2",
    }
    assert (by_hand["group"], by_hand["members"], by_hand["positioned"]) == ("by-hand", 0, "2-3")


def test_a_group_that_is_named_is_shown_whatever_it_reads() -> None:
    assert [one["group"] for one in probed("other")] == ["other"]


def test_a_group_that_does_not_exist_is_told(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = command.Found(Group(group_id="biling", state="DEAD"), Coverage())
    monkeypatch.setattr(command, "probe", lambda *_: (NEW, [found]))
    assert run(["groups", "-b", "localhost:1", "--topic", "orders", "--group", "biling"]) == 1
    assert "kpe: note: there is no group biling; without --group all are shown" in capsys.readouterr().err


def shown(
    found: list[command.Found],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    *options: str,
) -> list[str]:
    monkeypatch.setattr(command, "probe", lambda *_: (NEW, found))
    run(["groups", "-b", "localhost:1", "--topic", "orders", "--output", "table", *options])
    return capsys.readouterr().out.splitlines()


def test_a_table_for_people(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    _, found = command.probe(Brokers(), "orders", None, None)  # type: ignore[arg-type]
    headers, *rows = shown(found, monkeypatch, capsys)
    assert headers.split()[:4] == ["GROUP", "PROTOCOL", "STATE", "MEMBERS"]
    assert [row.split() for row in rows] == [
        ["billing", "consumer", "reconciling", "1", "0-2", "0-2"],
        ["by-hand", "classic", "empty", "0", "-", "0-3"],
    ]


def test_a_name_that_is_made_for_a_terminal_is_shown_and_not_obeyed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = command.Found(Group(group_id=EVIL), Coverage())
    _, row = shown([found], monkeypatch, capsys)
    assert row.startswith(f"{SHOWN}  classic ")


def test_partitions_that_are_not_there_are_an_error() -> None:
    with pytest.raises(CliError, match="has partitions 0-3, not 4-5"):
        probed(partitions=frozenset({3, 4, 5}))


@pytest.mark.parametrize("text", ["", "x", "6-", "5-4"])
def test_words_that_name_no_partitions_are_refused_before_anybody_is_asked(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["groups", "-b", "localhost:1", "--topic", "orders", "--partition", text]) == 2
    assert "--partition must be partition ids such as 3 or 0-2,5: " in capsys.readouterr().err


def test_what_must_not_be_seen_is_an_error_that_says_so() -> None:
    class Refusing(Brokers):
        def __init__(self) -> None:
            self.left_out = {
                "group billing": "User:bob lacks DESCRIBE on group billing",
                "topic orders": "User:bob lacks DESCRIBE on topic orders",
            }
            self.sees_topics = True

        def describe(self, ids: list[str], timeout: float) -> dict[str, Group]:
            return {}

        def topics(self, names: list[str], timeout: float) -> Any:
            return super().topics(names if self.sees_topics else [], timeout)

    brokers: Any = Refusing()
    with pytest.raises(CliError, match="can't look at group billing: User:bob lacks DESCRIBE on group"):
        command.probe(brokers, "orders", "billing", NEW)
    brokers.sees_topics = False
    with pytest.raises(CliError, match=r"^User:bob lacks DESCRIBE on topic orders"):
        command.probe(brokers, "orders", None, NEW)
    with pytest.raises(CliError, match="there is no topic other"):
        command.probe(brokers, "other", None, NEW)
