"""`kpe spark fleet`: its options, and what it counts. Without Spark."""

import json
from collections.abc import Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kafka_partition_events.cli.app import run
from kafka_partition_events.cli.common.errors import CliError
from kafka_partition_events.cli.spark.options import parse_target
from kafka_partition_events.cli.spark.report import parse_days
from kafka_partition_events.spark.progress import Lines, Refreshed
from kafka_partition_events.spark.tables.counts import Counts
from kafka_partition_events.spark.tables.days import Days, Hours, joined
from kafka_partition_events.spark.tables.state import INGEST, Reading, StateRow

Captured = pytest.CaptureFixture[str]


def days(first: int, last: int) -> Days:
    return Days(date(2026, 11, first), date(2026, 11, last))


class TestOptions:
    def test_days(self) -> None:
        assert parse_days("2026-11-01..2026-11-07") == days(1, 7)
        assert parse_days("2026-11-03") == days(3, 3)
        for text in ("yesterday", "2026-11-07..2026-11-01", "2026-11-32", "2026-11-01..", "9999-12-31"):
            with pytest.raises(CliError, match=r"no range of days; write 2026-11-01\.\.2026-11-07"):
                parse_days(text)

    def test_target(self) -> None:
        assert parse_target("99.9%") == 0.999
        for text in ("99.9", "0%", "100%", "high"):
            with pytest.raises(CliError, match=r"is no availability; write a percentage"):
                parse_target(text)

    @pytest.mark.parametrize(
        ("arguments", "told"),
        [
            ([], "say where events come from: -b HOST:PORT"),
            (["-b", "k:1", "--once", "--every", "5s"], "--once and --every exclude each other"),
            (["-b", "k:1", "--metrics-listen", "9406"], '"9406" is not an address such as'),
            (["-b", "k:1", "--once", "--metrics-listen", "[::1]:9"], "is for a pipeline that goes on"),
            (["-b", "k:1", "-X", "bootstrap.servers=x"], "give the brokers with -b"),
        ],
    )
    def test_what_makes_no_sense_is_told(
        self, arguments: Sequence[str], told: str, capsys: Captured, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv("KPE_BOOTSTRAP_SERVERS", raising=False)
        assert run(["spark", "fleet", "--out", "x", *arguments]) == 2
        assert told in " ".join(capsys.readouterr().err.split())

    @pytest.mark.parametrize(
        ("more", "cure"),
        [
            ([], "or say how many partitions it has and how keys are placed: --partitions N --hash murmur2"),
            (["--partitions", "12"], "or say how keys are placed, so that none is compared: --hash murmur2"),
        ],
    )
    def test_a_login_that_java_alone_understands_is_named_with_the_cure(
        self, more: Sequence[str], cure: str, tmp_path: Path, capsys: Captured
    ) -> None:
        (file := tmp_path / "jaas").write_text("not-to-be-shown", encoding="utf-8")
        asked = ["spark", "whatif", "-b", "x:1", "--topic", "orders", "--to", "13", *more]
        assert run([*asked, "-X", f"sasl.jaas.config_file={file}"]) == 2
        told = capsys.readouterr().err
        assert "JAAS" in told
        assert cure in told
        assert "not-to-be-shown" not in told

    def test_no_one_keeps_records_for_longer_than_there_are_dates(self, capsys: Captured) -> None:
        assert run(["spark", "maintain", "--out", "x", "--keep", "999999"]) == 2
        told = capsys.readouterr().err
        assert "--keep" in told
        assert "36500" in told

    @pytest.mark.parametrize("command", [["spark"], ["spark", "fleet"]])
    def test_help_has_examples(self, command: Sequence[str], capsys: Captured) -> None:
        assert run([*command, "--help"]) == 0
        assert "kpe spark fleet -b localhost:9092 --out /data/kpe --once" in capsys.readouterr().out


def test_the_page_has_the_line_for_spark_submit() -> None:
    from kafka_partition_events.spark.kafka import CONNECTOR, DELTA  # noqa: PLC0415 - needs PySpark
    from kafka_partition_events.spark.session import DELTAS  # noqa: PLC0415

    page = (Path(__file__).parents[2] / "docs" / "fleet.md").read_text(encoding="utf-8")
    for words in (f"--packages {CONNECTOR},{DELTA}", *(f"--conf {name}={DELTAS[name]}" for name in DELTAS)):
        assert words in page


def test_a_topic_is_begun_where_its_first_batch_ended_also_where_all_of_a_partition_is_expired() -> None:
    from kafka_partition_events.spark.pipeline import Pipeline  # noqa: PLC0415 - needs PySpark

    ends = SimpleNamespace(endOffset='{"kpe.events": {"0": 8, "7": 5000}}', latestOffset=None)
    query: Any = SimpleNamespace(id="q", lastProgress=SimpleNamespace(sources=[ends]))
    pipeline: Any = SimpleNamespace(_sources={INGEST: None})
    state = StateRow(readings={INGEST: Reading(source="a topic")})
    seen = Pipeline._seen(pipeline, state, [query])
    assert seen.readings[INGEST].next == {"0": 8, "7": 5000}
    ends.endOffset = '{"kpe.events": {"0": 9, "7": 5000, "8": 3}}'  # 8 is new: it begins at 0
    assert Pipeline._seen(pipeline, seen, [query]).readings[INGEST].next == {"0": 8, "7": 5000}


class TestDays:
    def test_ranges_that_touch_become_one(self) -> None:
        assert joined([days(5, 6), days(1, 2), days(3, 3), days(2, 2)]) == [days(1, 3), days(5, 6)]
        assert joined(list[Days]()) == []
        found = joined([Hours(5, 6), Hours(1, 2), Hours(3, 3), Hours(2, 2)])
        assert found == [Hours(1, 3), Hours(5, 6)]

    def test_hours_know_their_days(self) -> None:
        two = days(1, 2)
        assert Hours.touched(two.begin, two.begin).begin == two.begin
        assert Hours.touched(two.end, two.end).days == days(3, 3)


class TestProgress:
    def test_counts_add_up_and_read_well(self) -> None:
        total = Counts(read=1000, good=990, unparsed=10) + Counts(read=1000, good=1000, doubles=5)
        assert str(total) == "2,000 read, 1,990 good, 10 unparsed, 5 doubles"

    def test_lines(self) -> None:
        lines: list[str] = []
        told = Lines(lines.append)
        told.report("starting")
        done = Refreshed(
            ranges=[days(1, 1), days(3, 5)],
            counts={"ingest": Counts(read=7, good=7), "control": Counts(read=2, unparsed=1)},
            totals=Counts(read=7, good=7),
            until=datetime(2026, 11, 5, 1, tzinfo=UTC),
            seconds=2,
        )
        told.report(done)
        made = "refreshed: 2026-11-01, 2026-11-03 to 2026-11-05 (2.0 s); in all 7 read, 7 good"
        assert lines == ["starting", f"ingest: 7 read, 7 good; control: 2 read, 0 good, 1 unparsed; {made}"]
        none = dict.fromkeys(("unparsed", "unknown", "future", "past", "doubles", "missing"), 0)
        assert json.loads(json.dumps(done.as_json())) == {
            "days": ["2026-11-01..2026-11-01", "2026-11-03..2026-11-05"],
            "until": "2026-11-05T01:00:00Z",
            "seconds": 2,
            "totals": {"read": 7, "good": 7, **none},
        }
