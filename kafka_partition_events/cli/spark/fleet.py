"""``kpe spark fleet``: tables of what happened to a fleet. PySpark is imported when it is to run."""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from types import FrameType
from typing import Annotated

import typer

from kafka_partition_events.cli.common.errors import CliError, needing
from kafka_partition_events.cli.common.logs import configure_logs
from kafka_partition_events.cli.common.options import (
    Bootstrap,
    Verbose,
    parse_address,
    parse_duration,
    parse_pairs,
)
from kafka_partition_events.cli.common.output import (
    Output,
    OutputChoice,
    choose_output,
    report,
    write_json_line,
    write_line,
)
from kafka_partition_events.cli.spark.options import (
    CORES,
    EXTRAS,
    JavaOptions,
    Out,
    Target,
    Work,
    parse_target,
)
from kafka_partition_events.spark.progress import Lines, Progress, Refreshed


def fleet_command(
    out: Out,
    bootstrap: Bootstrap = None,
    events_topic: Annotated[
        str, typer.Option(metavar="TOPIC", help="Where observers write their events.")
    ] = "kpe.events",
    java_options: JavaOptions = None,
    control_prefix: Annotated[
        str | None,
        typer.Option(
            metavar="PREFIX",
            help="Keep a table of changes, too, from the topic PREFIXchanges at -b; the tracker's prefix is "
            "kpe. by default.",
        ),
    ] = None,
    work: Work = None,
    once: Annotated[bool, typer.Option("--once", help="Take in what there is, then end.")] = False,
    every: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION", help="Without --once: the time between two batches. By default 60s."
        ),
    ] = None,
    target: Target = "99.9%",
    max_per_batch: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="So many records in a batch at most.")
    ] = None,
    metrics_listen: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            help="Where Prometheus finds metrics of this pipeline: lag, quarantine, age of the tables.",
        ),
    ] = None,
    output: OutputChoice = None,
    verbose: Verbose = False,
) -> None:
    """Keep tables of what happened to a fleet, from the events that observers write to a topic.

    bronze/records has what came, and the event in it; what is no event has a defect instead, and is in
    quarantine. gold has partition_outages (begin and end each with a lower and an upper bound),
    availability_hourly and _daily (as a range: unobserved time is neither up nor down), slo_burn,
    leader_churn, skew, partition_count_history; by day and hour. With
    --control-prefix also change_convergence.

    Killed at any moment, it goes on where it was: nothing is lost or doubled. Ctrl-C or SIGTERM ends it at
    the next end of a batch. Counts are shown as it goes: records read, good, unparsed, unknown (a type or
    version that is not known yet), future and past (of an observer whose clock is ahead or behind), doubles
    (from two observers, or sent twice), missing (gone from the topic before they were read). To stdout goes a
    line in the end; with another --output, or in a pipe, a JSON object for each refresh of the tables.

    \b
    kpe spark fleet -b localhost:9092 --out /data/kpe --once
    kpe spark fleet -b localhost:9092 --out /data/kpe --every 60s --metrics-listen 127.0.0.1:9406
    kpe spark fleet -b localhost:9092 --control-prefix kpe. --out /data/kpe --every 60s
    kpe spark fleet -b kafka:9092 --out lake.kpe --work s3a://lake/kpe-work

    Exit codes: 0 done, or stopped; 2 no such topic, wrong address, another source, a
    directory that holds something else, Spark failed; 130 --once was interrupted.
    """  # noqa: D301 - \b is typer's mark for "do not re-wrap"
    configure_logs(verbose=verbose)
    if not bootstrap:
        raise CliError("say where events come from: -b HOST:PORT")
    if once and every:
        raise CliError("--once and --every exclude each other")
    if metrics_listen and once:
        raise CliError("--metrics-listen is for a pipeline that goes on: leave out --once")
    pause = timedelta(seconds=parse_duration(every or "60s"))
    promised, options, form = parse_target(target), parse_pairs(java_options or ()), choose_output(output)
    address = None if metrics_listen is None else parse_address(metrics_listen, "--metrics-listen")
    with needing(EXTRAS):
        from kafka_partition_events.spark.ingest.sources import KafkaSource
        from kafka_partition_events.spark.pipeline import Fleet, Pipeline
        from kafka_partition_events.spark.session import BRIEF, LASTING, opened_session
    source = partial(KafkaSource, bootstrap=bootstrap, max_per_batch=max_per_batch)
    events, control = source(topic=events_topic, options=options), None
    if control_prefix is not None:
        # What a tracker wrote that was fenced in the middle was never said.
        committed = {**options, "isolation.level": "read_committed"}
        control = source(topic=f"{control_prefix}changes", options=committed)
    with contextlib.ExitStack() as opened:
        progress: Progress = FleetProgress(form)
        if address is not None:
            progress = opened.enter_context(metrics_at(address, progress))
        progress.report("starting Spark")
        session = opened_session(cores=CORES, name="kpe spark fleet", settings=BRIEF if once else LASTING)
        fleet = Fleet(out=out, work=work, target=promised)
        pipeline = Pipeline(opened.enter_context(session), fleet, progress)
        with _stopped_by_signals(pipeline.stop):
            mark = pipeline.run_once(events, control) if once else pipeline.run(events, pause, control)
    if form is Output.TABLE:
        last = mark.last_news
        until = "no event yet" if last is None else f"the last news is of {last:%Y-%m-%d %H:%M:%SZ}"
        write_line(f"{out}: {mark.totals}; {until}")
    if once and pipeline.stopping:
        raise KeyboardInterrupt


class FleetProgress(Lines):
    """Shows each step on stderr; in JSON a refresh of the tables on stdout, too."""

    def __init__(self, form: Output) -> None:
        super().__init__(report)
        self._form = form

    def report(self, what: str | Refreshed) -> None:
        """Report it."""
        super().report(what)
        if self._form is Output.JSONL and isinstance(what, Refreshed):
            write_json_line(what.as_json())


@contextlib.contextmanager
def metrics_at(address: tuple[str, int], progress: Progress) -> Iterator[Progress]:
    """Serve metrics of a pipeline's progress at an address, for Prometheus."""
    with needing(f"{EXTRAS},metrics"):
        from prometheus_client import CollectorRegistry, start_http_server

        from kafka_partition_events.spark.ingest.metrics import IngestMetrics
    registry = CollectorRegistry()
    try:
        server, thread = start_http_server(address[1], address[0], registry)
    except OSError as error:
        raise CliError(f"--metrics-listen: can't listen there: {error.strerror or error}") from error
    try:
        yield IngestMetrics(registry, progress)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


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
