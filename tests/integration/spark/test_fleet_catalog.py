"""Tables in a catalog are as good as those in a directory."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from kafka_partition_events.spark.errors import SparkJobError
from kafka_partition_events.spark.ingest.sources import KafkaSource
from kafka_partition_events.spark.pipeline import Fleet, Pipeline
from kafka_partition_events.testing import KafkaCluster
from kafka_partition_events.testing.plugin import MakeTopic
from tests.fleet_feed import KEPT, Feed, write_feed
from tests.fleet_kit import gold_at_once, gold_of

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.weekly]  # all else is tried on a directory

FEED = Feed(9, topics=1, partitions=2, days=0.3)


def test_tables_of_a_catalog(
    spark: SparkSession, kafka_cluster: KafkaCluster, kafka_topic: MakeTopic, tmp_path: Path
) -> None:
    spark.sql(f"CREATE NAMESPACE kpe_tables LOCATION '{tmp_path / 'catalog'}'")
    fleet = Fleet(out="spark_catalog.kpe_tables", work=str(tmp_path / "work"))
    half = len(FEED.records) // 2
    source = KafkaSource(bootstrap=kafka_cluster.bootstrap_servers, topic=kafka_topic(2, config=KEPT))
    for records in (FEED.records[:half], FEED.records[half:]):
        write_feed(source.bootstrap, source.topic, records)
        mark = Pipeline(spark, fleet).run_once(source)
    assert mark.totals.read == len(FEED.records)
    wanted = gold_at_once(spark, [record.value for record in FEED.records], FEED.days)
    assert gold_of(fleet.tables(spark)) == wanted

    lost = Fleet(out=fleet.out, work=str(tmp_path / "lost"))
    with pytest.raises(SparkJobError, match="is not the checkpoint of the query that has filled"):
        Pipeline(spark, lost).run_once(source)
    Pipeline(spark, fleet).maintain()
    assert Pipeline(spark, fleet).run_once(source).totals == mark.totals

    spark.sql("DROP NAMESPACE kpe_tables CASCADE")
