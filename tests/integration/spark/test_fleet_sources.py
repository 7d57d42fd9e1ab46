"""A source is its cluster and its topics, by their ids: a topic that was made anew is another one."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from attrs import evolve

from kafka_partition_events.spark.errors import SparkJobError
from kafka_partition_events.testing import KafkaCluster
from kafka_partition_events.testing.plugin import MakeTopic
from tests.fleet_feed import KEPT, Feed, write_feed
from tests.fleet_kit import gold_at_once, gold_of, tables_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

FEED = Feed(9, topics=1, partitions=2, days=0.3)


def test_a_topic_that_was_made_anew_is_read_from_its_beginning(
    spark: "SparkSession", kafka_cluster: KafkaCluster, kafka_topic: MakeTopic, tmp_path: Path
) -> None:
    from kafka_partition_events.spark.ingest.sources import KafkaSource  # noqa: PLC0415
    from kafka_partition_events.spark.pipeline import Fleet, Pipeline  # noqa: PLC0415
    from kafka_partition_events.spark.tables.state_table import StateTable  # noqa: PLC0415

    bootstrap, topic = kafka_cluster.bootstrap_servers, kafka_topic(partitions=2, config=KEPT)
    most = 2 * len(FEED.records) // 3
    first, second = FEED.records[:most], FEED.records[most:]
    source, fleet = KafkaSource(bootstrap=bootstrap, topic=topic), Fleet(out=str(tmp_path))

    write_feed(bootstrap, topic, first)
    assert Pipeline(spark, fleet).run_once(source).totals.read == len(first)
    kept = StateTable(tables_of(spark, tmp_path))
    state = kept.take_over([])
    seen = {name: evolve(reading, behind=5) for name, reading in state.readings.items()}
    kept.write(evolve(state, readings=seen, ended=True))

    kafka_cluster.delete_topic(topic)
    kafka_cluster.create_topic(topic, 2, config=KEPT)
    write_feed(bootstrap, topic, second)  # fewer than there were: their offsets are read already
    mark = Pipeline(spark, fleet).run_once(source)
    assert (mark.totals.read, mark.totals.missing) == (len(FEED.records), 5)
    assert gold_of(spark, tmp_path) == gold_at_once(spark, [one.value for one in FEED.records], FEED.days)
    assert Pipeline(spark, fleet).run_once(source).totals == mark.totals

    class Elsewhere(KafkaSource):
        def ids(self, spark: "SparkSession") -> tuple[str, str]:
            return "another", super().ids(spark)[1]

    with pytest.raises(
        SparkJobError, match=r"is filled from .* on cluster \S+, .* on cluster another: choose"
    ):
        Pipeline(spark, fleet).run_once(Elsewhere(bootstrap=bootstrap, topic=topic))
