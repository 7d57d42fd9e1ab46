"""What ``kpe spark fleet`` does with its options. PySpark is imported when something is to be run."""

import contextlib
import math
import re
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from datetime import date, timedelta
from decimal import Decimal
from types import FrameType
from typing import TYPE_CHECKING, Final

from attrs import evolve, field, frozen

from kafka_partition_events.cli.common.errors import CliError, needing
from kafka_partition_events.cli.common.output import Output, write_json_line, write_line
from kafka_partition_events.cli.spark.progress import shown
from kafka_partition_events.spark.progress import Progress
from kafka_partition_events.spark.tables.days import Days

if TYPE_CHECKING:
    from kafka_partition_events.spark.ingest.sources import KafkaSource
    from kafka_partition_events.spark.pipeline import Pipeline
    from kafka_partition_events.spark.tables.state import Mark

EXTRAS: Final = "cli,events,spark"
"""What the pipeline needs."""

_DAYS: Final = re.compile(r"(\d{4}-\d\d-\d\d)(?:\.\.(\d{4}-\d\d-\d\d))?")
_PERCENT: Final = re.compile(r"(\d+(?:\.\d+)?)%")


@frozen(kw_only=True)
class FleetJob:
    """The options.

    Attributes:
        control: What the names of the topics of change control begin with; None: no tables of changes.
        every: The time between two batches; None: take in what there is, then end.
        metrics: The address at which Prometheus finds metrics; None: nowhere.

    Raises:
        CliError: it is not told where events come from.
    """

    out: str
    work: str | None
    target: float
    bootstrap: str | None
    events_topic: str
    options: Mapping[str, str] = field(repr=False)
    control: str | None
    max_per_batch: int | None
    every: timedelta | None
    metrics: tuple[str, int] | None
    cores: int
    output: Output

    def __attrs_post_init__(self) -> None:
        if not self.bootstrap:
            raise CliError("say where events come from: -b HOST:PORT")


def parse_days(text: str) -> Days:
    """Return the days that ``2026-11-01..2026-11-07`` or ``2026-11-01`` means.

    Raises:
        CliError: it means none.
    """
    found = _DAYS.fullmatch(text)
    try:
        days = Days(*map(date.fromisoformat, (found[1], found[2] or found[1]))) if found else None
    except ValueError:  # the 32nd, or the end before the begin
        days = None
    if days is None:
        raise CliError(f"{text!r} is no range of days; write 2026-11-01..2026-11-07")
    return days


def parse_target(text: str) -> float:
    """Return the part that ``99.9%`` means.

    Raises:
        CliError: it means none between 0% and 100%, both excluded.
    """
    found = _PERCENT.fullmatch(text.strip())
    # Not by floats, where 99.9 / 100 is a little more than 0.999.
    target = float(Decimal(found[1]) / 100) if found else math.nan
    if not 0 < target < 1:
        raise CliError(f"{text!r} is no availability; write a percentage below 100, such as 99.9%")
    return target


# -- running -----------------------------------------------------------------------------------------------


def run_fleet(job: FleetJob) -> None:
    """Run the pipeline.

    Raises:
        CliError: something that it needs is not installed.
        SparkJobError: it failed.
        KeyboardInterrupt: it was to run once, and was interrupted.
    """
    with needing(EXTRAS):
        from kafka_partition_events.spark.pipeline import Fleet, Pipeline  # noqa: PLC0415
        from kafka_partition_events.spark.session import LASTING, opened_session  # noqa: PLC0415
    fleet = Fleet(out=job.out, work=job.work, target=job.target)
    with contextlib.ExitStack() as told:
        progress: Progress = told.enter_context(
            shown(None if job.output is Output.TABLE else lambda done: write_json_line(done.as_json()))
        )
        if job.metrics is not None:
            progress = told.enter_context(metrics_at(job.metrics, progress))
        progress.tell("starting Spark")
        with opened_session(cores=job.cores, name="kpe spark fleet", settings=LASTING) as spark:
            pipeline = Pipeline(spark, fleet, progress)
            with _stopped_by_signals(pipeline.stop):
                mark = _run(pipeline, job)
    if job.output is Output.TABLE:
        last = mark.last_news
        until = "no event yet" if last is None else f"the last news is of {last:%Y-%m-%d %H:%M:%SZ}"
        write_line(f"{job.out}: {mark.totals}; {until}")
    if job.every is None and pipeline.stopping:
        raise KeyboardInterrupt


@contextlib.contextmanager
def metrics_at(address: tuple[str, int], progress: Progress) -> Iterator[Progress]:
    """Let Prometheus find at an address what a pipeline tells."""
    with needing(f"{EXTRAS},metrics"):
        from prometheus_client import CollectorRegistry, start_http_server  # noqa: PLC0415

        from kafka_partition_events.spark.ingest.metrics import Metrics  # noqa: PLC0415
    registry = CollectorRegistry()
    try:
        server, thread = start_http_server(address[1], address[0], registry)
    except OSError as error:
        raise CliError(f"--metrics-listen: can't listen there: {error.strerror or error}") from error
    try:
        yield Metrics(registry, progress)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _run(pipeline: "Pipeline", job: FleetJob) -> "Mark":
    source = _source(job, job.events_topic)
    control = None
    if job.control is not None:
        # What a tracker wrote that was fenced in the middle was never said.
        committed = {**job.options, "isolation.level": "read_committed"}
        control = _source(evolve(job, options=committed), f"{job.control}changes")
    if job.every is None:
        return pipeline.run_once(source, control)
    return pipeline.run(source, job.every, control)


def _source(job: FleetJob, topic: str) -> "KafkaSource":
    from kafka_partition_events.spark.ingest.sources import KafkaSource  # noqa: PLC0415

    return KafkaSource(
        bootstrap=job.bootstrap or "", topic=topic, options=job.options, max_per_batch=job.max_per_batch
    )


@contextlib.contextmanager
def _stopped_by_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Let the first Ctrl-C or SIGTERM call a function, and a second one end everything at once."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may set a handler
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def handle(_number: int, _frame: FrameType | None) -> None:
        restore()
        stop()

    for number in before:
        signal.signal(number, handle)
    try:
        yield
    finally:
        restore()
