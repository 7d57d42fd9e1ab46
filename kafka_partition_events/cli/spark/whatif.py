"""``kpe spark whatif``: what would move, and how evenly keys would lie, with more partitions."""

import contextlib
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import TYPE_CHECKING, Annotated, Final, get_args

import typer
from attrs import evolve, frozen

from kafka_partition_events.cli.common.errors import CliError
from kafka_partition_events.cli.common.event_text import counted
from kafka_partition_events.cli.common.logs import configure_logs
from kafka_partition_events.cli.common.options import Bootstrap, Verbose, parse_pairs, with_options
from kafka_partition_events.cli.common.output import (
    Output,
    OutputChoice,
    choose_output,
    report,
    write_json_line,
    write_line,
    write_table,
)
from kafka_partition_events.cli.services.services import Services, first_poll
from kafka_partition_events.cli.spark.options import CORES, JavaOptions
from kafka_partition_events.clients.librdkafka import redacted
from kafka_partition_events.diagnose.fingerprint import fingerprint
from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.jvm import spark_jars
from kafka_partition_events.legible import legible
from kafka_partition_events.spark.partitioner import HashName
from kafka_partition_events.spark.partitioner.compared import newest
from kafka_partition_events.spark.session import LASTING, opened_session
from kafka_partition_events.spark.whatif.plan import MappingName, scenarios
from kafka_partition_events.spark.whatif.results import HotKey, Outcome, WhatIf, to_json

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kafka_partition_events.spark.whatif.sample import Sample

_HOTTEST: Final = 10
"""How many of the keys with most records are shown."""
_MOST_COLUMNS: Final = 4
"""Scenarios beside each other in the table of hot keys, which fits 80 columns with most keys."""
_LONGEST_KEY: Final = 40


@frozen(kw_only=True)
class Source:
    """Where the keys are from, one of the three: a group of options."""

    topic: Annotated[
        str | None, typer.Option(metavar="TOPIC", help="Take the keys that this topic holds; needs -b.")
    ] = None
    table: Annotated[
        str | None, typer.Option(metavar="NAME", help="Or those of a table of Spark's catalog.")
    ] = None
    file: Annotated[
        str | None, typer.Option(metavar="PATH", help="Or those of files: .parquet, .csv, .jsonl, .orc.")
    ] = None
    bootstrap: Bootstrap = None
    java_options: JavaOptions = None
    key: Annotated[
        str, typer.Option(metavar="COLUMN", help="The column with the keys, of a table or file.")
    ] = "key"

    @property
    def options(self) -> dict[str, str]:
        """Return those of Kafka's Java client."""
        return parse_pairs(self.java_options or ())


@with_options
def whatif_command(
    context: typer.Context,
    *,
    to: Annotated[str, typer.Option(metavar="N[,N...]", help="How many partitions there would be.")],
    source: Source,
    partitions: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="How many partitions there are; not needed for a topic."),
    ] = None,
    hash_: Annotated[
        str | None,
        typer.Option(
            "--hash",
            metavar="NAME",
            help="murmur2 (Java; the default, and a topic's newest keys are compared) or crc32 (librdkafka).",
        ),
    ] = None,
    show_keys: Annotated[
        bool, typer.Option("--show-keys", help="Show the hottest keys themselves; they may be personal data.")
    ] = False,
    output: OutputChoice = None,
    verbose: Verbose = False,
) -> None:
    """Show what more partitions would do to a topic's keys, before they are added.

    For each number of partitions and each mapping: how many records have a key that would move; how the load
    would lie on the partitions (max/mean is how many times the mean the busiest one has); and where the
    hottest keys are and would be. One pass of Spark over the sample answers everything but the hottest keys.

    \b
    modulo      what every plain producer does: hash modulo partitions. 12 to 13 moves 92% of the keys.
    kept        any partitioner with key_partitions={"orders": 12}: growth moves none.

    \b
    kpe spark whatif -b localhost:9092 --topic orders --to 13,18,24
    kpe spark whatif --file keys.parquet --partitions 12 --to 24
    kpe spark whatif --table prod.orders --key customer --partitions 12 --to 18
    kpe spark whatif --file keys.jsonl --partitions 12 --to 13 | jq '.scenarios[].moved_share'

    Exit codes: 0 shown; 2 nothing to read, no such topic, column or format, a number that can't be, no
    PySpark or Java, unknown option.
    """  # noqa: D301 - \b is typer's mark for "do not re-wrap"
    configure_logs(verbose=verbose)
    _check(source)
    current = partitions or _partitions_of(source, context.obj)
    asked = scenarios(current, _numbers(to), get_args(MappingName))
    if hash_ not in {None, *get_args(HashName)}:
        raise CliError(f"--hash must be one of {', '.join(get_args(HashName))}, not {hash_!r}")
    hash_name: HashName = hash_ or "murmur2"  # type: ignore[assignment]  # as was checked
    if hash_ is None and source.topic is not None:
        _compare(source, source.topic)
    jars = list if source.topic is None else spark_jars
    with opened_session(jars, cores=CORES, name="kpe spark whatif", settings=LASTING) as session:

        def analysed() -> WhatIf:
            from kafka_partition_events.spark.whatif.analysis import what_if

            sample = _sample(session, source)
            report(f"note: counting the keys of {sample.name}")
            return what_if(sample, asked, hash_name=hash_name, hottest=_HOTTEST)

        answer = _interruptible(analysed)
    if not show_keys:
        numbered = (evolve(hot, key=f"#{place}") for place, hot in enumerate(answer.hottest, start=1))
        answer = evolve(answer, hottest=tuple(numbered))
    _write(answer, choose_output(output))


# -- what was asked ----------------------------------------------------------------------------------------


def _check(source: Source) -> None:
    given = [name for name in ("topic", "table", "file") if getattr(source, name) is not None]
    if len(given) != 1:
        named = " and ".join(f"--{name}" for name in given) or "none"
        raise CliError(f"the keys come from one of --topic, --table and --file; {named} is given")
    if source.topic is not None and source.bootstrap is None:
        raise CliError("no broker is given; write -b HOST:PORT")
    if source.topic is not None and source.key != "key":
        raise CliError("--key is for tables and files; a topic's records have theirs")


def _partitions_of(source: Source, services: Services) -> int:
    """Return how many partitions the topic has."""
    if source.topic is None or source.bootstrap is None:
        raise CliError("a table or file does not say how many partitions there are: give --partitions N")
    cure = "or say how many partitions it has and how keys are placed: --partitions N --hash murmur2"
    config = {**source.options, "bootstrap.servers": source.bootstrap}
    try:
        poller, _ = first_poll(services, config)
    except CliError as error:
        raise CliError(f"{error}; {cure}") from error
    with contextlib.closing(poller):
        found = None if poller.cluster is None else poller.cluster.by_topic.get(source.topic)
    if found is None:
        raise CliError(f"there is no topic {source.topic}; check the name")
    return len(found.partitions)


def _compare(source: Source, topic: str) -> None:
    """Raise if the topic's newest keys were placed by another hash than the default."""
    config = {**source.options, "bootstrap.servers": str(source.bootstrap)}
    try:
        names = fingerprint(*newest(config, topic)).hash_names
    except ConfigurationError as error:
        cure = "or say how keys are placed, so that none is compared: --hash murmur2"
        raise CliError(f"{redacted(str(error), config)}; {cure}") from error
    if not names or "murmur2" in names:
        return
    cure = f"say --hash {names[0]}" if names[0] in get_args(HashName) else "say --hash murmur2 nonetheless"
    raise CliError(f"the keys of {topic} are placed by {names[0]}, not by murmur2: {cure}")


def _numbers(text: str) -> list[int]:
    try:
        return [int(word) for word in text.split(",")]
    except ValueError:
        raise CliError(f"--to must be whole numbers such as 13,18,24, not {text!r}") from None


# -- running -----------------------------------------------------------------------------------------------


def _interruptible(work: Callable[[], WhatIf]) -> WhatIf:
    """Work on another thread, so that Ctrl-C finds the main one waiting for no answer of the JVM's.

    PySpark's handler asks the JVM to cancel, over the connection of the thread that it runs on. An answer
    that this one still waits for would get in its way.
    """
    done = Future[WhatIf]()

    def run() -> None:
        try:
            done.set_result(work())
        except BaseException as error:  # noqa: BLE001 - the waiting thread raises it
            done.set_exception(error)

    threading.Thread(target=run, name="kpe-whatif", daemon=True).start()
    return done.result()


# -- reading -----------------------------------------------------------------------------------------------


def _sample(session: "SparkSession", source: Source) -> "Sample":
    from kafka_partition_events.spark.whatif import sample

    if source.topic is not None:
        return sample.of_topic(session, str(source.bootstrap), source.topic, source.options)
    if source.table is not None:
        return sample.of_table(session, source.table, key=source.key)
    return sample.of_file(session, str(source.file), key=source.key)


# -- showing -----------------------------------------------------------------------------------------------


def _write(answer: WhatIf, form: Output) -> None:
    if form is not Output.TABLE:
        write_json_line(to_json(answer))
        return
    write_line(origin(answer))
    write_line(verdict(answer))
    write_line("")
    write_table(
        [tuple(_cells(outcome)) for outcome in answer.outcomes],
        ("PARTITIONS", "MAPPING", "MOVED", "", "MAX/MEAN", "THEN", "BUSIEST"),
    )
    if answer.hottest:
        write_line("")
        shown = [outcome.scenario for outcome in answer.outcomes[:_MOST_COLUMNS]]
        write_table(
            [tuple(_hot_cells(hot, len(shown))) for hot in answer.hottest],
            ("HOTTEST KEYS", "RECORDS", "SHARE", *(f"{s.partitions:,} {s.mapping}" for s in shown)),
        )


def origin(answer: WhatIf) -> str:
    """Return what was counted, in a line."""
    first = answer.outcomes[0]
    counts = counted(answer.current, "partition"), counted(first.keyed + first.unkeyed, "record")
    return ", ".join([answer.source, *counts, answer.hash_name, f"counted in {answer.seconds:.1f} s"])


def verdict(answer: WhatIf) -> str:
    """Return the answer in a sentence."""
    found = answer.outcomes
    if not found[0].keyed:
        return "No record has a key, so no growth would move any."
    most = max(found, key=lambda outcome: outcome.moved)
    least = min(found, key=lambda outcome: outcome.moved)
    said = f"{_short(most)} would move {percent(most.moved_share)} of the keyed records"
    if least.moved == most.moved:
        return f"{said}."
    return f"{said}, {_short(least)} {percent(least.moved_share) if least.moved else 'none'}."


def _short(outcome: Outcome) -> str:
    mapping = outcome.scenario.mapping
    return f"{outcome.scenario.partitions:,} partitions by {'kept keys' if mapping == 'kept' else mapping}"


def percent(share: float) -> str:
    """Return a share in percent; one just above 0%, or below 100%, is not rounded to it."""
    if 0 < share < 0.001:
        return "< 0.1%"
    if 0.999 < share < 1:
        return "> 99.9%"
    return "0" if share == 0 else f"{share:.1%}"


def _cells(outcome: Outcome) -> Iterator[str]:
    scenario = outcome.scenario
    yield f"{scenario.partitions:,}"
    yield scenario.mapping
    yield percent(outcome.moved_share)
    yield f"{outcome.moved:,}"
    yield f"{outcome.skew_before:,.2f}x"
    yield f"{outcome.skew_after:,.2f}x"
    yield str(outcome.busiest)


def _hot_cells(hot: HotKey, scenarios_shown: int) -> Iterator[str]:
    yield legible(hot.key, _LONGEST_KEY)
    yield f"{hot.records:,}"
    yield percent(hot.share)
    for before, after in zip(hot.before[:scenarios_shown], hot.after[:scenarios_shown], strict=True):
        yield str(before) if before == after else f"{before} -> {after}"
