"""What is known of clusters as a whole: the last news of each, and when no observer polled it.

That is little, and the driver knows it. So it is part of the plan, as a literal that Spark keeps beside the
code that it generates: a join would be one more job, each time.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final

from attrs import field, frozen
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from kafka_partition_events.spark.gold.intervals import length, long, micros
from kafka_partition_events.spark.tables.state import Blind

_SPANS: Final = "array<struct<begin: bigint, end: bigint>>"


@frozen(kw_only=True)
class Clusters:
    """What is known of each.

    Attributes:
        until: The last news. What has not ended by then is open until then; nothing is said of later times.
        blind: When no observer polled; those of one cluster do not overlap.
        out: When they answered no observer.
    """

    until: Mapping[str, datetime] = field(factory=dict)
    blind: Sequence[Blind] = ()
    out: Sequence[Blind] = ()

    def known(self, rows: DataFrame) -> DataFrame:
        """Return rows with ``until``, microseconds: the last news of their cluster. Others are left out."""
        return rows.withColumn("until", self.last_news()).where("until IS NOT NULL")

    def last_news(self) -> Column:
        """Return the last news of ``cluster_id``, microseconds; null where there is none."""
        moments = {cluster: micros(moment) for cluster, moment in self.until.items()}
        return _of_cluster(moments, "bigint")

    def blind_within(self, begin: Column, end: Column) -> Column:
        """Return for how long no observer polled ``cluster_id`` within an interval."""
        if not self.blind:
            return long(0)
        parts = self.blind_parts(begin, end)
        return F.aggregate(parts, long(0), lambda sum_, one: sum_ + length(one["begin"], one["end"]))

    def blind_parts(self, begin: Column, end: Column) -> Column:
        """Return the parts of an interval in which no observer polled, an array of ``begin, end``."""
        none = F.array().cast(_SPANS)
        if not self.blind:
            return none
        met = F.filter(self._blind(), lambda one: (one["begin"] < end) & (one["end"] > begin))
        parts = F.transform(
            met,
            lambda one: F.struct(
                F.greatest(begin, one["begin"]).alias("begin"), F.least(end, one["end"]).alias("end")
            ),
        )
        return F.coalesce(parts, none)

    def touches_blind(self, begin: Column, end: Column) -> Column:
        """Return whether no observer polled at some moment of an interval."""
        return F.size(self.blind_parts(begin, end)) > 0

    def _blind(self) -> Column:
        spans: dict[str, list[dict[str, int]]] = defaultdict(list)
        for one in sorted(self.blind):
            spans[one.cluster].append({"begin": micros(one.begin), "end": micros(one.end)})
        return _of_cluster(spans, _SPANS)


def _of_cluster(known: Mapping[str, object], type_: str) -> Column:
    return F.from_json(F.lit(json.dumps(known)), f"map<string, {type_}>")[F.col("cluster_id")]


def rows_of_topics(spark: SparkSession, topics: Mapping[str, Iterable[str]]) -> DataFrame:
    """Return ``cluster_id, topic`` of these topics by cluster."""
    rows = [{"cluster_id": cluster, "topic": topic} for cluster, names in topics.items() for topic in names]
    listed = F.from_json(F.lit(json.dumps(rows)), "array<struct<cluster_id: STRING, topic: STRING>>")
    return spark.range(1, numPartitions=1).select(F.inline(listed))
