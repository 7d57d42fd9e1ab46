"""What the fleet tables remember from run to run, without Spark."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark")

from kafka_partition_events.spark import maintenance
from kafka_partition_events.spark.errors import SparkJobError
from kafka_partition_events.spark.events import NO_CLUSTER
from kafka_partition_events.spark.pipeline import Pipeline
from kafka_partition_events.spark.refresh.news import News
from kafka_partition_events.spark.refresh.refresher import _with_news
from kafka_partition_events.spark.tables.state import StateRow, Taken
from kafka_partition_events.spark.tables.state_table import StateTable

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
NOTHING = dict.fromkeys(("outages", "counts", "left", "blind", "polled", "lost", "last_lost", "last_found"))
NONE = dict.fromkeys(("beats", "down", "sized", "moved", "summed"), ())


def news(cluster: str, at: datetime, **more: Any) -> News:
    return News(cluster_id=cluster, first=at, until=at, **{**NOTHING, **NONE, **more})


def test_an_observer_that_got_no_answer_before_it_knew_its_cluster_keeps_no_records_for_good() -> None:
    """Its next events have the cluster's id, and end nothing of ``unknown``."""
    mark = _with_news(Taken(), [news(NO_CLUSTER, BEGIN, lost=BEGIN, last_lost=BEGIN, blind=BEGIN)], 0)
    later = BEGIN + timedelta(days=365)
    mark = _with_news(mark, [news("c-1", later, last_found=later)], 0)
    assert not mark.stopped
    assert maintenance.cutoff(mark, timedelta(days=90))[1] is None


def test_tables_whose_first_run_was_killed_before_it_wrote_a_state_begin_again() -> None:
    tables: Any = SimpleNamespace(read=lambda _name: SimpleNamespace(collect=list))
    assert StateTable(tables).read() == StateRow()


def test_a_time_that_is_too_short_is_refused_before_a_pipeline_that_runs_is_stopped() -> None:
    with pytest.raises(SparkJobError, match="records are needed for 9 days"):
        Pipeline.maintain(object.__new__(Pipeline), timedelta(days=5))
