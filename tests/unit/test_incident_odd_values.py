"""Whatever lies in the journal, or was said by whoever may say something: the incidents go on being told."""

import contextlib
import json
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.incidents import Rules
from kafka_partition_events.incidents.decisions import DECISIONS, decode_decision
from kafka_partition_events.incidents.handover import OPEN, decode_opened
from kafka_partition_events.incidents.reader import READER
from kafka_partition_events.incidents.said import LARGEST_BYTES
from kafka_partition_events.incidents.silences import PREFIX, decode_silence
from kafka_partition_events.incidents.state import decode, encode
from kafka_partition_events.outbox import Entry, Write
from tests.watch_kit import Watch, names, scratch_watch

FIRST, LAST = "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"
SILENCE: dict[str, Any] = {
    "id": "x", "author": "a", "reason": "r",
    "since": "2020-01-01T00:00:00Z", "until": "2040-01-01T00:00:00Z", "name": "*",
}  # fmt: skip
DECISION: dict[str, Any] = {
    "verb": "close", "cause": "broker/1", "at": "2026-11-20T10:00:00Z", "author": "a", "reason": "r",
}  # fmt: skip
OPENED: dict[str, Any] = {"cause": {"broker": 9}, "id": "ab", "opened_at": "2026-11-20T10:00:00Z"}

NEITHER: dict[str, tuple[str, bytes]] = {
    f"{prefix}{what}": (prefix, value)
    for prefix in (PREFIX, DECISIONS, OPEN)
    for what, value in {
        "nothing": b"",
        "no object": b"[]",
        "empty": b"{}",
        "no JSON": b"\xff",
        "deep": b"[" * 16_000,
        "deep in an object": b'{"id":' * 2_700,
        "a long number": b'{"id":' + b"9" * 8_000 + b"}",
        "too large": json.dumps({"id": "x" * LARGEST_BYTES}).encode(),
    }.items()
}
USUAL = {PREFIX: SILENCE, DECISIONS: DECISION, OPEN: OPENED}
ALMOST: dict[str, tuple[str, bytes]] = {
    f"{prefix}{name}": (prefix, json.dumps({**USUAL[prefix], field: value}).encode())
    for prefix, name, field, value in [
        (PREFIX, "from before the first year", "since", FIRST),
        (PREFIX, "until after the last one", "until", LAST),
        (PREFIX, "a pattern that is too large", "topic", "a{4294967296}"),
        (PREFIX, "a pattern that is too deep", "topic", "(" * 7_000),
        (PREFIX, "a name that is too long", "name", "*a" * 3_000),
        (PREFIX, "half a character", "reason", "\ud800"),
        (DECISIONS, "after the last year", "at", LAST),
        (DECISIONS, "nobody", "author", ""),
        (DECISIONS, "half a character", "author", "\ud800"),
        (OPEN, "before the first year", "opened_at", FIRST),
        (OPEN, "a strange id", "id", "../x"),
        (OPEN, "a strange cause", "cause", {"broker": -1}),
    ]
}
ODD = NEITHER | ALMOST


def say(watch: Watch, prefix: str, *values: bytes) -> None:
    named = {f"{prefix}{number}": value for number, value in enumerate(values)}
    if prefix == OPEN:
        watch.theirs = {**(watch.theirs or {}), **named}
    else:
        watch.outbox.write(Write(values=named))


class TestWhatSomebodySaid:
    @pytest.mark.parametrize("case", ODD)
    def test_an_odd_value_is_refused_alone_counted_and_logged_once(self, case: str) -> None:
        watch = scratch_watch()
        watch.read()
        prefix, value = ODD[case]
        with capture_logs() as logs:
            say(watch, prefix, value)
            watch.lead()
            watch.world.down(2)
            watch.look()
            assert names(watch.after(40)) == ["incident.opened"]
            watch.reader = watch.another_reader()
            watch.lead()
            watch.world.up(2)
            watch.look()
            assert names(watch.after(40)) == ["incident.closed"]
        stats = watch.reader.stats
        assert (stats.refused, stats.failures) == (1, 0)
        assert [log["event"] for log in logs] == ["value_not_understood"] * 2  # once for each reader

    @pytest.mark.parametrize("prefix", [PREFIX, DECISIONS, OPEN])
    def test_the_thread_goes_on(self, prefix: str) -> None:
        watch = scratch_watch()
        watch.read()
        say(watch, prefix, *(value for its, value in ODD.values() if its == prefix))
        watch.lead()
        watch.world.down(2)
        watch.look()
        with watch.reader:
            for _ in range(32):
                watch.clock.wait_for_waiters()
                watch.clock.advance(1)
            watch.clock.wait_for_waiters()
            assert watch.reader.alive
        assert names(watch.delivered()) == ["incident.opened"]
        assert watch.reader.stats.failures == 0

    @settings(max_examples=100)
    @given(data=st.data())
    def test_whatever_somebody_says_is_understood_or_refused(self, data: st.DataObject) -> None:
        """And of what is understood nothing keeps a broker's death from being told but a silence of it."""
        watch = scratch_watch()
        watch.read()
        for prefix, usual in USUAL.items():
            say(watch, prefix, *data.draw(st.lists(st.one_of(st.binary(), said(usual)), max_size=3)))
        watch.lead()
        watch.world.down(2)
        watch.look()
        watch.after(40)
        (down,) = (t for cause, t in watch.reader._reducer.troubles.items() if cause.broker == 2)
        assert down.incident is not None
        assert down.incident.told_at or down.incident.muted_by or down.incident.closed_by
        assert watch.reader.stats.failures == 0
        state = encode(watch.reader._reducer)
        assert encode(decode(state, Rules())) == state

    def test_a_state_of_a_silence_that_is_refused_by_now_ends_it(self) -> None:
        watch = scratch_watch()
        watch.silence(topic="single", name=None)
        watch.world.down(2)
        watch.look()
        watch.after(40)
        state = watch.outbox.values(READER)[READER]
        of_old = state.replace(b'"topic":"single"', b'"topic":"(?=s).*"')
        assert of_old != state
        watch.outbox.write(Write(values={READER: of_old, "silence/s-1": None}))
        watch.reader = watch.another_reader()
        assert names(watch.after(1))[:1] == ["silence.ended"]

    def test_a_leader_whose_clock_is_ahead_keeps_nothing_from_being_told(self) -> None:
        watch = scratch_watch(update_interval=60)
        watch.world.down(2)
        watch.look()
        ahead = {"cause": {"broker": 2}, "id": "ab", "opened_at": "2099-01-01T00:00:00Z"}
        say(watch, OPEN, json.dumps(ahead).encode())
        watch.lead()
        assert names(watch.after(40)) == []
        watch.world.create("more", [[2]])
        watch.look()
        assert "incident.updated" in names(watch.after(120))


ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
MOMENTS = st.datetimes().map(lambda moment: f"{moment.isoformat()}+14:00") | st.sampled_from([FIRST, LAST])


@st.composite
def said(draw: st.DrawFn, usual: dict[str, Any]) -> bytes:
    """What one may say, of which some fields are anything."""
    fields = dict(usual)
    for name in draw(st.lists(st.sampled_from(sorted(usual)), max_size=2)):
        fields[name] = draw(ANY_JSON | MOMENTS)
    if draw(st.booleans()):
        fields[draw(st.sampled_from(["topic", "broker", "cluster", "weekly", "name"]))] = draw(ANY_JSON)
    return json.dumps(fields).encode()


@settings(max_examples=100)
@given(st.binary() | said(SILENCE) | said(DECISION) | said(OPENED))
def test_what_is_no_such_value_is_a_mistake_of_configuration(value: bytes) -> None:
    for decoder in (decode_silence, decode_decision, decode_opened):
        with contextlib.suppress(ConfigurationError):
            decoder(value)


@st.composite
def mutated(draw: st.DrawFn, real: list[Entry]) -> Entry:
    """A real entry, of which one value of what it tells is anything, or is not there."""
    entry = draw(st.sampled_from(real))
    document = json.loads(entry.body)
    inside = draw(st.sampled_from([document, document["data"], document["data"]["snapshot"]]))
    name = draw(st.sampled_from(sorted(inside)))
    if draw(st.booleans()):
        inside[name] = draw(ANY_JSON)
    else:
        del inside[name]
    return evolve(entry, id=f"odd-{draw(st.integers(0, 9))}", body=json.dumps(document).encode())


class TestTheJournal:
    def test_what_cannot_be_understood_is_counted_and_the_rest_is_read(self) -> None:
        watch = scratch_watch()
        watch.world.down(2)
        (*_, left) = watch.world.look(0)
        no_events = [evolve(left, id=f"odd-{n}", body=b) for n, b in enumerate((b"{", b"{}", b"[]", b"\xff"))]
        watch.journal([*no_events, left])
        assert names(watch.after(31)) == ["incident.opened"]
        assert watch.reader.stats.unreadable == 4
        assert [letter.entry.id for letter in watch.outbox.dead_letters(READER)] == [
            "odd-0", "odd-1", "odd-2", "odd-3",
        ]  # fmt: skip

    @settings(max_examples=100)
    @given(data=st.data())
    def test_whatever_lies_in_the_journal_what_comes_after_it_is_told(self, data: st.DataObject) -> None:
        watch = scratch_watch()
        watch.world.down(3)
        real = watch.world.look(0)
        watch.world.down(2)
        later = watch.world.look(5)
        watch.journal([*data.draw(st.lists(mutated(real), min_size=1, max_size=5)), *later])
        opened = [
            json.loads(entry.body)["data"]["brokers"]
            for entry in watch.after(40)
            if entry.name == "incident.opened"
        ]
        assert [2] in opened
        assert watch.reader.stats.failures == 0
        assert decode(encode(watch.reader._reducer), Rules()) == watch.reader._reducer

    def test_many_odd_entries_are_read_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Reading a batch anew for each of them would put pages off for minutes."""
        watch = scratch_watch()
        watch.world.down(2)
        (*_, left) = watch.world.look(0)
        watch.journal([*(evolve(left, id=f"odd-{n}", body=b"{") for n in range(300)), left])
        reads: list[int] = []

        def read(reader: str, limit: int, healthy: Any = watch.outbox.read) -> Any:
            reads.append(limit)
            return healthy(reader, limit)

        monkeypatch.setattr(watch.outbox, "read", read)
        watch.clock.advance(31)
        assert not watch.reader.run_once()
        assert (watch.reader.stats.unreadable, len(reads)) == (300, 1)
        assert names(watch.delivered()) == ["incident.opened"]

    def test_a_failure_in_going_back_ends_nothing_either(self, monkeypatch: pytest.MonkeyPatch) -> None:
        watch = scratch_watch()
        broken = True

        def values(prefix: str, healthy: Any = watch.outbox.values) -> Any:
            if broken:
                raise RecursionError
            return healthy(prefix)

        monkeypatch.setattr(watch.outbox, "values", values)
        watch.world.down(2)
        watch.look()
        with watch.reader:
            for second in range(40):
                broken = second < 3
                watch.clock.wait_for_waiters()
                watch.clock.advance(1)
            watch.clock.wait_for_waiters()
        assert names(watch.delivered()) == ["incident.opened"]
