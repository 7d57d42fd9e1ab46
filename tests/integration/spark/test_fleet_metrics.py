"""What Prometheus hears of a pipeline that reads a real topic."""

import threading
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families

from kafka_partition_events.cli.common.errors import CliError
from kafka_partition_events.cli.spark.fleet import metrics_at
from kafka_partition_events.spark.progress import Progress
from kafka_partition_events.testing import KafkaCluster
from kafka_partition_events.testing.plugin import MakeTopic
from kafka_partition_events.testing.ports import free_ports
from tests.fleet_feed import KEPT, Feed, write_feed
from tests.waiting_kit import waiting

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kafka_partition_events.spark.tables.state import Mark

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

FEED = Feed(9, days=0.3)
wait_until = waiting(120, every_s=0.05)


def scraped(port: int) -> dict[str, float]:
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        families = text_string_to_metric_families(answer.read().decode())
    return {
        "/".join([sample.name.removeprefix("kpe_spark_"), *sample.labels.values()]): sample.value
        for family in families
        for sample in family.samples
    }


def test_lag_quarantine_and_age_are_told_while_it_runs(
    spark: "SparkSession", kafka_cluster: KafkaCluster, kafka_topic: MakeTopic, tmp_path: Path
) -> None:
    from kafka_partition_events.spark.ingest.sources import KafkaSource  # noqa: PLC0415
    from kafka_partition_events.spark.pipeline import Fleet, Pipeline  # noqa: PLC0415

    topic = kafka_topic(partitions=2, config=KEPT)
    write_feed(kafka_cluster.bootstrap_servers, topic, FEED.records)
    total = len(FEED.records)
    source = KafkaSource(bootstrap=kafka_cluster.bootstrap_servers, topic=topic, max_per_batch=total * 2 // 3)
    (port,) = free_ports(1)
    with metrics_at(("127.0.0.1", port), Progress()) as metrics:
        at_first = scraped(port)
        assert at_first["missing_offsets_total/ingest"] == 0
        assert at_first["quarantined_records_total/unknown/ingest"] == 0
        pipeline = Pipeline(spark, Fleet(out=str(tmp_path)), metrics)
        marks: list[Mark] = []
        running = threading.Thread(target=lambda: marks.append(pipeline.run(source, timedelta(seconds=1))))
        running.start()
        try:
            lags = set[float]()

            def all_is_in() -> bool:
                now = scraped(port)
                if (lag := now.get("lag_offsets/ingest")) is not None:
                    lags.add(lag)
                return now.get("records_total/ingest") == total and lag == 0

            wait_until(all_is_in, "all records are in, and no offset is left")
        finally:
            pipeline.stop()
            running.join(120)
        (mark,) = marks
        found = scraped(port)
    assert any(0 < lag < total for lag in lags), "after the first batch, a third was left"
    for defect in ("unparsed", "unknown", "future", "past"):
        assert found[f"quarantined_records_total/{defect}/ingest"] == getattr(mark.totals, defect)
    assert {name: found[f"gold_until_timestamp_seconds/{name}"] for name in mark.until} == {
        name: until.timestamp() for name, until in mark.until.items()
    }
    assert found["refresh_duration_seconds_count"] >= 2
    assert found["refresh_duration_seconds_sum"] > 0


def test_an_address_that_is_taken_is_told() -> None:
    (port,) = free_ports(1)
    with metrics_at(("127.0.0.1", port), Progress()), pytest.raises(CliError, match="can't listen there"):
        metrics_at(("127.0.0.1", port), Progress()).__enter__()
