"""From a sample to the answer."""

import time
from collections.abc import Sequence

from pyspark.sql import functions as F  # noqa: N812

from kafka_partition_events.spark.errors import SparkJobError
from kafka_partition_events.spark.kafka import SPARK_ERRORS
from kafka_partition_events.spark.partitioner import HashName
from kafka_partition_events.spark.whatif.counting import HASH, count, with_hash
from kafka_partition_events.spark.whatif.plan import Scenario
from kafka_partition_events.spark.whatif.results import HotKey, WhatIf
from kafka_partition_events.spark.whatif.sample import Sample, reason


def what_if(
    sample: Sample, scenarios: Sequence[Scenario], *, hash_name: HashName = "murmur2", hottest: int = 10
) -> WhatIf:
    """Return what each scenario would come to for a sample.

    One pass over the sample counts for all scenarios. Finding the hottest keys is another one, which shuffles
    the different keys.

    Args:
        sample: The keys.
        scenarios: At least one; see `plan.scenarios`.
        hash_name: The key hash that the topic is written with.
        hottest: How many of the keys with most records to name; 0 for none.

    Raises:
        ConfigurationError: there are too many scenarios.
        SparkJobError: the sample can't be read, it is empty, or a hash can't be computed rightly.
    """
    began = time.monotonic()
    try:
        found = count(sample.rows, scenarios, hash_name)
        took = time.monotonic() - began
        keyed = found[0].keyed
        if not keyed + found[0].unkeyed:
            raise SparkJobError(f"there is nothing in {sample.name}: no row, so nothing can be said")
        hot = _hottest(sample, scenarios, hash_name, hottest, keyed) if hottest and keyed else ()
    except SPARK_ERRORS as error:
        raise SparkJobError(f"Spark could not read {sample.name}: {reason(error)}") from error
    return WhatIf(source=sample.name, outcomes=found, hottest=hot, hash_name=hash_name, seconds=took)


def _hottest(
    sample: Sample, scenarios: Sequence[Scenario], hash_name: HashName, most: int, keyed: int
) -> tuple[HotKey, ...]:
    key = F.col("key").cast("binary")
    present = key.isNotNull() if hash_name == "murmur2" else F.octet_length(key) > 0
    totals = sample.rows.where(present).groupBy(key.alias("key")).agg(F.count(F.lit(1)).alias("records"))
    top = with_hash(totals.orderBy(F.desc("records"), "key").limit(most), hash_name)
    before = F.array(*(F.col(HASH) % each.current for each in scenarios))
    after = F.array(*(F.col(HASH) % each.home for each in scenarios))
    return tuple(
        HotKey(
            key=_text(bytes(key)),
            records=records,
            share=records / keyed,
            before=tuple(now),
            after=tuple(then),
        )
        for key, records, now, then in top.select("key", "records", before, after).collect()
    )


def _text(key: bytes) -> str:
    try:
        text = key.decode()
    except UnicodeDecodeError:
        return f"0x{key.hex()}"
    return text if text.isprintable() else f"0x{key.hex()}"
