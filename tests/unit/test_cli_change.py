"""`kpe change`: what is written to kpe.commands, what is shown of the answer, and how it ends."""

from collections.abc import Collection
from typing import Any

import pytest

from kafka_partition_events.cli.app import run
from kafka_partition_events.control.protocol.codec import decode
from kafka_partition_events.control.protocol.records import Approval, Command
from kafka_partition_events.control.protocol.vocabulary import (
    Execute,
    GateRule,
    Kind,
    OnDeadline,
    State,
    Status,
    Verb,
)
from tests.change_kit import IN_STEPS, StoryDesk, documents, unreachable
from tests.control_kit import ONE, TOPIC, Story, gated, grown, growth, shrinking

Captured = pytest.CaptureFixture[str]

REQUEST = "change", "request", "--actor", "alice", "--topic", TOPIC
NO_ANSWER = "no tracker has answered within 10 s"


@pytest.fixture
def desk() -> StoryDesk:
    return StoryDesk()


def at(story: Story, **fields: Any) -> StoryDesk:
    return StoryDesk(story, **fields)


class TestRequest:
    def test_the_tracker_takes_it(self, desk: StoryDesk, capsys: Captured) -> None:
        assert desk.kpe(*REQUEST, "--to", "12", "--reason", "INC-1") == 0
        (change,) = documents(capsys.readouterr().out)
        assert (change["format"], change["state"], change["why"]) == ("kpe.change", "requested", "INC-1")
        (command,) = desk.sent
        assert command == Command(
            change_id=change["change_id"],
            verb=Verb.REQUEST,
            actor="alice",
            reason="INC-1",
            spec=growth(),
        )
        assert len(command.change_id) == 26
        assert desk.closed

    @pytest.mark.parametrize("more", [(), ("--dry-run",)])
    def test_what_nobody_would_read_is_not_written(
        self, desk: StoryDesk, capsys: Captured, more: tuple[str, ...]
    ) -> None:
        assert desk.kpe(*REQUEST, "--to", "12", "--reason", "one\ntwo", *more) == 2
        assert capsys.readouterr().err.startswith("kpe: reason can't be 'one\\ntwo'")
        assert desk.story.ledger.changes == {}

    def test_kafka_would_make_a_part_of_it_only(self, desk: StoryDesk, capsys: Captured) -> None:
        assert desk.kpe(*REQUEST, "--to", "50000") == 2
        assert IN_STEPS in capsys.readouterr().err
        assert desk.kpe(*REQUEST, "--to", "10006", "--dry-run") == 0

    def test_every_term(self, desk: StoryDesk) -> None:
        terms = {
            "--gate": "consumers-first",
            "--on-deadline": "hold",
            "--deadline": "30m",
            "--expires": "2h",
            "--settle": "0",
            "--min-acked": "0.9",
            "--on-reject": "abort",
        }
        pairs = [word for pair in terms.items() for word in pair]
        groups = ["--required-group", "billing", "--required-group", "audit"]
        flags = ["--execute", "--needs-approval", "--accept-capped", "--yes"]
        assert desk.kpe(*REQUEST, "--to", "12", *pairs, *groups, *flags) == 0
        assert desk.sent[0].spec == growth(
            gate=GateRule.CONSUMERS_FIRST,
            gate_on_deadline=OnDeadline.HOLD,
            deadline_s=1800.0,
            expires_s=7200.0,
            settle_s=0.0,
            min_acked_ratio=0.9,
            on_reject="abort",
            required_groups=("billing", "audit"),
            execute=Execute.TRACKER,
            needs_approval=True,
            accept_capped=True,
        )

    def test_fewer_partitions_is_a_decrease(self, desk: StoryDesk) -> None:
        assert desk.kpe(*REQUEST, "--to", "4") == 0
        spec = desk.sent[0].spec
        assert spec is not None
        assert (spec.kind, spec.from_count, spec.to_count) == (Kind.DECREASE, 6, 4)

    def test_more_than_a_limit_that_stands_is_an_increase(self) -> None:
        story = grown(shrinking())
        story.says("ab", Status.APPLIED)
        story.tick()
        assert story.change.state is State.CONVERGED
        story.sees(count=6)
        desk = at(story)
        assert desk.kpe(*REQUEST, "--to", "6") == 0
        spec = desk.sent[0].spec
        assert spec is not None
        assert (spec.kind, spec.from_count, spec.to_count) == (Kind.INCREASE, 4, 6)

    @pytest.mark.parametrize(
        ("options", "kind", "partitions", "broker"),
        [
            (["--topic", TOPIC, "--offline", "3,4-5"], Kind.OFFLINE, {3, 4, 5}, None),
            (["--topic", TOPIC, "--online", "0"], Kind.ONLINE, {0}, None),
            (["--broker-offline", "1"], Kind.OFFLINE, set(), 1),
            (["--broker-online", "2"], Kind.ONLINE, set(), 2),
        ],
    )
    def test_planned_work(
        self, desk: StoryDesk, options: list[str], kind: Kind, partitions: set[int], broker: int | None
    ) -> None:
        assert desk.kpe("change", "request", "--actor", "alice", *options) == 0
        spec = desk.sent[0].spec
        assert spec is not None
        assert (spec.kind, set(spec.partitions), spec.broker) == (kind, partitions, broker)

    def test_the_inverse_of_a_change(self) -> None:
        story = grown(growth(required_groups=()))
        story.lives("ab", seen=12)
        story.tick()
        assert story.change.state is State.CONVERGED
        desk = at(story)
        assert desk.kpe("change", "request", "--actor", "alice", "--inverse-of", ONE) == 0
        spec = desk.sent[0].spec
        assert spec is not None
        assert (spec.kind, spec.from_count, spec.to_count) == (Kind.DECREASE, 12, 6)

    def test_a_refusal_says_why_and_what_to_do(self, desk: StoryDesk, capsys: Captured) -> None:
        desk.story.request(growth())
        assert desk.kpe(*REQUEST, "--to", "12") == 1
        told = capsys.readouterr()
        assert [change["state"] for change in documents(told.out)] == ["rejected"]
        assert told.err == (
            f"kpe: refused request by alice: {ONE} is requested; wait for it (kpe change wait), or cancel or "
            "roll it back (another_change_open)\n"
        )

    def test_compare_and_set(self, desk: StoryDesk, capsys: Captured) -> None:
        assert desk.kpe(*REQUEST, "--to", "12", "--from", "5") == 1
        assert "6 partitions of topic orders are used, not 5 (conflict)" in capsys.readouterr().err

    def test_the_same_id_twice_requests_it_once(self, desk: StoryDesk, capsys: Captured) -> None:
        assert [desk.kpe(*REQUEST, "--to", "12", "--id", "mine") for _ in range(2)] == [0, 0]
        assert list(desk.story.ledger.changes) == ["mine"]
        note = "kpe: note: mine was requested before; for another try take another --id\n"
        assert capsys.readouterr().err == note

    def test_an_id_that_is_another_change_s(self, desk: StoryDesk, capsys: Captured) -> None:
        assert desk.kpe(*REQUEST, "--to", "12", "--id", "mine") == 0
        assert desk.kpe(*REQUEST, "--to", "24", "--id", "mine") == 1
        assert "another_spec" in capsys.readouterr().err

    def test_nobody_answers(self, capsys: Captured) -> None:
        desk = StoryDesk(answers=False)
        assert desk.kpe(*REQUEST, "--to", "12") == 3
        told = capsys.readouterr()
        (command,) = documents(told.out)
        assert command["format"] == "kpe.command"
        assert NO_ANSWER in told.err
        assert f"start `kpe tracker`, then see `kpe change show {command['change_id']}`" in told.err

    def test_the_answer_comes_late(self, capsys: Captured) -> None:
        desk = StoryDesk(answers=False)
        desk.news = iter([unreachable, lambda: desk.story.deliver(desk.sent[0], desk.story.now_ms)])
        assert desk.kpe(*REQUEST, "--to", "12") == 0
        assert capsys.readouterr().err == "kpe: can't read the control topics: nobody is there\n"

    def test_a_dry_run_shows_the_record_and_writes_nothing(self, desk: StoryDesk, capsys: Captured) -> None:
        assert desk.kpe(*REQUEST, "--to", "12", "--dry-run", "--id", "mine") == 0
        told = capsys.readouterr()
        command = decode(Command, told.out.encode())
        assert (command.change_id, command.spec) == ("mine", growth())
        assert told.err == "kpe: note: nothing was written; it would be\n"
        assert desk.sent == []

    @pytest.mark.parametrize(
        ("options", "complaint"),
        [
            (
                [],
                "say one thing of --to, --offline, --online, --broker-offline, --broker-online, --inverse-of",
            ),
            (["--to", "12", "--offline", "3"], "say one thing of"),
            (["--offline", "3", "--from", "6"], "--from belongs to --to"),
            (["--broker-offline", "2"], "--broker-offline is without --topic"),
            (["--offline", "x"], "--offline must be partition ids such as 3 or 0-2,5: 'x' is"),
            (["--to", "6"], "6 partitions of topic orders are used already"),
            (["--to", "0"], "greater than or equal to 1; see `kpe change request --help`"),
            (["--to", "12", "--id", "a|b"], "'a|b' is no id; write up to 100 letters, digits"),
            (["--to", "12", "--required-group", ""], "--required-group has no name; leave it out"),
            (["--to", "4", "--execute"], "has no gate and nothing to execute"),
            (["--to", "12", "--deadline", "soon"], "soon"),
        ],
    )
    def test_what_is_wrong_is_told_in_one_line(
        self, desk: StoryDesk, capsys: Captured, options: list[str], complaint: str
    ) -> None:
        assert desk.kpe(*REQUEST, *options) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert complaint in line
        assert desk.sent == []

    @pytest.mark.parametrize(
        ("options", "complaint"),
        [
            (["--topic", "kpe.changes", "--to", "12"], "kpe.changes is a control topic, which no change can"),
            (["--topic", "a.acks", "--to", "12", "--prefix", "a."], "a.acks is a control topic"),
            (["--topic", "__consumer_offsets", "--to", "99"], "__consumer_offsets is Kafka's own topic"),
            (["--broker-offline", "7"], "there is no broker 7; there are 1"),
        ],
    )
    @pytest.mark.parametrize("command", [["request", "--actor", "alice"], ["plan"]])
    def test_what_no_change_can_be_about(
        self, desk: StoryDesk, capsys: Captured, command: list[str], options: list[str], complaint: str
    ) -> None:
        assert desk.kpe("change", *command, *options) == 2
        told = capsys.readouterr()
        assert (told.out, desk.sent) == ("", [])
        assert complaint in told.err

    def test_there_is_no_such_topic(self, desk: StoryDesk, capsys: Captured) -> None:
        assert desk.kpe("change", "request", "--topic", "nosuch", "--to", "12", "--actor", "alice") == 2
        assert capsys.readouterr().err == "kpe: there is no topic nosuch\n"

    @pytest.mark.parametrize(
        ("user", "uid", "name"), [("ann", 0, "ann"), ("", 0, "root"), ("", 65_999, "uid 65999")]
    )
    def test_who_asks_is_who_runs_it_if_nobody_is_named(
        self, desk: StoryDesk, monkeypatch: pytest.MonkeyPatch, user: str, uid: int, name: str
    ) -> None:
        monkeypatch.setenv("USER", user)
        monkeypatch.setattr("os.geteuid", lambda: uid)
        assert desk.kpe("change", "request", "--topic", TOPIC, "--to", "12") == 0
        assert desk.sent[-1].actor == name


class TestOtherCommands:
    def kpe(self, desk: StoryDesk, verb: str, *options: str, actor: str = "bob") -> int:
        return desk.kpe("change", verb, ONE, "--actor", actor, *options)

    def test_approve_takes_a_second_person(self, desk: StoryDesk, capsys: Captured) -> None:
        desk.story.request(growth(needs_approval=True))
        assert self.kpe(desk, "approve", actor="alice") == 1
        assert "somebody else must approve" in capsys.readouterr().err
        assert desk.approved == []
        for _ in range(2):
            assert self.kpe(desk, "approve") == 0
            assert documents(capsys.readouterr().out)[0]["approved_by"] == "bob"
        assert len(desk.approved) == 1

    def test_approve_shows_what_it_would_write(self, desk: StoryDesk, capsys: Captured) -> None:
        desk.story.request(growth(needs_approval=True))
        assert self.kpe(desk, "approve", "--dry-run", "--reason", "why") == 0
        shown = decode(Approval, capsys.readouterr().out.encode())
        assert shown == Approval(change_id=ONE, spec=growth(needs_approval=True), actor="bob", reason="why")
        assert desk.approved == []

    def test_approve_tells_of_what_overtakes_it(self, desk: StoryDesk, capsys: Captured) -> None:
        desk.story.request(growth(needs_approval=True))
        desk.answers = False
        desk.news = iter([lambda: desk.story.command(Verb.CANCEL)])
        assert self.kpe(desk, "approve") == 1
        assert "is cancelled; only a requested change is approved" in capsys.readouterr().err

    def test_approve_without_a_tracker(self, desk: StoryDesk, capsys: Captured) -> None:
        desk.story.request(growth(needs_approval=True))
        desk.answers = False
        assert self.kpe(desk, "approve") == 3
        assert NO_ANSWER in capsys.readouterr().err

    def test_cancel_what_has_not_happened(self, desk: StoryDesk) -> None:
        desk.story.request(growth())
        assert self.kpe(desk, "cancel") == 0
        assert desk.story.change.state is State.CANCELLED

    def test_cancel_what_has_happened_is_refused(self, capsys: Captured) -> None:
        assert self.kpe(at(grown(growth())), "cancel") == 1
        assert "roll it back (kpe change rollback) (wrong_state)" in capsys.readouterr().err

    def test_rollback(self) -> None:
        desk = at(grown(growth()))
        assert self.kpe(desk, "rollback", "--yes") == 0
        assert desk.story.change.state is State.ROLLING_BACK

    def test_force_the_gate(self) -> None:
        desk = at(grown(gated()))
        assert desk.story.change.state is State.GATED
        assert self.kpe(desk, "force", "--open-gate", "--yes") == 0
        assert desk.story.change.opened_by == "bob"

    def test_force_the_end(self) -> None:
        desk = at(grown(growth()))
        assert self.kpe(desk, "force", "--finish", "--yes") == 0
        assert desk.story.change.state is State.PARTIALLY_CONVERGED

    @pytest.mark.parametrize(
        ("spec", "option", "complaint"),
        [
            (gated(), "--finish", "its gate is held; open it first: kpe change force --open-gate"),
            (growth(), "--open-gate", "its gate is not held; to end it: kpe change force --finish"),
        ],
    )
    def test_force_does_what_is_meant_or_nothing(
        self, capsys: Captured, spec: Any, option: str, complaint: str
    ) -> None:
        desk = at(grown(spec))
        state = desk.story.change.state
        assert self.kpe(desk, "force", option, "--yes") == 1
        assert complaint in capsys.readouterr().err
        assert desk.story.change.state is state

    @pytest.mark.parametrize("options", [[], ["--open-gate", "--finish"]])
    def test_force_wants_one_of_two(self, capsys: Captured, options: list[str]) -> None:
        desk = at(grown(gated()))
        assert self.kpe(desk, "force", *options) == 2
        assert "say what you mean: --open-gate or --finish" in capsys.readouterr().err
        assert desk.sent == []

    def test_force_before_it_has_happened_is_refused(self, desk: StoryDesk, capsys: Captured) -> None:
        desk.story.request(gated())
        assert self.kpe(desk, "force", "--open-gate", "--yes") == 1
        assert "wrong_state" in capsys.readouterr().err

    @pytest.mark.parametrize(
        ("command", "asked"),
        [
            (["rollback", ONE], "let producers go back: orders 6 -> 12, on"),
            (["force", ONE, "--finish"], "end the change without billing: orders 6 -> 12, on"),
            (["request", "--topic", TOPIC, "--to", "24", "--execute"], "orders 6 -> 24, on"),
        ],
    )
    def test_what_can_not_be_called_back_wants_to_be_meant(
        self, command: list[str], asked: str, capsys: Captured
    ) -> None:
        desk = at(grown(growth()))
        assert desk.kpe("change", *command, "--actor", "bob") == 2
        told = capsys.readouterr().err
        assert asked in told
        assert "no terminal to ask on; give --yes to confirm" in told
        assert desk.sent == []

    @pytest.mark.parametrize("verb", ["cancel", "rollback", "force"])
    def test_a_dry_run_shows_the_record(self, verb: str, capsys: Captured) -> None:
        desk = at(grown(growth()))
        more = ["--finish"] if verb == "force" else []
        assert self.kpe(desk, verb, "--dry-run", "--reason", "why", *more) == 0
        command = decode(Command, capsys.readouterr().out.encode())
        wanted = Verb.FINISH if verb == "force" else Verb(verb)
        assert command == Command(change_id=ONE, verb=wanted, actor="bob", reason="why")
        assert desk.sent == []

    @pytest.mark.parametrize("verb", ["approve", "cancel", "rollback", "force", "wait", "show"])
    def test_there_is_no_such_change(self, desk: StoryDesk, verb: str, capsys: Captured) -> None:
        more = ["--finish"] if verb == "force" else []
        assert desk.kpe("change", verb, "nosuch", *more) == 2
        assert capsys.readouterr().err == ("kpe: there is no change nosuch; see `kpe change ls --all`\n")

    @pytest.mark.parametrize("verb", ["cancel", "rollback", "force"])
    def test_nobody_answers(self, verb: str, capsys: Captured) -> None:
        desk = at(grown(growth()), answers=False)
        more = {"cancel": [], "rollback": ["--yes"], "force": ["--yes", "--finish"]}[verb]
        assert self.kpe(desk, verb, *more) == 3
        assert NO_ANSWER in capsys.readouterr().err


def test_control_topics_on_another_cluster(desk: StoryDesk, capsys: Captured) -> None:
    there = "--control-bootstrap", "audit:1", "--control-option", "sasl.username=noc", "-X", "client.id=a"
    assert desk.kpe(*REQUEST, "--to", "12", *there, "--prefix", "staging.") == 0
    assert desk.opened == (
        {"bootstrap.servers": "x:1", "client.id": "a"},
        {"bootstrap.servers": "audit:1", "client.id": "a", "sasl.username": "noc"},
        "staging.",
    )
    assert desk.kpe(*REQUEST, "--to", "12", "--control-option", "sasl.username=noc") == 2
    assert "--control-option is for the cluster of --control-bootstrap; write -X" in capsys.readouterr().err


def test_without_control_topics_nothing_can_be_done(capsys: Captured) -> None:
    class NoTopics(StoryDesk):
        def read(self, timeout: float, topics: Collection[str]) -> None:
            unreachable()

    desk = NoTopics()
    assert desk.kpe(*REQUEST, "--to", "12") == 2
    assert capsys.readouterr().err == "kpe: can't read the control topics: nobody is there\n"
    assert desk.closed


@pytest.mark.parametrize(
    "verb", ["plan", "request", "approve", "show", "wait", "cancel", "rollback", "force"]
)
def test_every_command_has_examples_and_exit_codes_in_its_help(verb: str, capsys: Captured) -> None:
    assert run(["change", verb, "--help"]) == 0
    told = capsys.readouterr().out
    assert f"kpe change {verb} -b localhost:9092" in told
    assert "Exit codes" in told
