"""`kpe change history`: who asked, approved and forced, with the records that say so, and what came of it."""

import pytest
from attrs import evolve

from kafka_partition_events.cli.change.history import history
from kafka_partition_events.control.protocol.records import Allowed, Approval, Change, Command, Given
from kafka_partition_events.control.protocol.vocabulary import Kind, State, Verb
from tests.change_kit import StoryDesk, documents
from tests.control_kit import EVIL, ONE, SHOWN, Story, growth

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def desk(capsys: Captured) -> StoryDesk:
    """A growth that alice has requested, bob approved, and that was cancelled twice."""
    made = StoryDesk()
    asked = ("change", "request", "--topic", "orders", "--to", "12", "--id", ONE, "--needs-approval")
    assert made.kpe(*asked, "--actor", "alice", "--reason", "INC-1") == 0
    assert made.kpe("change", "approve", ONE, "--actor", "bob") == 0
    assert made.kpe("change", "cancel", ONE, "--actor", "carol") == 0
    assert made.kpe("change", "rollback", ONE, "--actor", "dave", "--yes") == 1
    capsys.readouterr()
    return made


def test_who_did_what_and_what_came_of_it_with_each_record(desk: StoryDesk, capsys: Captured) -> None:
    assert desk.kpe("change", "history", "orders") == 0
    rows = documents(capsys.readouterr().out)
    told = {(row["what"], row["actor"]): (row["topic"], row["offset"], row["outcome"]) for row in rows}
    assert told["request", "alice"] == ("kpe.commands", 0, "accepted")
    assert told["approve", "bob"] == ("kpe.approvals", 0, "it counts")
    assert told["cancel", "carol"] == ("kpe.commands", 1, "accepted")
    assert told["rollback", "dave"][:2] == ("kpe.commands", 2)
    assert told["rollback", "dave"][2].startswith(f"refused: {ONE} is cancelled")
    assert told["cancelled", ""] == (None, None, "cancelled by carol")


def test_a_line_names_the_record(desk: StoryDesk, capsys: Captured) -> None:
    assert desk.kpe("change", "history", "orders", "--output", "table") == 0
    headers, first, *_ = capsys.readouterr().out.splitlines()
    assert headers.split() == ["TIME", "CHANGE", "WHAT", "BY", "RECORD", "OUTCOME"]
    assert first.split()[2:] == [ONE, "request", "alice", "kpe.commands-0@0", "accepted", "(INC-1)"]


def test_of_a_topic_that_nobody_has_changed_there_is_nothing(desk: StoryDesk, capsys: Captured) -> None:
    assert desk.kpe("change", "history", "payments") == 0
    out, err = capsys.readouterr()
    assert (out, err.startswith("kpe: note: nobody has asked for anything of topic payments")) == ("", True)


def test_growth_that_nobody_has_asked_for_is_there() -> None:
    story = Story()
    story.request(growth())
    grown = evolve(story.change, spec=growth(kind=Kind.OBSERVE), observed_ms=5, state=State.OBSERVED)
    (entry,) = history("orders", {ONE: grown}, [], [], now_ms=0)
    assert (entry.what, entry.actor, entry.at_ms) == ("happened", "", 5)


@pytest.mark.parametrize(
    ("now_ms", "unanswered"), [(1, "waits for a tracker"), (1e9, "no such change is known any more")]
)
def test_what_waits_or_is_forgotten_or_not_taken_up_or_does_not_count_says_so(
    now_ms: float, unanswered: str
) -> None:
    story = Story()
    story.request(growth())
    request = Given(Command(change_id="old", verb=Verb.REQUEST, actor="alice", spec=growth()), 0, 1)
    cancel = Given(Command(change_id=ONE, verb=Verb.CANCEL, actor="alice"), 9, 2)
    approval = Allowed(Approval(change_id=ONE, spec=growth(), actor="bob"), 0, 3)
    changes: dict[str, Change] = story.ledger.changes
    entries = history("orders", changes, [request, cancel], [approval], now_ms=now_ms)
    assert [entry.outcome for entry in entries] == [unanswered, "not taken up", "it does not count"]


def test_what_somebody_else_has_written_is_shown_as_text(desk: StoryDesk, capsys: Captured) -> None:
    odd = Command(change_id="odd", verb=Verb.REQUEST, actor="alice", reason=EVIL, spec=growth())
    desk.given.append(Given(odd, 9, desk.story.now_ms))
    assert desk.kpe("change", "history", "orders", "--output", "table") == 0
    assert SHOWN in capsys.readouterr().out
