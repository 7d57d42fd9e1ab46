"""The what-if planner on a real Spark: exact for every key, whatever the sample lies in."""

import json
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer

from kafka_partition_events import ConfigurationError
from kafka_partition_events.cli.app import run
from kafka_partition_events.routing.jump import jump
from kafka_partition_events.spark.errors import SparkJobError
from kafka_partition_events.spark.whatif.plan import HashName, Placed, Scenario, placing, scenarios
from kafka_partition_events.spark.whatif.results import Counted, Fate, Load, Outcome, Side, outcomes
from kafka_partition_events.testing import KafkaCluster
from kafka_partition_events.testing.plugin import MakeTopic
from tests.whatif_kit import keys, partitioner_of, snapshot
from tests.whatif_kit import placing as placing_by

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

EXAMPLE = Path(__file__).parents[2] / "examples" / "spark" / "whatif.py"
KEYS = keys()
Group = tuple[Side, int | None, bool, Fate]
ALL: tuple[Scenario, ...] = (
    *scenarios(12, [13, 18, 24], ["modulo", "pinned", "rendezvous"]),
    *scenarios(12, [24], ["modulo", "pinned", "rendezvous"], [{0, 5, 17}], cap=9),
    *scenarios(12, [18], ["modulo", "pinned", "rendezvous"], [{0, 5, 17}], keyed="reroute"),
    *scenarios(12, [13], ["modulo", "rendezvous"], [{12}], keyed="raise"),
    *scenarios(12, [12], ["modulo"], [range(12)]),
    *scenarios(12, [17], ["rendezvous"], placed_by="modulo"),
)


ROWS: tuple[tuple[bytes | None, int], ...] = (
    *((key, 100 + place) for place, key in enumerate([*KEYS, *KEYS[:500]])),
    *(((None, 7),) * 60),
)
"""Ten thousand keys, some of them twice, and rows without one; bytes tell the rows apart."""


@pytest.fixture(scope="module")
def sample(spark: "SparkSession") -> "DataFrame":
    return spark.createDataFrame(ROWS, "key BINARY, bytes BIGINT").repartition(3).cache()


@cache
def expected(scenario: Scenario, hash_name: HashName = "murmur2") -> Outcome:
    """Return what `ROWS` come to."""
    return by_hand(ROWS, scenario, hash_name)


def by_hand(rows: Sequence[tuple[bytes | None, int]], scenario: Scenario, hash_name: HashName) -> Outcome:
    """Place each key by the partitioners' own functions."""
    place = placing(scenario, hash_name)
    records: Counter[Group] = Counter()
    sizes: Counter[Group] = Counter()
    for key, size in rows:
        for group in (
            [(Side.AFTER, None, False, Fate.UNKEYED)] if key is None else _groups(scenario, place(key))
        ):
            records[group] += 1
            sizes[group] += size
    (found,) = outcomes(
        [scenario],
        (
            Counted(
                scenario=0,
                side=group[0],
                partition=group[1],
                moved=group[2],
                fate=group[3],
                load=Load(count, sizes[group]),
            )
            for group, count in records.items()
        ),
    )
    return found


def _groups(scenario: Scenario, placed: Placed) -> list[Group]:
    fate = Fate.HOME
    if placed.goes_to is None:
        fate = Fate.REFUSED
    elif placed.goes_to in scenario.offline:
        fate = Fate.HELD
    elif placed.goes_to != placed.home:
        fate = Fate.REROUTED
    return [
        (Side.BEFORE, placed.before, False, Fate.HOME),
        (Side.AFTER, placed.goes_to, placed.home != placed.before, fate),
    ]


# -- exactness -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["jvm", "arrow"])
def test_the_jump_hash_is_the_same_number_for_number(spark: "SparkSession", backend: Any) -> None:
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    from kafka_partition_events.spark.whatif.jump_column import WIDTH, jump_column  # noqa: PLC0415

    jumping = jump_column(spark, backend)
    counts = (1, 2, 3, 12, 13, 24, 1_000, 4_194_304)
    number = F.when(F.col("id") % 1_000 != 7, F.col("id") * 2_654_435_761 % WIDTH)
    numbers = spark.range(5_000).select(number.alias("number"))
    columns = (jumping(F.col("number"), count).alias(f"to_{count}") for count in counts)
    rows = numbers.select("number", *columns).collect()
    assert sum(row["number"] is None for row in rows) == 5
    for row in rows:
        for count in counts:
            expected = None if row["number"] is None else jump(row["number"], count)
            assert row[f"to_{count}"] == expected


@pytest.mark.parametrize("mapping", ["modulo", "pinned", "rendezvous"])
def test_the_columns_are_what_the_partitioners_answer(spark: "SparkSession", mapping: Any) -> None:
    from kafka_partition_events.spark.whatif.columns import with_scenarios  # noqa: PLC0415

    asked = scenarios(12, [13, 18, 24], [mapping])
    rows = spark.createDataFrame([(key,) for key in KEYS], "key BINARY")
    found = with_scenarios(rows, asked).collect()
    partitioner = partitioner_of(mapping, 12)
    for scenario in asked:
        partitioner.adopt(snapshot(scenario.partitions))
        place = placing_by(partitioner)
        assert [row[scenario.name] for row in found] == [place(bytes(row["key"])) for row in found]
    partitioner.close()


def test_text_is_hashed_by_its_utf_8_and_no_key_has_no_partition(spark: "SparkSession") -> None:
    from kafka_partition_events.spark.whatif.columns import with_scenarios  # noqa: PLC0415

    asked = scenarios(12, [24], ["modulo", "rendezvous"], [{3}], keyed="reroute")
    texts = ["", "plain", "größer", "日本", None]
    rows = with_scenarios(spark.createDataFrame([(text,) for text in texts], "key STRING"), asked).collect()
    for scenario in asked:
        place = placing(scenario)
        expected = [None if text is None else place(text.encode()).goes_to for text in texts]
        assert [row[scenario.name] for row in rows] == expected


@pytest.mark.parametrize(
    ("hash_name", "limit"),
    [("murmur2", 1), ("murmur2", 500), ("murmur2", 1 << 30), ("crc32", 1 << 14)],
    ids=["each alone", "some together", "all together", "crc32"],
)
def test_what_is_counted_is_what_comes_of_placing_each_key(
    sample: "DataFrame", hash_name: HashName, limit: int
) -> None:
    from kafka_partition_events.spark.whatif.counting import count  # noqa: PLC0415

    found = outcomes(ALL, count(sample, ALL, hash_name, limit=limit))
    assert list(found) == [expected(scenario, hash_name) for scenario in ALL]


def test_growth_moves_what_it_is_said_to_move(sample: "DataFrame") -> None:
    from kafka_partition_events.spark.whatif.counting import count  # noqa: PLC0415

    found = outcomes(ALL, count(sample, ALL))
    moved = {outcome.scenario.name: outcome.moved_share for outcome in found[:9]}
    assert moved["modulo_13"] == pytest.approx(12 / 13, abs=0.01)
    assert moved["modulo_18"] == pytest.approx(2 / 3, abs=0.015)
    assert moved["modulo_24"] == pytest.approx(1 / 2, abs=0.015)
    assert moved["rendezvous_13"] == pytest.approx(1 / 13, abs=0.01)
    assert moved["rendezvous_24"] == pytest.approx(1 / 2, abs=0.015)
    assert [moved[f"pinned_{count}"] for count in (13, 18, 24)] == [0, 0, 0]


@pytest.mark.parametrize(
    "asked",
    [scenarios(12, range(13, 33)), scenarios(40_000, [60_001], ["modulo", "rendezvous"])],
    ids=["twenty at once", "more combinations than an INT has"],
)
def test_any_numbers_of_partitions_can_be_asked_about(sample: "DataFrame", asked: Sequence[Scenario]) -> None:
    from kafka_partition_events.spark.whatif.counting import count  # noqa: PLC0415

    found = outcomes(asked, count(sample, asked))
    assert found[-1] == expected(asked[-1])
    assert {outcome.keyed for outcome in found} == {found[-1].keyed}


# -- from a sample to the answer -----------------------------------------------------------------------


def written(spark: "SparkSession", directory: Path, kind: str) -> str:
    """Write keys with their sizes, of which ``hot`` has half, and return the path."""
    rows = [("hot" if place % 2 else f"user_{place}", 100 + place) for place in range(200)]
    path = directory / f"keys.{kind}"
    writer = spark.createDataFrame(rows, "customer STRING, size BIGINT").coalesce(1).write
    writer.format(kind).option("header", True).save(str(path))
    return str(path)


@pytest.mark.parametrize("kind", ["parquet", "json", "csv"])
def test_a_file_of_any_kind_gives_the_same_answer(spark: "SparkSession", tmp_path: Path, kind: str) -> None:
    from kafka_partition_events.spark.whatif.analysis import what_if  # noqa: PLC0415
    from kafka_partition_events.spark.whatif.sample import of_file  # noqa: PLC0415

    sample = of_file(spark, written(spark, tmp_path, kind), key="customer", size="size")
    answer = what_if(sample, scenarios(12, [13], ["modulo", "rendezvous"]), hottest=3)
    (first, *_) = answer.outcomes
    assert (first.keyed, answer.noun, answer.has_bytes) == (Load(200, 39_900), "record", True)
    assert answer.hottest[0].key == "hot"
    assert (answer.hottest[0].load.records, answer.hottest[0].share) == (100, 0.5)
    assert answer.hottest[0].after == tuple(
        placing(outcome.scenario)(b"hot").goes_to for outcome in answer.outcomes
    )


def test_each_key_may_count_once(spark: "SparkSession", tmp_path: Path) -> None:
    from kafka_partition_events.spark.whatif.analysis import what_if  # noqa: PLC0415
    from kafka_partition_events.spark.whatif.sample import of_file  # noqa: PLC0415

    sample = of_file(spark, written(spark, tmp_path, "parquet"), key="customer", size="size").each_key_once()
    answer = what_if(sample, scenarios(12, [13]), hottest=1)
    assert answer.outcomes[0].keyed == Load(101, 39_900)
    assert answer.noun == "key"
    assert answer.hottest[0].key == "hot"  # by its bytes


def test_a_table_is_read_and_a_record_s_length_counts(spark: "SparkSession") -> None:
    from kafka_partition_events.spark.whatif.sample import of_table  # noqa: PLC0415

    spark.createDataFrame([("a", "12345"), (None, None)], "key STRING, value STRING").createOrReplaceTempView(
        "whatif_records"
    )
    sample = of_table(spark, "whatif_records", size="value")
    assert sorted(map(tuple, sample.rows.collect()), key=str) == [("a", 5), (None, None)]
    assert not of_table(spark, "whatif_records").has_bytes


def test_a_part_of_a_sample_is_the_same_each_time(spark: "SparkSession") -> None:
    from kafka_partition_events.spark.whatif.sample import of_frame  # noqa: PLC0415

    rows = spark.range(10_000).selectExpr("cast(id AS string) AS key")
    part = of_frame(rows, "rows").fraction(0.1)
    assert 800 < part.rows.count() < 1_200
    assert part.rows.count() == of_frame(rows, "rows").fraction(0.1).rows.count()


@pytest.mark.parametrize(
    ("read", "error", "complaint"),
    [
        (
            lambda s, sample: sample.of_frame(s.range(1), "rows", key="id"),
            ConfigurationError,
            "the keys in id of rows are BIGINT",
        ),
        (
            lambda s, sample: sample.of_frame(s.range(1), "rows"),
            ConfigurationError,
            "rows has no column key; there are id",
        ),
        (
            lambda s, sample: sample.of_frame(s.sql("SELECT 'a' key, true b"), "rows", size="b"),
            ConfigurationError,
            "the bytes in b of rows are BOOLEAN",
        ),
        (lambda s, sample: sample.of_table(s, "nowhere"), SparkJobError, "no table nowhere can be read"),
        (lambda s, sample: sample.of_file(s, "/nowhere.parquet"), SparkJobError, "/nowhere.parquet can't be"),
        (
            lambda s, sample: sample.of_file(s, "/keys.xls"),
            ConfigurationError,
            "does not end in a known format",
        ),
        (
            lambda s, sample: sample.of_frame(s.sql("SELECT 'a' key"), "rows").fraction(2),
            ConfigurationError,
            "more than 0 and at most 1, not 2",
        ),
    ],
)
def test_what_can_not_be_a_sample_is_refused_with_the_cause(
    spark: "SparkSession", read: Callable[[Any, Any], object], error: type[Exception], complaint: str
) -> None:
    from kafka_partition_events.spark.whatif import sample  # noqa: PLC0415

    with pytest.raises(error, match=complaint):
        read(spark, sample)


def test_nothing_is_no_sample(spark: "SparkSession") -> None:
    from kafka_partition_events.spark.whatif.analysis import what_if  # noqa: PLC0415
    from kafka_partition_events.spark.whatif.sample import of_frame  # noqa: PLC0415

    empty = of_frame(spark.createDataFrame([], "key STRING"), "rows")
    with pytest.raises(SparkJobError, match="there is nothing in rows"):
        what_if(empty, scenarios(12, [13]))


def test_what_fails_while_it_is_read_is_told_without_a_stack(spark: "SparkSession") -> None:
    from kafka_partition_events.spark.whatif.analysis import what_if  # noqa: PLC0415
    from kafka_partition_events.spark.whatif.sample import of_frame  # noqa: PLC0415

    rows = spark.range(3).selectExpr("raise_error('the disk is gone')::string AS key")
    with pytest.raises(SparkJobError, match=r"could not read rows: .*the disk is gone") as failed:
        what_if(of_frame(rows, "rows"), scenarios(12, [13]))
    assert "\tat " not in str(failed.value)


# -- the command ---------------------------------------------------------------------------------------


@pytest.fixture
def whatif(spark: "SparkSession", monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Run the command as ``kpe spark whatif`` does, in this process and its session."""
    import typer  # noqa: PLC0415

    from kafka_partition_events.cli import app as cli  # noqa: PLC0415
    from kafka_partition_events.cli.spark_whatif import whatif_command  # noqa: PLC0415

    app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)
    app.callback()(lambda: None)
    app.command("whatif")(whatif_command)
    monkeypatch.setattr(cli, "app", app)
    return lambda *words: run(["whatif", *words])


def test_a_table_on_the_terminal_and_a_picture(
    spark: "SparkSession", tmp_path: Path, whatif: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    path, picture = written(spark, tmp_path, "parquet"), tmp_path / "whatif.html"
    words = ["--file", path, "--key", "customer", "--bytes", "size", "--partitions", "12", "--to", "13,24"]
    assert whatif(*words, "--offline", "1", "--out", str(picture)) == 0
    told = capsys.readouterr()
    assert f"file {path}, 12 partitions, 200 records, 39.0 KiB, murmur2, counted in" in told.out
    lines = [line.split() for line in told.out.splitlines()]
    mappings = ("modulo", "pinned", "rendezvous")
    assert [line[:2] for line in lines if len(line) > 6 and line[0].isdigit() and line[1] in mappings] == [
        ["13", "modulo"],
        ["13", "pinned"],
        ["13", "rendezvous"],
        ["24", "modulo"],
        ["24", "pinned"],
        ["24", "rendezvous"],
    ]
    assert "#1" in told.out
    assert "hot" not in told.out.replace("hottest", "")  # it may be somebody's name
    assert "kpe: note: drawn in" in told.err
    html = picture.read_text(encoding="utf-8")
    assert html.startswith("<!doctype html>")
    assert "<script" not in html


def test_json_for_programs(
    spark: "SparkSession", tmp_path: Path, whatif: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(spark, tmp_path, "json")
    words = ["--file", path, "--key", "customer", "--partitions", "12", "--to", "18"]
    assert whatif(*words, "--mapping", "pinned", "--show-keys", "--hottest", "1", "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert [each["name"] for each in document["scenarios"]] == ["pinned_18"]
    assert document["scenarios"][0]["moved_share"] == 0
    assert [each["key"] for each in document["hottest"]] == ["hot"]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--to", "13"], "the keys come from one of --topic, --table and --file; none is given"),
        (["--to", "13", "--table", "a", "--file", "b"], "--table and --file is given"),
        (["--to", "13", "--file", "x.json"], "nobody tells how many partitions there are now"),
        (["--to", "13", "--topic", "orders"], "no broker is given; write -b HOST:PORT"),
        (["--to", "x", "--file", "x.json", "--partitions", "2"], "--to must be whole numbers such as 13,18"),
        (["--to", "1", "--file", "x.json", "--partitions", "2"], "Kafka takes none away"),
        (
            ["--to", "3", "--file", "x.json", "--partitions", "2", "--mapping", "y"],
            "--mapping must be one of",
        ),
        (["--to", "3", "--file", "x.json", "--partitions", "2", "--offline", "a"], "--offline must be"),
        (["--to", "3", "--file", "x.json", "--partitions", "2", "-o", "/nowhere/x"], "there is no such dir"),
        (["--to", "3", "--file", "/x.json", "--partitions", "2"], "/x.json can't be read as json"),
    ],
)
def test_what_can_not_be_answered_is_told_in_one_line(
    words: list[str],
    complaint: str,
    whatif: Callable[..., int],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("KPE_BOOTSTRAP_SERVERS", raising=False)
    assert whatif(*words) == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("kpe: ")
    assert complaint in last


@pytest.mark.kafka
def test_the_keys_of_a_topic(
    kafka_cluster: KafkaCluster,
    kafka_topic: MakeTopic,
    whatif: Callable[..., int],
    capsys: pytest.CaptureFixture[str],
) -> None:
    topic = kafka_topic(partitions=12)
    producer = Producer({**kafka_cluster.confluent_options, "partitioner": "murmur2_random"})
    for key in KEYS[:1_000]:
        producer.produce(topic, key=key, value=b"0123456789")
    for _ in range(24):
        producer.produce(topic, value=b"0123456789")
    assert producer.flush(60) == 0
    to_13 = ["--topic", topic, "--to", "13", "--mapping", "modulo"]
    assert whatif("-b", kafka_cluster.bootstrap_servers, *to_13, "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["partitions"] == 12
    modulo_13 = document["scenarios"][0]
    by_their_keys = by_hand(
        [(key, len(key) + 10) for key in KEYS[:1_000]], Scenario(current=12, partitions=13), "murmur2"
    )
    assert modulo_13["moved"] == {"records": by_their_keys.moved.records, "bytes": by_their_keys.moved.bytes}
    assert modulo_13["unkeyed"] == {"records": 24, "bytes": 240}
    assert whatif("-b", kafka_cluster.bootstrap_servers, "--topic", "no-such-topic", "--to", "13") == 2
    assert "there is no topic no-such-topic" in capsys.readouterr().err


def test_the_example_runs_as_it_is_printed(tmp_path: Path) -> None:
    shutil.copy(EXAMPLE, tmp_path / "whatif.py")
    done = subprocess.run(
        [sys.executable, "whatif.py"], cwd=tmp_path, capture_output=True, text=True, timeout=400, check=False
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r"13 partitions, modulo: \d+\.\d% would move, max/mean \d", done.stdout)
    assert "13 partitions, pinned keys: 0 would move" in done.stdout
    assert "customer-0: 33.3% of all records" in done.stdout
    assert (tmp_path / "whatif.html").read_text(encoding="utf-8").startswith("<!doctype html>")
