"""What would growth do to these keys? Asks for a few numbers of partitions.

    python examples/spark/whatif.py

takes its keys out of the air. For yours, put `of_topic`, `of_table` or `of_file` of the same module in the
place of `of_frame`. Spark runs on this machine; under ``spark-submit`` it is the session of that.
"""

from kafka_partition_events.spark.session import opened_session
from kafka_partition_events.spark.whatif.analysis import what_if
from kafka_partition_events.spark.whatif.plan import scenarios
from kafka_partition_events.spark.whatif.sample import of_frame


def main() -> None:
    """Ask, and tell."""
    with opened_session(list) as spark:
        orders = spark.range(200_000).selectExpr(
            # One customer in three orders is the same; the others are many.
            "if(id % 3 = 0, 'customer-0', concat('customer-', id % 50000)) AS customer"
        )
        sample = of_frame(orders, "orders of a made-up shop", key="customer")
        asked = scenarios(12, [13, 18, 24], ["modulo", "kept"])
        answer = what_if(sample, asked, hottest=3)
    for outcome in answer.outcomes:
        skew = f"max/mean {outcome.skew_before:.2f} -> {outcome.skew_after:.2f}"
        print(f"{outcome.scenario.name}: {outcome.moved_share:.1%} would move, {skew}")
    for hot in answer.hottest:
        print(f"{hot.key}: {hot.share:.1%} of all records; no number of partitions helps against that")


if __name__ == "__main__":
    main()
