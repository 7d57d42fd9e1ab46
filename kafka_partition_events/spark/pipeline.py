"""Runs the queries and the refreshes: once, or until it is stopped.

Whatever is killed at any moment, and however often, goes on where it was: see `state`.
"""

import contextlib
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

from attrs import evolve, field, frozen
from attrs.validators import gt, lt, min_len
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from kafka_partition_events.spark import layout, maintenance
from kafka_partition_events.spark.control import records as changes
from kafka_partition_events.spark.errors import SparkJobError
from kafka_partition_events.spark.ingest import batches
from kafka_partition_events.spark.ingest.sources import KafkaSource
from kafka_partition_events.spark.kafka import cause_of, count_between, offsets_in
from kafka_partition_events.spark.progress import Progress, Refreshed
from kafka_partition_events.spark.refresh.refresher import WRITTEN, Refresher
from kafka_partition_events.spark.session import own_session
from kafka_partition_events.spark.tables.counts import Counts
from kafka_partition_events.spark.tables.state import CONTROL, INGEST, Reading, StateRow, Taken
from kafka_partition_events.spark.tables.state_table import StateTable
from kafka_partition_events.spark.tables.tables import RECORDS, Tables

_ROWS: Final = {INGEST: batches.rows, CONTROL: changes.rows}
"""What each query makes of its records."""
_CHECK_S: Final = 0.2
_SETTLE_S: Final = 600.0
_OTHERS: Final = (
    "Multiple streaming jobs detected", "Concurrent update", "CONCURRENT_STREAM_LOG_UPDATE",
    "DELTA_CONCURRENT",
)  # fmt: skip
"""What Spark and Delta say when two work on the same."""


@frozen(kw_only=True)
class Fleet:
    """What goes where.

    Attributes:
        out: The directory of the tables, as Spark addresses it (``/data/kpe``, ``hdfs:///kpe``); or with
            ``work`` a schema of a catalog (``catalog.schema``).
        work: The directory for checkpoints, where tables are in a catalog.
        target: Which part of the time partitions shall be online, for ``slo_burn``.
    """

    out: str = field(validator=min_len(1))
    work: str | None = None
    target: float = field(default=0.999, validator=[gt(0), lt(1)])

    def checkpoint(self, query: str, number: int) -> str:
        """Return where Spark keeps a query's checkpoint, when it was begun so often."""
        work = self.work or f"{self.out.rstrip('/')}/_kpe"
        return f"{work.rstrip('/')}/{query}-{number}"

    def tables(self, spark: SparkSession) -> Tables:
        """Return the tables, as a session reads them."""
        return Tables(spark, self.out, in_catalog=self.work is not None)


class Pipeline:
    """The pipeline on one session. Use one for one run; only `stop` may be called from other threads."""

    def __init__(self, spark: SparkSession, fleet: Fleet, progress: Progress | None = None) -> None:
        """Open the tables; nothing is made or read yet. The session stays as it is.

        Progress hears how far it is.

        Raises:
            SparkJobError: the session is one of Spark Connect.
        """
        if getattr(spark, "_jvm", None) is None:
            raise SparkJobError(
                "the fleet pipeline needs a classic Spark session, not one of Spark Connect: run it by "
                "spark-submit (see docs/fleet.md)"
            )
        self._fleet = fleet
        self._spark = own_session(spark)
        self._tables = fleet.tables(self._spark)
        self._kept = StateTable(self._tables)
        self._progress = progress or Progress()
        self._refresher = Refresher(self._tables, self._kept, self._progress, fleet.target)
        self._stopping = threading.Event()
        self._sources: dict[str, KafkaSource] = {}

    def run_once(self, source: KafkaSource, control: KafkaSource | None = None) -> Taken:
        """Take in all that there is, refresh the tables, and return. `stop` ends it sooner.

        Args:
            source: Where events come from.
            control: Where records of change control come from; None: no tables of changes.

        Raises:
            SparkJobError: the source, the tables or a query failed; the message says what to do.
        """
        state = self._claim(source, control)
        self._progress.report(f"taking in {source.name}")
        with self._explaining(source), self._queries(state, {"availableNow": True}) as queries:
            while self._at_work(queries) and not self._stopping.wait(_CHECK_S):
                pass
        self._progress.report("refreshing the tables")
        return self._end(self._refresh(self._seen(state, queries), last=True))

    def run(self, source: KafkaSource, every: timedelta, control: KafkaSource | None = None) -> Taken:
        """Take in what comes until `stop` is called; refresh the tables after each batch.

        Args:
            source: Where events come from.
            every: The time between two batches of a query.
            control: As for `run_once`.

        Raises:
            SparkJobError: as `run_once`.
        """
        trigger = {"processingTime": f"{max(1, round(every / timedelta(milliseconds=1)))} milliseconds"}
        state = self._refresh(self._claim(source, control))  # what a run that was killed has left
        while not self._stopping.is_set():
            state = self._go_on(state, trigger, every)
        return self._end(state)

    def _go_on(self, state: StateRow, trigger: dict[str, Any], every: timedelta) -> StateRow:
        """Take in what comes until a topic is another one, or `stop` is called."""
        source = self._sources[INGEST]
        with self._explaining(source), self._queries(state, trigger) as queries:
            self._progress.report(f"taking in {source.name}, every {every.total_seconds():g} s")
            due, taken = time.monotonic() + every.total_seconds(), [-1] * len(queries)
            while not self._stopping.wait(_CHECK_S):
                if len(self._at_work(queries)) < len(queries):
                    raise SparkJobError("one of the queries was stopped, and not by this pipeline")
                quiet = not any(query.status["isTriggerActive"] for query in queries)
                done = list(map(_batch, queries))
                if done != taken and (quiet or time.monotonic() >= due):
                    state, taken = self._refresh(self._seen(state, queries)), done
                    due = time.monotonic() + every.total_seconds()
                    found = self._ids()
                    if any(state.readings[query].topic != topic for query, (_, topic) in found.items()):
                        break
            else:
                self._progress.report("stopping when the running batches are done")
        state = self._refresh(self._seen(state, queries))
        return state if self._stopping.is_set() else self._identified(state, found)

    def maintain(self, keep: timedelta | None = None) -> None:
        """Make few files of many, and drop what is old. A pipeline that still runs stops at its next refresh.

        Args:
            keep: Records that were appended so long before the last news are dropped; None: none are.

        Raises:
            SparkJobError: there are no tables, they can't be changed, or ``keep`` is shorter than records are
                needed.
        """
        if keep is not None and keep < maintenance.KEPT:  # before a pipeline that runs is stopped
            raise SparkJobError(f"records are needed for {maintenance.KEPT.days} days: keep them for as long")
        state = self._refresh(self._taken_over())
        with self._explaining(None):
            if keep is not None:
                self._drop(state, keep)
            maintenance.compact(self._tables, layout.TABLES)
            self._progress.report("small files are merged, and those that no version of a week needs deleted")
            self._end(state)

    def _drop(self, state: StateRow, keep: timedelta) -> None:
        before, holder = maintenance.cutoff(state.mark, keep)
        if before is not None:
            maintenance.drop_before(self._tables, before)
            why = "" if holder is None else f"; cluster {holder} needs the rest: its observer gets no answers"
            self._progress.report(f"{RECORDS}: what was before {before} is deleted{why}")

    @property
    def stopping(self) -> bool:
        """Whether `stop` was called."""
        return self._stopping.is_set()

    def stop(self) -> None:
        """Let `run` end at the next end of a batch. Any thread, and any signal handler."""
        self._stopping.set()

    def _taken_over(self) -> StateRow:
        """Let this be the run that works on tables that are there."""
        with self._explaining(None):
            if not self._kept.is_there():
                raise SparkJobError(f"{self._fleet.out} has no tables of kpe spark fleet; fill them first")
            return self._kept.take_over(layout.TABLES)

    def _claim(self, source: KafkaSource, control: KafkaSource | None) -> StateRow:
        """Make sure that the tables are those of these sources, and this run's, and are there."""
        self._sources = {INGEST: source, **({} if control is None else {CONTROL: control})}
        streams = {}
        for query, one in self._sources.items():
            with self._explaining(one):
                streams[query] = _ROWS[query](one.stream(self._spark))
        found = self._ids()
        with self._explaining(None):
            known = self._kept.read().readings if self._kept.is_there() else {}
            for query in known.keys() & found.keys():
                self._require_same(known[query], self._sources[query], found[query][0])
            state = self._kept.take_over(layout.TABLES)
            layout.ensure(self._tables, self._kept, streams[INGEST], streams.get(CONTROL))
        if state.taking is not None:
            state = self._refresh(state)
        return self._identified(state, found)

    def _ids(self) -> dict[str, tuple[str, str]]:
        """Return by query the ids of its cluster and of its topic."""
        found = {}
        for query, source in self._sources.items():
            with self._explaining(source):
                found[query] = source.ids(self._spark)
        return found

    def _require_same(self, known: Reading, source: KafkaSource, cluster: str) -> None:
        if (known.source, known.cluster) != (source.name, cluster):
            raise SparkJobError(
                f"{self._fleet.out} is filled from {known.source} on cluster {known.cluster}, and its "
                f"checkpoints mean nothing to {source.name} on cluster {cluster}: choose another --out"
            )

    def _identified(self, state: StateRow, found: Mapping[str, tuple[str, str]]) -> StateRow:
        """Return the state with what the sources are now: one created again is read from its beginning.

        What the earlier one still had is missing. A topic that is created again from here on is known as such
        the next time, for this is written before its query begins.
        """
        if any(state.readings[query].topic != found[query][1] for query in state.readings.keys() & found):
            state = self._refresh(state)  # what was read of the earlier one
        readings, missing = dict(state.readings), 0
        for query, (cluster, topic) in found.items():
            name, known = self._sources[query].name, readings.get(query)
            if known is None:
                readings[query] = Reading(source=name, cluster=cluster, topic=topic)
            elif known.topic != topic:
                self._progress.report(f"{name} was created again: it is read from its beginning")
                missing += known.behind if query == INGEST else 0
                number = known.number + 1
                readings[query] = Reading(source=name, cluster=cluster, topic=topic, number=number)
        gone = Counts(missing=missing)
        mark = evolve(state.mark, totals=state.mark.totals + gone)
        if (found_now := evolve(state, readings=readings, mark=mark)) != state:
            with self._explaining(None):
                self._kept.write(found_now)
        if missing:  # after it is written, or it would be counted twice
            self._progress.report(Refreshed(counts={INGEST: gone}, totals=mark.totals, until=mark.last_news))
        return found_now

    @contextlib.contextmanager
    def _queries(self, state: StateRow, trigger: dict[str, Any]) -> Iterator[Sequence[StreamingQuery]]:
        """Start all queries. In the end, stop each between two batches."""
        with contextlib.ExitStack() as started:
            queries = []
            for name, source in self._sources.items():
                queries.append(query := self._start(name, source, state.readings[name], trigger))
                started.callback(_settle, query)
            yield queries

    def _start(
        self, name: str, source: KafkaSource, reading: Reading, trigger: dict[str, Any]
    ) -> StreamingQuery:
        place = self._fleet.checkpoint(name, reading.number)
        if reading.query is not None and self._query_in(place) != reading.query:
            raise SparkJobError(
                f"{place} is not the checkpoint of the query that has filled {self._fleet.out}: give the "
                "--work with which it was made, or choose another --out"
            )
        rows = _ROWS[name](source.stream(self._spark))
        writer = rows.writeStream.queryName(f"kpe-{name}").option("checkpointLocation", place)
        return self._tables.stream(WRITTEN[name], writer.trigger(**trigger))

    def _query_in(self, checkpoint: str) -> str | None:
        """Return the id of the query that a checkpoint is of."""
        try:
            (row,) = self._spark.read.json(f"{checkpoint}/metadata").collect()
        except (PySparkException, ValueError):  # there is none
            return None
        return str(row["id"])

    def _seen(self, state: StateRow, queries: Iterable[StreamingQuery]) -> StateRow:
        """Return the state with what the queries say of themselves; it is written with the next refresh."""
        readings = dict(state.readings)
        for name, query in zip(self._sources, queries, strict=True):
            last = query.lastProgress
            sources = () if last is None else last.sources
            ends = {tp.partition: end for one in sources for tp, end in offsets_in(one.endOffset).items()}
            next_ = readings[name].next or {str(partition): end for partition, end in ends.items()}
            behind = sum(map(_behind, sources))
            readings[name] = evolve(readings[name], query=str(query.id), next=next_, behind=behind)
        return evolve(state, readings=readings)

    def _at_work(self, queries: Iterable[StreamingQuery]) -> list[StreamingQuery]:
        """Return the queries that go on. If one has failed, raise why."""
        going = [query for query in queries if query.isActive]
        for name, query in zip(self._sources, queries, strict=True):
            if (failed := query.exception()) is not None:
                with self._explaining(self._sources[name]):
                    raise failed
        return going

    def _refresh(self, state: StateRow, *, last: bool = False) -> StateRow:
        with self._explaining(None):
            return self._refresher.refresh(state, last=last)

    def _end(self, state: StateRow) -> Taken:
        """Record that this run writes no more; return what is done."""
        if not state.ended:
            with self._explaining(None):
                self._kept.write(evolve(state, ended=True))
        return state.mark

    @contextlib.contextmanager
    def _explaining(self, source: KafkaSource | None) -> Iterator[None]:
        """Raise causes and cures instead of stacks."""
        try:
            yield
        except (PySparkException, Py4JError) as error:
            said = cause_of(error)
            if any(words in said for words in _OTHERS):
                raise SparkJobError(
                    f"another kpe spark fleet is at work on {self._fleet.out}: let one of them end. {said}"
                ) from error
            if source is None:
                raise SparkJobError(
                    f"the tables in {self._fleet.out} could not be refreshed; nothing is lost, the next run "
                    f"does it again. {said}"
                ) from error
            raise source.explain(error) from error


def _settle(query: StreamingQuery) -> None:
    """Stop a query between two batches; in the middle of one only if that takes very long."""
    deadline = time.monotonic() + _SETTLE_S
    with contextlib.suppress(PySparkException, Py4JError):  # it has failed: that is reported elsewhere
        begun = _batch(query)
        while query.isActive and query.status["isTriggerActive"] and time.monotonic() < deadline:
            if _batch(query) != begun:  # with a backlog one batch follows another at once
                break
            time.sleep(_CHECK_S / 10)
        query.stop()


def _batch(query: StreamingQuery) -> int:
    progress = query.lastProgress
    return -1 if progress is None else progress.batchId


def _behind(source: Any) -> int:
    return count_between(offsets_in(source.endOffset), offsets_in(source.latestOffset))
