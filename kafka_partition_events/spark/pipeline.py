"""Runs the queries and the refreshes: once, or until it is told to stop.

Whatever is killed at any moment, and however often, goes on where it was: see `ledger`.
"""

import contextlib
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, timedelta
from typing import Any, Final

from attrs import field, frozen
from attrs.validators import min_len
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.listener import StreamingQueryListener
from pyspark.sql.streaming.query import StreamingQuery

from kafka_partition_events.spark import events, maintenance, ownership
from kafka_partition_events.spark.control.ingest import ensure, write_control
from kafka_partition_events.spark.errors import SparkJobError
from kafka_partition_events.spark.gold import outages, partition_counts
from kafka_partition_events.spark.gold.availability import Lasting
from kafka_partition_events.spark.gold.clusters import Clusters
from kafka_partition_events.spark.ingest import batches
from kafka_partition_events.spark.ingest.sources import Source
from kafka_partition_events.spark.kafka import cause_of
from kafka_partition_events.spark.progress import BatchDone, Progress, Refreshed
from kafka_partition_events.spark.refresh.gold import OF_EVENTS, OF_LASTING
from kafka_partition_events.spark.refresh.refresher import Refresher
from kafka_partition_events.spark.session import own_session
from kafka_partition_events.spark.tables.days import Days
from kafka_partition_events.spark.tables.ledger import CONTROL, INGEST, Ledger, Mark
from kafka_partition_events.spark.tables.storage import Storage, require_renames
from kafka_partition_events.spark.tables.tables import (
    COUNTS,
    OUTAGES,
    PARQUET,
    RECORDS,
    STANDING,
    STATES,
    open_tables,
)
from kafka_partition_events.spark.targets import THREE_NINES, Targets

_ANY: Final = Days(date(2000, 1, 1), date(2000, 1, 1))
_LOOK_S: Final = 0.2
_SETTLE_S: Final = 600.0


@frozen(kw_only=True)
class Fleet:
    """What goes where.

    Attributes:
        out: The directory of the tables, as Spark addresses it (``/data/kpe``, ``hdfs:///kpe``); of a
            table format the namespace (``catalog.schema``).
        format: The tables' format: ``parquet``, or a table format that the session has.
        work: The directory for checkpoints; by default ``_kpe`` in ``out``. A table format needs one.
        targets: Which part of the time partitions shall be online, for ``slo_burn``.
    """

    out: str = field(validator=min_len(1))
    format: str = "parquet"
    work: str | None = None
    targets: Targets = THREE_NINES

    @property
    def work_directory(self) -> str:
        """Where checkpoints and the ledger are.

        Raises:
            SparkJobError: a table format, and no directory is named.
        """
        if self.work is not None:
            return self.work
        if self.format != PARQUET:
            raise SparkJobError(
                f"tables in {self.format} are in a catalog, but checkpoints need a directory: name it with "
                "--work DIR"
            )
        return f"{self.out.rstrip('/')}/_kpe"


class Pipeline:
    """The pipeline on one session. Use one for one run; only `stop` may be called from other threads."""

    def __init__(self, spark: SparkSession, fleet: Fleet, progress: Progress | None = None) -> None:
        """Open the tables; nothing is made or read yet. The session stays as it is.

        Progress hears how far it is; if it is a `StreamingQueryListener`, of the queries, too.

        Raises:
            SparkJobError: the directory or the format can't be used.
        """
        self._fleet = fleet
        if fleet.format == PARQUET:
            require_renames(fleet.out)
        self._ledger = Ledger(Storage(spark, fleet.work_directory))
        self._spark = own_session(spark)
        self._tables = open_tables(
            self._spark, fleet.out, fleet.format, ownership.properties(self._ledger.identity)
        )
        self._progress = _InTurn(progress or Progress())
        self._listener: object = progress
        self._refresher = Refresher(self._spark, self._tables, self._ledger, self._progress, fleet.targets)
        self._stopping = threading.Event()
        self._failure: Exception | None = None
        self._sources: dict[str, Source] = {}

    # -- three ways to run ---------------------------------------------------------------------------

    def run_once(self, source: Source, control: Source | None = None) -> Mark:
        """Take in all that there is, make the tables anew, and return. `stop` ends it sooner.

        Args:
            source: Where events come from.
            control: Where records of change control come from; None: no tables of changes.

        Raises:
            SparkJobError: the source, the tables or a query failed; the message says what to do.
        """
        self._claim(source, control)
        self._progress.tell(f"taking in {source.name}")
        with self._told(source), self._queries({"availableNow": True}) as queries:
            while self._at_work(queries) and not self._stopping.wait(_LOOK_S):
                pass
        self._progress.tell("making the tables anew")
        return self._refresh()

    def run(self, source: Source, every: timedelta, control: Source | None = None) -> Mark:
        """Take in what comes until `stop` is called; make the tables anew after each batch.

        Args:
            source: Where events come from.
            every: The time between two batches of a query.
            control: As for `run_once`.

        Raises:
            SparkJobError: as `run_once`.
        """
        self._claim(source, control)
        trigger = {"processingTime": f"{max(1, round(every / timedelta(milliseconds=1)))} milliseconds"}
        with self._told(source):
            mark = self._refresh()  # what a run that was killed has left
            with self._queries(trigger) as queries:
                self._progress.tell(f"taking in {source.name}, every {every.total_seconds():g} s")
                due = time.monotonic() + every.total_seconds()
                while not self._stopping.wait(_LOOK_S):
                    if len(self._at_work(queries)) < len(queries):
                        raise SparkJobError("one of the queries was stopped by somebody else")
                    quiet = not any(query.status["isTriggerActive"] for query in queries)
                    if self._ledger.has_news() and (quiet or time.monotonic() >= due):
                        mark = self._refresh()
                        due = time.monotonic() + every.total_seconds()
                self._progress.tell("stopping when the running batches are done")
            return self._refresh() if self._ledger.has_news() else mark

    def recompute(self, days: Days) -> Mark:
        """Parse the records that were appended on these days anew, and make anew what they tell of.

        Takes in what an earlier version could not understand.

        Raises:
            SparkJobError: there are no tables, or they can't be read.
        """
        self._require_tables()
        self._progress.tell(f"making {days.first} to {days.last} anew from bronze/records")
        with self._told(None):
            self._ledger.take_over()
            self._finish_merging()
            return self._refresher.recompute(days)

    def maintain(self, keep: timedelta | None = None) -> None:
        """Make few files of many, and drop what is old. A pipeline that still runs stops at its next write.

        Args:
            keep: Records that were appended so long before the last news are dropped; None: none are.

        Raises:
            SparkJobError: there are no tables, they can't be changed, or ``keep`` is shorter than records are
                needed.
        """
        owner = self._require_tables()
        from_topic = str(owner.get("source")).startswith("the Kafka topic ")
        least = maintenance.KEPT if from_topic else maintenance.KEPT_OF_ARCHIVES
        if keep is not None and keep < least:
            raise SparkJobError(
                f"records from {owner.get('source')} are needed for {least.days} days: keep them for as long"
            )
        with self._told(None):
            self._ledger.take_over()
            mark, work = self._ledger.mark(), self._maintenance()
            work.finish()
            before = None if keep is None else maintenance.cutoff(mark, keep)
            if before is not None:
                work.drop_before(before)
            work.compact(mark)

    @property
    def stopping(self) -> bool:
        """Whether `stop` was called."""
        return self._stopping.is_set()

    def stop(self) -> None:
        """Let `run` end at the next end of a batch. Any thread, and any signal handler."""
        self._stopping.set()

    # -- parts ---------------------------------------------------------------------------------------

    def _require_tables(self) -> dict[str, Any]:
        owner, fleet = self._ledger.owner(), self._fleet
        if owner is None:
            raise SparkJobError(f"{fleet.out} has no tables of kpe spark fleet; fill them first")
        ownership.refuse_others(self._spark, fleet.out, fleet.format, self._ledger.identity, begun=True)
        return owner

    def _finish_merging(self) -> None:
        """Finish what was cut off when `maintain` was killed."""
        if self._fleet.format == PARQUET:
            self._maintenance().finish()

    def _maintenance(self) -> maintenance.Maintenance:
        fleet, ledger, tell = self._fleet, self._ledger, self._progress.tell
        return maintenance.maintenance_of(self._spark, self._tables, ledger, fleet.out, fleet.format, tell)

    def _claim(self, source: Source, control: Source | None) -> None:
        """Make sure that the tables are those of these sources, and this run's, and are there."""
        fleet = self._fleet
        begun = self._ledger.owner() is not None
        place = (self._spark, fleet.out, fleet.format, self._ledger.identity)
        with self._told(source):
            ownership.refuse_others(*place, begun=begun)
            records = source.stream(self._spark)
            self._ledger.claim(source.name, f"{fleet.format} tables", fleet.out)
            ownership.own(*place)
            self._finish_merging()
            self._ensure(records)
        self._sources = {INGEST: source}
        if control is not None:
            with self._told(control):
                ensure(self._tables, control.stream(self._spark))
                self._ledger.claim_control(control.name, fleet.out)
            self._sources[CONTROL] = control

    def _ensure(self, records: DataFrame) -> None:
        """Make the tables that are read whether there have been rows for them or not."""
        gold = (f"gold/{name}" for name in (*OF_LASTING, *OF_EVENTS))
        if all(map(self._tables.exists, (RECORDS, STATES, STANDING, OUTAGES, COUNTS, *gold))):
            return
        taken = batches.rows(records)
        told = events.observations(taken, "timestamp")
        lasting = outages.states(told)
        found = outages.partition_outages(outages.all_outages(lasting), lasting, Clusters())
        counts = partition_counts.spells(lasting)
        known = Lasting(outages=found, counts=counts, clusters=Clusters())
        day, batch = F.lit(None).cast("date").alias("day"), F.lit(0).cast("bigint").alias("batch")
        for name, rows in {
            RECORDS: taken.select("*", batch),
            STATES: lasting.select("*", day, batch),
            STANDING: outages.standing_of(outages.runs_of(lasting), lasting).select("*", day),
            OUTAGES: found,
            COUNTS: counts.select("*", day),
            **{f"gold/{name}": table(known, _ANY) for name, table in OF_LASTING.items()},
            **{f"gold/{name}": table(told, _ANY) for name, (_, table) in OF_EVENTS.items()},
        }.items():
            self._tables.ensure(name, rows.schema)

    @contextlib.contextmanager
    def _queries(self, trigger: dict[str, Any]) -> Iterator[Sequence[StreamingQuery]]:
        """Start all queries. In the end, stop each between two batches."""
        with contextlib.ExitStack() as started:
            queries = []
            if isinstance(self._listener, StreamingQueryListener):
                self._spark.streams.addListener(self._listener)
                started.callback(self._spark.streams.removeListener, self._listener)
            for name, source in self._sources.items():
                queries.append(query := self._start(name, source, trigger))
                started.callback(_settle, query)
            yield queries

    def _start(self, name: str, source: Source, trigger: dict[str, Any]) -> StreamingQuery:
        rows = source.stream(self._spark)

        def take_in(records: DataFrame, number: int) -> None:
            begin = time.monotonic()
            try:
                if name == CONTROL:
                    batch = write_control(self._tables, records, number)
                else:
                    batch = batches.write_events(self._tables, self._ledger, records, number)
                self._ledger.note(batch)
            except Exception as error:
                self._failure = error  # Spark tells of it in a text of its own
                raise
            seconds = time.monotonic() - begin
            self._progress.tell(BatchDone(query=name, batch=number, counts=batch.counts, seconds=seconds))

        return (
            rows.writeStream.queryName(f"kpe-{name}")
            .option("checkpointLocation", self._ledger.checkpoint(name))
            .trigger(**trigger)
            .foreachBatch(take_in)
            .start()
        )

    def _at_work(self, queries: Iterable[StreamingQuery]) -> list[StreamingQuery]:
        """Return the queries that go on. If one has failed, raise why."""
        going = [query for query in queries if query.isActive]
        for name, query in zip(self._sources, queries, strict=True):
            if (failed := query.exception()) is not None:
                with self._told(self._sources[name]):
                    raise failed
        return going

    def _refresh(self) -> Mark:
        with self._told(None):
            return self._refresher.refresh()

    @contextlib.contextmanager
    def _told(self, source: Source | None) -> Iterator[None]:
        """Tell causes and cures instead of stacks."""
        try:
            yield
        except (PySparkException, Py4JError) as raised:
            error = self._failure or raised
            if isinstance(error, SparkJobError):
                raise error from raised
            said = cause_of(error)
            if "Multiple streaming jobs detected" in said or "Concurrent update" in said:
                raise SparkJobError(
                    f"another kpe spark fleet is at work on {self._fleet.out}: let one of them end. {said}"
                ) from error
            if source is None:
                raise SparkJobError(
                    f"the tables in {self._fleet.out} could not be made anew; nothing is lost, the next run "
                    f"does it again. {said}"
                ) from error
            raise source.explain(error) from error


def _settle(query: StreamingQuery) -> None:
    """Stop a query between two batches; in the middle of one only if that takes very long."""
    deadline = time.monotonic() + _SETTLE_S
    with contextlib.suppress(PySparkException, Py4JError):  # it has failed: that is told elsewhere
        begun = _batch(query)
        while query.isActive and query.status["isTriggerActive"] and time.monotonic() < deadline:
            if _batch(query) != begun:  # with a backlog one batch follows another at once
                break
            time.sleep(_LOOK_S / 10)
        query.stop()


def _batch(query: StreamingQuery) -> int:
    progress = query.lastProgress
    return -1 if progress is None else progress.batchId


class _InTurn(Progress):
    """Passes on what two queries and a refresh tell, one after another."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._lock = threading.Lock()

    def tell(self, what: str | BatchDone | Refreshed) -> None:
        with self._lock:
            self._progress.tell(what)
