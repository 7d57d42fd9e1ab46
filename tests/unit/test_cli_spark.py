"""`kpe spark fleet`: its options, the line for spark-submit, and what it counts. Without Spark."""

import json
import shlex
from collections.abc import Sequence
from datetime import UTC, date, datetime
from itertools import pairwise

import pytest

from kafka_partition_events.cli.app import run
from kafka_partition_events.cli.common.errors import CliError
from kafka_partition_events.cli.spark.fleet import parse_days, parse_target
from kafka_partition_events.cli.spark.submit import SCRIPT
from kafka_partition_events.spark.progress import Lines, Refreshed
from kafka_partition_events.spark.tables.counts import Counts
from kafka_partition_events.spark.tables.days import Days, Hours, joined
from tests.login_kit import login_options

Captured = pytest.CaptureFixture[str]


def days(first: int, last: int) -> Days:
    return Days(date(2026, 11, first), date(2026, 11, last))


class TestOptions:
    def test_days(self) -> None:
        assert parse_days("2026-11-01..2026-11-07") == days(1, 7)
        assert parse_days("2026-11-03") == days(3, 3)
        for text in ("yesterday", "2026-11-07..2026-11-01", "2026-11-32", "2026-11-01.."):
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
            (["-b", "k:1", "--every", "soon"], "'soon' is not a duration"),
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

    @pytest.mark.parametrize("command", [["spark"], ["spark", "fleet"]])
    def test_help_has_examples(self, command: Sequence[str], capsys: Captured) -> None:
        assert run([*command, "--help"]) == 0
        told = capsys.readouterr().out
        assert "kpe spark fleet -b localhost:9092 --out /data/kpe --once" in told
        assert "--print-submit" in told


class TestSubmitLine:
    """All commands print it alike: what was given, and nothing else."""

    def line(self, capsys: Captured, *arguments: str) -> list[str]:
        assert run(["spark", *arguments, "--print-submit"]) == 0
        return shlex.split(capsys.readouterr().out)

    def test_it_names_the_connector_and_what_was_given_and_no_secret(self, capsys: Captured) -> None:
        import pyspark  # noqa: PLC0415

        login = login_options({"sasl.jaas.config": "secret"})
        given = ["-b", "kafka:9092", "--topic", "orders", *login, "--mapping", "kept", "--show-keys"]
        line = self.line(capsys, "whatif", "--to", "13,24", *given)
        package = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}"
        assert line[:5] == ["spark-submit", "--packages", package, str(SCRIPT), "whatif"]
        assert SCRIPT.is_file()
        pairs = list(pairwise(line[5:]))
        assert ("--to", "13,24") in pairs
        assert ("--bootstrap-server", "kafka:9092") in pairs
        assert ("--topic", "orders") in pairs
        assert ("-X", "sasl.jaas.config_file=...") in pairs
        assert ("--mapping", "kept") in pairs
        assert "--show-keys" in line
        assert not {"--print-submit", "--hash", "--hottest", "--verbose"} & set(line)

    def test_the_pipeline_s_words_are_kept_as_they_were_written(self, capsys: Captured) -> None:
        given = {"--every": "90s", "--target": "99.95%", "--work": "s3a://w"}
        words = [word for pair in given.items() for word in pair]
        line = self.line(
            capsys, "fleet", "-b", "kafka:9092", "--out", "lake.kpe", *words, "--output", "jsonl"
        )
        assert line[1] == "--packages"
        assert given.items() <= set(pairwise(line))
        assert ("--output", "jsonl") in set(pairwise(line))
        assert not {"--once", "--events-topic", "--cores"} & set(line)

    @pytest.mark.parametrize(
        "words",
        [
            ["whatif", "--to", "13", "--file", "s3a://lake/keys.parquet", "--partitions", "12"],
            ["report", "--tables", "s3a://lake/kpe", "--days", "2026-11-01..2026-11-02", "--out", "w.html"],
        ],
        ids=["files", "a report"],
    )
    def test_what_reads_no_topic_needs_no_connector(
        self, words: list[str], capsys: Captured, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv("KPE_BOOTSTRAP_SERVERS", raising=False)
        line = self.line(capsys, *words)
        assert not any("spark-sql-kafka" in word for word in line)
        assert any("io.delta" in word for word in line) == (words[0] != "whatif")
        assert sorted(line[line.index(str(SCRIPT)) + 1 :]) == sorted(words)

    def test_what_makes_no_sense_has_no_line(self, capsys: Captured) -> None:
        assert run(["spark", "report", "--tables", "x", "--days", "soon", "--print-submit"]) == 2
        assert "is no range of days" in capsys.readouterr().err


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
        told.tell("starting")
        done = Refreshed(
            ranges=[days(1, 1), days(3, 5)],
            counts={"ingest": Counts(read=7, good=7), "control": Counts(read=2, unparsed=1)},
            totals=Counts(read=7, good=7),
            until=datetime(2026, 11, 5, 1, tzinfo=UTC),
            seconds=2,
        )
        told.tell(done)
        made = "made anew: 2026-11-01, 2026-11-03 to 2026-11-05 (2.0 s); in all 7 read, 7 good"
        assert lines == [
            "starting",
            f"ingest: 7 read, 7 good; control: 2 read, 0 good, 1 unparsed; {made}",
        ]
        assert json.loads(json.dumps(done.as_json())) == {
            "days": ["2026-11-01..2026-11-01", "2026-11-03..2026-11-05"],
            "until": "2026-11-05T01:00:00Z",
            "seconds": 2,
            "totals": {
                "read": 7,
                "good": 7,
                "unparsed": 0,
                "unknown": 0,
                "future": 0,
                "past": 0,
                "doubles": 0,
                "missing": 0,
            },
        }
